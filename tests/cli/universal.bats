#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Universal patches: vitrine patch, and --attack universal against a numpy version of its draws and its pasting.
load helpers

T=patch:size=8
S=$ROOT/weights/shapes10-plain SHAPES=$ROOT/datasets/shapes10

# pasted ARGS: an evaluation with the picture p.png on the tiny model.
pasted() { quick --threat $T --patch p.png "$@"; }
# trained ARGS: a short training against a network of four blocks.
trained() {
    good patch "$S" --data "$SHAPES" --images 0:30 --threat patch:size=12 --steps 15 --draws 12 --rate 0.2 "$@"
}
# falls: of the last training: how many held-out images fall to noise, and to the picture.
falls() { grep -o 'and [0-9]* of these' <<<"$output" | cut -d' ' -f2 | xargs; }
# noise FILE SIZE: a picture of noise, by no code of ours; its bytes in FILE.raw.
noise() {
    /usr/bin/python3 - "$1" "$2" <<'END'
import struct, sys, zlib
import numpy as np
name, n = sys.argv[1], int(sys.argv[2])
a = np.random.RandomState(3).randint(0, 256, (n, n, 3)).astype(np.uint8)
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + row.tobytes() for row in a)
open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)) +
                       chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
a.transpose(2, 0, 1).tofile(name + ".raw")
END
}

