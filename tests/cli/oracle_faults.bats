#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Misbehaving models in another process (tests/fixtures/oracle_child.py): each ends the run with one sentence and status 1,
# soon, leaves no process (shared memory is a memfd, which has no name to leave), and what was done before stays: --resume goes on with a sound one.
load helpers

child() { echo "exec /usr/bin/python3 $ROOT/tests/fixtures/oracle_child.py $* --of=$BATS_FILE_TMPDIR"; } # tests run side by side: each knows its own

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    "$DRAW" --out d --train 10 --test 20 --seed 1 >/dev/null
    "$VITRINE" eval --oracle "$(child good)" --data d --out label >/dev/null
    tail -n +2 label/ledger.jsonl | jq -r '[.image, .pred] | @tsv' | while read -r image pred; do
        poke d/test_batch.bin $((image * 3073)) "$(byte "$pred")"
    done
}

setup() {
    C=$BATS_FILE_TMPDIR/d
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
}

nothing_left() {
    local k
    for k in $(seq 600); do
        pgrep -f "oracle_child.py .*--of=$BATS_FILE_TMPDIR" >left || break
        sleep 0.1
    done
    [ ! -s left ] || fail "still there: $(ps -o pid,args -p "$(tr '\n' ',' <left)0")" || return 1
}

# How long MODE is waited for: long where it answers or ends by itself, so that a busy machine is not taken for a model
# that hangs; where it hangs (for 1000 s) long enough for what comes before.
patience() { case $1 in *hang | deaf | half | trickle) echo 8 ;; *) echo 300 ;; esac }

# against MODE TEXT...: refused before anything is written.
against() {
    local mode=$1
    shift
    bad 1 "$@" -- eval --oracle "$(child "$mode" 2>/dev/null) 2>/dev/null" --data "$C" --eps 4/255 --attack pgd:steps=5 --oracle-timeout "$(patience "$mode")" --out "$mode" || return 1
    [ ! -e "$mode" ] || fail "$mode: a folder was made" || return 1
    nothing_left
}

# midway MODE TEXT...: after six answers; the lines that are there stay, and a sound model goes on to the same bytes.
midway() {
    local mode=$1
    shift
    bad 1 "$@" -- eval --oracle "$(child "$mode" 6) 2>/dev/null" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --exhaustive --no-selftest --oracle-timeout "$(patience "$mode")" --out "$mode" || return 1
    nothing_left || return 1
    good eval --oracle "$(child good)" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --exhaustive --no-selftest --resume --out "$mode" || return 1
    same_run want "$mode"
}

@test "before it has greeted: it ends, prints, raises, hangs" {
    against start-exit "ended when it was greeted with exit status 7"
    against start-raise "ended when it was greeted with exit status 1"
    against start-print "wrote 'Loading checkpoint" "when it was greeted" "standard output"
    against hello-exit "ended when it was greeted with exit status 3"
    against hello-hang "did not answer when it was greeted within 8 s (--oracle-timeout)"
}

@test "greetings that are none: another version, values out of range, no JSON, too long, too deep" {
    against hello-version "speaks version 2 of the protocol, must be 1"
    against hello-classes ', must be a whole number from 2 to 100000'
    against hello-float ', must be a whole number'
    against hello-batch ', must be a whole number from 1 to 1024'
    against hello-control ', must be text of one line'
    against hello-sha 'sha256 must be 64 hexadecimal digits'
    against hello-missing 'vjp is missing, must be true or false'
    against hello-json "its greeting is not JSON"
    against hello-long "answered when it was greeted with 1099511627776 bytes, must be at most 65536"
    against hello-deep "its greeting is not JSON"
}

@test "in the middle of a run: it ends, hangs, prints, answers otherwise than asked; a sound one goes on to the same bytes" {
    good eval --oracle "$(child good)" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --exhaustive --no-selftest --out want
    midway exit "ended when it was asked for" "with exit status 5"
    midway segfault "ended when it was asked for" "killed by signal 11"
    midway hang "did not answer when it was asked for" "within 8 s"
    midway deaf "did not answer when it was asked for"
    midway print "wrote 'epoch 1: everything is fine" "does it print to its standard output"
    midway daemon "ended when it was asked for" "exit status 0"
    midway close "closed the connection when it was asked for"
}

@test "answers of another id, kind, length or shape; half of one; one that trickles; its own words" {
    good eval --oracle "$(child good)" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --exhaustive --no-selftest --out want
    midway id "answered another question when it was asked for"
    midway op "answered another question when it was asked for"
    midway magic "what is no answer of the protocol"
    midway more "with 4096 bytes, must be 0: another shape than it greeted with"
    midway huge "with 1152921504606846976 bytes, must be 0"
    midway half "ended when it was asked for" "exit status 0"
    midway trickle "did not answer when it was asked for" "within 8 s"
    midway raise "failed when it was asked for" "ValueError: CUDA out of memory?[31m; second line"
    midway shape "Refused: the model answered with shape (1, 7), must be (1, 10)"
    midway vjp-exit "ended when it was asked for a vjp"
    midway vjp-more "when it was asked for a vjp with 4096 bytes, must be 0"
}

@test "numbers that are none: a clean image is an error, an attack's query ends its image alone; gradients of NaN break nothing" {
    bad 1 "image " "the model's logits are not finite" -- eval --oracle "$(child nan)" --data "$C"
    good eval --oracle "$(child infinite 9)" --data "$C" --images 0:8 --eps 4/255 --attack square:queries=30 --no-selftest --out inf
    truth inf/results.json '.attacks[0].not_finite > 0'
    good eval --oracle "$(child nan-gradient)" --data "$C" --images 0:8 --eps 4/255 --attack pgd:steps=5 --no-selftest --out g
    truth g/results.json '.attacks[0].invalid == 0'
    nothing_left
}

@test "a second process of another greeting is another model; one that fills standard error is heard out" {
    bad 1 "greeted otherwise than the first time: it is not the same model" -- eval --oracle "$(child hello-again)" --data "$C" --threads 2
    "$VITRINE" eval --oracle "$(child noisy)" --data "$C" --images 0:4 >out 2>err
    [ "$(grep -c '^warning: ' err)" = 2000 ]
    grep -q "and on standard output" err
    grep -q "^clean" out
    nothing_left
}

@test "Ctrl-C while the model hangs: soon over, lines kept, nothing left" {
    "$VITRINE" eval --oracle "$(child hang 12)" --data "$C" --eps 4/255 --attack square:queries=100 --exhaustive --no-selftest --out r >said 2>&1 &
    vitrine=$!
    until [ "$(wc -l <r/ledger.jsonl 2>/dev/null || echo 0)" -gt 5 ]; do
        kill -0 $vitrine 2>/dev/null || fail "it ended by itself: $(cat said)" || return
        sleep 0.05
    done
    SECONDS=0
    kill -INT $vitrine
    wait $vitrine || code=$?
    [ "$SECONDS" -le 100 ] && [ "$code" != 0 ] || fail "status $code after $SECONDS s: $(cat said)" # the model would hang for 600
    grep -q "continue with --resume" said
    nothing_left
}
