#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Damaged and unfit images: refused before a run begins where that is cheap, always with file and record.
load helpers

# unfit CODE TEXT... : eval of data set d is refused and leaves nothing behind.
unfit() {
    bad 1 "$@" -- eval "$W" --data d --eps 8/255 --attack fgsm --out r || return 1
    [ ! -e r ] || fail "the refused run left something behind"
}
# folder of PNGs with ten classes, from the fixtures or from a saved run
ten() {
    mkdir -p d
    for c in 0 1 2 3 4 5 6 7 8 9; do mkdir -p d/$c; done
}
png() { # N real 32 x 32 pictures in d/0
    ten
    "$VITRINE" eval "$W" --data "$D" --images 0:"$1" --eps 0.0001 --attack fgsm --exhaustive --save-adv --out saved >/dev/null
    mv saved/adv/fgsm/*.png d/0/
}

@test "a CIFAR file of a wrong size: the record is named" {
    cp -r "$D" d
    truncate -s -1 d/test_batch.bin
    unfit d/test_batch.bin "record 19 is incomplete: 3072 of its 3073 bytes"
    truncate -s $((5 * 3073 + 7)) d/test_batch.bin
    unfit d/test_batch.bin "record 5 is incomplete: 7 of its 3073 bytes"
    : >d/test_batch.bin
    unfit d/test_batch.bin "is empty"
}

@test "a single .bin file of no CIFAR size" {
    head -c 10000 "$D/test_batch.bin" >d.bin
    bad 1 d.bin "10000 bytes" "record 3" 3073 3074 -- eval "$W" --data d.bin --out r
    head -c 6146 "$D/test_batch.bin" >d.bin
    good eval "$W" --data d.bin
    says "2 / 2"
}

@test "a label out of range: record, label and limit are named" {
    cp -r "$D" d
    poke d/test_batch.bin $((13 * 3073)) '\x0a'
    unfit d/test_batch.bin "record 13 has label 10" "the limit is 9"
    poke d/test_batch.bin $((4 * 3073)) '\xff'
    unfit d/test_batch.bin "record 4 has label 255"
    mkdir c && { printf '\x05\x64' && head -c 3072 /dev/zero; } >c/test.bin
    bad 1 c/test.bin "record 0 has label 100" "the limit is 99" -- eval "$W" --data c --out r
    { printf '\x14\x05' && head -c 3072 /dev/zero; } >c/test.bin
    bad 1 c/test.bin "record 0 has coarse label 20" "the limit is 19" -- eval "$W" --data c --out r
}

@test "a class count that is not the model's, and an image size that is not" {
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=7 -o seven.safetensors
    bad 1 "$D has 10 classes" "seven.safetensors has 7" -- eval seven.safetensors --data "$D" --out r
    good new --set dim=16 depth=1 heads=2 patch=8 image=64 classes=10 -o large.safetensors
    bad 1 "$D" "image 0 is 32 x 32 pixels" "64 x 64" -- eval large.safetensors --data "$D" --out r
    mkdir -p d/a d/b && cp "$ROOT/tests/fixtures/png/rgb8.png" d/a && cp "$ROOT/tests/fixtures/png/rgb8.png" d/b
    unfit "d has 2 classes" "has 10"
    [ ! -e r ]
}

@test "pictures of every PNG kind are decoded: only their size is refused" {
    read -r w h < <(od -An -v -tu1 -j16 -N8 "$ROOT/tests/fixtures/png/rgb8.png" | awk '{print $4, $8}')
    for kind in rgb8 rgb16 rgba8 rgba16 la8 grey1 grey8 grey16 palette2_trns palette8; do
        rm -rf d && ten
        cp "$ROOT/tests/fixtures/png/$kind.png" d/4/
        unfit "image 0 (4/$kind.png) is $w x $h pixels" "32 x 32"
    done
}

@test "a truncated PNG, an empty one, one that is none: the file is named" {
    png 1
    whole=d/0/00000.png
    size=$(stat -c %s $whole)
    cp $whole kept
    for n in 8 20 33 $((size / 2)) $((size - 1)); do
        head -c "$n" kept >$whole
        unfit $whole "truncated PNG, it ends at byte $n"
    done
    : >$whole
    unfit $whole "is empty"
    head -c 2000 "$W" >$whole
    unfit $whole "not a PNG or JPEG file"
    cp kept $whole
    poke $whole $((size / 2)) '\x00\xff\x00\xff'
    unfit $whole "damaged PNG"
}

@test "a PNG that claims to be huge is refused by its claim, in no time and memory" {
    png 1
    poke d/0/00000.png 16 '\x00\x01\x00\x00\x00\x01\x00\x00'
    unfit d/0/00000.png "65536 x 65536" "sides must be from 1 to"
    poke d/0/00000.png 16 '\x7f\xff\xff\xff\x7f\xff\xff\xff'
    unfit d/0/00000.png "2147483647 x 2147483647"
    poke d/0/00000.png 16 '\x00\x00\x00\x00\x00\x00\x00\x20'
    unfit d/0/00000.png "0 x 32"
    poke d/0/00000.png 16 '\x00\x00\x3f\xff\x00\x00\x3f\xff'
    if (ulimit -v 500000 && "$VITRINE" --version >/dev/null 2>&1); then # not so under the address sanitizer
        (ulimit -v 500000 && unfit d/0/00000.png)
    fi
}

@test "a bad PNG later in the set ends the run with its name; what was done is kept and can go on" {
    png 6
    cp d/0/00004.png kept
    head -c 100 kept >d/0/00004.png
    vt eval "$W" --data d --out r --threads 1
    judge 1 d/0/00004.png "truncated PNG, it ends at byte 100"
    [ "$(tail -n +2 r/ledger.jsonl | jq -s 'length')" = 4 ]
    [ ! -e r/results.json ]
    vt eval "$W" --data d --images 0:4 --out r --resume
    judge 0 "d: 9 class folders hold no pictures (1), and each is a class all the same"
    truth r/results.json '.clean.total == 4'
}

@test "folders that hold no data set" {
    unfit d "No such file"
    mkdir d
    unfit d "not a data set of a known format" cifar folder
    mkdir d/cat d/dog
    unfit d "2 class folders hold no .png, .jpg or .jpeg file"
    printf 'x' >d/cat/a.jpg
    unfit d/cat/a.jpg "not a PNG or JPEG file"
    printf 'RIFF____WEBPVP8 ' >d/cat/a.jpg
    unfit d/cat/a.jpg "not a PNG or JPEG file, but WebP: convert it (mogrify -format png FILES)"
    rm -rf d && mkdir d && cp "$ROOT/tests/fixtures/png/rgb8.png" d/
    unfit d "holds no class folder"
    bad 1 rgb8.png "a single picture has no label" -- eval "$W" --data d/rgb8.png --out r
    rm -rf d && mkdir d && cp "$D/data_batch_1.bin" d/
    unfit d/test_batch.bin "cannot be opened"
    cp "$D/test_batch.bin" d/test.bin
    unfit d CIFAR-10 CIFAR-100
}
