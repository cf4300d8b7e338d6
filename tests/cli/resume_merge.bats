#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Interruptions lose nothing: kill, Ctrl-C, a line cut in half, a resumed run, runs merged; and foreign or damaged
# ledgers are refused and left as they are.
load helpers

# Its ledger: the header, 20 lines of clean images (0 to 20), 20 of pgd (to 40), one of square for each survivor.
SLOW="--eps 0.002 --attack pgd:steps=3 --attack square:queries=500"
FAST="--eps 2/255 --attack fgsm --attack apgd-t:steps=10 --attack fgsm"

setup_file() {
    load helpers
    export REF=$BATS_FILE_TMPDIR/slow QUICK=$BATS_FILE_TMPDIR/fast
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" $SLOW --threads 1 --out "$REF" >/dev/null
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" $FAST --threads 2 --out "$QUICK" >/dev/null
}

slow() { "$VITRINE" eval "$W" --data "$D" $SLOW "$@"; }
fast() { quick $FAST "$@"; }
lines() { wc -l <"$1/ledger.jsonl"; }

# held N ARGS: the slow run in the background, its number in $pid, stopped once it has written N lines of its ledger.
held() {
    local n=$1
    shift
    hold ledger.jsonl "$n" "$VITRINE" eval "$W" --data "$D" $SLOW "$@"
}

# foreign KEYS -- ARGS: a resumption of $QUICK's copy r with other options names the keys that differ and changes nothing.
foreign() {
    local keys=$1
    shift 2
    bad 2 r/ledger.jsonl "made with another $keys" -- eval "$@" --out r --resume
    [[ $stderr == *"made with another $keys" ]] || fail "more keys than '$keys': $stderr" || return 1
    [ "$(sums r)" = "$before" ] || fail "the run was changed by: $*"
}

@test "kill -9 at several moments, resumed with another number of threads: not a byte differs" {
    for n in 1 6 9 13 14; do # lines that each turn adds: killed behind the header, in clean images, in each attack
        held $n --threads 2 --out r --resume
        kill -KILL $pid
        wait $pid || true
        [ ! -e r/results.json ]
    done
    slow --threads 2 --out r --resume >/dev/null
    same_run "$REF" r
}

@test "kill -9 in the middle of a stage keeps every finished line" {
    held 29 --threads 1 --out r
    kill -KILL $pid
    wait $pid || true
    head -n "$(lines r)" r/ledger.jsonl | jq -c 'del(.adv)' | sort >kept
    [ ! -e r/results.json ]
    [ "$(lines r)" -lt "$(lines "$REF")" ]
    slow --threads 2 --out r --resume >/dev/null
    same_run "$REF" r
    [ "$(wc -l <kept)" -gt 28 ]
    lost=$(jq -c 'del(.adv)' r/ledger.jsonl | sort | comm -13 - kept)
    [ -z "$lost" ] || fail "lost: $lost"
}

@test "Ctrl-C: exit status 1, the table so far, a valid ledger; --resume finishes it" {
    held 27 --threads 2 --out r
    kill -INT $pid
    kill -CONT $pid
    status=0
    wait $pid || status=$?
    output=$(cat out) stderr=$(cat err)
    judge 1 interrupted "ledger lines are kept" "--resume"
    says clean pgd square "incomplete: "
    [ -z "$(tail -c 1 r/ledger.jsonl | tr -d '\n')" ] || fail "the last line has no end"
    jq -es 'length > 26' r/ledger.jsonl >/dev/null
    [ ! -e r/results.json ]
    slow --threads 1 --out r --resume >/dev/null
    same_run "$REF" r
}

@test "Ctrl-C and SIGTERM without --out: what is done is printed, and that it is lost" {
    "$VITRINE" eval "$W" --data "$D" ${SLOW/queries=*/queries=10000000} --attack fgsm --threads 1 >out 2>err 3>&- & # never ends by itself
    pid=$!
    # until it listens to SIGTERM (signal 15)
    until [ "$(cat /proc/$pid/comm)" = vitrine ] && (((0x$(sed -n 's/^SigCgt:\t//p' /proc/$pid/status) >> 14) & 1)); do
        kill -0 $pid || fail "it ended by itself: $(cat err)" || return
        sleep 0.02
    done
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    output=$(cat out) stderr=$(cat err)
    judge 1 interrupted "lost, since no --out was given"
    says "incomplete: "
    # what was not reached has no number, what is not done an upper bound
    grep -qE "^fgsm +- +- +- " out
    grep -qE "^worst case +at most [0-9]+ / [0-9]+ +[0-9.]+ +-" out
}

