#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Data as others store it: CIFAR's Python version, NumPy's files, CIFAR-10-C; and what is said of what is none.
load helpers

# le N BYTES: a number, little-endian
le() {
    local i
    for ((i = 0; i < $2; i++)); do printf "\\x$(printf %02x $((($1 >> (8 * i)) & 255)))"; done
}

# python OUT BIN: the records of CIFAR-10 in BIN as the pickle that Python 2 wrote
python() {
    local n i
    n=$(($(stat -c %s "$2") / 3073))
    {
        printf '\x80\x02}q\x01(U\x06labelsq\x02]q\x03('
        for ((i = 0; i < n; i++)); do printf K && tail -c +$((i * 3073 + 1)) "$2" | head -c 1; done
        printf 'eU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01'
        printf M && le "$n" 2
        printf 'M\x00\x0c\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T'
        le $((n * 3072)) 4
        for ((i = 0; i < n; i++)); do tail -c +$((i * 3073 + 2)) "$2" | head -c 3072; done
        printf 'tbu.'
    } >"$1"
}

# npy OUT SHAPE: an array of bytes from standard input
npy() {
    local head="{'descr': '|u1', 'fortran_order': False, 'shape': ($2), }"
    { printf '\x93NUMPY\x01\x00' && le ${#head} 2 && printf %s "$head" && cat; } >"$1"
}
pixels() { local i; for ((i = 0; i < 20; i++)); do tail -c +$((i * 3073 + 2)) "$D/test_batch.bin" | head -c 3072; done; }
labels() { local i; for ((i = 0; i < 20; i++)); do tail -c +$((i * 3073 + 1)) "$D/test_batch.bin" | head -c 1; done; }

# five severities of four of the drawn images each, and the same with their dark values made bright
corrupted() {
    mkdir -p c/CIFAR-10-C
    pixels | npy c/CIFAR-10-C/fog.npy "20, 3, 32, 32"
    pixels | tr '\000-\177' '\200-\377' | npy c/CIFAR-10-C/snow.npy "20, 3, 32, 32"
    labels | npy c/CIFAR-10-C/labels.npy "20,"
}

@test "CIFAR's Python version is the same data set as the binary one: same ledger, and a run goes on with the other" {
    mkdir -p root/cifar-10-batches-py
    python root/cifar-10-batches-py/test_batch "$D/test_batch.bin"
    local run=(--eps 8/255 --attack fgsm)
    quick "${run[@]}" --out a
    good eval "$W" --data root/cifar-10-batches-py "${run[@]}" --out b
    same_run a b
    good eval "$W" --data root "${run[@]}" --out c --images 0:5
    good eval "$W" --data "$D" "${run[@]}" --out c --resume
    same_run a c
    good verify b --data root
    bad 1 "root/cifar-10-batches-py/data_batch_1: cannot be opened" "cifar-10-python.tar.gz holds it: https://www.cs.toronto.edu" \
        -- eval "$W" --data root --split train
    sed -i 's/ndarray/ndarroy/' root/cifar-10-batches-py/test_batch
    bad 1 root/cifar-10-batches-py/test_batch "numpy ndarroy" "nothing of it was run" -- eval "$W" --data root
}

@test "images and labels as two .npy files" {
    pixels | npy x.npy "20, 3, 32, 32"
    labels | npy y.npy "20,"
    good eval "$W" --data x.npy,y.npy --out r
    says "20 / 20"
    mkdir elsewhere
    cd elsewhere
    good verify ../r
    cd ..
    bad 2 "x.npy: is one array" "--data x.npy,y.npy" -- eval "$W" --data x.npy
    bad 1 "z.npy: cannot be opened" -- eval "$W" --data x.npy,z.npy
    labels | head -c 19 | npy z.npy "19,"
    bad 1 "its labels are [19], must be [20]" -- eval "$W" --data x.npy,z.npy
}

@test "CIFAR-10-C: one corruption and severity is a run, named in its header, which resumes as itself alone" {
    corrupted
    good eval "$W" --data c/CIFAR-10-C --corruption fog --severity 2 --out r
    says "corruption fog, severity 2 of 5" "4 / 4"
    truth r/results.json '.data.corruption == "fog" and .data.severity == 2 and .data.count == 4 and .clean.total == 4'
    # images 4 to 7 of the whole
    [ "$(jq -c '.data.sha256' r/results.json)" = "\"$(tail -c +$((4 * 3073 + 1)) "$D/test_batch.bin" | head -c $((4 * 3073)) | sha256sum | cut -d' ' -f1)\"" ]
    good verify r
    good eval "$W" --data c --corruption fog --severity 2 --out r --resume
    bad 2 "made with another data" -- eval "$W" --data c --corruption fog --severity 3 --out r --resume
    bad 2 "made with another data" -- eval "$W" --data c --corruption snow --severity 2 --out r --resume
    good curve "$W" --data c --corruption fog --severity 1 --attacks fmn:steps=5 --out k
    grep -q '"corruption":"fog","severity":1' k/ledger.jsonl
}

@test "CIFAR-10-C: all corruptions in one table, with means; each run verifies and resumes" {
    corrupted
    good eval "$W" --data c --corruption all --eps 8/255 --attack fgsm --out all
    says "2 corruptions" "all: corruptions.json"
    [ "$(ls all | tr '\n' ' ')" = "corruptions.csv corruptions.json fog-1 fog-2 fog-3 fog-4 fog-5 snow-1 snow-2 snow-3 snow-4 snow-5 " ]
    # the table says what the runs say
    local s
    for s in 1 2 3 4 5; do
        truth all/corruptions.json ".rows[1].corruptions.fog.counts[$s - 1] == $(jq '.attacks[0].robust' all/fog-$s/results.json)"
        truth all/corruptions.json ".rows[0].corruptions.snow.percent[$s - 1] == $(jq '.clean.percent' all/snow-$s/results.json)"
    done
    truth all/corruptions.json '.rows[0].row == "clean" and .rows[0].corruptions.fog.mean == 100'
    truth all/corruptions.json '.rows[0] | ((.corruptions.fog.mean + .corruptions.snow.mean) / 2 - .mean) | fabs <= 1e-12'
    [ "$(grep -c '^fog,' all/corruptions.csv)" = 10 ]
    good verify all/snow-4
    # nothing is done again, nothing is overwritten
    sums all >before
    bad 1 "all/fog-1 already holds a run" -- eval "$W" --data c --corruption all --eps 8/255 --attack fgsm --out all
    good eval "$W" --data c --corruption all --eps 8/255 --attack fgsm --out all --resume
    sums all | grep -v -e run.json -e SHA256SUMS >after
    grep -v -e run.json -e SHA256SUMS before | diff - after
    good eval "$W" --data c --corruption snow,fog --severity 3 --out two
    [ "$(ls two | tr '\n' ' ')" = "corruptions.csv corruptions.json fog-3 snow-3 " ]
}

@test "corruptions: names and severities that are none" {
    corrupted
    bad 2 "has fog, snow; did you mean 'fog'?" -- eval "$W" --data c --corruption fogg --severity 1
    bad 2 "has no blur.npy" -- eval "$W" --data c --corruption fog,blur --out r
    bad 2 "'fog' twice" -- eval "$W" --data c --corruption fog,fog --out r
    bad 2 "--severity is 6, must be between 1 and 5" -- eval "$W" --data c --corruption fog --severity 6
    bad 2 "--severity needs --corruption" -- eval "$W" --data c --severity 2
    bad 2 "more than one evaluation: give --out" -- eval "$W" --data c --corruption all
    bad 2 "--seeds or several corruptions" -- eval "$W" --data c --corruption all --out r --seeds 1,2
    bad 2 "there is no train split" -- eval "$W" --data c --corruption fog --severity 1 --split train
    bad 2 "is a folder of corruptions: give --corruption, one of fog, snow, or all" -- eval "$W" --data c/CIFAR-10-C
    bad 2 "wants a folder of NAME.npy files" -- eval "$W" --data "$D" --corruption fog --severity 1
    bad 2 "wants a folder of NAME.npy files" -- eval "$W" --data "$D" --corruption all --out r
    bad 2 "needs --severity, 1 to 5" -- curve "$W" --data c --corruption fog --attacks fmn --out r
    [ ! -e r ]
}

@test "what is no data set is named, with what to do" {
    mkdir above packed
    cp -r "$D" above/mine
    bad 1 "above: holds no pictures, but what looks like data sets (mine)" -- eval "$W" --data above
    mkdir above/a && cp "$ROOT/tests/fixtures/png/rgb8.png" above/a
    bad 1 "above has 2 classes, but the model" "is a folder in it meant: mine?" -- eval "$W" --data above
    printf 'x' | gzip >packed/cifar-10-python.tar.gz
    bad 1 "packed: holds no images, but cifar-10-python.tar.gz: unpack it there" -- eval "$W" --data packed
    bad 1 "packed/cifar-10-python.tar.gz: is compressed by gzip: unpack it first (tar xf" -- eval "$W" --data packed/cifar-10-python.tar.gz
    bad 1 "cifar-10-batches-py: cannot be opened" "https://www.cs.toronto.edu/~kriz/cifar.html" -- eval "$W" --data cifar-10-batches-py
    printf 'MATLAB 5.0 MAT-file, Platform' >test_batch.mat
    bad 1 "is a MATLAB file" -- eval "$W" --data test_batch.mat
    printf 'PAR1....' >test-00000.parquet
    bad 1 "is a Parquet table" -- eval "$W" --data test-00000.parquet
    mkdir h && { printf '\x05\x09' && head -c 3072 /dev/zero; } >h/test.bin
    bad 1 "h has 100 classes, but the model" "has 10 (these are images of CIFAR-100" -- eval "$W" --data h
    bad 2 "needs --data FOLDER" "https://www.cs.toronto.edu/~kriz/cifar.html" -- eval "$W"
}

@test "grey images without a side for channels, as Keras' mnist.npz has them: the same run, and points of other programs" {
    cat >serve.py <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, vitrine_oracle as v
W = np.random.RandomState(1).randn(5, 784).astype(np.float32) / 28
v.serve(lambda x, keep: x.reshape(len(x), -1) @ W.T, lambda dz: (dz @ W).reshape(-1, 1, 28, 28), classes=5, shape=(1, 28, 28))
END
    child="/usr/bin/python3 $PWD/serve.py $ROOT/python"
    /usr/bin/python3 - <<'END'
import numpy as np
r = np.random.RandomState(1)
W = r.randn(5, 784).astype(np.float32) / 28
x = r.randint(0, 256, (12, 28, 28)).astype(np.uint8)
y = ((x / np.float32(255)).reshape(12, -1) @ W.T).argmax(1)
np.savez("mnist.npz", x_train=x[:3], y_train=y[:3], x_test=x, y_test=y)
np.savez("four.npz", x_test=x[:, None], y_test=y)
np.save("grey.npy", x), np.save("labels.npy", y)
np.savez("adv.npz", x_adv=np.clip(x / np.float32(255) + np.float32(4 / 255), 0, 1).astype(np.float32))
END
    for data in mnist.npz four.npz grey.npy,labels.npy; do
        good eval --oracle "$child" --data $data --eps 4/255 --attack pgd:steps=5 --batch 4 --out "run-$data" --no-selftest
        tail -n +2 "run-$data/ledger.jsonl" | jq -c 'del(.check)' >"$data.lines"
        cmp mnist.npz.lines "$data.lines"
    done
    [ "$(wc -l <mnist.npz.lines)" = 24 ]
    good verify --adv adv.npz --oracle "$child" --data mnist.npz --eps 4/255
    says "12 points" "0 violations"
    bad 1 "image 0 is 1 x 28 x 28, the model wants 3 x 32 x 32" -- eval "$ROOT/weights/shapes10-vit" --data mnist.npz
}

@test "labels and pixels of npz files as others save them: read, or refused with the line that helps" {
    /usr/bin/python3 - "$D" <<'END'
import numpy as np, sys
b = np.fromfile(sys.argv[1] + "/test_batch.bin", "u1").reshape(-1, 3073)
x, y = b[:, 1:].reshape(-1, 3, 32, 32), b[:, 0].astype("i8")
rows = np.eye(10)[y]
save = lambda name, x, y: np.savez(name, images=x, labels=y)
np.savez("med", train_images=x[:5], train_labels=y[:5, None], val_images=x[:7], val_labels=y[:7, None],
         test_images=x.transpose(0, 2, 3, 1), test_labels=y[:, None])
save("rows", x, rows.astype("f4")), save("bools", x, rows.astype("?")), save("fortran", x, np.asfortranarray(rows.astype("u1")))
many = rows.copy()
many[3, (y[3] + 1) % 10] = 1
save("many", x, many), save("soft", x, rows * .9 + .01), save("real", x, y.astype("f8"))
save("grey", x.astype("f4"), y), save("signed", x / 127.5 - 1, y), save("normed", (x / 255 - .5) / .25, y), save("whole", x.astype("i8"), y)
save("from1", x, y - y.max() + 10)
np.savez("other", train_x=x, train_y=y)
END
    good eval "$W" --data med.npz
    says "20 / 20"
    good eval "$W" --data med.npz --split val --out r
    says "7 / 7"
    good verify r
    good eval "$W" --data med.npz --split train
    says "5 / 5"
    local f
    for f in rows bools fortran; do
        vt eval "$W" --data $f.npz
        judge 0 "labels [20,10] are rows with a single 1, whose place is the class"
        says "20 / 20"
    done
    bad 1 "has 11 classes, but the model" "has 10 (if its labels count from 1, save y - 1)" -- eval "$W" --data from1.npz
    bad 1 "its labels are [20,10], and row 3 is not one 1 among zeros" "save y.argmax(1)" -- eval "$W" --data many.npz
    bad 1 "row 0 is not one 1 among zeros" -- eval "$W" --data soft.npz
    bad 1 "its labels are F64, must be whole numbers: save y.astype('int64')" -- eval "$W" --data real.npz
    bad 1 "floats must lie in [0,1]: they look like 0 to 255, save x.astype('uint8')" -- eval "$W" --data grey.npz
    bad 1 "they look like -1 to 1, save (x + 1) / 2" -- eval "$W" --data signed.npz
    bad 1 "they look normalised" "the model has its own mean and std" -- eval "$W" --data normed.npz
    bad 1 "its images are I64, must be uint8" "save x.astype('uint8') if they are 0 to 255" -- eval "$W" --data whole.npz
    bad 1 "other.npz: has no arrays named" "x_val and y_val" "it has: train_x, train_y" -- eval "$W" --data other.npz --split val
}
