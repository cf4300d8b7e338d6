#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Checkpoints of the code that many copy: vit-pytorch, vision-transformers-cifar10, nn.TransformerEncoder, Lightning.
# Their numbers are compared with PyTorch's in tests/unit/models/test_home.c.
load helpers

H=$ROOT/tests/fixtures/home
PIXELS="--mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010"

@test "info names what is special: width of attention, projection, patch norms, positions" {
    good info "$H/lucid_wide.safetensors" --heads 3 $PIXELS
    row 'attention width' 12
    row 'patch norms' both
    row heads '3 of width 4'
    row pool 'class token'
    good info "$H/lucid_one.safetensors" --heads 1 $PIXELS
    row 'output projection' none
    good info "$H/kent_simple.safetensors" --heads 2 --image-size 8 $PIXELS
    row positions sincos
    row 'output projection' plain
    row image '3 x 8 x 8'
}

@test "convert: from then on without options, the same numbers; what was assumed stays assumed" {
    while read -r file heads form; do
        assumes convert "$H/$file" "${file%.*}.safetensors" --heads "$heads" --image-size 8 $PIXELS ${form:+--form "$form"}
        good info "${file%.*}.safetensors"
        says "safetensors metadata"
        ! grep -q "not told" <<<"$output" || fail "$output"
        assumes gradcheck "${file%.*}.safetensors"
    done <<'END'
lucid_wide.safetensors 3
simple.safetensors 2
kent_vit_wide.pth 4 pool=token
lightning.pth 4 pool=token post_norm=0 act=gelu
END
}

@test "what names prove is taken, what they leave open is asked for" {
    assumes gradcheck "$H/lucid.safetensors" --heads 2 $PIXELS
    for text in patch_order positions post_norm activation eps; do [[ $stderr != *$text* ]] || fail "$stderr"; done
    bad 2 pool "--form pool=POOL" -- gradcheck "$H/lucid_0.safetensors" --heads 2 $PIXELS
    bad 2 pool activation post-norm "--form pool=POOL --form act=ACT --form post_norm=POST_NORM" -- \
        gradcheck "$H/lightning.pth" --heads 4 $PIXELS
    assumes gradcheck "$H/lightning.pth" --heads 4 $PIXELS --form "pool=token post_norm=0 act=gelu"
    [[ $stderr == *"LayerNorm eps 1e-05"* ]] || fail "$stderr"
}

@test "a config.json that describes the whole is silent on what the names prove" {
    mkdir hub && cp "$H/simple.safetensors" hub/model.safetensors
    echo '{"model_type": "vit", "num_attention_heads": 2, "image_size": 8}' >hub/config.json
    good info hub/model.safetensors $PIXELS
    row positions sincos
    row 'patch order' hwc
    row 'LayerNorm eps' 1e-05
}

@test "heads that do not divide attention's own width: both widths are named" {
    bad 1 "attention is 12 wide" "3 x 12 rows" "model is 8 wide" "5 heads" -- info "$H/lucid_wide.safetensors" --heads 5 $PIXELS
}

@test "SPT and LSA are refused by name" {
    bad 1 kent_vit_small.safetensors SPT LSA "vit_small" -- info "$H/kent_vit_small.safetensors" --heads 2 $PIXELS
}

@test "no positions in the file, and nobody says which: the option is named" {
    bad 1 simple.safetensors "has no positions" "--form positions=KIND" "eval --oracle" -- \
        info "$H/simple.safetensors" --heads 2 --image-size 8 $PIXELS --form positions=learned
}

@test "a Lightning checkpoint: what is not the model is left out, and explained" {
    good info --explain "$H/lightning.pth" --heads 4 $PIXELS
    says "criterion.weight" "of the loss"
    row pool 'class token'
}

@test "several forms in one --form" {
    good info "$H/encoder.safetensors" --heads 2 $PIXELS --form "post_norm=1  act=relu"
    row activation relu
    row post-norm yes
    bad 2 "act is 'selu'" -- info "$H/encoder.safetensors" --heads 2 $PIXELS --form "post_norm=1 act=selu"
}

@test "trained with msvp: attention wider than the model, no positions stored, plain projection" {
    "$DRAW" --out data --train 16 --test 4 --seed 1 >/dev/null
    cat >r.yaml <<'END'
epochs: 1
batch: 8
lr: 0.001
model: {dim: 32, heads: 3, depth: 2, patch: 8, forms: attn_dim=96 proj=plain patch_norm=both positions=sincos no_cls=1 pool=avg}
augment: {mix_prob: 0}
msvp: {lambda: 0.01}
probe: {images: 0}
END
    vt train r.yaml --data data --out run # progress goes to stderr
    [ "$status" -eq 0 ]
    good info run/model.safetensors
    row 'attention width' 96
    row positions sincos
    good spectrum run/model.safetensors
    good eval run/model.safetensors --data data --images 0:4 --eps 4/255 --attack pgd --out e
}

@test "vit-pytorch's SimpleViT with register tokens" {
    /usr/bin/python3 - "$ROOT" <<'END'
import sys
sys.path.insert(0, sys.argv[1] + "/tools")
from widened import load, save
w, meta = load(sys.argv[1] + "/tests/fixtures/home/simple.safetensors")
dim = w["to_patch_embedding.3.weight"].size
w["register_tokens"] = w["to_patch_embedding.3.weight"].reshape(1, dim).repeat(2, 0)
save("registers.safetensors", w, {})
END
    vt info registers.safetensors --heads 2 --mean 0.5 --std 0.5 --image-size 8
    says "map simple-vit" "register tokens      2" "positions            sincos"
}