@test "two processes on one --out: the second is refused, the first goes on" {
    held 21 --threads 1 --out r
    bad 1 "r already holds a run" "--resume" -- eval "$W" --data "$D" $SLOW --out r
    bad 1 r/ledger.jsonl "another vitrine is writing this run" -- eval "$W" --data "$D" $SLOW --out r --resume
    bad 1 "r already holds a run" -- merge "$QUICK" --out r
    kill -CONT $pid
    wait $pid
    same_run "$REF" r
}

@test "two processes that start on one --out at the same moment: one makes the run, the other is refused" {
    for i in 1 2 3; do
        for k in a b; do "$VITRINE" eval "$W" --data "$D" --images 0:5 $FAST --out race$i >out.$k 2>err.$k 3>&- & done
        failed=0
        for job in $(jobs -p); do wait "$job" || failed=$((failed + 1)); done
        [ $failed -le 1 ] || fail "both were refused: $(cat err.a err.b)"
        truth race$i/results.json '.clean.total == 5'
    done
}

@test "--resume without a ledger simply starts; on a finished run it changes nothing" {
    fast --out r --resume
    same_run "$QUICK" r
    before=$(sums r | grep -v run.json)
    fast --out r --resume --threads 1
    [ "$(sums r | grep -v run.json)" = "$before" ]
    fast --out f
    same_run r f
}

@test "--resume may extend --images: the same as a fresh run over all" {
    fast --images 5:9 --out r
    fast --images 2:20 --out r --resume --threads 1
    fast --images 2:20 --out f
    same_run f r
    seq 0 19 >all
    fast --images all --out r --resume
    same_run "$QUICK" r
}

@test "--resume may not shrink --images" {
    fast --images 3:9 --out r
    before=$(sums r)
    bad 2 r/ledger.jsonl "holds image 3" "extend" "not shrink" -- eval "$W" --data "$D" $FAST --images 4:9 --out r --resume
    bad 2 "holds image 8" -- eval "$W" --data "$D" $FAST --images 3:8 --out r --resume
    [ "$(sums r)" = "$before" ]
}

@test "--resume on a foreign ledger is refused, names what differs, and leaves the run as it was" {
    cp -r "$QUICK" r
    before=$(sums r)
    foreign seed -- "$W" --data "$D" $FAST --seed 1
    foreign "eps, eps_value" -- "$W" --data "$D" ${FAST/2\/255/3\/255}
    foreign norm -- "$W" --data "$D" $FAST --norm l2
    foreign exhaustive -- "$W" --data "$D" $FAST --exhaustive
    foreign attacks -- "$W" --data "$D" $FAST --attack fgsm
    foreign attacks -- "$W" --data "$D" ${FAST/steps=10/steps=11}
    foreign data -- "$W" --data "$D" $FAST --split train
    foreign model -- "$W" --data "$D" $FAST --attn-scale dim
    cp -r "$D" moved && poke moved/test_batch.bin 1000 "$(byte 77)"
    foreign data -- "$W" --data moved $FAST
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 1 -o other.safetensors
    foreign weights -- other.safetensors --data "$D" $FAST
    foreign "weights, norm, seed" -- other.safetensors --data "$D" $FAST --norm l2 --seed 5
}

@test "another BLAS kernel: refused, and accepted with --allow-mixed" {
    fast --images 0:4 --out r
    before=$(sums r)
    export OPENBLAS_CORETYPE=Prescott
    fast --images 0:1 --out p
    [ "$(head -n 1 p/ledger.jsonl | jq .blas)" != "$(head -n 1 r/ledger.jsonl | jq .blas)" ] || skip "this OpenBLAS has one kernel"
    bad 2 "made with another blas" "--allow-mixed" -- eval "$W" --data "$D" $FAST --images 0:6 --out r --resume
    [ "$(sums r)" = "$before" ]
    fast --images 0:6 --out r --resume --allow-mixed
    truth r/results.json '.clean.total == 6'
    fast --images 6:8 --out q
    bad 2 "made with another blas" "--allow-mixed" -- merge r q --out m
    [ ! -e m ]
    good merge r q --out m --allow-mixed
    truth m/results.json '.clean.total == 8'
}

