#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --as-published: what papers' released evaluators report, beside the same corrected.
load helpers

@test "--as-published: two entries a row, labelled, in every report" {
    quick --images 0:10 --eps 4/255 --as-published specformer --attack fgsm --out r
    says "FGSM, as published" "CW-20, as published = pgd-specformer:steps=20,alpha=2/255,loss=cw" "SpecFormer" \
        "as published        %       corrected" "PGD-2: published:"
    truth r/results.json '.as_published.paper == "specformer"'
    truth r/results.json '[.as_published.rows[].row] == ["FGSM", "PGD-2", "CW-20", "PGD-20"]'
    # each row's numbers are those of its two entries, the first scored as published, the second in the ball
    truth r/results.json '.attacks as $a | .as_published.rows | all(
        $a[.published - 1].scoring == "as published" and ($a[.corrected - 1] | has("scoring") | not) and
        .published_right == $a[.published - 1].robust and .corrected_right == $a[.corrected - 1].robust and
        .points == .published_percent - .corrected_percent and .total == 10)'
    grep -qF 'FGSM, as published' r/table.csv
    grep -qF '| CW-20 |' r/table.md
    grep -qF 'PGD-2, as published' r/table.tex
    # what a paper's evaluator broke is not a break of the ball
    truth r/results.json '.worst_case.robust == ([.attacks[] | select(has("scoring") | not) | .robust] | min)'
    good verify r --weights "$W" --data "$D"
    says "everything is as the ledger"
}

@test "published evaluators run on all images, also those that are wrong when clean" {
    cp -r "$D" wrong
    old=$(od -An -tu1 -j0 -N1 "$D/test_batch.bin")
    poke wrong/test_batch.bin 0 "$(byte $(((old + 1) % 10)))"
    good eval "$W" --data wrong --images 0:4 --eps 1e-6 --as-published mo2022 --out r
    truth r/results.json '.clean.correct == 3'
    truth r/results.json '.attacks | all(.robust + .broken == (if has("scoring") then 4 else 3 end))'
    truth r/results.json '.as_published.rows | all(.published_right == 3 and .corrected_right == 3 and .points == 0)'
    good verify r --weights "$W" --data wrong
}

@test "a run with --as-published is resumed, extended and merged to the same bytes" {
    P="--eps 4/255 --as-published specformer"
    quick $P --images 0:8 --threads 2 --out whole
    quick $P --images 0:3 --threads 1 --out r
    quick $P --images 0:8 --threads 2 --out r --resume
    same_run whole r
    quick $P --images 0:5 --out a
    quick $P --images 5:8 --out b
    good merge a b --out m
    says "as published        %       corrected"
    cmp whole/results.json m/results.json
    bad 2 "as_published" -- eval "$W" --data "$D" --eps 4/255 --as-published mo2022 --images 0:8 --out r --resume
    same_run whole r
}

@test "TRADES: its own eps; eps 0.031 is said to be a rounding" {
    quick --images 0:2 --eps 8/255 --as-published trades --out r
    truth r/results.json '.attacks | map(.id) | .[0] == "pgd-trades:steps=20,alpha=0.003,eps=0.031"'
    says "eps 0.031, which is 8/255 rounded down"
    quick --images 0:2 --eps 0.031 --attack fgsm --out s
    says "eps 0.031 is what papers write for 8/255"
    truth s/results.json '.notes | any(contains("1.2 %"))'
    quick --images 0:2 --eps 8/255 --attack fgsm
    [[ $output != *"1.2 %"* ]]
}

@test "--as-published: bad usage is one sentence, and nothing is made" {
    no() { bad 2 "$1" -- eval "$W" --data "$D" --out r "${@:2}" && [ ! -e r ]; }
    no "unknown paper 'specfomer'; did you mean 'specformer'?" --eps 2/255 --as-published specfomer
    no "--as-published knows specformer, specformer-imagenet, mo2022, mo2022-imagenet and trades" --eps 2/255 --as-published nature
    no "--as-published specformer is about linf: it cannot be combined with --norm l2" --norm l2 --eps 1 --as-published specformer
    no "cannot be combined with --threat patch:size=4" --threat patch:size=4 --as-published mo2022
    no "give --eps 8/255" --eps 2/255 --as-published trades
    no "--exhaustive" --eps 2/255 --exhaustive --as-published mo2022
    no "give --as-published once" --eps 2/255 --as-published mo2022 --as-published trades
    no "eps" --as-published mo2022
}

@test "a published evaluator by its own name is scored as published, and stands nowhere else" {
    quick --images 0:4 --eps 4/255 --attack fgsm-specformer --attack pgd-specformer:steps=3,loss=cw --individual --out r
    says "fgsm-specformer, as published" "pgd-specformer, as published"
    truth r/results.json '.attacks | all(.scoring == "as published" and .invalid == 0)'
    truth r/results.json '.worst_case.robust == .clean.correct'
    bad 2 "stands in no list" -- eval "$W" --data "$D" --eps 2/255 --attack fgsm+pgd-specformer
    bad 2 "takes no share" -- eval "$W" --data "$D" --eps 2/255 --attack pgd-trades:share=0.5
    bad 2 "does not support --norm l2" -- eval "$W" --data "$D" --norm l2 --eps 1 --attack fgsm-specformer
    bad 2 "a paper's evaluator" -- selftest "$W" --data "$D" --eps 2/255 --attack fgsm-specformer
    bad 2 "not of a paper's evaluator" -- curve "$W" --data "$D" --out c --attacks pgd-specformer
    bad 2 "not of a paper's evaluator" -- curve "$W" --data "$D" --out c --attacks fmn --confirm 2/255 --confirm-with pgd-trades
    [ ! -e c ]
}
