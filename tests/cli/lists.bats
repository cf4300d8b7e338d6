#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Lists of attacks, AutoAttack's versions, every attack on every image, and what few classes change.
load helpers

@test "a list is one entry with its stages, each on the survivors of the one before" {
    quick --images 0:4 --eps 2/255 --attack apgd-ce:steps=3+fab-t:steps=2,targets=1+square:queries=5 --out r
    truth r/results.json '[.attacks[].name] == ["apgd-ce+fab-t+square"]'
    truth r/results.json '[.attacks[0].stages[].name] == ["apgd-ce", "fab-t", "square"]'
    truth r/results.json '.attacks[0].id == ([.attacks[0].stages[].id] | join("+"))'
    truth r/results.json '.attacks[0].robust == .attacks[0].stages[-1].robust'
    quick --images 0:4 --eps 2/255 --attack "$(jq -r '.attacks[0].id' r/results.json)" --out again
    cmp r/results.json again/results.json
}

@test "--individual: every part on every image, and the worst case" {
    quick --images 0:4 --eps 2/255 --individual --attack apgd-ce:steps=3+square:queries=5 --attack fgsm --out r
    truth r/results.json '[.attacks[].name] == ["apgd-ce", "square", "fgsm"]'
    truth r/results.json '.clean.correct as $c | .attacks | all(.robust + .broken == $c and (.stages | length) == 1)'
    truth r/results.json '.worst_case.robust <= ([.attacks[].robust] | min)'
}

@test "versions of AutoAttack, by name or by option" {
    quick --images 0:1 --eps 1e-6 --attack autoattack:version=rand --attack autoattack-rand --out r
    truth r/results.json '[.attacks[].name] == ["autoattack-rand", "autoattack-rand"]'
    truth r/results.json '.attacks[0].id == .attacks[1].id and (.attacks[0].id | contains("eot=20"))'
    bad 2 "unknown attack 'autoattack-fast'" -- eval "$W" --data "$D" --eps 2/255 --attack autoattack:version=fast
    bad 2 "unknown attack ''" -- eval "$W" --data "$D" --eps 2/255 --attack apgd-ce+
    bad 2 "at most 16 stages" -- eval "$W" --data "$D" --eps 2/255 \
        --attack autoattack-plus+autoattack-plus+autoattack-plus
    bad 2 "autoattack-plus does not support --norm l1" -- eval "$W" --data "$D" --norm l1 --eps 12 --attack autoattack:version=plus
}

@test "list attacks names the new ones; a report says what few classes change" {
    good list attacks
    for a in autoattack-plus autoattack-rand apgd-malt mt-pgd pma; do
        grep -qE "^$a +" <<<"$output" || fail "$a is not listed"
    done
    says "then fab:steps=100,restarts=5" "--attack A+B+C"
    quick --images 0:1 --eps 2/255 --attack apgd-t:steps=2,targets=12 --out r
    says "apgd-t: with 10 classes there are 9 targets, not 12"
}