@test "a ledger whose last line is cut in half loses that line alone" {
    for bytes in 1 2 60 260; do
        rm -rf r && cp -r "$QUICK" r && rm r/results.json
        truncate -s -$bytes r/ledger.jsonl
        fast --out r --resume --threads 1
        same_run "$QUICK" r
    done
}

@test "a ledger cut within its header, or empty, starts again" {
    for bytes in 0 1 40 300; do
        rm -rf r && cp -r "$QUICK" r
        truncate -s $bytes r/ledger.jsonl
        fast --out r --resume
        same_run "$QUICK" r
    done
}

@test "garbage in a ledger is refused with its line, and the file is left as it was" {
    garbage() { # LINE TEXT
        rm -rf r && cp -r "$QUICK" r
        sed -i "$1s/.*/$2/" r/ledger.jsonl
        before=$(sums r)
        bad 1 r/ledger.jsonl "line $1 is not a ledger" -- eval "$W" --data "$D" $FAST --out r --resume
        [ "$(sums r)" = "$before" ] || fail "the run was changed by garbage '$2' in line $1" || return 1
        bad 1 r/ledger.jsonl "line $1 is not a ledger" -- merge r --out m
        [ ! -e m ]
    }
    garbage 7 '{"image":3,'
    garbage 7 ''
    garbage 7 '[]'
    garbage 12 '{"image":-3}'
    garbage 1 'not a header'
    garbage 9 '\x00\x00\x00\x00'
}

@test "a file of another kind under the ledger's name is refused, with and without a last newline" {
    mkdir r
    for text in 'my notes' 'my notes\n' '{"notes": 1}'; do
        printf "$text" >r/ledger.jsonl
        cp r/ledger.jsonl kept
        vt eval "$W" --data "$D" $FAST --out r --resume
        [ "$status" != 0 ]
        judge "$status" r/ledger.jsonl
        cmp kept r/ledger.jsonl
        bad 1 "already holds a run" -- eval "$W" --data "$D" $FAST --out r
    done
}

@test "a ledger with a line twice, or a stage that is none, is refused" {
    cp -r "$QUICK" r
    sed -n 5p r/ledger.jsonl >line
    cat line >>r/ledger.jsonl
    before=$(sums r)
    bad 1 r/ledger.jsonl "two lines" "entry 0" -- eval "$W" --data "$D" $FAST --out r --resume
    sed -i '$d' r/ledger.jsonl
    sed 's/"stage":0/"stage":7/' line >>r/ledger.jsonl
    bad 1 r/ledger.jsonl "stage 7" -- eval "$W" --data "$D" $FAST --out r --resume
}

@test "killed between the two renames of the end: offsets of the old order are found by their hash" {
    fast --out r
    # the ledger as it was before: every broken line points at the place of another one
    head -n 1 "$QUICK/ledger.jsonl" >r/ledger.jsonl
    tail -n +2 "$QUICK/ledger.jsonl" | jq -sc '[.[] | select(has("adv")) | .adv] as $at | ($at | length) as $n | reduce .[] as $l ({k: 0, out: []};
        if $l | has("adv") then .k as $k | .out += [$l | .adv = $at[($k * 7 + 3) % $n]] | .k += 1 else .out += [$l] end) | .out | reverse | .[]' >>r/ledger.jsonl
    [ "$(jq -s 'map(select(has("adv")) | .adv) | length' r/ledger.jsonl)" -gt 3 ]
    fast --out r --resume
    same_run "$QUICK" r
}

@test "an adversarial image that is gone is missed, not invented" {
    quick --eps 2/255 --attack fgsm --out r
    poke r/adv.bin 5000 '\xff\xff\xff\xff'
    cp r/ledger.jsonl kept
    bad 1 r/adv.bin "adversarial image of image" "entry 1" -- eval "$W" --data "$D" --eps 2/255 --attack fgsm --out r --resume
    cmp kept r/ledger.jsonl
}

