#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# doctor --against: planted differences between a checkpoint and its export are named by layer and weight.
load helpers

S=$ROOT/weights/shapes10-vit/model.safetensors

setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    cp "$ROOT"/weights/shapes10-vit/{config.json,model.safetensors} .
    good convert . good.onnx
}

# differs LAYER -- ARGS: doctor says that this layer is the first that differs
differs() {
    local layer=$1
    shift 2
    vt doctor "$@"
    [ "$status" = 1 ] && [[ $stderr == *"the first of 10 layers that differs is $layer, by "* ]] || fail "not $layer: $stderr" "$output"
}

# changed TENSOR INDEX: good.onnx stays, model.safetensors has another number there (1.0)
changed() {
    cp "$S" model.safetensors && chmod u+w model.safetensors
    poke model.safetensors $(($(st_at model.safetensors "$1") + 4 * $2)) "$ONE"
}

@test "an export of the same weights is equal, in either normalisation, on random pixels and on data" {
    good doctor . --against good.onnx
    says "2 images of random pixels, in double; the export takes images in [0,1]" "all 10 layers are equal"
    good convert . outside.onnx --normalise outside
    good doctor . --against outside.onnx --data "$ROOT/datasets/shapes10" --images 0:2 --verbose
    says "2 images, in double; the export takes (x - mean) / std" "embedding.output" "blocks.2.attention" "all 10 layers are equal"
}

@test "a wrong head count, activation, eps or scale is named by the layer that it changes" {
    differs blocks.0.attention -- . --against good.onnx --heads 4
    says "all its weights are in the export" "embedding.output " "logits: largest difference "
    differs blocks.0.output -- . --against good.onnx --form act=gelu_tanh
    differs blocks.0.attention -- . --against good.onnx --ln-eps 1e-5
    differs blocks.0.attention -- . --against good.onnx --attn-scale dim
    differs embedding.output -- . --against good.onnx --mean 0.4 --std 0.5
    differs logits -- . --against good.onnx --form pool=avg --form norm_first=1
}

@test "a changed weight is named, of a matrix and of q, k and v together" {
    changed blocks.2.mlp.fc1.weight 77
    differs blocks.2.output -- . --against good.onnx
    says "weight blocks.2.mlp.fc1.weight is not in the export: nearest blocks.2.mlp.fc1.weight.T"
    [[ $output != *"weight blocks.2.mlp.fc2"* ]] || fail "$output"
    changed blocks.1.attn.qkv.weight 4500
    differs blocks.1.attention -- . --against good.onnx
    says "weight blocks.1.attn.qkv.weight is not in the export: nearest blocks.1.attn.qkv.weight.T"
    changed pos_embed 100
    differs embedding.output -- . --against good.onnx
    says "weight pos_embed is not in the export"
    changed head.bias 3
    differs logits -- . --against good.onnx
    says "weight head.bias is not in the export"
}

@test "an export that computes NaN equals nothing" {
    good convert . nan.onnx --mean 0.4 --std 0.25
    local at
    at=$(LC_ALL=C grep -obUaP '(\x00\x00\x80\x3e){3}' nan.onnx | cut -d: -f1)
    chmod u+w nan.onnx && poke nan.onnx "$at" "$ZERO$ZERO$ZERO" # std
    differs embedding.output -- . --against nan.onnx --mean 0.4 --std 0.25
    says "embedding.output                     differs by inf from " "logits: largest difference inf"
}

@test "what cannot be compared is refused" {
    bad 1 "has sides [-1,3,32,32], which images of 3,8,8 contradict" -- doctor "$ROOT/tests/fixtures/golden/vit_cls.weights.safetensors" \
        --against good.onnx --mean 0.5 --std 0.5 --heads 2
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=7 --seed 0 -o "$BATS_TEST_TMPDIR/seven.safetensors"
    bad 1 "good.onnx: has 10 classes, the checkpoint 7" -- doctor "$BATS_TEST_TMPDIR/seven.safetensors" --against good.onnx
    bad 2 "leave --logits out" -- doctor . --against good.onnx --logits x.npz
    bad 1 "nowhere.onnx" -- doctor . --against nowhere.onnx
    bad 1 "is not a whole ONNX file" -- doctor . --against "$S"
}
