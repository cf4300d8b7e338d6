#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Images that are no three squares, of a linear model in another process: numpy knows how many of them no point of the linf ball
# breaks, and the table has that number; runs of every threat are judged again, resumed and exported in their shape.
load helpers

V=$ROOT/weights/shapes10-vit
LINEAR="/usr/bin/python3 $ROOT/tests/fixtures/linear_child.py"

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    for shape in 1x7x5 5x4x9; do $LINEAR $shape data 21 "$shape"; done
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    T=$BATS_FILE_TMPDIR
}

data() { echo "$T/$1-x.npy,$T/$1-y.npy"; }
# on SHAPE COMMAND ARGS: with that model on those images.
on() {
    local shape=$1 command=$2
    shift 2
    good "$command" --oracle "$LINEAR $shape" --data "$(data "$shape")" "$@"
}

@test "AutoAttack leaves exactly the images that numpy says; verify, resume, the same bytes" {
    for shape in 1x7x5 5x4x9; do
        read -r right stand < <($LINEAR $shape robust "$T/$shape-x.npy" "$T/$shape-y.npy" 0.02)
        [ "$stand" -gt 0 ] && [ "$stand" -lt "$right" ] || fail "$shape: $stand of $right tell nothing"
        on $shape eval --eps 0.02 --attack apgd-ce+apgd-t+fab-t+square:queries=200 --no-selftest --out $shape
        [ "$(awk -F, '/^clean,/ { print $3 }' $shape/table.csv)" = "$right" ]
        [ "$(awk -F, 'END { print $3 }' $shape/table.csv)" = "$stand" ]
        [ "$(awk -F, 'END { print $NF }' $shape/table.csv)" = "$shape" ]
        good verify $shape --oracle "$LINEAR $shape"
        says "stored points judged again" "everything is as"
        mkdir half && head -n 30 $shape/ledger.jsonl >half/ledger.jsonl && cp $shape/adv.bin half
        on $shape eval --eps 0.02 --attack apgd-ce+apgd-t+fab-t+square:queries=200 --no-selftest --out half --resume
        for f in ledger.jsonl adv.bin table.csv results.json; do cmp half/$f $shape/$f; done
        rm -r half
    done
}

@test "other threats: l2, l1, l0, patches, 8 bits; every stored point is judged again" {
    for shape in 1x7x5 5x4x9; do
        on $shape eval --norm l2 --eps 0.15 --attack pgd:steps=10+square:queries=60+hopskipjump:queries=200 --no-selftest --out l2
        on $shape eval --norm l1 --eps 0.6 --attack apgd-ce:steps=10+square:queries=60 --no-selftest --out l1
        on $shape eval --norm l0 --eps 5 --attack sparse-rs:queries=60 --attack sparse-rs:queries=60,unit=pixel --attack sigma-zero:steps=50 --no-selftest --out l0
        on $shape eval --threat patch:size=3,count=2 --attack pgd:steps=10 --attack square:queries=60 --no-selftest --out patch
        on $shape eval --eps 8/255 --attack pgd:steps=5 --no-selftest --individual --out run
        for run in l2 l1 l0 patch run; do
            [ "$(jq -s '[.[1:][] | select(.status == "broken")] | length' $run/ledger.jsonl)" -gt 0 ] || fail "$shape: $run broke nothing"
            good verify $run --oracle "$LINEAR $shape"
            says "everything is as"
        done
        # a patch: of all channels the same pixels, in two squares
        good export patch --out patch.npz
        /usr/bin/python3 - "$T/$shape-x.npy" <<'PY'
import sys, numpy as np
x, f = np.load(sys.argv[1]), np.load("patch.npz")
assert f["x_adv"].shape == x.shape, f["x_adv"].shape
moved = (f["x_adv"] != x).any(1).reshape(len(x), -1).sum(1)
assert moved.max() <= 18 and moved[f["status"] == 1].min() > 0, moved
PY
        rm -r l2 l1 l0 patch run patch.npz
    done
}

