#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# info, new, list: what a checkpoint is and where each value was read; random weights; the registries.
load helpers

tiny() { good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 "$@"; }
# A checkpoint as other programs write it: no metadata.
bare() { st_edit "$W" bare.safetensors 'del(.__metadata__)'; }

@test "info reads shapes off the tensors and the rest off the metadata, and says so" {
    good info "$W"
    row image '3 x 32 x 32' tensors
    row patch '8 \(17 tokens\)' tensors
    row dim 16 tensors
    row depth 1 tensors
    row classes 10 tensors
    row 'qkv bias' yes tensors
    row 'distillation token' no tensors
    row pool 'class token' tensors
    row heads '2 of width 8' 'safetensors metadata'
    row 'LayerNorm eps' 1e-06 'safetensors metadata'
    row mean '0.5, 0.5, 0.5' 'safetensors metadata'
    row 'attention scale' 0.353553391 'safetensors metadata'
    n=$(st_header "$W" | jq '[del(.__metadata__)[] | .shape | reduce .[] as $s (1; . * $s)] | add')
    row parameters "$n in 20 tensors" 'all finite'
    says "$(sha256sum <"$W" | cut -d' ' -f1)"
}

@test "info: a network without attention has no rows of it" {
    good new shift_cifar_dim144_depth6 --set dim=8 hidden=8 depth=1 -o s.safetensors
    good info s.safetensors
    row architecture shift tensors
    never grep -E "attention|heads|activation|mlp|qkv|LayerNorm" <<<"$output"
    good info s.safetensors --json
    never grep -E "attn|attention|heads|act\"|mlp|qkv|ln_eps" <<<"$output"
}

@test "info --tensors lists every tensor with its shape" {
    good info "$W" --tensors
    while read -r name shape; do
        grep -qF "$name" <<<"$output" && grep -qE "^  ${name//./\\.} +\[$shape\]$" <<<"$output" || fail "$name [$shape] is not listed"
    done < <(st_header "$W" | jq -r 'del(.__metadata__) | to_entries[] | "\(.key) \(.value.shape | map(tostring) | join(","))"')
}

@test "options win over metadata, metadata over config.json, config.json over nothing" {
    good info "$W" --heads 4 --mean 0.1,0.2,0.3 --std 0.25 --ln-eps 1e-5 --attn-scale 0.5
    row heads '4 of width 4' --heads
    row mean '0.1, 0.2, 0.3' --mean
    row std '0.25, 0.25, 0.25' --std
    row 'LayerNorm eps' 1e-05 --ln-eps
    row 'attention scale' 0.5 --attn-scale
    good info "$W" --attn-scale dim
    row 'attention scale' 0.25 --attn-scale
    echo '{"num_heads": 8, "mean": [0, 0, 0]}' >config.json
    cp "$W" w.safetensors
    good info w.safetensors
    row heads '2 of width 8' 'safetensors metadata'
    bare
    echo '{"architecture": "vit", "num_classes": 10, "model_args": {"num_heads": 4},
           "pretrained_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5], "num_classes": 10}}' >config.json
    good info bare.safetensors
    row heads '4 of width 4' config.json
    row mean '0.1, 0.2, 0.3' config.json
    row 'attention scale' 0.5 'assumed: default: head width \^ -0.5'
}

@test "info shows what nobody told as such, and what would be asked" {
    bare
    good info bare.safetensors
    row heads '1 of width 16' 'not told: a guess'
    row mean '0.4914, 0.4822, 0.4465' 'not told: a guess'
    row activation gelu 'assumed: default'
    row post-norm no 'assumed: default'
    row 'LayerNorm eps' 1e-06 "assumed: default of timm's ViT"
    says "not told: heads (1 or another divisor of 16), mean (" "ask for --heads HEADS --mean MEAN --std STD"
    good info bare.safetensors --heads 2 --mean 0.5 --std 0.5 --form act=relu --form post_norm=1
    row heads '2 of width 8' --heads
    row activation relu --form
    row post-norm yes --form
    [[ $output != *"not told"* ]]
    good info "$W" # vitrine's metadata leave out what is at its default
    row activation gelu 'safetensors metadata'
    row post-norm no 'safetensors metadata'
    [[ $output != *assumed* ]]
}

