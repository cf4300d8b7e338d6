#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine verify --adv: the adversarial tensors of any tool.
load helpers

# points: a run of the tiny model, exported in every form
points() {
    quick --eps 2/255 --attack pgd:steps=5 --out r
    for f in npz npy safetensors; do good export r --format $f; done
    BROKEN=$(jq -s '[.[] | select(.status == "broken")] | length' r/ledger.jsonl)
    [ "$BROKEN" -gt 3 ] && [ "$BROKEN" -lt 20 ]
}
adv() { vt verify --weights "$W" --data "$D" --eps 2/255 --adv "$@"; }
refused() { # TEXT... -- ARGS: exit 2
    local texts=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    adv "$@"
    judge 2 "${texts[@]}"
}
# floats NAME BYTES N: N images of one value
floats() {
    repeat $((3072 * $3)) "$2" | st_make "$1" "{\"x_adv\":{\"dtype\":\"F32\",\"shape\":[$3,3,32,32],\"data_offsets\":[0,$((12288 * $3))]}}"
}

@test "npz, npy and safetensors: the counts of the run, per image as table, CSV and JSON" {
    points
    for f in r/export.npz r/export.safetensors r/export/x_adv.npy; do
        adv $f --csv t.csv --json t.json
        [ "$status" = 0 ] || fail "$f: $stderr"
        says "$BROKEN broken" "$((20 - BROKEN)) robust" "0 violations"
        [ "$(grep -c ,broken, t.csv)" = "$BROKEN" ]
        truth t.json ".points == 20 and .broken == $BROKEN and .violations == 0 and (.images | length) == 20"
        # distances and classes of the ledger
        jq -r 'select(.status == "broken") | [.image, .pred, .linf, .margin64] | @csv' r/ledger.jsonl >a
        jq -r '.images[] | select(.status == "broken") | [.image, .pred, .linf, .margin64] | @csv' t.json >b
        cmp a b
    done
    [[ $(grep -c " broken" <<<"$output") -gt 3 ]]
}

@test "image numbers: the file's own, --indices in any order, --images; the first N count" {
    points
    # three points in an order of their own: images 7, 2, 11
    for i in 7 2 11; do tail -c +$((i * 12288 + $(st_at r/export.safetensors x_adv) + 1)) r/export.safetensors | head -c 12288; done >data
    head='{"x_adv":{"dtype":"F32","shape":[3,3,32,32],"data_offsets":[0,36864]}'
    st_make three.safetensors "$head}" <data
    { cat data && le8 7 && le8 2 && le8 11 && le8 5; } | st_make own.safetensors "$head,\"adv_index\":{\"dtype\":\"I64\",\"shape\":[4],\"data_offsets\":[36864,36896]}}"
    adv own.safetensors --json own.json
    [ "$status" = 0 ]
    says "the first 3 of 4 numbers"
    truth own.json '[.images[].image] == [7,2,11] and .violations == 0'
    adv three.safetensors --indices 7,2,11 --json three.json
    [ "$status" = 0 ]
    truth three.json '[.images[].image] == [7,2,11] and .violations == 0'
    printf '7\n2\n11\n' >list
    adv three.safetensors --indices list
    [ "$status" = 0 ]
    adv three.safetensors --indices 0:3 # the wrong ones: far away
    judge 1 "3 of 3 points violate" "image 0"
    adv three.safetensors --images list # in ascending order, as everywhere: 2, 7, 11
    judge 1 "2 of 3 points violate" "image 2"
    refused "no tensor adv_index" "give --indices" -- three.safetensors
    refused "three.safetensors has 3 images, but --indices names 2" -- three.safetensors --indices 7,2
    refused "image 7 has two points" -- three.safetensors --indices 7,2,7
    refused "belongs to image 20" "images 0 to 19" -- three.safetensors --indices 7,2,20
    refused "not both" -- three.safetensors --indices 7,2,11 --images 0:3
    refused "--indices is 'nofile'" -- three.safetensors --indices nofile
    refused "A must be at least 0" -- three.safetensors --indices 5:2
}

@test "bytes are points too: the clean images as uint8 are robust" {
    for i in 0 1 2; do tail -c +$((i * 3073 + 2)) "$D/test_batch.bin" | head -c 3072; done |
        st_make u8.safetensors '{"pixels":{"dtype":"U8","shape":[3,3,32,32],"data_offsets":[0,9216]}}'
    adv u8.safetensors --indices 0:3 --json t.json
    [ "$status" = 0 ] || fail "$stderr"
    truth t.json '[.images[] | .linf == 0 and .status == "robust"] | all'
}

@test "points outside are violations: exit status 1, each with its image and reason" {
    floats far.safetensors "$HALF" 2
    adv far.safetensors --indices 3:5 --csv t.csv
    judge 1 "2 of 2 points violate the threat model" "image 3"
    [[ $(sed -n 2p t.csv) == 3,*,violation,* ]]
    says "beyond eps"
    { repeat 3071 "$HALF" && printf "$NAN"; } | st_make nan.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[0,12288]}}'
    adv nan.safetensors --indices 3
    judge 1 "1 of 1 points"
    says "1 values are not finite"
    { repeat 3071 "$HALF" && printf '\x00\x00\xa0\x3f'; } | st_make box.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[0,12288]}}'
    vt verify --weights "$W" --data "$D" --eps 1 --adv box.safetensors --indices 3
    judge 1 "1 of 1 points"
    says "1 values outside [0,1]"
}