@test "places, pasted pixels, verdicts and counts are those of numpy" {
    noise p.png 8
    pasted --seed 5 --attack universal:places=4 --attack universal:places=0 --out run
    /usr/bin/python3 - "$VITRINE" "$W" "$D/test_batch.bin" <<'END' >&2
import json, subprocess, sys
import numpy as np
vitrine, weights, batch = sys.argv[1:]
header, *lines = map(json.loads, open("run/ledger.jsonl"))
adv, raw = np.fromfile("run/adv.bin", np.float32), np.fromfile(batch, np.uint8).reshape(-1, 3073)
picture = np.fromfile("p.png.raw", np.uint8).reshape(3, 8, 8).astype(np.float32) / np.float32(255)

def bits(seed, purpose, image, i):  # Philox4x32-10 of Salmon et al. 2011
    h = 2166136261
    for b in purpose.encode():
        h = (h ^ b) * 16777619 & 0xFFFFFFFF
    c, k = [i // 4, 0, image, 0], [seed ^ h, 0]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c[i % 4]

def places(image):  # a shuffle of all of them
    order = [(y, x) for y in range(25) for x in range(25)]
    for k in range(625):
        j = k + (bits(5, "patch place", image, k) * (625 - k) >> 32)
        order[k], order[j] = order[j], order[k]
    return order

x, labels = [], []
for image in range(20):
    clean = (raw[image, 1:].astype(np.float32) / np.float32(255)).reshape(3, 32, 32)
    for top, left in places(image):
        x.append(clean.copy())
        x[-1][:, top:top + 8, left:left + 8] = picture
        labels.append(int(raw[image, 0]))
x, labels = np.stack(x), np.array(labels, "<i8")
about = {"x": {"dtype": "F32", "shape": x.shape, "data_offsets": [0, x.nbytes]},
         "labels": {"dtype": "I64", "shape": [len(x)], "data_offsets": [x.nbytes, x.nbytes + 8 * len(x)]}}
text = json.dumps(about).encode()
text += b" " * (-len(text) % 8)
open("in", "wb").write(len(text).to_bytes(8, "little") + text + x.tobytes() + labels.tobytes())
subprocess.run([vitrine, "probe", weights, "--input", "in", "--out", "out"], check=True, stdout=subprocess.DEVNULL)
out = open("out", "rb").read()
n = int.from_bytes(out[:8], "little")
low, high = json.loads(out[8:8 + n])["logits"]["data_offsets"]
wrong = (np.frombuffer(out[8 + n + low:8 + n + high], "<f4").reshape(len(x), -1).argmax(1) != labels).reshape(20, 625)
fell = stood = 0
for image in range(20):
    for entry, n in (1, 4), (2, 625):
        line, = [r for r in lines if r["entry"] == entry and r["image"] == image]
        first = np.flatnonzero(wrong[image, :n])
        assert line["status"] == ("broken" if len(first) else "robust"), line
        assert line["forwards"] == (first[0] + 1 if len(first) else n), line
        if len(first):
            assert (adv[line["adv"] // 4:][:3072].reshape(3, 32, 32) == x[625 * image + first[0]]).all()
        fell, stood = fell + len(first[:1]), stood + (not len(first))
assert fell and stood, (fell, stood)
END
    truth run/results.json '.attacks | all(.invalid == 0 and .borderline == 0)'
    truth run/results.json '.notes | any(contains("right with this picture at all 625 places"))'
    truth run/results.json ".threat.patch.sha256 == \"$(sha256sum <p.png | cut -d' ' -f1)\""
    good verify run
    says "everything is as the ledger"
    pasted --seed 5 --attack universal:places=4 --attack universal:places=0 --threads 1 --batch 3 --out other
    lines() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.image, .entry, .status, .forwards, .sha]'; }
    diff <(lines run) <(lines other) >&2
    pasted --attack universal --images 0:5 --out half
    good patch "$W" --data "$D" --threat $T --steps 0 --out p.png
    bad 2 "another threat" -- eval "$W" --data "$D" --threat $T --patch p.png --attack universal --out half --resume
}

@test "the same bytes for any number of threads; more fall than to noise; what is printed is what eval finds" {
    trained --held-out 30:70 --threads 1 --out p.png
    says "p.png: 12 x 12 pixels, 15 steps of 12 draws from 30 images"
    read -r before after < <(falls)
    [ "$after" -gt $((before + 5)) ] || fail "$after fall, $before to noise"
    trained --threads 3 --out three.png
    cmp p.png three.png
    trained --steps 1 --out one.png
    trained --steps 1 --seed 1 --out seed.png
    never cmp -s one.png seed.png
    on_shapes() { good eval "$S" --data "$SHAPES" --images 30:70 --threat patch:size=12 --attack universal "$@"; }
    on_shapes --patch p.png --out run
    truth run/results.json ".attacks[0].broken == $after"
    trained --steps 0 --out noise.png
    on_shapes --patch noise.png --out noise
    truth noise/results.json ".attacks[0].broken == $before"
}

@test "a class to reach; several squares, in 8 bits; a model in another process" {
    trained --held-out 30:70 --target 3 --out p.png
    read -r before after < <(falls)
    [ "$after" -gt $((before + 1)) ] || fail "$after fall, $before to noise"
    good patch "$W" --data "$D" --threat $T,count=2,aligned=1 --steps 5 --draws 8 --rate 0.2 --out p.png
    quick --threat $T,count=2,aligned=1 --patch p.png --attack universal:places=3 --eight-bit --out run
    truth run/results.json '.attacks | all(.invalid == 0) and .[0].broken > 0 and .[0].broken == .[1].broken'
    good verify run
    good patch --oracle "$VITRINE serve $W" --data "$D" --threat $T,count=2 --steps 5 --draws 8 --out there.png
    good patch "$W" --data "$D" --threat $T,count=2 --steps 5 --draws 8 --out here.png
    cmp here.png there.png
}

@test "killed or interrupted it leaves no file; refusals" {
    local signal
    bad 1 "k/p.png" -- patch "$W" --data "$D" --threat $T --steps 1000000 --out k/p.png
    mkdir k
    for signal in KILL TERM; do
        "$VITRINE" patch "$W" --data "$D" --threat $T --steps 1000000 --out k/p.png 2>err 3>&- &
        sleep 0.3
        kill -$signal $!
        wait $! && fail "it ended by itself"
        [ -z "$(ls -A k)" ] || fail "left: $(ls -A k)"
    done
    grep -q interrupted err
    wrong() { # TEXT -- OPTIONS
        local text=$1
        shift 2
        bad 2 "$text" -- patch "$W" --data "$D" "$@" || return 1
        [ ! -e x.png ] || fail "the refused run left something behind"
    }
    wrong "needs --out FILE.png" -- --threat $T --out x.npz
    wrong "needs --threat patch:size=N" -- --out x.png
    wrong "needs --threat patch:size=N" -- --threat rotation --out x.png
    wrong "size is 99 pixels" -- --threat patch:size=99 --out x.png
    wrong "--rate is '2', must be above 0 and at most 1" -- --threat $T --rate 2 --out x.png
    wrong "--draws is 0, must be between" -- --threat $T --draws 0 --out x.png
    wrong "--target is 10, but the model has the classes 0 to 9" -- --threat $T --target 10 --out x.png
    wrong "image 4 is trained on too" -- --threat $T --images 0:5 --held-out 4:6 --out x.png
    noise p.png 8
    refused() { # TEXT -- OPTIONS
        local text=$1
        shift 2
        bad 2 "$text" -- eval "$W" --data "$D" "$@"
    }
    refused "p.png: is 8 x 8 pixels, must be 7 x 7" -- --threat patch:size=7 --attack universal --patch p.png
    refused "attack universal: needs --patch FILE" -- --threat $T --attack universal
    refused "--patch p.png is for --attack universal" -- --threat $T --attack square --patch p.png
    refused "does not support --norm linf (it is for --threat patch" -- --eps 8/255 --attack universal
    refused "where must be random" -- --threat $T --attack universal:where=saliency --patch p.png
    refused "places is 65, must be between 1 and 64" -- --threat $T --attack square:places=65
    bad 1 "not a PNG" -- eval "$W" --data "$D" --threat $T --attack universal --patch p.png.raw
}
