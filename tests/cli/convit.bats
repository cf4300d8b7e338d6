#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A ConViT from the command line: what info says, first weights, training from a preset and from a checkpoint of another
# size, attack, spectrum; and the presets of the systems that SpecFormer compares.
load helpers

# trained ARGS: must succeed; the line of its progress is on stderr
trained() { vt train "$@" && [ "$status" = 0 ] || fail "train $*: $stderr"; }

convit() { good new convit_tiny_cifar --set dim=16 depth=3 heads=4 patch=8 --form local_blocks=2 "$@"; }

@test "a ConViT's file tells its heads and its local blocks" {
    convit -o w.safetensors
    good info w.safetensors
    row architecture convit tensors
    row image '3 x 32 x 32' tensors
    row patch '8 \(16 tokens\)' tensors
    row heads '4 of width 4' tensors
    row 'local blocks' 2 tensors
    bad 1 "local_blocks is 3, must be between 1 and 2" -- new convit_tiny_cifar --set depth=3 --form local_blocks=3 -o no.safetensors
    [ ! -e no.safetensors ]
}

@test "a ConViT without positions (timm's use_pos_embed=False) computes what zeros for positions give; its image is told by the images" {
    convit -o w.safetensors
    /usr/bin/python3 - "$ROOT/tools" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load("w.safetensors")
w["pos_embed"] *= 0
save("zeros.safetensors", w, meta)
del w["pos_embed"], meta["architecture"]
save("none.safetensors", w, meta)
END
    "$DRAW" --out images --train 4 --test 6 --seed 1 >/dev/null
    good eval zeros.safetensors --data images --attack fgsm --eps 4/255 --save-adv --out zeros
    assumes eval none.safetensors --data images --attack fgsm --eps 4/255 --save-adv --out none
    cmp zeros/adv.safetensors none/adv.safetensors
    vt info none.safetensors --image-size 32
    row positions none tensors
    assumes convert none.safetensors copy.safetensors --image-size 32
    vt info copy.safetensors
    row positions none '.*'
}

@test "a ConViT is trained, attacked and measured; its positions follow the patches" {
    convit -o w.safetensors
    "$DRAW" --out images --train 20 --test 10 --seed 1 >/dev/null
    printf 'epochs: 1\nbatch: 10\nmicro_batch: 5\nlr: 0.01\nobjective: at\nattention_optimiser: md\nprobe: {images: 0}\n%s\n' \
        "attack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: 1, prm: 1}
msvp: {lambda: 0.01}
ortho: {variant: VAR-III}" >r.yaml
    trained r.yaml --init w.safetensors --data images --out run
    good eval run/model.safetensors --data images --eps 2/255 --attack pgd:steps=2 --attack apgd-ce --out ev
    good spectrum run/model.safetensors
    awk '$1 == "layer" {n++} $1 == 2 {last++} END {exit n < 2 || last < 2}' <<<"$output" || fail "rows are missing: $output"
    trained r.yaml --init w.safetensors --set model.patch=4 --data images --out fine
    good info fine/model.safetensors
    row patch '4 \(64 tokens\)' tensors
}

@test "the systems of SpecFormer's tables are presets" {
    good new l2former-deit-tiny --set dim=12 depth=2 heads=2 patch=8 image=32 classes=10 -o l2.safetensors
    good info l2.safetensors
    row 'W_Q = W_K' yes 'safetensors metadata'
    row attention 'l2:tied=1,full=0' 'safetensors metadata'
    good new lipsformer-convit-tiny --set dim=16 depth=12 heads=4 patch=8 image=32 classes=10 -o lips.safetensors
    good info lips.safetensors
    row norm center 'safetensors metadata'
    row 'branch factors' alpha tensors
    row 'local blocks' 10 tensors
    bad 2 "did you mean 'lnformer-vit-small'" -- new lnformer-vit-smal -o no.safetensors
    bad 1 "needs W_Q and W_K in one tensor" -- new --attn l2:tied=1 -o no.safetensors
}