@test "a preset tells what tensors cannot; one of another shape is refused" {
    good new vit_cifar_dim192_depth9 --set classes=3 depth=9 --seed 1 -o p.safetensors
    st_edit p.safetensors bare.safetensors 'del(.__metadata__)'
    good info bare.safetensors --mean 0.5 --std 0.5
    row heads '3 of width 64' 'not told: shape of preset vit_cifar_dim192_depth9'
    good info bare.safetensors --preset vit_cifar_dim192_depth9
    row heads '3 of width 64' 'preset vit_cifar_dim192_depth9'
    row mean '0.5, 0.5, 0.5' 'preset vit_cifar_dim192_depth9'
    row activation gelu 'preset vit_cifar_dim192_depth9'
    bad 1 "width 192 and depth 9" "preset vit_base_patch16_224 has 768 and 12" -- info bare.safetensors --preset vit_base_patch16_224
    bad 2 "unknown preset 'vit_tiny_patch16_22'" "did you mean 'vit_tiny_patch16_224'?" -- info bare.safetensors --preset vit_tiny_patch16_22
}

@test "config.json that contradicts the tensors, or is none, is refused" {
    bare
    echo '{"num_classes": 7, "num_heads": 2, "mean": [0.5,0.5,0.5], "std": [0.5,0.5,0.5]}' >config.json
    bad 1 config.json "num_classes is 7" "bare.safetensors say 10" -- info bare.safetensors
    echo '{"num_heads": 3, "mean": [0.5,0.5,0.5], "std": [0.5,0.5,0.5]}' >config.json
    bad 1 "width 16 is not a multiple of 3 heads" config.json -- info bare.safetensors
    echo '{"num_heads": 2.5}' >config.json
    bad 1 config.json "2.5 heads" "whole number" -- info bare.safetensors
    echo '{"num_heads": 2, "mean": [0.5,0.5,0.5], "std": [0.5,0,0.5]}' >config.json
    bad 1 "std is 0" "above 1e-6" -- info bare.safetensors
    echo '{"num_heads": 2,' >config.json
    bad 1 config.json "line " -- info bare.safetensors
    echo '[1]' >config.json
    bad 1 config.json "not a JSON object" -- info bare.safetensors
}

@test "model options that make no sense are refused, with value and limit" {
    bad 1 "width 16 is not a multiple of 3 heads (--heads)" -- info "$W" --heads 3
    bad 2 "--heads is 0" "between 1 and 16384" -- info "$W" --heads 0
    bad 2 "--heads is 'two'" "whole number between 1 and" -- info "$W" --heads two
    bad 2 "--mean is '0.5,0.5'" "three numbers" -- info "$W" --mean 0.5,0.5
    bad 2 "--std is 'nan'" -- info "$W" --std nan
    bad 1 "std is 0" -- info "$W" --std 0
    bad 2 "--ln-eps is '-1'" "above 0" -- info "$W" --ln-eps -1
    bad 2 "'both'" "head, dim or a number" -- info "$W" --attn-scale both
    bad 2 "unknown attention variant 'softmix'" -- info "$W" --attn softmix
}

@test "new: the same seed gives the same bytes, another seed others" {
    tiny --seed 5 -o a.safetensors
    tiny -o b.safetensors --seed 5
    tiny --seed 6 -o c.safetensors
    cmp a.safetensors b.safetensors
    ! cmp -s a.safetensors c.safetensors || fail "seeds 5 and 6 give the same weights"
}

@test "new: every shape option is what info then reads" {
    good new --set dim=24,depth=2,patch=4,image=16,classes=5,heads=3,hidden=40,qkv_bias=0,pool=avg,ln_eps=1e-5 -o a.safetensors
    good info a.safetensors
    row image '3 x 16 x 16' tensors
    row patch '4 \(17 tokens\)' tensors
    row depth 2 tensors
    row heads '3 of width 8' 'safetensors metadata'
    row 'mlp hidden' 40 tensors
    row classes 5 tensors
    row 'qkv bias' no tensors
    row pool 'mean of the patch tokens' tensors
    row 'LayerNorm eps' 1e-05 'safetensors metadata'
    good new --set dim=16 depth=1 image=16 patch=8 distilled=1 --heads 4 --mean 0 --std 1 --attn-scale dim -o d.safetensors
    good info d.safetensors
    row 'distillation token' 'yes \(logits = mean of both heads\)' tensors
    row heads '4 of width 4' 'safetensors metadata'
    row mean '0, 0, 0' 'safetensors metadata'
    row 'attention scale' 0.25 'safetensors metadata'
}

