#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine export: a run's adversarial images as arrays that others load.
load helpers

setup_file() {
    load helpers
    export R=$BATS_FILE_TMPDIR/run
    cd "$ROOT"
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 5:25 --eps 4/255 --attack fgsm --attack pgd:steps=5 \
        --out "$R" >/dev/null
}

@test "safetensors: one point for every image in order, the clean one where nothing broke it" {
    good export "$R" --format safetensors --out x.safetensors
    says "x.safetensors: 20 images"
    st_header x.safetensors | jq -e '.x_adv == {dtype: "F32", shape: [20, 3, 32, 32], data_offsets: .x_adv.data_offsets}
        and .labels.shape == [20] and .indices.dtype == "I64" and .status.dtype == "U8"
        and (.__metadata__ | .norm == "linf" and .eps == "4/255" and (.weights | length) == 64)' >/dev/null
    span() { tail -c +$(($(st_at x.safetensors "$1") + 1)) x.safetensors | head -c "$2"; }
    [ "$(span indices 160 | od -An -v -td8 -w8 | tr -d ' ' | xargs)" = "$(seq 5 24 | xargs)" ]
    # status and the point: of all attacks' broken ones the one of the largest margin
    span status 20 | od -An -v -tu1 -w1 | tr -d ' ' >status
    for i in $(seq 5 24); do
        at=$(jq -s "[.[] | select(.image == $i and .status == \"broken\")] | max_by(.margin) | .adv // \"clean\"" "$R/ledger.jsonl")
        [ "$(sed -n $((i - 4))p status)" = "$([ "$at" = '"clean"' ] && echo 0 || echo 1)" ] || fail "status of image $i"
        tail -c +$(($(st_at x.safetensors x_adv) + (i - 5) * 12288 + 1)) x.safetensors | head -c 12288 >point
        if [ "$at" = '"clean"' ]; then
            # its hash is that of the clean line
            [ "$(sha256sum point | head -c 16)" = "$(jq -r "select(.image == $i and .entry == 0) | .sha" "$R/ledger.jsonl")" ]
        else
            cmp point <(tail -c +$((at + 1)) "$R/adv.bin" | head -c 12288)
        fi
    done
    good export "$R" --format safetensors --out again.safetensors
    cmp x.safetensors again.safetensors
}

@test "every format; nothing is overwritten without --force; one attack alone" {
    before=$(sums "$R")
    for f in npz npy png; do good export "$R" --format $f --out x.$f; done
    [ "$(ls x.npy | xargs)" = "indices.npy labels.npy preds.npy status.npy x_adv.npy" ]
    [ "$(ls x.png/*.png | wc -l)" = 20 ]
    [ "$(wc -l <x.png/labels.csv)" = 21 ]
    says "rounded to 8 bits"
    bad 2 "x.npz exists" "--force" -- export "$R" --out x.npz
    good export "$R" --out x.npz --force
    good export "$R" --out f.npz --attack fgsm
    n=$(grep '"entry":1' "$R/ledger.jsonl" | grep -c '"broken"')
    says "$n of them adversarial (fgsm)"
    [ "$(sums "$R")" = "$before" ]
    cp -r "$R" c
    good export c
    [ -f c/export.npz ]
    good verify c # what others wrote since is not part of the run
}

@test "an export passes vitrine verify --adv, at its eps and not below" {
    good export "$R" --out x.npz
    good verify --adv x.npz --weights "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --eps 4/255 --allowance 0
    says "0 violations"
    vt verify --adv x.npz --weights "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --eps 3.9/255
    [ "$status" = 1 ]
}

@test "PyTorch sees the same classes and distances (where python3-torch is)" {
    python=
    for p in python3 /usr/bin/python3; do $p -c 'import numpy, torch' 2>/dev/null && python=$p && break; done
    [ -n "$python" ] || skip "no python3 with numpy and torch"
    check() { OMP_NUM_THREADS=1 run $python "$ROOT/tools/check_export.py" "$@" --weights "$ROOT/weights/shapes10-vit/model.safetensors" --data "$ROOT/datasets/shapes10"; }
    for f in npz npy safetensors; do
        good export "$R" --format $f --out x.$f
        check x.$f --eps 4/255
        [ "$status" = 0 ] || fail "$output"
    done
    check x.npz --eps 3.9/255
    [ "$status" = 1 ]
    says "outside of the ball"
    # another class than the point's
    st_make swapped.safetensors "$(st_header x.safetensors)" < <(st_data x.safetensors)
    at=$(st_at swapped.safetensors preds)
    poke swapped.safetensors "$at" "$(byte $((($(od -An -tu1 -j "$at" -N 1 swapped.safetensors) + 1) % 10)))"
    check swapped.safetensors --eps 4/255
    [ "$status" = 1 ] && says "have another class in PyTorch: images [5]"
}

@test "wrong usage of export" {
    bad 2 "--format is 'pt'" "npz, npy, safetensors or png" -- export "$R" --format pt
    bad 2 "no attack 'pdg'" "did you mean 'pgd'" -- export "$R" --attack pdg --out y
    bad 2 "needs RUNDIR" -- export
    bad 1 "nowhere" -- export nowhere
    bad 1 "is not the checkpoint" -- export "$R" --weights "$W" --out y
    [ -z "$(ls -A)" ]
}
