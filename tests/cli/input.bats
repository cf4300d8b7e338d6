#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Whose pixels are attacked: models that resize their input themselves, and images resized for them.
load helpers

# A model of 48 x 48 pixels; the images are of 32 x 32.
setup_file() {
    load helpers
    export LARGE=$BATS_FILE_TMPDIR/large.safetensors SHAPES=$ROOT/datasets/shapes10
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=48 classes=10 --seed 0 -o "$LARGE" >/dev/null
}

large() { good eval "$LARGE" --data "$SHAPES" --images 0:30 --eps 4/255 --attack pgd:steps=3 "$@"; }

@test "--attack-at native: perturbations live at the images' size, and every report says so" {
    local note="perturbations live at 32 x 32; the model resizes that to 48 x 48 itself (bilinear)"
    large --attack-at native --out r --save-adv --save-npz
    says "$note"
    grep -qF "* $note" r/table.md
    grep -qF "% $note" r/table.tex
    [ "$(tail -n +2 r/table.csv | grep -cv ',32x32$')" = 0 ]
    truth r/results.json '.model.image.value == 48 and .model.native.value == 32 and .model.native_filter.value == "bilinear" and .attacks[0].broken > 0'
    truth r/results.json '.model.notes[0] | contains("32 x 32")'
    [ "$(st_header r/adv.safetensors | jq -c '.["pgd.x_adv"].shape[1:]')" = "[3,32,32]" ]
    [ "$(stat -c %s r/adv.bin)" = $(($(jq .attacks[0].broken r/results.json) * 3072 * 4)) ]
    # the same from another number of threads, and nothing is left to do
    large --attack-at native --out s --save-adv --save-npz --threads 1
    same_run r s
    large --attack-at native --out r --resume
    # another filter is another model
    bad 2 "made with another model" -- eval "$LARGE" --data "$SHAPES" --images 0:30 --eps 4/255 --attack pgd:steps=3 \
        --attack-at native --form native_filter=bicubic --out r --resume
    bad 2 "made with another model" -- eval "$LARGE" --data "$SHAPES" --images 0:30 --eps 4/255 --attack pgd:steps=3 \
        --attack-at model --out r --resume
}

@test "--attack-at model: images are resized as bytes first, and perturbations live at the model's size" {
    large --attack-at model --out r --save-adv
    says "preprocessing squash:48,bilinear (--attack-at model); perturbations live at 48 x 48, after it"
    truth r/results.json '.model.native == null and .data.preprocess == "squash:48,bilinear"'
    [ "$(st_header r/adv.safetensors | jq -c '.["pgd.x_adv"].shape[1:]')" = "[3,48,48]" ]
    grep -q ',48x48$' r/table.csv
    large --preprocess short:50,bicubic,crop:48
    says "preprocessing short:50,bicubic,crop:48 (--preprocess); perturbations live at 48 x 48, after it"
}

@test "sizes that do not fit are refused with what would help" {
    bad 1 "32 x 32 pixels, the model wants 48 x 48" "--attack-at native" -- eval "$LARGE" --data "$SHAPES"
    bad 2 "--attack-at is 'inside', must be native or model" -- eval "$LARGE" --data "$SHAPES" --attack-at inside
    bad 2 "nothing says the side" "--form native=32" -- gradcheck "$LARGE" --attack-at native
    bad 2 "native is 5000, must be between 0 and 4096" -- gradcheck "$LARGE" --form native=5000
}

@test "images of the model's own size: native changes nothing" {
    quick --images 0:6 --eps 8/255 --attack fgsm --out a
    quick --images 0:6 --eps 8/255 --attack fgsm --attack-at native --out b
    same_run a b
}

@test "probe and gradcheck at the native size" {
    good gradcheck "$LARGE" --form native=20 --images 1
    says "exact"
    good gradcheck "$LARGE" --form native=64 --form native_filter=bicubic_aa --form bgr=1 --attack-at native --images 1
    # two images of 4 x 4 pixels, made by hand
    { repeat 48 "$HALF" && repeat 48 "$ONE" && repeat 16 "$ZERO"; } >data
    head -c $((96 * 4 + 16)) data | st_make x.safetensors \
        '{"x":{"dtype":"F32","shape":[2,3,4,4],"data_offsets":[0,384]},"labels":{"dtype":"I64","shape":[2],"data_offsets":[384,400]}}'
    bad 1 "tensor x has shape [2,3,4,4], the model wants [N,3,48,48]" -- probe "$LARGE" --input x.safetensors --out y.safetensors
    good probe "$LARGE" --input x.safetensors --out y.safetensors --attack-at native --precision f64
    [ "$(st_header y.safetensors | jq -c .dx_ce.shape)" = "[2,3,4,4]" ]
    # every filter leaves a flat picture flat: the logits are those of a flat picture of the model's size
    { repeat 6912 "$HALF" && repeat 6912 "$ONE" && repeat 4 "$ZERO"; } | st_make big.safetensors \
        '{"x":{"dtype":"F32","shape":[2,3,48,48],"data_offsets":[0,55296]},"labels":{"dtype":"I64","shape":[2],"data_offsets":[55296,55312]}}'
    good probe "$LARGE" --input big.safetensors --out z.safetensors --precision f64
    paste <(st_floats y.safetensors logits d8) <(st_floats z.safetensors logits d8) |
        awk '{ d = $1 - $2; if (!(d * d <= 1e-24)) exit 1 }'
}

