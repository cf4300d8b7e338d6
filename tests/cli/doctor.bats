#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# doctor finds planted mistakes; eval's hint at it.
load helpers

# MANY: 1500 fresh images for weights/shapes10-vit. REVERSED: what the tiny model says of 400 images whose channels it
# sees reversed.
setup_file() {
    load helpers
    export MANY=$BATS_FILE_TMPDIR/many REVERSED=$BATS_FILE_TMPDIR/reversed SHAPES=$ROOT/weights/shapes10-vit PLAIN=$ROOT/weights/shapes10-plain
    "$DRAW" --out "$MANY" --train 10 --test 1500 --seed 5 >/dev/null
    "$DRAW" --out "$REVERSED" --train 10 --test 400 --seed 6 >/dev/null
    "$VITRINE" eval "$BASE/w.safetensors" --data "$REVERSED" --form bgr=1 --out "$BATS_FILE_TMPDIR/label" >/dev/null 2>&1
    tail -n +2 "$BATS_FILE_TMPDIR/label/ledger.jsonl" | jq -r '[.image, .pred] | @tsv' | while read -r image pred; do
        poke "$REVERSED/test_batch.bin" $((image * 3073)) "$(byte "$pred")"
    done
}

# first: the row that ranks first
first() { sed -n '/% right/{n;p}' <<<"$output" | head -1; }

# saved OUT ARGS: x and logits as another program saves them: what `probe` gives under ARGS for six images.
saved() {
    local out=$1
    shift
    /usr/bin/python3 - <<'END'
import json, numpy as np
x = np.random.default_rng(1).random((6, 3, 32, 32), dtype="f4")
head = json.dumps({"x": {"dtype": "F32", "shape": x.shape, "data_offsets": [0, x.nbytes]},
                   "labels": {"dtype": "I64", "shape": [6], "data_offsets": [x.nbytes, x.nbytes + 48]}}).encode()
open("x.st", "wb").write(np.uint64(len(head)).tobytes() + head + x.tobytes() + bytes(48))
np.save("x.npy", x)
END
    vt probe "$@" --input x.st --out z.st --precision f64
    [ "$status" = 0 ] || fail "probe $*: $stderr"
    st_floats z.st logits f8 >z.txt
    /usr/bin/python3 -c "import numpy as np; np.savez('$out', x=np.load('x.npy'), logits=np.loadtxt('z.txt').reshape(6, -1))"
}

@test "logits of another program prove a reading, or name the options that do, also where values are open; else none fits" {
    saved right.npz "$SHAPES"
    good doctor "$SHAPES" --logits right.npz
    says "6 images and logits of 10 classes" "as it is: equal within " "this reading is proven on 6 images"
    [[ $output != *"use:"* && $output != *"do not tell"* ]] || fail "$output"
    saved other.npz "$SHAPES" --form pool=avg --heads 4
    good doctor "$SHAPES" --logits other.npz
    says "as it is: differs by " "with --heads 4 --form pool=avg: equal within " "proven" "use: --heads 4 --form pool=avg"
    good doctor "$SHAPES" --logits other.npz --form pool=avg --heads 4
    says "as it is: equal within "
    st_edit "$SHAPES/model.safetensors" bare.safetensors 'del(.__metadata__)' # heads, mean and std are open
    good doctor bare.safetensors --logits right.npz
    says "proven" "use: --heads 2 --mean 0.5 --std 0.5"
    local copy
    copy=$(sed -n 's/^a copy that assumes nothing: vitrine //p' <<<"$output")
    vt eval bare.safetensors --data "$MANY" --images 0:40 $(sed -n "s/^use: //p" <<<"$output")
    [ "$status" = 0 ] && [[ $stderr == *"assumed, not in the file"* ]] || fail "$stderr"
    [[ $copy == "convert bare.safetensors COPY.safetensors --heads 2 "*"--form 'pool=token "* ]] || fail "$copy"
    eval "$VITRINE $copy" >/dev/null
    good eval COPY.safetensors --data "$MANY" --images 0:40 # nothing is assumed
    good doctor COPY.safetensors --logits right.npz
    says "as it is: equal within "
    [[ $output != *copy* && $output != *use:* ]] || fail "$output"
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=16 image=32 classes=10 --seed 0 -o tiny.safetensors >/dev/null
    saved strange.npz tiny.safetensors --attn l2
    vt doctor tiny.safetensors --logits strange.npz
    judge 1 "strange.npz: no reading fits" "--oracle"
}

