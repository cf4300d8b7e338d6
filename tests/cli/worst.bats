#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# merge --worst: the union of threats counts what a count by hand from the ledgers gives; what is no union is refused.
load helpers

V=$ROOT/weights/shapes10-vit SHAPES=$ROOT/datasets/shapes10

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    run=("$V" --data "$SHAPES" --images 0:24 --no-selftest)
    "$VITRINE" eval "${run[@]}" --eps 2/255 --attack pgd:steps=5 --attack square:queries=40 --out linf >/dev/null
    "$VITRINE" eval "${run[@]}" --norm l2 --eps 0.3 --attack pgd:steps=5 --out l2 >/dev/null
    "$VITRINE" eval "${run[@]}" --threat patch:size=6,count=1 --attack pgd:steps=5 --out patch >/dev/null
    "$VITRINE" eval "$V" --data "$SHAPES" --images 0:23 --no-selftest --norm l2 --eps 0.3 --attack fgsm --out fewer >/dev/null
    "$VITRINE" eval "$V" --data "$SHAPES" --images 0:24 --out clean >/dev/null
    "$VITRINE" eval "$ROOT/weights/shapes10-plain" --data "$SHAPES" --images 0:24 --norm l2 --eps 0.3 --attack fgsm --no-selftest --out other >/dev/null
    "$VITRINE" curve "$V" --data "$SHAPES" --images 0:24 --attacks fmn:steps=5 --no-selftest --out curve >/dev/null
}

setup() {
    R=$BATS_FILE_TMPDIR
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
}

# Images that a run leaves standing, by hand.
standing() {
    tail -n +2 "$1/ledger.jsonl" | jq -s '[group_by(.image)[] | select(all(.[]; .status != "broken" and .status != "wrong" and .status != "not-finite")) | .[0].image]'
}

@test "the union by hand, in every form" {
    good merge --worst linf="$R/linf" l2="$R/l2" "$R/patch" --out w
    union=$(jq -n --argjson a "$(standing "$R/linf")" --argjson b "$(standing "$R/l2")" --argjson c "$(standing "$R/patch")" '[$a[] | select(IN($b[]) and IN($c[]))] | length')
    alone=$(jq -n --argjson a "$(standing "$R/linf")" --argjson b "$(standing "$R/l2")" --argjson c "$(standing "$R/patch")" '[$a[] | select(IN($c[]) and (IN($b[]) | not))] | length')
    truth w/worst.json ".union.right == $union and .images == 24 and .runs[1].falls_here_alone == $alone"
    truth w/worst.json '[.runs[].name] == ["linf", "l2", "'"$R"'/patch"] and .runs[0].right == '"$(standing "$R/linf" | jq length)"
    truth w/worst.json '.union.right < .clean.right and .union.right <= ([.runs[].right] | min) and .runs[2].threat == "patch 6 x 6, count 1, anywhere"'
    grep -q "^| union | any of these | $union / 24 |" w/worst.md
    says "union" "$union / 24" "falls here alone"
    good merge --worst a="$R/linf" b="$R/l2" --json
    jq -e '.runs | length == 2' <<<"$output" >/dev/null
    [ "$(ls w)" = "$(printf 'worst.json\nworst.md')" ]
}

@test "no union: one run, other images, another model, a curve, nothing attacked, one name twice, not finished" {
    bad 2 "needs two runs at least" -- merge --worst "$R/linf"
    bad 2 "image 23 is in $R/linf and not in $R/fewer" -- merge --worst "$R/linf" "$R/fewer" --out x
    bad 2 "are of another weights" -- merge --worst "$R/linf" "$R/other" --out x
    bad 2 "is a curve" -- merge --worst "$R/linf" "$R/curve" --out x
    bad 2 "attacked nothing" -- merge --worst "$R/linf" "$R/clean" --out x
    bad 2 "two runs are called a" -- merge --worst a="$R/linf" a="$R/l2" --out x
    bad 1 "nowhere" -- merge --worst a=nowhere "$R/l2" --out x
    mkdir part && head -n 12 "$R/l2/ledger.jsonl" >part/ledger.jsonl
    vt merge --worst "$R/linf" part --out x
    [ "$status" != 0 ]
    [ ! -e x ]
}
