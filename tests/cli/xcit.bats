#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# XCiT from the outside: what its files do not tell.
load helpers

small() { good new xcit_small_12_cifar --set dim=16 depth=1 heads=2 hidden=16 --seed 3 -o x.safetensors; }

@test "xcit: a new model, attacked, with an exact gradient" {
    small
    good info x.safetensors
    says "xcit" "(64 tokens)" "2 of width 8" "1,1,2,2" "0.2471, 0.2435, 0.2616"
    good eval x.safetensors --data "$ROOT/datasets/shapes10" --images 0:40 --attack pgd:steps=2 --eps 8/255 --out r
    truth r/results.json '.clean.correct > 0 and .attacks[0].robust <= .clean.correct and .attacks[0].gradients > 0'
    good gradcheck x.safetensors --images 1 --directions 2
    for attn in l2 lipnorm scsa; do
        good gradcheck x.safetensors --attn $attn --images 1 --directions 2
    done
}

@test "xcit: side and strides are told by options where a file does not" {
    small
    st_edit x.safetensors bare.safetensors 'del(.__metadata__)'
    cifar="--mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616"
    good info bare.safetensors $cifar
    says "3 x 224 x 224" "a guess: --image-size tells" "(196 tokens)" "by the image's side"
    good info bare.safetensors $cifar --image-size 32 --form tokens_norm=0
    says "(64 tokens)" "tokens norm          no"
    good info bare.safetensors $cifar --image-size 32 --form stem_stride=2,2,2,2
    says "(4 tokens)" "2,2,2,2"
    bad 1 "stem_stride is 3,2,2,2" "4 strides of 1 or 2" -- info bare.safetensors $cifar --form stem_stride=3,2,2,2
    good eval x.safetensors --data "$D" --threads 1 --out a
    assumes eval bare.safetensors $cifar --image-size 32 --data "$D" --threads 1 --out b
    diff <(jq .clean a/results.json) <(jq .clean b/results.json)
}

@test "xcit: where nothing tells the side, that of the images counts" {
    small
    st_edit x.safetensors bare.safetensors 'del(.__metadata__)'
    cifar="--mean 0.4914,0.4822,0.4465 --std 0.2471,0.2435,0.2616"
    good eval x.safetensors --data "$ROOT/datasets/shapes10" --images 0:40 --attack pgd:steps=1 --eps 2/255 --threads 1 --out a
    assumes eval bare.safetensors $cifar --data "$ROOT/datasets/shapes10" --images 0:40 --attack pgd:steps=1 --eps 2/255 --threads 1 --out b
    truth b/results.json '.model.image.value == 32'
    diff <(said a) <(said b) # the header's hash of weights differs
    good verify b
    assumes curve bare.safetensors $cifar --data "$D" --images 0:2 --attacks fmn:steps=2 --out curve
    assumes selftest bare.safetensors $cifar --data "$D" --images 0:2 --eps 2/255 --attack pgd:steps=1
    bad 1 "64" "32" -- eval bare.safetensors $cifar --image-size 64 --data "$D"
    assumes eval bare.safetensors $cifar --data "$D" --preprocess squash:48,bilinear --out c
    truth c/results.json '.model.image.value == 48'
    vt doctor bare.safetensors $cifar --data "$D"
    [ "$status" = 0 ] || fail "doctor: $stderr"
}

@test "an XCiT without positions (timm's use_pos_embed=False) computes what an encoding of zeros gives" {
    good new xcit_nano_12_p16_224 --set dim=16 depth=1 heads=2 image=32 classes=10 -o w.safetensors
    /usr/bin/python3 - "$ROOT/tools" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load("w.safetensors")
for part in "weight", "bias": w["pos_embed.token_projection." + part] *= 0
save("zeros.safetensors", w, meta)
save("none.safetensors", {k: v for k, v in w.items() if not k.startswith("pos_embed.")}, meta)
END
    "$DRAW" --out images --train 4 --test 6 --seed 1 >/dev/null
    for f in zeros none; do good eval $f.safetensors --data images --attack fgsm --eps 4/255 --save-adv --out $f; done
    cmp zeros/adv.safetensors none/adv.safetensors
    vt info none.safetensors
    row positions none tensors
    good convert none.safetensors copy.safetensors
    vt info copy.safetensors
    row positions none 'metadata|tensors'
    good selftest copy.safetensors --data images --images 0:2 --eps 2/255 --attack pgd:steps=1
    printf 'epochs: 1\nbatch: 4\nmicro_batch: 4\nlr: 0.01\nobjective: at\nattack: {eps: 2/255, spec: "pgd:steps=1"}\nprobe: {images: 0}\n' >r.yaml
    vt train r.yaml --init copy.safetensors --data images --out run
    [ "$status" = 0 ] || fail "train: $stderr"
}