@test "finding 15: an altered digit is refused by --resume and merge, and verify names its line" {
    fast --images 0:12 --out whole
    for edit in '5s/"margin":-\{0,1\}/&1/' '9s/"gradients":/&1/' '3s/\("sha":"[0-9a-f]*\)[0-7]\([89a-f]*"\)/\18\2/' \
        '7s/"label":[0-9]/&0/' '1s/"eps_value":0/"eps_value":1/' '1s/"seed":0/"seed":1/' '4s/,"check":"[0-9a-f]*"//'; do
        rm -rf r && cp -r whole r
        sed -i "$edit" r/ledger.jsonl
        ! cmp -s whole/ledger.jsonl r/ledger.jsonl || fail "$edit changes nothing"
        before=$(sums r)
        code=1 says="r/ledger.jsonl: line ${edit%%s*} (image " resumed="not as it was written"
        case $edit in
        *eps*) says="r/ledger.jsonl: the header's eps is \"2/255\", but its eps_value is" resumed=$says ;;
        *seed*) code=2 says="r/ledger.jsonl: line 2 (image " resumed="made with another seed" ;;
        esac
        bad $code "$resumed" -- eval "$W" --data "$D" $FAST --out r --resume
        for command in "merge r --out m" "compare whole r" "compare r whole" "show r --pictures 0 --out x" "show r --out x" \
            "export r --out x"; do
            # shellcheck disable=SC2086
            bad 1 "$says" -- $command
        done
        [ "$(sums r)" = "$before" ] && [ ! -e m ] && [ ! -e x ] || fail "something was written"
        vt verify r
        [ "$status" = 1 ]
        [[ $output$stderr == *"$says"* ]] || fail "$output$stderr"
    done
    sed -i 9d r/ledger.jsonl && sed -i "4s/.*/$(sed -n 4p whole/ledger.jsonl)/" r/ledger.jsonl # a line that is gone is done again
    fast --images 0:12 --out r --resume
    same_run whole r
}

@test "merge: two halves, in either order, are the whole byte for byte" {
    fast --images 0:7 --threads 1 --out a
    fast --images 7:20 --threads 2 --out b
    good merge a b --out m
    says "20 / 20" "m: results.json"
    same_run "$QUICK" m
    good merge b a --out n
    same_run "$QUICK" n
    seq 0 2 18 >even
    seq 1 2 19 >odd
    fast --images even --out e
    fast --images odd --out o
    good merge o e --out z
    same_run "$QUICK" z
    fast --out m --resume # a merged run is a run
    same_run "$QUICK" m
}

@test "merge joins what is as it was when it ended: its own output is sealed anew" {
    fast --images 0:7 --out a
    fast --images 7:20 --out b
    for damage in 'sed -i "s/^[0-9a-f]/x/" c/SHA256SUMS' 'rm c/SHA256SUMS' 'echo >>c/table.md' 'sed -i "2{h;d};3{G}" c/ledger.jsonl'; do
        rm -rf c && cp -r b c
        eval "$damage"
        bad 1 "c is not as it was when it ended" "SHA256SUMS" -- merge a c --out m
        [ ! -e m ] || fail "the refused merge left something behind"
    done
    good merge a b --out m
    same_run "$QUICK" m
}

@test "an interrupted merge: what it left is named, and nothing of it is offered to be continued" {
    fast --images 0:7 --out a
    good merge a --out m
    bad 1 "m already holds a run: choose another --out" -- merge a --out m
    rm m/SHA256SUMS # the last file that a merge writes
    bad 1 "m already holds a run that did not end" "can be removed" -- merge a --out m
    [[ $stderr != *--resume* ]]
    rm -r m && good merge a --out m
}

@test "merge refuses runs that overlap, differ or are incomplete, and then writes nothing" {
    refuse() { # TEXT... -- RUNS
        local code=$1
        shift
        bad "$code" "$@" --out m || return 1
        [ ! -e m ] || fail "the refused merge left something behind"
    }
    fast --images 0:8 --out a
    fast --images 7:20 --out b
    refuse 2 "image 7 is in two of the runs" -- merge a b
    refuse 2 "image 0 is in two of the runs" -- merge a a
    fast --images 8:20 --out c --seed 1
    refuse 2 a c "made with another seed" -- merge a c
    quick --images 8:20 --eps 2/255 --attack fgsm --out d
    refuse 2 a d "made with another attacks" -- merge a d
    fast --images 8:20 --out e
    sed -i '$d' e/ledger.jsonl
    refuse 2 "e is not finished" "1 image-stages are missing" -- merge a e
    refuse 1 "nowhere/ledger.jsonl" "No such file" -- merge a nowhere
    printf '{"format":"vitrine ledger 2"}\n' >e/ledger.jsonl
    refuse 1 e/ledger.jsonl "image size" -- merge a e
    before=$(sums a)
    bad 1 "a already holds a run" -- merge a --out a
    [ "$(sums a)" = "$before" ]
}
