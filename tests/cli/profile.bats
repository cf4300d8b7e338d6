#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Profiles, and stages on a random share of the survivors.
load helpers

# A model that some attacks break and others do not: the embedded hardened one, few images.
profile() { good eval "$ROOT/weights/shapes10-specformer" --data "$ROOT/datasets/shapes10" --eps 4/255 --no-selftest "$@"; }

@test "quick is one entry with its stages, its cost and what its sample leaves open" {
    profile --images 0:24 --profile quick --out r
    says quick "after square (10 %)" "with 95 % confidence" "forward-equivalents" "measured here"
    truth r/results.json '[.attacks[].name] == ["quick"] and (.attacks[0].stages | length) == 7 and .attacks[0].cost > 0'
    truth r/results.json '.attacks[0].open as $o | $o.share == 0.1 and $o.survivors == .attacks[0].stages[3].robust
        and $o.sampled == .attacks[0].stages[4].tried and $o.points95 == 100 * $o.further95 / .clean.total'
    truth r/results.json '.attacks[0] | .cost - (.forwards + .gradients * 1) > 0 and (.claim == "quick estimate" or .open.points95 <= 0.3)'
    truth r/run.json '.gradient_cost_measured > 1 and .gradient_cost_measured < 6'
    grep -q 'with 95 % confidence' r/table.md
    good verify r --weights "$ROOT/weights/shapes10-specformer" --data "$ROOT/datasets/shapes10"
}

@test "shards draw the sample that the whole run draws, and a longer run keeps it" {
    A="fgsm+pgd:steps=5+square:queries=50,share=0.4"
    profile --images 0:30 --attack "$A" --out whole
    profile --images 0:13 --attack "$A" --out a
    profile --images 13:30 --attack "$A" --out b
    good merge a b --out merged
    cmp whole/ledger.jsonl merged/ledger.jsonl
    cmp whole/results.json merged/results.json
    profile --images 0:30 --attack "$A" --out a --resume
    same_run whole a
    truth whole/results.json '.attacks[0].stages[2] | .tried > 0 and .tried < 30 and .share == 0.4'
}

@test "standard is AutoAttack under its own name: nothing is open" {
    quick --images 0:4 --eps 2/255 --profile standard --attack autoattack --no-selftest --out r
    says "every stage was run on all survivors" "AutoAttack-equivalent"
    truth r/results.json '.attacks[0].id == .attacks[1].id and .attacks[0].robust == .attacks[1].robust
        and .attacks[0].cost == .attacks[1].cost and .attacks[0].open.points95 == 0 and (.attacks[1] | has("open") | not)'
}

@test "paranoid holds AutoAttack and more" {
    quick --images 0:3 --eps 8/255 --profile paranoid --no-selftest --out r
    truth r/results.json '.attacks[0].name == "paranoid" and (.attacks[0].stages | length) > 8'
}

@test "--individual leaves samples out: every attack on every image" {
    quick --images 0:6 --eps 2/255 --attack fgsm+pgd:steps=3,share=0.5 --individual --out r
    truth r/results.json '[.attacks[].stages[0].tried] == [6, 6] and (.attacks[1].id | contains("share") | not)'
}

@test "a run of a profile tests itself" {
    good eval "$W" --data "$D" --images 0:8 --eps 1/255 --profile quick
    says "self-test"
}

@test "bad profiles and shares" {
    bad 2 "unknown profile 'quik'" "did you mean 'quick'" -- eval "$W" --data "$D" --eps 1/255 --profile quik --out r
    bad 2 "unknown profile 'fgsm'" -- eval "$W" --data "$D" --eps 1/255 --profile fgsm --out r
    bad 2 "give it the same" -- eval "$W" --data "$D" --eps 1/255 --attack square:share=0.1+fgsm --out r
    bad 2 "share" "1.5" -- eval "$W" --data "$D" --eps 1/255 --attack fgsm:share=1.5 --out r
    bad 2 "share must be 1" -- curve "$W" --data "$D" --attacks fmn:share=0.5 --out r
    bad 2 "does not support --threat patch" -- eval "$W" --data "$D" --threat patch:size=4 --profile quick --out r
    [ ! -e r ]
}
