#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# convert W OUT.onnx: every family and form as an ONNX file that vitrine reads as the same network. Random small models
# of all forms, one by one: tests/unit/models/test_forms.c and test_combinations.c.
load helpers

# batch SIDE: xSIDE.st, two random images.
batch() {
    python3 - "$1" <<'END'
import json, random, struct, sys
side = int(sys.argv[1]); n = 2 * 3 * side * side; random.seed(1)
head = json.dumps({"x": {"dtype": "F32", "shape": [2, 3, side, side], "data_offsets": [0, 4 * n]},
                   "labels": {"dtype": "I64", "shape": [2], "data_offsets": [4 * n, 4 * n + 16]}}).encode()
open(f"x{side}.st", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{n}f", *(random.random() for _ in range(n))) + bytes(16))
END
}

# same W SIDE OPTIONS...: W (of which SAYS=assumes something is assumed) as ONNX gives the same logits and gradients, in double or (FLOAT=1) nearly in float.
same() {
    local w=$1 t precision=f64 type=f8 limit=1e-12
    [ -z "$FLOAT" ] || precision=f32 type=f4 limit=1e-4
    [ -e x$2.st ] || batch "$2"
    local x=x$2.st
    shift 2
    ${SAYS:-good} convert "$w" w.onnx --force "$@"
    ${SAYS:-good} probe "$w" --input $x --precision $precision --out a.st $AT "$@"
    good probe w.onnx --input $x --precision $precision --out b.st
    for t in logits dx_ce; do
        paste <(st_floats a.st $t $type) <(st_floats b.st $t $type) | awk -v limit=$limit \
            'function abs(v) { return v < 0 ? -v : v }
            { d = abs($1 - $2); if (d > most) most = d; if (abs($1) > top) top = abs($1) }
            END { if (!(top > 0) || most > limit * top) exit 1 }' || fail "$w $*: $t differs in $precision"
    done
}

@test "what ships and what PyTorch made is the same network as an ONNX file" {
    FLOAT=1 same "$ROOT/weights/shapes10-vit" 32
    same "$ROOT/weights/shapes10-vit" 32
    same "$ROOT/weights/shapes10-specformer" 32
    for n in vit_cls vit_avg_nobias vit_dimscale deit_dist convit convit_bias; do
        local heads=2 scale=head side=8
        [[ $n != convit* ]] || heads= side=12
        [ $n != convit_bias ] || side=16
        [ $n = vit_dimscale ] && scale=dim
        SAYS=assumes same "$ROOT/tests/fixtures/golden/$n.weights.safetensors" $side --mean 0.4914,0.4822,0.4465 --std 0.247,0.2435,0.2616 \
            --ln-eps 1e-6 --attn-scale $scale ${heads:+--heads $heads}
    done
}

@test "every architecture and every attention variant of the command line" {
    good new --set dim=12 depth=2 heads=3 patch=8 image=32 classes=5 --seed 1 -o vit.safetensors
    for attn in dot lipnorm; do
        same vit.safetensors 32 --attn $attn
        good new convit_tiny_cifar --set dim=16 depth=3 heads=4 patch=8 --form local_blocks=2 --attn $attn --seed 1 -o c.safetensors
        same c.safetensors 32
        good new swin_tiny_patch2_window4_32 --set dim=8 depth=3 heads=2 patch=4 --form stages=2 --form stage_depth=2,1 \
            --form stage_heads=2,4 --form window=3 --attn $attn --seed 1 -o s.safetensors
        same s.safetensors 32
        good new xcit_small_12_cifar --set dim=16 depth=1 heads=2 hidden=16 --attn $attn --seed 3 -o x.safetensors
        same x.safetensors 32
    done
    good new --set dim=12 depth=2 heads=3 patch=8 image=32 classes=5 distilled=1 --seed 1 -o d.safetensors
    for head in mean class dist; do same d.safetensors 32 --form dist_head=$head; done
    same vit.safetensors 32 --form act=quick_gelu
    good new --set dim=12 depth=1 heads=3 patch=8 image=32 classes=5 --form "native=20 native_filter=bicubic_aa bgr=1" -o n.safetensors
    AT="--attack-at native" same n.safetensors 20
}

@test "the same bytes each time, whole or not at all, nothing replaced unasked" {
    good convert "$W" a.onnx
    says "a.onnx: ONNX, opset 17, " " numbers, of " "input pixels [N,3,32,32], output logits [N,10]; pixels are images in [0,1]"
    good convert "$W" b.onnx
    cmp a.onnx b.onnx
    bad 2 "a.onnx: is there already" "--force" -- convert "$W" a.onnx
    ln -s b.onnx link.onnx
    bad 2 "link.onnx: is there already" -- convert "$W" link.onnx
    bad 1 "link.onnx" -- convert "$W" link.onnx --force
    cmp a.onnx b.onnx
    good convert "$W" a.onnx --force
    cmp a.onnx b.onnx
    bad 2 "must be called *.safetensors or *.onnx" -- convert "$W" a.pth
    bad 1 "no/a.onnx" -- convert "$W" no/a.onnx
    bad 1 "a.onnx: " -- convert a.onnx c.onnx
    [ ! -e c.onnx ] && [ -z "$(ls -A | grep -v '^[ab].onnx$\|^link.onnx$')" ]
}

@test "normalisation outside: the last line says it, and the graph is the same behind it" {
    good convert "$ROOT/weights/shapes10-vit" in.onnx
    good convert "$ROOT/weights/shapes10-vit" out.onnx --normalise outside
    [[ ${lines[-1]} == *"pixels are (x - mean) / std of images in [0,1]: mean 0.5,0.5,0.5, std 0.5,0.5,0.5" ]] || fail "$output"
    batch 32
    python3 - <<'END'
import json, struct
b = open("x32.st", "rb").read(); n = int.from_bytes(b[:8], "little"); head = json.loads(b[8:8 + n]); k = 2 * 3 * 32 * 32
x = struct.unpack(f"<{k}f", b[8 + n:8 + n + 4 * k])
# what the graph takes, kept in [0,1] for probe: the images are made bright enough
x = [0.5 + v / 2 for v in x]
def put(name, v):
    open(name, "wb").write(b[:8 + n] + struct.pack(f"<{k}f", *v) + bytes(16))
put("bright.st", x)
put("normal.st", [(v - 0.5) / 0.5 for v in x])
END
    good probe in.onnx --input bright.st --precision f64 --out a.st
    good probe out.onnx --input normal.st --precision f64 --out b.st
    paste <(st_floats a.st logits f8) <(st_floats b.st logits f8) | awk '{ if (($1 - $2) ^ 2 > 1e-12) exit 1 }' || fail "logits differ"
    good convert "$ROOT/weights/shapes10-vit" bgr.onnx --normalise outside --form bgr=1 --mean 0.1,0.2,0.3 --std 0.4,0.5,0.6
    [[ ${lines[-1]} == *"mean 0.3,0.2,0.1, std 0.6,0.5,0.4" ]] || fail "in the input's order: $output"
    bad 2 "--normalise is 'maybe', must be inside or outside" -- convert "$W" x.onnx --normalise maybe
    bad 2 "--normalise is of ONNX files" -- convert "$W" x.safetensors --normalise inside
    [ ! -e x.onnx ] && [ ! -e x.safetensors ]
}
