#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Leaderboard ViTs from the outside: ConvStem, DINOv2's heads and positions, OpenAI's activation.
load helpers

F=$ROOT/tests/fixtures/stems

@test "a ConvStem says so, and where its mean and std stand; saved, it needs no option" {
    good info "$F/cvst_s.safetensors" --heads 2
    says "timm" "16 (5 tokens)" "convolutional stem" "normalisation layer in the file"
    assumes convert "$F/cvst_s.safetensors" s.safetensors --heads 2
    assumes gradcheck s.safetensors --images 1 --directions 2
    bad 2 "--image-size 64 contradicts the tensors, which say 32" -- info s.safetensors --image-size 64
    bad 2 "conv_stem=4 contradicts the tensors, which say 3" -- info s.safetensors --form conv_stem=4
    bad 2 "a form of vit alone" -- new xcit_small_12_cifar --form conv_stem=48 -o x.safetensors
    bad 1 "patch is 3" "2, 4, 8 or 16" -- new vit_cifar_dim192_depth9 --set patch=3 image=33 --form conv_stem=8 -o x.safetensors
}

@test "a new ConvStem is attacked" {
    good new vit_s_cvst --set image=32 dim=16 depth=1 heads=2 hidden=16 classes=10 --form conv_stem=3 --seed 3 -o w.safetensors
    good info w.safetensors
    says "0.485, 0.456, 0.406" "convolutional stem   3"
    good eval w.safetensors --data "$ROOT/datasets/shapes10" --images 0:20 --attack pgd:steps=2 --eps 8/255 --out r
    truth r/results.json '.clean.correct >= .attacks[0].robust and .attacks[0].gradients > 0'
}

@test "DINOv2's classifiers: heads and pixels by the scheme, positions resized on request" {
    good info "$F/dinov2_reg_lc4.safetensors" --heads 2
    says "dinov2" "class token and mean of the patch tokens" "class tokens read    4" "no register position yes" "0.485, 0.456, 0.406"
    assumes convert "$F/dinov2_small.safetensors" d.safetensors --heads 2 --image-size 12
    good info d.safetensors
    says "3 x 12 x 12" "grid of positions    5" "bicubic_offset"
    assumes gradcheck d.safetensors --images 1 --directions 2
    good info "$F/dinov2_small.safetensors" --heads 2
    says "3 x 20 x 20"
    bad 1 "--image-size says images of 13 pixels" "a multiple of the patch, 4" -- info d.safetensors --image-size 13
}

@test "what has no backbone, no head or another MLP is refused in a sentence" {
    # named IN OUT OLD NEW: a tensor under another name
    named() { st_edit "$1" "$2" "with_entries(if .key == \"$3\" then .key = \"$4\" else . end)"; }
    assumes convert "$F/dinov2_lc.safetensors" d.safetensors --heads 2
    named d.safetensors head.safetensors head.weight linear_head.weight
    bad 1 "tensor head.weight is missing" "eval --oracle" -- info head.safetensors
    named "$F/dinov2_lc.safetensors" g1.safetensors backbone.blocks.0.mlp.fc1.weight backbone.blocks.0.mlp.w12.weight
    named g1.safetensors g.safetensors backbone.blocks.0.mlp.fc2.weight backbone.blocks.0.mlp.w3.weight
    bad 1 "SwiGLU" -- info g.safetensors --heads 2
    named "$F/hf_reg.safetensors" h1.safetensors dinov2_with_registers.encoder.layer.0.mlp.fc1.weight \
        dinov2_with_registers.encoder.layer.0.mlp.weights_in.weight
    named h1.safetensors h.safetensors dinov2_with_registers.encoder.layer.0.mlp.fc2.weight \
        dinov2_with_registers.encoder.layer.0.mlp.weights_out.weight
    bad 1 "SwiGLU" -- info h.safetensors --heads 2
    named "$F/hf.safetensors" b.safetensors classifier.weight classify.weight
    bad 1 "tensor classify.weight" "eval --oracle" -- info b.safetensors --heads 2
    named "$F/cvst_s.safetensors" t.safetensors \
        module.base_model.model.patch_embed.proj.stem.12.weight module.base_model.model.patch_embed.proj.stem.13.weight
    bad 1 "patch_embed.proj.stem.12.weight is missing" -- info t.safetensors --heads 2
}