@test "another range is refused with a word on which it looks like" {
    floats grey.safetensors '\x00\x00\x7f\x43' 1 # 255
    refused "grey.safetensors" "grey levels 0 to 255" "divide by 255" -- grey.safetensors --indices 0
    { repeat 1536 '\x00\x00\x80\xbf' && repeat 1536 "$ONE"; } | st_make pm.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[0,12288]}}'
    vt verify --weights "$W" --data "$D" --eps 2/255 --adv pm.safetensors --indices 0 --mean 0.6 --std 0.25
    judge 2 "from -1 to 1" "normalised by the model's mean and std" # -2.4 to 1.6
    refused "normalised by the model's mean and std" -- pm.safetensors --indices 0 # mean and std 0.5: the same thing
    { repeat 1536 '\x00\x00\x00\xc0' && repeat 1536 "$TWO"; } | st_make z.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[0,12288]}}'
    refused "normalised by some mean and std" -- z.safetensors --indices 0
}

@test "another shape is refused" {
    repeat 3072 "$HALF" | st_make flat.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3072],"data_offsets":[0,12288]}}'
    refused "x_adv is [1,3072], must be [N,C,H,W]" -- flat.safetensors --indices 0
    repeat 3072 "$HALF" | st_make last.safetensors '{"x_adv":{"dtype":"F32","shape":[1,32,32,3],"data_offsets":[0,12288]}}'
    refused "it looks like [N,H,W,C]" -- last.safetensors --indices 0
    repeat 768 "$HALF" | st_make small.safetensors '{"x_adv":{"dtype":"F32","shape":[1,3,16,16],"data_offsets":[0,3072]}}'
    refused "16 x 16 pixels, the model's input is 32 x 32" -- small.safetensors --indices 0
    st_make whole.safetensors '{"x_adv":{"dtype":"I32","shape":[1,3,32,32],"data_offsets":[0,12288]}}' < <(repeat 3072 "$ZERO")
    refused "I32" -- whole.safetensors --indices 0
    repeat 6144 "$HALF" | st_make two.safetensors '{"a":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[0,12288]},"b":{"dtype":"F32","shape":[1,3,32,32],"data_offsets":[12288,24576]}}'
    refused "several that could be images" "a, b" -- two.safetensors --indices 0
    refused "has no tensor c" -- two.safetensors --indices 0 --tensor c
    adv two.safetensors --indices 0 --tensor b
    [ "$status" = 1 ] # found, and far away
}

@test "wrong usage of verify" {
    floats far.safetensors "$HALF" 1
    bad 2 "needs RUNDIR, a proof, or --adv" -- verify
    bad 2 "not both" -- verify somewhere --adv far.safetensors
    bad 2 "needs --weights" -- verify --adv far.safetensors --data "$D" --eps 1/255
    bad 2 "--eps" -- verify --adv far.safetensors --data "$D" --weights "$W"
    bad 2 "--data" -- verify --adv far.safetensors --weights "$W" --eps 1/255
    refused "--allowance is '0.1'" -- far.safetensors --allowance 0.1
    bad 1 "none/t.json: cannot be written" -- verify --adv nowhere --data "$D" --weights "$W" --eps 1/255 --json none/t.json
    bad 1 "none/t.csv: cannot be written" -- verify --adv nowhere --data "$D" --weights "$W" --eps 1/255 --csv none/t.csv
    bad 1 "nowhere" -- verify --adv nowhere --data "$D" --weights "$W" --eps 1/255
    bad 1 "nowhere" -- verify nowhere
    bad 2 "no option '--epss'" -- verify --epss 3
    printf 'PK\x03\x04 nonsense' >broken.npz
    bad 1 "broken.npz" -- verify --adv broken.npz --data "$D" --weights "$W" --eps 1/255
}

@test "files of AutoAttack, torchattacks and others of torch.save's; folders of PNGs" {
    points
    /usr/bin/python3 "$ROOT/tests/fixtures/saved_adv.py" r/export.npz s
    local f
    for f in autoattack.pth torchattacks.pt plain.pt pair.pt restart.pt each.pt; do
        adv s/$f --json t.json
        [ "$status" = 0 ] || fail "$f: $stderr"
        truth t.json ".points == 20 and .broken == $BROKEN and .violations == 0"
    done
    adv s/whole.pt --json t.json # bytes: half a grey level further
    truth t.json '.points == 20'
    adv s/several.pt --tensor apgd-ce
    [ "$status" = 0 ]
    says "$BROKEN broken"
    refused "several that could be images: say which with --tensor" "apgd-ce, square" -- s/several.pt
    refused "has no tensor x_adv, nor one of four sides" "it has: labels" -- s/labels.pt
    refused "it has: 0, 1; torch.stack makes one tensor of a list" -- s/list.pt
    refused "must be [N,C,H,W]" -- s/six.pt --tensor ''
    adv s/numbers.pt --json t.json
    truth t.json '[.images[].image] == [7,2]'
    # pictures: those of the ball, which eps in grey levels allows
    vt verify --weights "$W" --data "$D" --eps 4/255 --adv s/from0 --json t.json
    says "images by the file's own numbers"
    truth t.json '.points == 20 and .violations == 0'
    for f in from1 named letters; do
        vt verify --weights "$W" --data "$D" --eps 4/255 --adv s/$f --json u.json
        cmp t.json u.json
    done
    vt verify --weights "$W" --data "$D" --eps 4/255 --adv s/some --json t.json
    says "the file's own numbers"
    truth t.json '[.images[].image] == [1,4,7,10,13,16,19] and .violations == 0'
    rm s/from1/20.png s/from0/0.png
    refused "has 19 images and no tensor adv_index" "--indices A:B" -- s/from1
    cp "$ROOT/tests/fixtures/png/rgb8.png" s/some/00002.png
    refused "s/some/00002.png: is 5 x" "the first picture is 32 x 32" -- s/some
    mkdir none
    refused "none: holds no .png file" -- none
}
