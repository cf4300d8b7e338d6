#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine eval --certify lipschitz: l2, a network with small constants; what is refused (docs/certify.md).
load helpers

@test "certified images of a LipsFormer, which attacks do not break; radii; threads" {
    local shape="dim=8 depth=1 heads=1 patch=8 image=32 classes=10 mlp_ratio=2" eval r
    local lips="--form norm=center --form final_norm=center --form factor=alpha --form init=spectral --form act=relu"
    good new --set $shape --attn scsa:eps=1,tau=1 $lips -o lips.safetensors
    eval="eval lips.safetensors --data $ROOT/datasets/shapes10 --images 0:40 --norm l2 --certify lipschitz --no-selftest"
    good $eval --eps 0.001 --attack pgd --out small --threads 1
    jq -e '.certified | .certified > 0 and .broken == 0 and (.sentence | contains("l2 eps 0.001"))' small/results.json
    good $eval --eps 0.001 --attack pgd --out twice --threads 3
    cmp small/ledger.jsonl twice/ledger.jsonl
    good $eval --eps 2 --attack pgd --out large
    jq -e '.certified | .certified == 0 and .undecided + .broken > 0' large/results.json
    good convert lips.safetensors lips.onnx
    good eval lips.onnx --data $ROOT/datasets/shapes10 --images 0:40 --norm l2 --certify lipschitz --no-selftest --eps 0.001 \
        --attack pgd --out file
    [ "$(jq .certified.certified file/results.json)" = "$(jq .certified.certified small/results.json)" ]
}

@test "ordinary attention stays undecided; other norms are refused" {
    good eval "$W" --data "$D" --images 0:4 --norm l2 --eps 0.01 --certify lipschitz --attack pgd --out run --no-selftest
    jq -e '.certified | .certified == 0' run/results.json
    bad 2 "certify lipschitz knows l2 alone, the threat is linf" -- \
        eval "$W" --data "$D" --eps 0.01 --certify lipschitz --attack pgd --out r
    bad 2 "knows no wrap" -- eval "$W" --data "$D" --norm l2 --eps 0.01 --certify lipschitz --wrap noise --attack pgd --out r
}