@test "new PRESET writes that preset" {
    good new vit_tiny_patch16_224 --seed 0 -o w.safetensors
    good info w.safetensors
    row image '3 x 224 x 224' tensors
    row heads '3 of width 64' 'safetensors metadata'
    row parameters '5717416 in 152 tensors' 'all finite'
}

@test "new: --preset is the operand PRESET; what is said twice must agree; no option is passed over" {
    small="--set dim=16 depth=1 heads=2 hidden=16 --seed 3"
    good new xcit_small_12_cifar $small -o a.safetensors
    good new --preset xcit_small_12_cifar $small -o b.safetensors
    good new xcit_small_12_cifar --preset xcit_small_12_cifar $small -o c.safetensors
    cmp a.safetensors b.safetensors
    cmp a.safetensors c.safetensors
    bad 2 "PRESET is 'deit-tiny'" "--preset is 'deit-small'" -- new deit-tiny --preset deit-small -o n.safetensors
    bad 2 "unknown preset 'deit_tini'" -- new --preset deit_tini -o n.safetensors
    bad 2 "--heads is 4, but --set says heads=2" -- new --set heads=2 --heads 4 -o n.safetensors
    bad 2 "--image-size is 64, but --set says image=32" -- new --set image=32 --image-size 64 -o n.safetensors
    bad 2 "--ln-eps is 1e-05, but --set says ln_eps=0.001" -- new --set ln_eps=1e-3 --ln-eps 1e-5 -o n.safetensors
    bad 2 "different pools" -- new --set pool=avg --form pool=all -o n.safetensors
    bad 2 "--names" -- new --names timm -o n.safetensors
    bad 2 "window is a form of swin alone, and this is a vit" -- new --form window=4 -o n.safetensors
    bad 2 "eta is a form of xcit alone, and this is a convit" -- new convit_tiny_cifar --form eta=1e-5 -o n.safetensors
    bad 2 "local_blocks is a form of convit alone" -- info "$W" --form local_blocks=2
    [ ! -e n.safetensors ]
    tiny --set heads=2 --heads 2 --form pool=avg --set pool=avg --mean 0.1 --std 0.2 --ln-eps 1e-3 --attn l2 --attn-scale 0.3 -o n.safetensors
    good info n.safetensors
    row attention 'l2:.*' 'safetensors metadata'
    row mean '0.1, 0.1, 0.1' 'safetensors metadata'
    row 'LayerNorm eps' 0.001 'safetensors metadata'
    row 'attention scale' 0.3 'safetensors metadata'
}

@test "new: shapes that cannot be are refused and write nothing" {
    echo kept >w.safetensors
    bad 2 "unknown preset 'vit_tiny_patch16_244'" "did you mean 'vit_tiny_patch16_224'?" -- new vit_tiny_patch16_244 -o w.safetensors
    bad 2 "no option 'dims'" "did you mean 'dim'?" -- new --set dims=3 -o w.safetensors
    bad 2 "dim is 0" "between 1 and 16384" -- new --set dim=0 -o w.safetensors
    bad 2 "patch" "no value" -- new --set patch= -o w.safetensors
    bad 2 "'avg|token'" "token|avg" -- new --set 'pool=avg|token' -o w.safetensors
    bad 1 "image size 30 is not a multiple of patch size 4" -- new --set image=30 patch=4 -o w.safetensors
    bad 1 "width 16 is not a multiple of 3 heads" -- new --set dim=16 heads=3 -o w.safetensors
    bad 1 "distillation token and mean pooling" -- new --set distilled=1 pool=avg -o w.safetensors
    bad 2 "--seed is -1" -- new --seed -1 -o w.safetensors
    [ "$(cat w.safetensors)" = kept ]
    bad 1 "w.safetensors/x" -- new --set dim=16 depth=1 -o w.safetensors/x
}