@test "training with it: the checkpoint knows, and evaluates without an option" {
    vt train "$ROOT/recipes/shapes10_specformer.yaml" --data "$SHAPES" --set model.native=32 --set model.image=48 --set model.patch=12 \
        --set epochs=1 --set micro_batch=5 --set model.depth=1 --set probe.images=10 --set batch=50 --out t
    [ "$status" = 0 ]
    good info t
    says "input side" 32 "3 x 48 x 48"
    good eval t --data "$SHAPES" --images 0:8 --eps 4/255 --attack fgsm
    says "perturbations live at 32 x 32; the model resizes that to 48 x 48 itself"
    bad 2 "model.native is 16, but the images" "are 32 pixels wide" -- train "$ROOT/recipes/shapes10_plain.yaml" --data "$SHAPES" \
        --set model.native=16 --out u
    vt train "$ROOT/recipes/shapes10_plain.yaml" --data "$SHAPES" --init "$LARGE" --set model.native=32 --set epochs=1 --set batch=50 \
        --set model.dim=16 --set model.depth=1 --set model.hidden=64 --set model.patch=8 --set model.image=48 \
        --set probe.images=0 --out v
    [ "$status" = 0 ]
    good info v
    says "input side" "3 x 48 x 48"
}

# carry OUT TEXT: the model of 48 pixels with preprocessing in its metadata
carry() { st_edit "$LARGE" "$1" ".__metadata__.transform = \"$2\""; }

@test "a model's own preprocessing is used where the images are not of its size, and the report says whose it was" {
    carry own.safetensors short:50,bicubic,crop:48
    good eval own.safetensors --data "$SHAPES" --images 0:6 --out r
    says "preprocessing short:50,bicubic,crop:48 (the model's own: safetensors metadata); perturbations live at 48 x 48, after it"
    truth r/results.json '.data.preprocess == "short:50,bicubic,crop:48" and (.model.notes[0] | contains("metadata"))'
    good eval "$LARGE" --data "$SHAPES" --images 0:6 --preprocess short:50,bicubic,crop:48 --out s
    cmp <(said r) <(said s)
    good compare r s # the same pixels, whoever asked for them
    # an option wins, for bytes and for the resize inside
    good eval own.safetensors --data "$SHAPES" --images 0:6 --preprocess squash:48
    says "preprocessing squash:48,bilinear (--preprocess)"
    good eval own.safetensors --data "$SHAPES" --images 0:6 --attack-at native
    says "perturbations live at 32 x 32"
    [[ $output != *preprocessing* ]]
    good eval own.safetensors --data "$SHAPES" --images 0:6 --attack-at model
    says "preprocessing short:50,bicubic,crop:48 (the model's own"
}

@test "images of the model's size are left as they are; what cannot be read is refused" {
    st_edit "$W" own.safetensors '.__metadata__.transform = "short:36,crop:32"'
    good eval own.safetensors --data "$D" --images 0:6 --out r
    says "its own preprocessing short:36,crop:32 was left out"
    quick --images 0:6 --out s
    cmp <(said r) <(said s)
    good eval own.safetensors --data "$D" --images 0:6 --preprocess short:36,crop:32
    says "preprocessing short:36,bilinear,crop:32 (--preprocess)"
    st_edit "$W" own.safetensors '.__metadata__.transform = "short:32,bicubic,crop:32"' # nothing to leave out
    good eval own.safetensors --data "$D" --images 0:6
    [[ $output != *preprocessing* ]]
    st_edit "$W" own.safetensors '.__metadata__.transform = "sideways"'
    bad 1 "own.safetensors" "'sideways' is not one of none" "safetensors metadata" -- eval own.safetensors --data "$D"
}