@test "logits of another state dict of the file: that part is named" {
    local two=$ROOT/tests/fixtures/pth/parts_ema.pth
    saved ema.npz "$two" --part ema --heads 2 --mean 0.5 --std 0.5
    good doctor "$two" --logits ema.npz
    says "with --part ema --mean 0.5 --std 0.5 --heads 2: equal within " "use: --part ema --heads 2 --mean 0.5 --std 0.5" "COPY.safetensors --part ema --heads 2"
    vt doctor "$two" --logits ema.npz --part model
    judge 1 "no reading fits"
}

@test "files of logits that are refused: one sentence, exit 2" {
    saved right.npz "$SHAPES"
    bad 1 "nowhere.npz: cannot be opened" -- doctor "$SHAPES" --logits nowhere.npz
    bad 2 "leave --data out" -- doctor "$SHAPES" --logits right.npz --data "$MANY"
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=48 classes=10 --seed 0 -o large.safetensors
    bad 2 "x has images of 3 x 32 x 32, the model takes 3 x 48 x 48" -- doctor large.safetensors --logits right.npz
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=4 --seed 0 -o four.safetensors
    bad 2 "logits of 10 classes, the model has 4" -- doctor four.safetensors --logits right.npz
    bad 2 "has no tensor logits (it has: x, labels)" -- doctor "$SHAPES" --logits x.st
    bad 2 "needs --data" "--logits FILE.npz" -- doctor "$SHAPES"
}

@test "another std than the model's: the right one ranks first, and what to type is said" {
    good doctor "$PLAIN" --data "$MANY" --images 0:400 --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010
    [[ $(first) == "0.5 / 0.5 (timm's ViT)"*better ]] || fail "$output"
    says "clearly better: 0.5 / 0.5" "use: --mean 0.5 --std 0.5"
    local told=$output
    good doctor "$PLAIN" --data "$MANY" --images 0:400 --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010 --threads 1
    [ "$output" = "$told" ]
}

@test "pixels taken for 0 to 255: found as well" {
    good doctor "$PLAIN" --data "$MANY" --images 0:300 --mean 0.00196078431 --std 0.00196078431
    [[ $(first) == *better* ]] || fail "$output"
    grep -qE '^use: --mean 0\.(5|499999999) --std 0\.(5|499999999)$' <<<"$output" || fail "$output"
}

@test "a right model: nothing clearly better, and the present setting ranks first" {
    good doctor "$SHAPES" --data "$MANY" --images 0:300
    says "nothing clearly better than the present setting was found"
    [[ $(first) == "as it is"* ]] || fail "$output"
    [[ $output != *"use:"* && $output != *"labels look"* ]]
}