@test "half-precision weights are read (BF16, F16, F64), and evaluated" {
    # BF16 is the upper half of a float32; the header is F32's with half of every offset.
    header=$(st_header "$W" | jq -c 'map_values(if .dtype then .dtype = "BF16" | .data_offsets |= map(. / 2) else . end)')
    printf "$(st_data "$W" | od -An -v -tx1 -w4 | awk '{printf "\\x%s\\x%s", $3, $4}')" | st_make bf16.safetensors "$header"
    good info bf16.safetensors
    good eval bf16.safetensors --data "$D" --out r
    truth r/results.json '.clean.correct > 10' # rounding moves few of twenty labels
    # F64: each float32 as eight bytes, by dtype and offsets; zero is zero in both.
    header=$(st_header "$W" | jq -c 'map_values(if .dtype then .dtype = "F64" | .data_offsets |= map(. * 2) else . end)')
    head -c $((2 * $(st_data "$W" | wc -c))) /dev/zero | st_make f64.safetensors "$header"
    good info f64.safetensors
    header=$(st_header "$W" | jq -c 'map_values(if .dtype then .dtype = "F16" | .data_offsets |= map(. / 2) else . end)')
    head -c $(($(st_data "$W" | wc -c) / 2)) /dev/zero | st_make f16.safetensors "$header"
    good info f16.safetensors
}

@test "draw: the same seed gives the same bytes; sizes are as asked; eval reads it" {
    "$DRAW" --out a --train 3 --test 4 --seed 7 >/dev/null
    "$DRAW" --out b --train 3 --test 4 --seed 7 >/dev/null
    "$DRAW" --out c --train 3 --test 4 >/dev/null
    cmp a/test_batch.bin b/test_batch.bin
    cmp a/data_batch_1.bin b/data_batch_1.bin
    ! cmp -s a/test_batch.bin c/test_batch.bin || fail "seeds 7 and 0 give the same images"
    [ "$(stat -c %s a/data_batch_1.bin) $(stat -c %s a/test_batch.bin)" = "9219 12292" ]
    [ "$(wc -l <a/batches.meta.txt)" = 10 ]
    good eval "$W" --data a --split train
    says "/ 3"
}

@test "draw: overwrites nothing, and refuses sizes that cannot be" {
    mkdir d && echo kept >d/test_batch.bin && echo a file >file
    refused() { # CODE TEXT ARGS: the tool must refuse them
        run --separate-stderr "$DRAW" "${@:3}"
        [ "$status" = "$1" ] && [[ $stderr == *"$2"* ]] || fail "status $status of: draw ${*:3}" "stderr: $stderr"
    }
    refused 1 "d/test_batch.bin exists already and is not overwritten" --out d --train 1 --test 1
    [ "$(ls -A d)" = test_batch.bin ]
    [ "$(cat d/test_batch.bin)" = kept ]
    refused 1 file/x --out file/x
    refused 2 "--train is 0, must be between 1 and" --out e --train 0
    refused 2 "--test is -1" --out e --test -1
    refused 2 "--seed is 'x'" --out e --seed x
    refused 2 "Usage: draw --out DIR" --train 3
    [ ! -e e ]
}

@test "list attacks names every attack with paper, norms and the defaults of its options" {
    good list attacks
    for a in fgsm pgd cw20 apgd-ce apgd-dlr apgd-t fab fab-t square autoattack; do
        grep -qE "^$a +" <<<"$output" || fail "$a is not listed"
    done
    says "Madry et al. 2018" "linf, l2" "(default eps/4)" "(default 5000)" "black-box" "=    apgd-ce" "then square" "not Carlini and Wagner's optimiser"
}

@test "list models and list formats come from the registries; anything else is refused" {
    good list models
    says vit_tiny_patch16_224 deit_small_distilled_patch16_224 dot
    good list formats
    says timm cifar idx folder results.json table.md table.csv table.tex
    bad 2 "'weights'" "attacks, certificates, models, formats" -- list weights
    bad 2 "vitrine list needs" -- list
}

@test "forms: new makes them, info names them and where each was read, other commands take them, a contradiction is refused" {
    good new --set image=8 patch=4 dim=12 depth=2 heads=3 hidden=10 classes=4 --form norm=batch --form final_norm=batch \
        --form pool=all --form act=relu -o f.safetensors
    good info f.safetensors
    row "pool" "mean of all tokens" "safetensors metadata"
    row "norm" "batch" "tensors"
    row "activation" "relu" "safetensors metadata"
    good gradcheck f.safetensors --images 1 --directions 2
    good info f.safetensors --form act=gelu_tanh
    row "activation" "gelu_tanh" "--form"
    bad 2 "--form norm=layer contradicts the tensors, which say batch" -- info f.safetensors --form norm=layer
    bad 2 "'atc' is no form" "did you mean 'act'" -- info f.safetensors --form atc=relu
    bad 1 "without a class token" "pool must be avg or all" -- new --form no_cls=1 -o g.safetensors
    good list models
    [[ $output == *"--form KEY=VALUE"*"post_norm"* ]]
}
