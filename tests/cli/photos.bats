#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval on folders of photographs: preprocessing, ImageNet's class numbers, what the reports say of them.
load helpers

FIX=$ROOT/tests/fixtures/images

# Two of ImageNet's classes, four pictures, two of them of ImageNet's validation set; a tiny model with 1000 classes.
setup_file() {
    load helpers
    export PHOTOS=$BATS_FILE_TMPDIR/photos BIG=$BATS_FILE_TMPDIR/big.safetensors
    mkdir -p "$PHOTOS"/val/{n01440764,n03028079}
    cp "$FIX/420.jpg" "$PHOTOS/val/n01440764/ILSVRC2012_val_00000001.JPEG"
    cp "$FIX/grey.jpg" "$PHOTOS/val/n03028079/ILSVRC2012_val_00000002.JPEG"
    cp "$FIX/progressive.jpg" "$PHOTOS/val/n03028079/n03028079_1.JPEG"
    cp "$ROOT/tests/fixtures/png/rgb8.png" "$PHOTOS/val/n03028079/n03028079_2.png"
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=1000 --seed 0 -o "$BIG" >/dev/null
}

@test "labels are ImageNet's class indices, and all outputs are compared" {
    good eval "$BIG" --data "$PHOTOS" --preprocess short:36,bicubic,crop:32 --out r
    says "preprocessing short:36,bicubic,crop:32" "2 classes on a head of 1000 ImageNet classes: all outputs are compared" \
        "2 of 4 images are of ImageNet's validation set"
    [ "$(tail -n +2 r/ledger.jsonl | jq -c .label | tr '\n' ' ')" = "0 497 497 497 " ]
    truth r/results.json '.data.head == {outputs: 1000, present: [0, 497], restricted: false} and .data.preprocess == "short:36,bicubic,crop:32"'
    truth r/results.json '.data.jpeg == "libjpeg-turbo"'
    grep -q "2 of 4 images" r/table.md && grep -q "% 2 of 4 images" r/table.tex
}

@test "--restrict-classes compares the outputs of the classes present, for attacks as well" {
    good eval "$BIG" --data "$PHOTOS" --preprocess squash:32 --restrict-classes --eps 64/255 --attack pgd:steps=5 --out r
    says "(restricted)"
    [ "$(tail -n +2 r/ledger.jsonl | jq -s -c 'map(select(.entry == 0).label)')" = "[0,1,1,1]" ]
    [ "$(tail -n +2 r/ledger.jsonl | jq -s 'map(.pred) | max <= 1 and min >= 0')" = true ]
    truth r/results.json '.clean.correct > 0 and .attacks[0].broken > 0'
    # without it the same pixels are judged by 1000 outputs
    good eval "$BIG" --data "$PHOTOS" --preprocess squash:32 --out s
    [ "$(tail -n +2 s/ledger.jsonl | jq -s 'map(.pred) | max > 1')" = true ]
}

@test "--images imagenette-v1 takes the pictures of ImageNet's validation set" {
    good eval "$BIG" --data "$PHOTOS" --preprocess squash:32 --images imagenette-v1 --out r
    truth r/results.json '.images == "0:2" and .clean.total == 2'
    bad 2 imagenette-v1 ILSVRC2012_val_ -- eval "$W" --data "$D" --images imagenette-v1
}

@test "what cannot be right is refused with a sentence" {
    bad 1 "ILSVRC2012_val_00000001.JPEG" "37 x 29 pixels, the model wants 32 x 32" "--preprocess short:36" -- eval "$BIG" --data "$PHOTOS"
    bad 1 "makes it 39 x 31" -- eval "$BIG" --data "$PHOTOS" --preprocess short:31
    bad 1 "2 classes, but the model" "has 10" -- eval "$W" --data "$PHOTOS" --preprocess squash:32
    bad 2 "preprocessing: 'shrt' is not one of" "for example short:248" -- eval "$BIG" --data "$PHOTOS" --preprocess shrt:3
    cp -r "$PHOTOS" damaged
    cp "$FIX/cut.bad" damaged/val/n03028079/x.JPEG
    bad 1 damaged/val/n03028079/x.JPEG "truncated JPEG" -- eval "$BIG" --data damaged --preprocess squash:32
}

@test "list formats names the JPEG decoder" {
    good list formats
    says "JPEG is decoded by "
}
