#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The full-size manifests of SpecFormer's tables with the files that they ask for: bare state dicts of the real names and
# shapes (tests/fixtures/gen_backbones.py) start every row; a wrong file is refused; one cell of one data set.
load helpers

setup_file() {
    load helpers
    export PLACE=$BATS_FILE_TMPDIR/place
    mkdir -p "$PLACE/recipes"
    cp -r "$ROOT/recipes/tables" "$ROOT/recipes/published" "$PLACE/recipes/"
    cd "$PLACE"
    /usr/bin/python3 "$ROOT/tests/fixtures/gen_backbones.py" pretrained
    "$DRAW" --out images --train 4 --test 4 --seed 3 >/dev/null
    # the files hold other values: their hashes are not the pinned ones; four images in place of 50,000
    mkdir small && cp -r recipes small/
    sed -i 's/, init.sha256=[0-9a-f]*//' small/recipes/tables/*.yaml
    sed -i 's/^epochs: .*/epochs: 1/; s/^batch: .*/batch: 2\nmicro_batch: 2/' small/recipes/tables/train/*.yaml
}

place() { cd "$PLACE"; }
# cell TABLE OUT OPTION...: one cell's training and its clean accuracy, from bare files
cell() {
    local t=$1 out=$2
    shift 2
    good table "small/recipes/tables/specformer_table$t.yaml" --out "$out" --data CIFAR-10=images --only-data CIFAR-10 --only-column clean "$@"
    says "Incomplete: 1 of"
    rm -r "$out"
}

@test "every row of Tables 2 to 6 and 8 reads its bare state dict" {
    place
    for t in 2 3 4 5 6 8; do
        good table small/recipes/tables/specformer_table$t.yaml --dry-run
        [[ $output != *pretrained* ]] || fail "table $t misses a file: $output"
    done
}

@test "bare state dicts start training and are evaluated: DeiT-Ti, ConViT-Ti, ViT-S of timm 0.4, Swin-Ti, LNFormer" {
    place
    cell 2 o2 --only "DeiT-Ti TransFormer"
    cell 2 o2 --only "DeiT-Ti LNFormer"
    cell 2 o2 --only "ConViT-Ti SpecFormer"
    cell 2 o2 --only "ViT-S SpecFormer"
    cell 2 o2 --only "Swin-Ti TransFormer"
    cell 3 o2 --only "ConViT-S TransFormer"
    cell 3 o2 --only "DeiT-S SpecFormer"
}

@test "ImageNet-21k's file: the layer in front of its head goes with the head" {
    place
    vt train small/recipes/tables/train/imagenet_standard.yaml --set model.preset=vit_base_patch16_224 --set init.head=fresh --data images \
        --init pretrained/jx_vit_base_patch16_224_in21k-e5005f0a.pth --preset vit_base_patch16_224 --names recipes/tables/train/vit_in21k.map --dry-run
    [ "$status" = 0 ] && says "dim 768, depth 12, heads 12, mlp 3072, 10 classes" || fail "$stderr"
    bad 1 "representation layer" -- info pretrained/jx_vit_base_patch16_224_in21k-e5005f0a.pth --preset vit_base_patch16_224
}

@test "another file under that name is refused before anything runs: by hash, by shape" {
    place
    bad 2 "specformer_table2.yaml: to train ViT-S TransFormer, CIFAR-10" "has sha256" "starts from 15ec54c9" -- \
        table recipes/tables/specformer_table2.yaml --dry-run --only "ViT-S TransFormer"
    mkdir -p other && cp -r small/recipes other/ && ln -sfn "$PLACE/pretrained/today" other/pretrained
    cd other
    bad 2 "width 384 and depth 12, but preset vit_small_patch16_224_old has 768 and 8" -- \
        table recipes/tables/specformer_table8.yaml --out o --data CIFAR-10=../images --only "standard lambda=0"
    [ ! -e o ] || fail "something was written"
    sed -i 's/init_options: .*/init_options: [heads=6, mean=0.5, std=0.5]/' recipes/tables/specformer_table2.yaml
    bad 2 "is a vit of width 384, depth 12 and MLP 1536, but model.preset vit_small_patch16_224_old is a vit of width 768" -- \
        table recipes/tables/specformer_table2.yaml --dry-run --only "ViT-S TransFormer"
    sed 's/init.head=fresh/init.head=fresh, init.sha256=15EC54C9/' recipes/tables/specformer_table2.yaml >recipes/tables/digits.yaml
    bad 2 "init.sha256 is '15EC54C9', must be the first 8 to 64 hexadecimal digits in lower case" -- table recipes/tables/digits.yaml --dry-run
    sed -i 's/init_options: .*/init_options: [mean=0.5]/' recipes/tables/specformer_table2.yaml
    bad 2 "to train ViT-S TransFormer, CIFAR-10" "heads (" -- table recipes/tables/specformer_table2.yaml --dry-run --only "ViT-S TransFormer"
}

@test "one cell of a table with one data set: what is missing, its source, and hours" {
    place
    mkdir -p bare && cp -r recipes bare/ && cd bare
    good table recipes/tables/specformer_table2.yaml --only "DeiT-Ti TransFormer" --only-data CIFAR-10 --data CIFAR-10=../images --dry-run
    says "not here: initial checkpoint of DeiT-Ti TransFormer: pretrained/deit_tiny_patch16_224-a1311bcf.pth does not exist (from https://" "hours"
    [ "$(grep -c 'not here' <<<"$output")" = 1 ] || fail "$output"
    bad 2 "deit_tiny_patch16_224-a1311bcf.pth does not exist (from https://dl.fbaipublicfiles.com/deit/" -- \
        table recipes/tables/specformer_table2.yaml --only "DeiT-Ti TransFormer" --only-data CIFAR-10 --data CIFAR-10=../images --out o
    [ ! -e o ] || fail "something was written"
    bad 2 "convit_tiny.pth does not exist" "data CIFAR-100: cifar-100-binary does not exist" -- \
        table recipes/tables/specformer_table2.yaml --data CIFAR-10=../images --out o
    bad 2 "--only-data: unknown data set 'CIFAR10'" "did you mean 'CIFAR-10'" -- table recipes/tables/specformer_table2.yaml --only-data CIFAR10 --dry-run
    bad 2 "--only-column: unknown attack 'PGD-3'" -- table recipes/tables/specformer_table2.yaml --only-column PGD-3 --dry-run
    good table recipes/tables/specformer_table2.yaml --dry-run
    [ "$(wc -l <<<"$output")" -le 60 ] || fail "the dry run says $(wc -l <<<"$output") lines"
}

@test "train: --set model.preset must be the checkpoint's; a recipe's preset is for a model from scratch, and a line says so" {
    place
    cat >r.yaml <<END
epochs: 1
batch: 2
micro_batch: 2
objective: ce
optimiser: sgd
lr: 0.1
model: {preset: vit_small_patch16_224_old, patch: 4}
init: {head: fresh}
END
    bad 2 "is a vit of width 192" "model.preset vit_small_patch16_224_old" -- train r.yaml --init pretrained/deit_tiny_patch16_224-a1311bcf.pth \
        --preset deit_tiny_patch16_224 --set model.preset=vit_small_patch16_224_old --data images --dry-run
    vt train r.yaml --init pretrained/deit_tiny_patch16_224-a1311bcf.pth --preset deit_tiny_patch16_224 --data images --dry-run
    [ "$status" = 0 ] && [[ $stderr == *"the checkpoint's shape is taken"* ]] || fail "$status $stderr"
}
