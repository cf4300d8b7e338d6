#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Norm l0: the ledger's counts are those of the stored points, verify counts again, a curve from sigma-zero; what l0 is not
# for is refused.
load helpers

V=$ROOT/weights/shapes10-vit SHAPES=$ROOT/datasets/shapes10

@test "sigma-zero and sparse-rs: counted values, judged again, medians, the same bytes; beside another threat in one row" {
    good eval "$V" --data "$SHAPES" --images 0:12 --norm l0 --eps 20 --attack sigma-zero:steps=60 --attack sparse-rs:queries=150 --save-npz --out r
    says "l0 eps 20" "the self-test has no attacks in l0"
    truth r/results.json '.norm == "l0" and .attacks[0].broken > 0 and .attacks[0].median_l0 <= 20 and .attacks[0].median_l0 >= 1'
    tail -n +2 r/ledger.jsonl | jq -e 'select(.status == "broken") | .l0 >= 1 and .l0 <= 20' >/dev/null
    [ -z "$(tail -n +2 r/ledger.jsonl | jq -c 'select(.entry == 0 and has("l0"))')" ]
    # by hand from the stored points
    /usr/bin/python3 - "$SHAPES/test_batch.bin" r/adv/sigma-zero.npz r/ledger.jsonl <<'END'
import json, sys
import numpy as np
raw = np.fromfile(sys.argv[1], np.uint8).reshape(-1, 3073)[:, 1:]
z = np.load(sys.argv[2])
want = {r["image"]: r["l0"] for r in map(json.loads, open(sys.argv[3]).readlines()[1:]) if r["entry"] == 1 and r["status"] == "broken"}
got = {int(i): int((x.reshape(-1) != (raw[i].astype(np.float32) / np.float32(255))).sum()) for i, x, s in zip(z["indices"], z["x_adv"], z["status"]) if int(i) in want}
assert want and got == want, (want, got)
END
    good verify r
    good eval "$V" --data "$SHAPES" --images 0:12 --norm l0 --eps 20 --attack sigma-zero:steps=60 --attack sparse-rs:queries=150 --threads 1 --out s
    same_run r s
    good verify --adv r/adv/sigma-zero.npz --weights "$V" --data "$SHAPES" --norm l0 --eps 20
    good eval "$V" --data "$SHAPES" --images 0:12 --eps 2/255 --attack pgd:steps=5 --no-selftest --out linf
    good merge --worst l0=r linf=linf
    says "l0 eps 20"
    /usr/bin/python3 -c "import json, jsonschema
jsonschema.validate(json.load(open('r/results.json')), json.load(open('$ROOT/docs/results.schema.json')))"
}

@test "a curve: sigma-zero unless told otherwise, confirmed by sparse-rs" {
    good curve "$V" --data "$SHAPES" --images 0:5 --norm l0 --attacks sigma-zero:steps=60 --confirm 3 --confirm-with sparse-rs:queries=50 --out c
    truth c/curve.json '[.images[].distance | select(. != null and . > 0)] | length > 0 and all(. == floor)'
    good curve "$V" --data "$SHAPES" --images 0:1 --norm l0 --dry-run
    says "sigma-zero"
}

@test "refused: shares of a value, gradient steps, 8 bits, no such radius" {
    bad 2 "--eps is 1/2, but an l0 radius counts the values" -- eval "$W" --data "$D" --norm l0 --eps 1/2 --attack sigma-zero
    bad 2 "--eps is 8/255, but an l0 radius" -- eval "$W" --data "$D" --norm l0 --eps 8/255 --attack sigma-zero
    bad 2 "pgd" "l0" -- eval "$W" --data "$D" --norm l0 --eps 3 --attack pgd
    bad 2 "sigma-zero" "linf" -- eval "$W" --data "$D" --eps 8/255 --attack sigma-zero
    bad 2 "--eight-bit" "l0" -- eval "$W" --data "$D" --norm l0 --eps 3 --attack sparse-rs --eight-bit
    bad 2 "autoattack" "l0" -- selftest "$W" --data "$D" --norm l0 --eps 3
    bad 2 "must be linf, l2, l1 or l0" -- eval "$W" --data "$D" --norm l3 --eps 3 --attack pgd
}
