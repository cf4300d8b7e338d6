#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A Swin from the command line: what info says, who tells the side of its images, training and attack.
load helpers

# 32 x 32 pixels in patches of 4: 8 and 4 tokens a side, windows of 4 in both stages
swin() {
    good new swin_tiny_patch2_window4_32 --set dim=8 depth=2 heads=2 patch=4 --form stages=2 --form stage_depth=1,1 \
        --form stage_heads=2,2 "$@"
}

bare() { swin -o full.safetensors && st_edit full.safetensors bare.safetensors 'del(.__metadata__)'; }

@test "a Swin's file tells its stages, heads and windows; its metadata the side of the image" {
    swin -o w.safetensors
    good info w.safetensors
    row architecture swin tensors
    row image '3 x 32 x 32' 'safetensors metadata'
    row depth 2 tensors
    row heads '2 of width 4' tensors
    row 'stage depths' 1,1,0,0 tensors
    row window 4 tensors
    row pool 'mean of the patch tokens' tensors
    swin --form window=3 -o w.safetensors # 8 and 4 tokens, neither of which is a multiple of 3
    good info w.safetensors
    row window 3 tensors
    row image '3 x 32 x 32' 'safetensors metadata'
}

@test "where nothing tells the side it is a guess, and --image-size tells" {
    bare
    good info bare.safetensors --mean 0.5 --std 0.5
    row image '3 x 32 x 32' 'assumed: a guess: --image-size tells'
    good info bare.safetensors --mean 0.5 --std 0.5 --image-size 48
    row image '3 x 48 x 48' --image-size
    bad 1 "7 x 7 tokens" "multiple of 8" -- info bare.safetensors --mean 0.5 --std 0.5 --image-size 28
    bad 2 "--heads 3 contradicts the tensors, which say 2" -- info bare.safetensors --mean 0.5 --std 0.5 --heads 3
    echo '{"image_size": 64}' >config.json
    good info bare.safetensors --mean 0.5 --std 0.5
    row image '3 x 64 x 64' config.json
    swin --form window=8 -o w.safetensors # the second stage is one smaller window: its table tells
    good info w.safetensors
    row image '3 x 32 x 32' tensors
    bad 2 "--image-size 64 contradicts the tensors, which say 32" -- info w.safetensors --image-size 64
}

@test "probe takes the side from its images where nothing else tells" {
    bare
    n=$((3 * 48 * 48 * 4))
    { head -c $n /dev/zero && le8 1; } | st_make in.safetensors \
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,3,48,48],\"data_offsets\":[0,$n]},\"labels\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[$n,$((n + 8))]}}"
    assumes probe bare.safetensors --mean 0.5 --std 0.5 --input in.safetensors --out out.safetensors
    [ "$(st_header out.safetensors | jq -c .dx_ce.shape)" = '[1,3,48,48]' ]
    bad 1 "x has shape [1,3,48,48], the model wants [N,3,32,32]" -- probe full.safetensors --input in.safetensors --out out.safetensors
}

@test "eval and doctor take the side from their images where nothing else tells" {
    bare
    good eval full.safetensors --data "$D" --preprocess squash:48,bilinear --image-size 48 --threads 1 --out a
    assumes eval bare.safetensors --mean 0.5 --std 0.5 --data "$D" --preprocess squash:48,bilinear --threads 1 --out b
    truth b/results.json '.model.image.value == 48'
    diff <(said a) <(said b) # the header's hash of weights differs
    bad 1 "48 x 48" "32 x 32" -- eval full.safetensors --data "$D" --preprocess squash:48,bilinear
    vt doctor bare.safetensors --mean 0.5 --std 0.5 --data "$D" --preprocess squash:48,bilinear
    [ "$status" = 0 ] || fail "doctor: $stderr"
    swin --form window=8 -o w.safetensors # its tables say 32
    st_edit w.safetensors w8.safetensors 'del(.__metadata__)'
    bad 1 "48 x 48" "32 x 32" -- eval w8.safetensors --mean 0.5 --std 0.5 --data "$D" --preprocess squash:48,bilinear
}

@test "impossible Swins are refused and write nothing" {
    local new="new swin_tiny_patch2_window4_32 -o no.safetensors"
    bad 1 "stage_heads of stage 3 is 25" "width 768" -- $new --form stage_heads=3,6,12,25
    bad 1 "adds up to 12" -- $new --set depth=9
    bad 1 "window is 17" "16 tokens" -- $new --form window=17
    bad 1 "15 x 15 tokens" "multiple of 16" -- $new --set image=30
    bad 1 "pool=avg" -- $new --form pool=token
    [ ! -e no.safetensors ]
}

@test "training from a Swin, with attack, penalty and dropped branches; the result attacked" {
    swin -o start.safetensors
    "$DRAW" --out images --train 20 --test 10 --seed 3 >/dev/null
    printf 'epochs: 1\nbatch: 10\nmicro_batch: 5\nlr: 0.01\nobjective: at\nmsvp: {lambda: 0.01}\nprobe: {images: 0}\n%s' \
        "attack: {eps: 8/255, spec: 'pgd:steps=2,alpha=5/255', ard: 1, prm: 1, drop_rate: 0.5}" >r.yaml
    for t in 1 2; do
        vt train r.yaml --init start.safetensors --data images --out run$t --threads $t
        [ "$status" = 0 ] || fail "$stderr"
    done
    cmp run1/model.safetensors run2/model.safetensors
    ! cmp -s <(st_data run1/model.safetensors) <(st_data start.safetensors) || fail "nothing was learned"
    good info run1/model.safetensors
    row image '3 x 32 x 32' 'safetensors metadata'
    good eval run1/model.safetensors --data images --eps 8/255 --attack pgd:steps=2 --out r
    truth r/results.json '.clean.total == 10 and .attacks[0].robust + .attacks[0].broken == .clean.correct'
    good spectrum run1/model.safetensors
    good gradcheck run1/model.safetensors
}

@test "a relative_position_index in the file must be the window's own" {
    good new swin_tiny_patch2_window4_32 --set dim=12 depth=2 --form "stages=1 stage_depth=2 stage_heads=3" -o w.safetensors
    /usr/bin/python3 - <<'END'
import json, struct
import numpy as np
data = open("w.safetensors", "rb").read()
end = 8 + struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:end])
head.pop("__metadata__")
y, x = np.mgrid[:4, :4].reshape(2, -1)
usual = (y[:, None] - y + 3) * 7 + x[:, None] - x + 3
for name, table in ("usual", usual), ("other", usual.T):
    h = head | {"layers.0.blocks.0.attn.relative_position_index": {
        "dtype": "I64", "shape": [16, 16], "data_offsets": [len(data) - end, len(data) - end + 2048]}}
    text = json.dumps(h).encode()
    text += b" " * (-len(text) % 8)
    open(name + ".safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[end:] + table.astype("<i8").tobytes())
END
    good info usual.safetensors --image-size 32 --mean 0.5 --std 0.5
    bad 1 "other.safetensors: tensor layers.0.blocks.0.attn.relative_position_index holds other relative positions than Swin's own" -- \
        info other.safetensors --image-size 32 --mean 0.5 --std 0.5
}
