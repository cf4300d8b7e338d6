#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine certify: radii, one radius, what is refused and by which sentence (docs/certify.md).
load helpers

N=tests/fixtures/onnx

setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    ln -s "$ROOT/tests" .
}

# safetensors FILE JSON BODY: a file with that header; the body as printf reads it.
safetensors() {
    local n=${#2}
    { printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2"; printf "$3"; } >"$1"
}

@test "radii of all points; one radius; without the box" {
    good certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out r.json --seconds 1
    says "certified a radius at 8 of 8 points"
    [ "$(jq -c '[.method, .norm, .boxed, (.points | length)]' r.json)" = '["linear","linf",true,8]' ]
    jq -e '.arithmetic | contains("float32 with any order of summation")' r.json
    jq -e '.points | all(.radius > 0.02 and .radius < 0.6)' r.json
    good certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out one.json --radius 0.05
    [ "$(jq -c '[.points[].radius]' one.json)" = '[0.05,0.05,0.05,0.05,0.05,0.05,0,0.05]' ]
    good certify $N/certify_linear.onnx --points $N/certify_linear.safetensors --out u.json --unboxed --norm linf
    jq -e '.boxed == false' u.json
    good certify $N/certify_order.onnx --points $N/certify_order.safetensors --out o.json --unboxed --seconds 1
    [ "$(jq -c '[.points[].radius]' o.json)" = '[0]' ]
}

@test "images with a normalisation, and in [0,1]" {
    good certify $N/conv.onnx --points $N/conv.safetensors --out r.json --mean 0.5 --std 0.25 --radius 1/1000
    says "of 2 points"
    good certify $N/certify_linear.onnx --points $N/certify_linear.safetensors --out hopeless.json --unboxed --radius 1e308
    [ "$(jq -c '.points[0] | [.radius, .margin]' hopeless.json)" = '[0,null]' ]
    bad 2 "scaled by both --mean and --std" -- certify $N/conv.onnx --points $N/conv.safetensors --out r --mean 0.5
    bad 2 "--std is '0'" -- certify $N/conv.onnx --points $N/conv.safetensors --out r --mean 0.5 --std 0
}

@test "balls in l2 and l1; Lipschitz margins" {
    for n in l2 l1; do
        good certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out $n.json --seconds 1 --norm $n
        [ "$(jq -c '[.method, .norm]' $n.json)" = "[\"linear\",\"$n\"]" ]
        jq -e '.points | all(.radius > 0.02 and .radius < 0.8)' $n.json
    done
    good certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out m.json --method lipschitz
    jq -e '.method == "lipschitz" and .norm == "l2" and .constant > 40 and .constant < 60' m.json
    jq -e --slurpfile l l2.json '[.points, $l[0].points] | transpose | all(.[0].radius > 0 and .[0].radius <= .[1].radius)' m.json
    good certify $N/certify_attention.onnx --points $N/certify_attention.safetensors --out a.json --method lipschitz
    jq -e '.constant == null and (.points | all(.radius > 0))' a.json
    bad 2 "no Lipschitz bound is known for operator" -- certify $N/moves.onnx --points $N/moves.safetensors --out r --method lipschitz
    bad 2 "--norm is 'linf', must be l2 with --method lipschitz" -- \
        certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out r --method lipschitz --norm linf
    bad 2 "--method is 'crown', must be linear or lipschitz" -- \
        certify $N/certify_relu.onnx --points $N/certify_relu.safetensors --out r --method crown
}

@test "an operator without bounds is named" {
    bad 2 "no bounds are known for operator Reduce" -- certify $N/moves.onnx --points $N/moves.safetensors --out r
}

@test "points that do not fit" {
    local head='{"x":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}'
    local labels=',"labels":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}}' zero='\0\0\0\0' nine='\11\0\0\0\0\0\0\0'
    bad 1 "" -- certify $N/certify_relu.onnx --points $N/conv.safetensors --out r
    safetensors none.safetensors "$head}" "$zero$zero"
    bad 1 "none.safetensors: needs tensor labels [1] (int64)" -- certify $N/certify_relu.onnx --points none.safetensors --out r
    safetensors nine.safetensors "$head$labels" "$zero$zero$nine"
    bad 1 "label 9 of point 0, must be below the network's 3 classes" -- \
        certify $N/certify_relu.onnx --points nine.safetensors --out r
    safetensors nan.safetensors "$head$labels" "\0\0\300\177$zero$zero$zero"
    bad 1 "tensor x holds nan at element 0" -- certify $N/certify_relu.onnx --points nan.safetensors --out r --unboxed
    safetensors two.safetensors "$head$labels" "\0\0\0\100$zero$zero$zero"
    bad 1 "tensor x holds 2 at element 0, must be in [0,1]" -- certify $N/certify_relu.onnx --points two.safetensors --out r
    good certify $N/certify_relu.onnx --points two.safetensors --out r --unboxed --seconds 1
    [ ! -e r ] || jq -e '.points | length == 1' r
}

@test "options" {
    local c="certify $N/certify_relu.onnx --points $N/certify_relu.safetensors"
    bad 2 "needs --points FILE.safetensors and --out FILE.json" -- $c
    bad 2 "--norm is 'l0', must be linf, l2 or l1" -- $c --out r --norm l0
    bad 2 "--seconds is '0'" -- $c --out r --seconds 0
    bad 2 "--radius is 'x'" -- $c --out r --radius x
    bad 1 "none/r: cannot be written" -- certify missing.onnx --points missing --out none/r # before any work
    bad 1 "no known naming scheme" -- certify $N/certify_relu.safetensors --points $N/certify_relu.safetensors --out r
}

@test "an interrupted run keeps the points that are done" {
    local h='{"x":{"dtype":"F32","shape":[2000,2],"data_offsets":[0,16000]},"labels":{"dtype":"I64","shape":[2000],"data_offsets":[16000,32000]}}' status=0
    safetensors many.safetensors "$h" ""
    { head -c 16000 /dev/zero && printf '\02\0\0\0\0\0\0\0%.0s' {1..2000}; } >>many.safetensors
    "$VITRINE" certify $N/certify_attention.onnx --points many.safetensors --out r.json --seconds 0.1 --threads 1 >said 2>&1 3>&- &
    local job=$!
    # half a second of processor time is longer than a point and shorter than 2,000
    until [ "$(cut -d ' ' -f 14 /proc/$job/stat)" -ge 50 ]; do kill -0 $job 2>/dev/null && sleep 0.05 || fail "$(cat said)" || return; done
    kill -INT $job
    wait $job || status=$?
    [ $status = 1 ] || fail "$status: $(cat said)"
    jq -e '.points | length > 0 and length < 2000 and all(.radius > 0)' r.json
    grep -q "interrupted; r.json holds the first $(jq '.points | length' r.json) of 2000 points" said
}
