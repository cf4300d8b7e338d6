#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Folders of an earlier version (tests/fixtures/earlier) are verified, resumed, merged, and their cells taken. Bytes are asked for
# where this machine has the product kernels that made them; elsewhere a run may be refused, by a sentence that names them.
load helpers

ASK="weights/shapes10-plain --data datasets/shapes10 --eps 2/255 --attack pgd:steps=5+square:queries=20 --threads 1 --no-selftest"

setup() {
    load helpers
    cd "$BATS_TEST_TMPDIR" && tar -xf "$ROOT/tests/fixtures/earlier/runs.tar.gz"
    ln -s "$ROOT/weights" "$ROOT/datasets" .
}

# The command ends well, or says that other kernels made it.
goes_on() {
    run "$VITRINE" "$@"
    [ "$status" = 0 ] || [[ $output == *kernel* ]] || fail "status $status: $output"
}
numbers() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.entry, .stage, .image, .status, .pred, .forwards, .gradients, .sha]' | sort; }

@test "an earlier version's run verifies, shows, exports; its points are judged as they were" {
    good verify eval
    says "8" "5 broken" "everything is as the ledger, the results and the hashes say"
    good export eval --out points.npz
    good show eval
    good compare eval eval
    sed 's/"pred":[0-9]*,/"pred":9,/' eval/ledger.jsonl >x && mv x eval/ledger.jsonl
    run "$VITRINE" verify eval
    [ "$status" != 0 ] || fail "an altered ledger is believed"
}

@test "an earlier version's self-test, which calls no sign of masking another word, reads in the words of today" {
    cp "$ROOT/tests/fixtures/earlier/selftest.json" eval
    grep -q '"verdict": "sound"' eval/selftest.json
    good show eval --pictures 0 --out p.html
    grep -qF 'self-test: no sign of masking (16 checks on 7 images; not tested: steps, radius, whole-box, square, set-up, active-test)' p.html
    jq '.checks = [] | .not_tested = []' eval/selftest.json >x && mv x eval/selftest.json # what it wrote if no image was right
    good show eval --pictures 0 --out q.html
    grep -qF 'self-test: nothing could be tested: no check was made' q.html
    good compare eval eval
    goes_on merge eval --out all
    good show all --pictures 0 --out r.html
    never grep -q self-test: r.html
    for text in '{"verdict": "unsure"}' '{}' '[' ''; do
        echo "$text" >eval/selftest.json
        bad 1 "eval/selftest.json: is not what a self-test writes" -- show eval --pictures 0 --out s.html
    done
    [ ! -e s.html ]
}

@test "an earlier version's interrupted run goes on to the same lines" {
    mkdir half # as a kill leaves it
    head -n 13 eval/ledger.jsonl >half/ledger.jsonl
    cp eval/adv.bin half
    # shellcheck disable=SC2086
    goes_on eval $ASK --images 0:8 --out half --resume
    [ "$status" = 0 ] || return 0
    diff <(numbers half) <(numbers eval) || fail "other lines"
    good verify half
    # another question is another run
    # shellcheck disable=SC2086
    bad 2 "half" -- eval $ASK --images 0:8 --seed 3 --out half --resume
}

@test "a new run is merged with an earlier version's" {
    # shellcheck disable=SC2086
    good eval $ASK --images 8:12 --out next
    goes_on merge eval next --out all
    [ "$status" = 0 ] || return 0
    [ "$(numbers all | wc -l)" = $(($(numbers eval | wc -l) + $(numbers next | wc -l))) ]
}

@test "an earlier version's training goes on to its end" {
    goes_on train tiny.yaml --data datasets/shapes10 --out train --resume --threads 1
    [ "$status" = 0 ] || return 0
    [ "$(jq -s 'map(select(.step)) | length' train/log.jsonl)" -ge 12 ] || fail "$(tail -n 2 train/log.jsonl)"
    good info train/model.safetensors
}

@test "an earlier version's cells are a table's" {
    before=$(find table/cells | sort)
    good table t.yaml --out table --threads 1
    [ "$(find table/cells | sort)" = "$before" ] || fail "cells were run again"
    truth table/tiny.json '.evaluations == 4 and .done == 4'
}
