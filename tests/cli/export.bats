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

@test "what RobustBench asks for: a tensor that others load, and the text of the issue" {
    good export "$R" --robustbench bench
    says "bench/issue.md: fill in"
    good export "$R" --out x.npz
    grep -q "^+ \*\*Leaderboard(s):\*\* cifar10, Linf, eps 4/255$" bench/issue.md
    grep -q "SHA-256 $(sha256sum bench/adversarial.pt | cut -c-64)$" bench/issue.md
    robust=$(jq .worst_case.robust "$R/results.json")
    grep -q "($robust of 20; clean" bench/issue.md
    grep -q "The run covers 20 of the" bench/issue.md
    for f in x.npz bench/adversarial.pt; do
        good verify --adv $f --indices 5:25 --weights "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --eps 4/255 --csv $f.csv
    done
    cmp x.npz.csv bench/adversarial.pt.csv
    bad 2 "bench exists" -- export "$R" --robustbench bench
    bad 2 "give one of --proof" -- export "$R" --robustbench b --proof q.npz
    quick --norm l1 --eps 3 --attack pgd:steps=2 --out l1
    bad 2 "leaderboards of linf and l2" -- export l1 --robustbench b
    for p in python3 /usr/bin/python3; do
        $p -c 'import torch' 2>/dev/null || continue
        [ "$($p -c 'import torch; t = torch.load("bench/adversarial.pt"); print(tuple(t.shape), t.dtype, t.is_contiguous())')" = "(20, 3, 32, 32) torch.float32 True" ]
    done
}

# A python3 with numpy, or the test is left out.
numpy() {
    for p in python3 /usr/bin/python3; do $p -c 'import numpy' 2>/dev/null && python=$p && return; done
    skip "no python3 with numpy"
}

@test "a proof: verified from the file and the weights, against its own images or the data's" {
    W=$ROOT/weights/shapes10-vit
    good export "$R" --proof p.npz
    says "p.npz: 20 images"
    good verify p.npz --weights "$W"
    says "arrays, weights, statuses and logits are as the proof says" "its images are its own"
    n=$(jq -s '[.[] | select(.status == "broken") | .image] | unique | length' "$R/ledger.jsonl")
    says ": $n broken"
    good verify p.npz --weights "$W" --data "$ROOT/datasets/shapes10"
    says "arrays, weights, data, statuses and logits"
    good export "$R" --proof again.npz --threads 2
    cmp p.npz again.npz
    cp p.npz x.npz
    printf '\377' | dd of=x.npz bs=1 seek=$(($(stat -c %s p.npz) * 3 / 4)) conv=notrunc 2>/dev/null
    bad 1 "array 'x_adv' is not as it was written" -- verify x.npz --weights "$W"
    bad 1 "is not the checkpoint of p.npz" -- verify p.npz --weights "$BASE/w.safetensors"
    bad 2 "--eps goes with --adv FILE" -- verify p.npz --weights "$W" --eps 1/255
    bad 2 "give one of --proof" -- export "$R" --proof q.npz --format npz
    bad 2 "p.npz exists" -- export "$R" --proof p.npz
    good export "$R" --out plain.npz
    bad 1 "plain.npz has no array 'manifest'" -- verify plain.npz --weights "$W"
}

@test "the numpy script judges a proof, and finds a point that was forged with all its hashes" {
    numpy
    W=$ROOT/weights/shapes10-vit
    good export "$R" --proof p.npz
    check() { OMP_NUM_THREADS=1 run $python "$ROOT/python/examples/check_proof.py" "$@" --weights "$W"; }
    check p.npz
    [ "$status" = 0 ] || fail "$output"
    says "logits, computed again" "hash of the weights"
    # forge NAME CODE: changes the arrays z, then writes hashes that fit
    forge() {
        $python - "$1" "$2" <<'PY'
import hashlib, json, sys
import numpy as np
z = dict(np.load("p.npz"))
m = json.loads(bytes(z["manifest"]))
i = int(np.flatnonzero(z["status"])[0])
exec(sys.argv[2])
m["arrays"] = {k: hashlib.sha256(z[k].tobytes()).hexdigest() for k in m["arrays"]}
z["manifest"] = np.frombuffer(json.dumps(m).encode(), np.uint8)
np.savez(sys.argv[1], **z)
PY
    }
    forge same.npz "pass"
    check same.npz
    [ "$status" = 0 ] || fail "$output"
    good verify same.npz --weights "$W"
    refused() { # NAME, what the script and what vitrine say
        check "$1"
        [ "$status" = 1 ] || fail "$output"
        says "FAILED  $2"
        bad 1 "$3" -- verify "$1" --weights "$W"
    }
    forge moved.npz "z['x_adv'][i] = z['images'][i]"
    refused moved.npz "logits" "row"
    forge far.npz "z['x_adv'][i, 0, 0, 0] += 0.1 if z['x_adv'][i, 0, 0, 0] < 0.5 else -0.1"
    refused far.npz "linf within" "violate the threat model"
    forge eps.npz "m['eps'], m['eps_value'] = '3/255', 3 / 255"
    refused eps.npz "linf within" "violate the threat model"
    forge claim.npz "j = int(np.flatnonzero(z['status'] == 0)[0]); z['status'][j] = 1; m['counts']['broken'] += 1"
    refused claim.npz "labels of the logits" "row"
    forge logits.npz "z['logits'][i] += 0.01 * np.arange(10)"
    refused logits.npz "logits" "has logits of margin"
}
