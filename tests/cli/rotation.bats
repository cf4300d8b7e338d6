#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The threat of rotations and translations (--threat rotation --attack grid): its verdicts against brute force in numpy,
# what verify recomputes, every kind of model, and what is refused.
load helpers

G=rotation:angle=40,shift=4,angles=7,shifts=3

# turned ARGS: an evaluation on the small grid
turned() { quick --threat $G --attack grid "$@"; }

@test "verdicts, counts and stored points are those of brute force in numpy; the report says that they are exact" {
    turned --out run
    run /usr/bin/python3 "$ROOT/tools/rotation_judge.py" "$VITRINE" run "$W" "$D/test_batch.bin"
    [ "$status" = 0 ] || fail "$output"
    says "20 images, 63 points each: verdicts agree 20" "counts of queries 20" "are a misclassified image of the grid"
    truth run/results.json '.attacks[0] | .broken > 0 and .broken < 20 and .invalid == 0 and .borderline == 0'
    truth run/results.json '.norm == "rotation" and .threat == {rotation: {angle: 40, shift: 4, angles: 7, shifts: 3}}'
    truth run/results.json 'any(.notes[]; contains("right at all 63 points: exact for this grid"))'
    grep -q "rotation to 40 degrees, shift to 4 pixels, grid of 7 x 3 x 3" run/table.md
    good show run --dossier page.html # with no self-test's command, which has no such threat
    grep -q "vitrine verify" page.html && never grep -q "vitrine selftest" page.html
    grep -q ",rotation,\"\?rotation to 40 degrees" run/table.csv
    jq -se '.[1:] | map(select(.entry == 1)) | all(.gradients == 0) and (map(select(.status == "robust")) | all(.forwards == 63))' run/ledger.jsonl
}

@test "threads, batches and a resumed run change nothing; random-k is a part of the grid; targets" {
    turned --out run
    turned --threads 1 --batch 3 --out other
    diff <(said run) <(said other) >&2
    turned --images 0:9 --out half
    turned --out half --resume
    same_run run half
    bad 2 "another threat" -- eval "$W" --data "$D" --threat rotation --attack grid --out half --resume
    quick --threat $G --attack grid:tries=5 --out few
    jq -se '.[1:] | map(select(.entry == 1)) | all(.forwards <= 5)' few/ledger.jsonl
    truth few/results.json '.notes // [] | all(contains("exact") | not)'
    broken() { tail -n +2 "$1/ledger.jsonl" | jq 'select(.entry == 1 and .status == "broken") | .image' | sort; }
    [ -z "$(comm -23 <(broken few) <(broken run))" ] || fail "five points break what the whole grid does not"
    turned --exhaustive --out all
    diff <(broken run) <(broken all) >&2
    jq -se '.[1:] | map(select(.entry == 1)) | all(.forwards == 63)' all/ledger.jsonl
    turned --targets random --out aimed
    truth aimed/results.json '.attacks[0] | .broken < 20 and .invalid == 0'
    good eval "$W" --data "$D" --threat rotation --attack grid --dry-run
    says "15500"
}

