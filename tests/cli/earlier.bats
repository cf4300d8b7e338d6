#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Folders of an earlier version (tests/fixtures/earlier). A training goes on where this machine has the product kernels that
# made it, or is refused by a sentence that names them; ledgers of format 1, whose lines have no checksums, are refused.
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

@test "an earlier version's self-test, which calls no sign of masking another word, reads in the words of today" {
    rm -r eval
    # shellcheck disable=SC2086
    good eval $ASK --images 0:8 --out eval # the run that it stands beside
    cp "$ROOT/tests/fixtures/earlier/selftest.json" eval
    grep -q '"verdict": "sound"' eval/selftest.json
    good show eval --pictures 0 --out p.html
    grep -qF 'self-test: no sign of masking (16 checks on 7 images; not tested: steps, radius, whole-box, square, set-up, active-test)' p.html
    jq '.checks = [] | .not_tested = []' eval/selftest.json >x && mv x eval/selftest.json # what it wrote if no image was right
    good show eval --pictures 0 --out q.html
    grep -qF 'self-test: nothing could be tested: no check was made' q.html
    good compare eval eval
    rm eval/selftest.json
    good merge eval --out all
    good show all --pictures 0 --out r.html
    never grep -q self-test: r.html
    for text in '{"verdict": "unsure"}' '{}' '[' ''; do
        echo "$text" >eval/selftest.json
        bad 1 "eval/selftest.json: is not what a self-test writes" -- show eval --pictures 0 --out s.html
    done
    [ ! -e s.html ]
}

@test "a ledger of format 1 is refused by all that read it, in one sentence, and stays as it was" {
    local command before
    before=$(sums eval)
    for command in "verify eval" "show eval" "show eval --pictures 0 --out x.html" "export eval --out points.npz" "compare eval eval" \
        "merge eval --out m" "merge --worst a=eval b=eval" "eval $ASK --images 0:8 --out eval --resume"; do
        # shellcheck disable=SC2086
        bad 1 "eval/ledger.jsonl: the header's format is \"vitrine ledger 1\", must be vitrine ledger 2" -- $command
    done
    [ "$(sums eval)" = "$before" ]
    [ ! -e m ] && [ ! -e points.npz ] && [ ! -e x.html ] || fail "something was written"
    bad 1 "run/ledger.jsonl: the header's format is" -- table t.yaml --out table --threads 1
}

@test "an earlier version's training goes on to its end" {
    goes_on train tiny.yaml --data datasets/shapes10 --out train --resume --threads 1
    [ "$status" = 0 ] || return 0
    [ "$(jq -s 'map(select(.step)) | length' train/log.jsonl)" -ge 12 ] || fail "$(tail -n 2 train/log.jsonl)"
    good info train/model.safetensors
}