@test "reversed channels: found; eval gives the hint and the same results" {
    good doctor "$W" --data "$REVERSED"
    [[ $(first) == "blue, green, red"*" 100.00 "*better ]] || fail "$output"
    says "use: --form bgr=1"
    good doctor "$W" --data "$REVERSED" --form bgr=1
    says "nothing clearly better"
    vt eval "$W" --data "$REVERSED" --images 0:200 --out r
    [ "$status" = 0 ]
    if [ "$(jq '.clean.percent < 50' r/results.json)" = true ]; then
        [[ $stderr == "vitrine: hint: "*"--form bgr=1"*"vitrine doctor"* ]] || fail "stderr: $stderr"
    fi
    never grep -q hint r/*
    good eval "$W" --data "$REVERSED" --images 0:40 # too few to say anything
    vt eval "$W" --data "$REVERSED" --images 0:200 --out r --resume # nothing is said twice
    [ "$status" = 0 ] && [ -z "$stderr" ]
}

@test "eval hints at gross mistakes only" {
    vt eval "$SHAPES" --data "$MANY" --images 0:100 --mean 0 --std 1/255
    [[ $status == 0 && $stderr == "vitrine: hint: "*"right; with --mean"*"see vitrine doctor" ]] || fail "stderr: $stderr"
    good eval "$SHAPES" --data "$MANY" --images 0:100
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 1 -o random.safetensors
    vt eval random.safetensors --data "$MANY" --images 0:100
    [[ $status == 0 && $stderr == "vitrine: hint: "*"near chance"* ]] || fail "stderr: $stderr"
}

@test "labels by another numbering are noticed" {
    cp -r "$MANY" moved
    for i in $(seq 0 299); do
        label=$(od -An -tu1 -j $((i * 3073)) -N 1 moved/test_batch.bin | tr -d ' ')
        poke moved/test_batch.bin $((i * 3073)) "$(byte $(((label + 9) % 10)))"
    done
    good doctor "$SHAPES" --data moved --images 0:300
    says "labels look shifted: with 1 added to every label (modulo 10)" "nothing clearly better"
}

@test "images of another size: resizes are tried, on bytes and inside" {
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=48 classes=10 --seed 0 -o large.safetensors
    good doctor large.safetensors --data "$MANY" --images 0:60 --attack-at native --verbose
    says "squash:48,bilinear" "resized inside, bicubic" "--attack-at model --preprocess squash:48,bicubic"
    [[ $output != *"short:"* ]] # there is no border to cut
    bad 1 "the model wants 48 x 48" -- doctor large.safetensors --data "$MANY"
    bad 2 "needs --data" -- doctor large.safetensors
}

@test "heads, order of the norms and activation are found together, in the first round, in 80 columns" {
    good doctor "$SHAPES" --data "$MANY" --images 0:300 --heads 1 --form post_norm=1 --form act=relu
    [[ $(first) == "2 heads, pre-norm, GELU "*better ]] || fail "$output"
    says "clearly better: 2 heads, pre-norm, GELU" "use: --heads 2 --form post_norm=0 --ln-eps 1e-06 --form act=gelu"
    [ -z "$(awk 'length > 80' <<<"$output")" ] || fail "$output"
    good doctor "$SHAPES" --data "$MANY" $(sed -n 's/^use: //p' <<<"$output") --images 0:200
    says "nothing clearly better"
}

@test "every other divisor: the first row says the truth" {
    for heads in 1 4 8; do
        good doctor "$SHAPES" --data "$MANY" --images 0:150 --heads $heads
        [[ $(first) == "2 heads "*better ]] || fail "read with $heads: $output"
    done
}

@test "a model that does not know the images: said so, and no advice" {
    "$VITRINE" new --set dim=32 depth=1 heads=2 patch=8 image=32 classes=10 --seed 1 -o random.safetensors
    good doctor random.safetensors --data "$MANY" --images 0:400
    says "the model does not know these images: " "guessing is right on 10 %"
    [[ $output != *"use:"* ]]
    [[ $output != *"clearly better:"* ]]
    [[ $output != *"labels look"* ]]
}

@test "a network that no reading describes: what is better is not called right, and the way out is named" {
    cp -r "$MANY" odd
    for ((i = 1; i < 300; i += 2)); do poke odd/test_batch.bin $((i * 3073)) "$(byte $((i / 2 % 10)))"; done
    good doctor "$SHAPES" --data odd --images 0:300 --mean 0 --std 1/255
    says "are right at best" "no reading that was tried fits" "--logits FILE.npz" "--oracle"
    [[ $output != *"clearly better: "* && $output != *"use:"* ]] || fail "$output"
}

@test "few images, or of one class, give no cause: neither doctor nor the hint; a hint in curve and train too" {
    good doctor "$SHAPES" --data "$MANY" --images 0:20 --mean 0 --std 1/255
    says "20 images are too few to tell one reading from another"
    [[ $output != *better* && $output != *"use:"* ]] || fail "$output"
    for ((i = 0; i < 1500; i++)); do echo $((i * 3073)); done |
        while read -r at; do od -An -tu1 -j "$at" -N 1 "$MANY/test_batch.bin"; done | awk '$1 == 3 {print NR - 1}' | head -60 >three.txt
    good doctor "$SHAPES" --data "$MANY" --images three.txt --mean 0 --std 1/255
    says "these 60 images hold 1 of 10 classes"
    [[ $output != *better* && $output != *"use:"* ]] || fail "$output"
    good eval "$SHAPES" --data "$MANY" --images three.txt --mean 0 --std 1/255
    vt curve "$SHAPES" --data "$MANY" --images 0:60 --mean 0 --std 1/255 --attacks fmn:steps=1 --no-selftest --out c
    [[ $status == 0 && $stderr == "vitrine: hint: "*"right; with --mean"* ]] || fail "stderr: $stderr"
    vt curve "$SHAPES" --data "$MANY" --images 0:60 --mean 0 --std 1/255 --attacks fmn:steps=1 --no-selftest --out c --resume
    [[ $status == 0 && -z $stderr ]] || fail "stderr: $stderr"
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 1 -o random.safetensors
    vt curve random.safetensors --data "$MANY" --images 0:25 --attacks fmn:steps=1 --no-selftest --out few
    [[ $status == 0 && $stderr == "vitrine: hint: "*"near chance"* ]] || fail "stderr: $stderr"
    cp "$SHAPES"/* . # a head of zeros
    for t in head.weight head.bias; do
        dd if=/dev/zero of=model.safetensors bs=1 seek="$(st_at model.safetensors $t)" count=$((${#t} > 9 ? 2560 : 40)) conv=notrunc status=none
    done
    vt curve model.safetensors --data "$MANY" --images 0:60 --attacks fmn:steps=1 --out zero
    [[ $status == 0 && $stderr == *"vitrine: hint: constant logits: the model answers all of 60 images alike"* ]] || fail "stderr: $stderr"
    says "self-test: nothing could be tested: the logits are constant"
    good doctor model.safetensors --data "$MANY" --images 0:60
    says "constant logits" "no reading that was tried fits"
    "$DRAW" --out tiny --train 100 --test 10 --seed 5 >/dev/null
    vt train "$ROOT/recipes/shapes10_plain.yaml" --data tiny --init "$SHAPES" --mean 0 --std 1/255 --max-steps 1 --set probe.images=0 --out t
    [[ $status == 0 && $stderr == *"vitrine: hint: "*"right; with --mean"* ]] || fail "stderr: $stderr"
    vt train "$ROOT/recipes/shapes10_plain.yaml" --data tiny --init "$SHAPES" --max-steps 1 --set probe.images=0 --out u
    [[ $status == 0 && $stderr != *hint* ]] || fail "stderr: $stderr"
}

@test "a bare file is examined, and the options that doctor prints make eval ask nothing more of them" {
    st_edit "$SHAPES/model.safetensors" bare.safetensors 'del(.__metadata__)'
    assumes doctor bare.safetensors --data "$MANY" --images 0:300
    says "use: --heads 2 --mean 0.4914,0.4822,0.4465 --std 0.247,0.2435,0.2616" # a guess that these images do not refute
    vt eval bare.safetensors --data "$MANY" --images 0:60 $(sed -n "s/^use: //p" <<<"$output")
    [ "$status" = 0 ] && [[ $stderr == "vitrine: bare.safetensors: assumed, not in the file: "* ]]
}

@test "at the true values nothing is better, whatever the images" {
    for w in shapes10-vit shapes10-plain shapes10-specformer; do
        good doctor "$ROOT/weights/$w" --data "$MANY" --images 0:200 --seed 1
        says "200 of 1500 images, drawn with seed 1" "nothing clearly better"
        [[ $output != *"use:"* && $output != *"then, on top of"* ]] || fail "$w: $output"
    done
    good doctor "$SHAPES" --data "$MANY" --images 300:600 --seed 2
    says "nothing clearly better"
}

@test "what is wrong is found on other images too" {
    for wrong in "--form act=relu" "--form pool=avg" "--attn-scale dim"; do
        good doctor "$SHAPES" --data "$MANY" --images 0:300 --seed 4 $wrong
        grep -q '^clearly better: ' <<<"$output" || fail "$wrong: $output"
    done
}
