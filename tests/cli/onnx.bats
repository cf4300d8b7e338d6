#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Networks of ONNX files: what reads them, and what says that it does not yet.
load helpers

N=tests/fixtures/onnx

setup() { ln -sfn "$ROOT/tests" tests; }

@test "probe and gradcheck read ONNX files" {
    for n in conv attention moves; do
        good probe $N/$n.onnx --input $N/$n.safetensors --loss linear --precision f64 --out $n.safetensors
        good gradcheck $N/$n.onnx --images 1
        says "the input gradient is exact"
    done
    bad 1 "has shape [2,3,16,16], the model wants [N,3,12,12]" -- probe $N/moves.onnx --input $N/conv.safetensors --out o
    bad 1 "--loss linear needs tensor dz [2,5]" -- probe $N/conv.onnx --input $N/attention.safetensors --loss linear --out o
}

@test "every other command says that it does not read them yet" {
    bad 1 "is an ONNX file" -- eval $N/conv.onnx --data "$ROOT/datasets/shapes10" --eps 1/255 --attack pgd --out r
    bad 1 "is an ONNX file" -- info $N/conv.onnx
    bad 1 "is an ONNX file" -- convert $N/conv.onnx x.safetensors
    [ ! -e r ] && [ ! -e x.safetensors ]
}

@test "a file that is cut or no ONNX is refused" {
    head -c 900 $N/conv.onnx >cut.onnx
    bad 1 "cut.onnx: is not a whole ONNX file" -- gradcheck cut.onnx
    : >empty.onnx
    bad 1 "empty.onnx: is empty, not an ONNX file" -- gradcheck empty.onnx
}