@test "curve, merge, selftest, show, export, --save-adv; 5 channels are not drawn, and it says so" {
    on 5x4x9 curve --out curve
    good verify curve --oracle "$LINEAR 5x4x9"
    on 5x4x9 selftest --images 0:10 --eps 0.02 --attack pgd:steps=5
    on 5x4x9 eval --images 0:9 --eps 0.02 --attack pgd:steps=10 --no-selftest --out a --save-npz
    on 5x4x9 eval --images 9:21 --eps 0.02 --attack pgd:steps=10 --no-selftest --out b
    good merge a b --out all
    good verify all --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)"
    good show all --data "$(data 5x4x9)" --oracle "$LINEAR 5x4x9" --out page.html
    grep -q "Images of 5 channels are not drawn" page.html
    grep -q "input 5 × 4 × 9" page.html
    bad 2 "an image of 5 channels has no picture" -- export a --format png
    good verify --adv a/adv/pgd.npz --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)" --eps 0.02
    vt eval --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)" --eps 0.02 --attack pgd:steps=10 --no-selftest --out saved --save-adv
    [ "$status" = 0 ]
    [[ $stderr == *"5 channels are not drawn: saved has adv.safetensors"* ]]
    [ ! -e saved/adv ]
    on 1x7x5 eval --eps 0.02 --attack pgd:steps=10 --no-selftest --out grey --save-adv
    good show grey --data "$(data 1x7x5)" --oracle "$LINEAR 1x7x5" --out grey.html
    grep -q "data:image/png" grey.html
    [ -n "$(ls grey/adv/pgd)" ]
}

@test "channels last: the model's shape tells, for the same logits and other refusals" {
    /usr/bin/python3 -c "import numpy as np; np.save('x.npy', np.load('$T/5x4x9-x.npy').transpose(0, 2, 3, 1)); np.savez('s.npz', x=np.load('x.npy'), y=np.load('$T/5x4x9-y.npy'))"
    on 5x4x9 eval --eps 0.02 --attack pgd:steps=5 --no-selftest --out first
    good eval --oracle "$LINEAR 5x4x9" --data s.npz --eps 0.02 --attack pgd:steps=5 --no-selftest --out last
    cmp first/adv.bin last/adv.bin
    bad 1 "image 0 is 5 x 4 x 9, the model wants 1 x 7 x 5" -- eval --oracle "$LINEAR 1x7x5" --data "$(data 5x4x9)"
    bad 1 "image 0 is 5 x 4 x 9, the model wants 3 x 32 x 32" -- eval "$V" --data "$(data 5x4x9)"
    bad 1 "is 5 x 4 x 9: only pictures of three channels are resized" -- eval --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)" --preprocess squash:9,bilinear
    bad 2 "takes images of 1 x 7 x 5, must take 5 x 4 x 9" -- eval --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)" --eps 0.02 --attack transfer --surrogate-oracle "$LINEAR 1x7x5"
    bad 2 "size is 5 pixels, but the images" "4 x 9" -- eval --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)" --threat patch:size=5 --attack pgd
    bad 2 "tries what is done to red, green and blue" "5 x 4 x 9" -- doctor --oracle "$LINEAR 5x4x9" --data "$(data 5x4x9)"
    bad 1 "height is 0, must be a whole number from 1 to 4096" -- eval --oracle "$LINEAR 1x0x5" --data "$(data 1x7x5)"
    bad 1 "width is 5000, must be a whole number from 1 to 4096" -- eval --oracle "$LINEAR 1x1x5000" --data "$(data 1x7x5)"
    bad 1 "channels is 65, must be a whole number from 1 to 64" -- eval --oracle "$LINEAR 65x1x1" --data "$(data 1x7x5)"
}

@test "MNIST's idx files are attacked as the same pictures in NumPy's files are" {
    mkdir idx
    /usr/bin/python3 - "$T/1x7x5" <<'END'
import struct, sys
import numpy as np
x, y = np.load(sys.argv[1] + "-x.npy"), np.load(sys.argv[1] + "-y.npy").ravel().astype(np.int64)
x = x if x.dtype == np.uint8 else np.rint(255 * x).astype(np.uint8)
np.save("x.npy", x), np.save("y.npy", y)
open("idx/t10k-images-idx3-ubyte", "wb").write(struct.pack(">4I", 0x803, len(x), 7, 5) + x.tobytes())
open("idx/t10k-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 0x801, len(y)) + y.astype(np.uint8).tobytes())
END
    for data in idx x.npy,y.npy; do
        good eval --oracle "$LINEAR 1x7x5" --data $data --eps 0.02 --attack pgd:steps=10 --no-selftest --out "of-${data%%,*}"
    done
    cmp of-idx/adv.bin of-x.npy/adv.bin
    cmp <(cut -d, -f 1-6 of-idx/table.csv) <(cut -d, -f 1-6 of-x.npy/table.csv)
    [ -s of-idx/adv.bin ]
}