@test "verify recomputes the grid: a changed pixel, another image's point and another grid are found" {
    turned --out run
    good verify run
    says "everything is as the ledger"
    cp -r run moved && cp -r run swapped
    /usr/bin/python3 - <<'END'
import hashlib, json, numpy as np
lines = open("run/ledger.jsonl").read().splitlines()
broken = [k for k, l in enumerate(lines) if k and json.loads(l)["entry"] == 1 and json.loads(l)["status"] == "broken"]
one, other = (json.loads(lines[k])["adv"] // 4 for k in broken[:2])
a = np.fromfile("run/adv.bin", np.float32)
moved, swapped = a.copy(), a.copy()
moved[one + 1500] += np.float32(1e-6 if a[one + 1500] < 0.5 else -1e-6)
swapped[one:one + 3072] = a[other:other + 3072]
for name, b in ("moved", moved), ("swapped", swapped):
    l = json.loads(lines[broken[0]])
    l["sha"] = hashlib.sha256(b[one:one + 3072].tobytes()).hexdigest()[:len(l["sha"])]
    text = lines[:broken[0]] + [json.dumps(l, separators=(",", ":"))] + lines[broken[0] + 1:]
    open(name + "/ledger.jsonl", "w").write("\n".join(text) + "\n")
    b.tofile(name + "/adv.bin")
END
    local f
    for f in moved swapped; do
        seal $f
        bad 1 "1 thing is not as it was" "after grid is invalid, the ledger says broken" -- verify $f
    done
    sed -i '1s/"angle":40/"angle":39/' run/ledger.jsonl && seal run
    bad 1 "are not as they were" -- verify run
    says "is invalid, the ledger says broken"
    sed -i '1s/"norm":"rotation"/"norm":"linf"/' run/ledger.jsonl && seal run
    bad 1 "rotation where threat.rotation does" -- verify run
    sed -i '1s/"norm":"linf"/"norm":"rotation"/; 1s/"shift":4.0/"shift":32.0/' run/ledger.jsonl && seal run
    bad 2 "shift is 32 pixels, must be less than the images' 32" -- verify run
}

@test "ONNX networks, models in another process and defences are asked the same points" {
    local S=$ROOT/datasets/shapes10 N=$ROOT/tests/fixtures/onnx/shapes10_inside.onnx
    good eval "$N" --data "$S" --images 0:6 --threat $G --attack grid --out onnx
    truth onnx/results.json '.attacks[0] | .broken > 0 and .invalid == 0'
    good verify onnx
    turned --images 0:6 --out here
    quick_remote() { good eval --oracle "$VITRINE serve $W" --data "$D" "$@"; }
    quick_remote --images 0:6 --threat $G --attack grid --out there
    statuses() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.image, .entry, .status, .forwards, .sha]' | sort; }
    diff <(statuses here) <(statuses there) >&2
    turned --images 0:4 --wrap patchcleanser:patch=3,masks=2 --out wrapped
    truth wrapped/results.json '.notes // [] | all(contains("exact for this grid") | not)'
    good verify wrapped
}

@test "refusals: what is no grid, and what cannot be combined with it" {
    wrong() { # TEXT -- OPTIONS
        local text=$1
        shift 2
        bad 2 "$text" -- eval "$W" --data "$D" --out r "$@" || return 1
        [ ! -e r ] || fail "the refused run left something behind"
    }
    local g="--threat rotation --attack grid"
    wrong "threat rotation: option angle is 181, must be between 0 and 180" -- --threat rotation:angle=181 --attack grid
    wrong "threat rotation: option shifts is 0, must be between 1 and 1000" -- --threat rotation:shifts=0 --attack grid
    wrong "shift is 32 pixels, must be less than the images' 32" -- --threat rotation:shift=32 --attack grid
    wrong "are 1024000 points, at most 1000000" -- --threat rotation:angles=1000,shifts=32 --attack grid
    wrong "threat rotation has no option 'turns'" -- --threat rotation:turns=1 --attack grid
    wrong "must be patch" -- --threat rotations --attack grid
    wrong "in place of --norm and --eps" -- $g --eps 8/255
    wrong "in place of --norm and --eps" -- $g --norm l2
    wrong "is for --threat box: give both" -- $g --box b.npz
    wrong "--eight-bit rounds points" -- $g --eight-bit
    wrong "--search bf16-emulated: every point of --threat rotation is asked in float32" -- $g --search bf16-emulated
    wrong "attack pgd does not support --threat rotation, which is for attack grid" -- --threat rotation --attack pgd
    wrong "attack square does not support --threat rotation" -- --threat rotation --attack square
    wrong "attack quick does not support --threat rotation" -- --threat rotation --profile quick
    wrong "attack grid does not support --norm linf (it is for --threat rotation)" -- --eps 8/255 --attack grid
    wrong "attack grid does not support --threat patch" -- --threat patch:size=3 --attack grid
    wrong "--certify smooth knows no threat of a rotation" -- $g --certify smooth --wrap smooth
    wrong "cannot be combined with" -- --threat rotation --as-published trades
    bad 2 "has no option '--threat'" -- curve "$W" --data "$D" --threat rotation --out r
    bad 2 "must be patch" -- verify --adv x.npz --weights "$W" --data "$D" --threat rotation
}
