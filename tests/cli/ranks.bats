#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Several processes that do one evaluation, training or table together, under MPI: the same bytes as one process, after
# kills and resumptions by other numbers too; what differs between ranks is refused in one sentence. The same on threads
# that stand for processes, and so without MPI: tests/unit/parallel/test_team.c, tests/unit/eval/test_parts.c,
# tests/unit/train/test_ranks.c.
load helpers

MPI=$VITRINE-mpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm_rsh_agent=
case $VITRINE in */asan/*) export ASAN_OPTIONS=detect_leaks=0 ;; esac # Open MPI's own
# Long enough to be killed in the middle; many images stand to the end.
SLOW="--eps 0.002 --attack pgd:steps=20 --attack square:queries=3000 --attack apgd-ce:steps=20 --no-selftest"

setup_file() {
    load helpers
    export REF=$BATS_FILE_TMPDIR/ref TRAINED=$BATS_FILE_TMPDIR/trained
    [ -x "$VITRINE-mpi" ] || return 0
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" $SLOW --out "$REF" >/dev/null
    "$DRAW" --out "$BATS_FILE_TMPDIR/images" --train 64 --test 20 --seed 3 >/dev/null
    cat >"$BATS_FILE_TMPDIR/r.yaml" <<END
epochs: 4
batch: 16
micro_batch: 3
objective: at
optimiser: adamw
lr: 1e-3
attack: {eps: 8/255, spec: "pgd:steps=3"}
msvp: {lambda: 1e-3, method: svd}
ema: 0.9
probe: {images: 5, split: test}
model: {dim: 16, depth: 3, heads: 2, hidden: 24, patch: 8}
END
    "$VITRINE" train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out "$TRAINED" >/dev/null 2>&1
}

setup() {
    [ -x "$MPI" ] || skip "$(basename "$MPI") was not made: mpicc is not here (make MPI=1)"
    here mpirun
    # what a killed rank leaves of Open MPI's shared memory shall not lie in /dev/shm
    local place
    for place in btl_vader osc_sm osc_rdma; do export "OMPI_MCA_${place}_backing_directory=$BATS_FILE_TMPDIR"; done
    W=$BASE/w.safetensors D=$BASE/data R=$BATS_FILE_TMPDIR/r.yaml T=$BATS_FILE_TMPDIR/images
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
}

# ranks N ARGS: as vt, by N ranks. What mpirun itself says of a failure is left out.
ranks() {
    local n=$1
    shift
    run --separate-stderr timeout 120 mpirun -n "$n" "$MPI" "$@"
    stderr=$(grep '^vitrine: ' <<<"$stderr" || true)
}
fine() {
    ranks "$@"
    [ "$status" = 0 ] && [ -z "$stderr" ] || fail "status $status of: $*" "stdout: $output" "stderr: $stderr"
}
# differ TEXT... -- ARGS -- OTHERS: rank 0 with ARGS, rank 1 with OTHERS; one sentence, which names rank 1.
differ() {
    local texts=() first=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    while [ "$1" != -- ]; do first+=("$1") && shift; done
    shift
    run --separate-stderr timeout 120 mpirun -n 1 "$MPI" "${first[@]}" : -n 1 "$MPI" "$@"
    stderr=$(grep '^vitrine: ' <<<"$stderr" || true)
    [ "$(wc -l <<<"$stderr")" = 1 ] || fail "not one sentence: $stderr" || return 1
    judge "$status" "rank 1 on " "${texts[@]}" && [ "$status" != 0 ]
}
same_training() { # A B
    local f
    for f in model.safetensors best.safetensors state.safetensors; do cmp "$1/$f" "$2/$f" >&2 || fail "$f differs" || return 1; done
}
eval_args() { echo eval "$W" --data "$D" $SLOW --threads 1; }
# at_work N NAME K ARGS: N ranks in the background ($job), until one has K times written a file of that NAME: it stops
# itself there (gate.c), so that the others can only come to where they wait for it.
at_work() {
    local n=$1 gate=$2:$3 rank
    shift 3
    gated "$gate" mpirun -n "$n" "$MPI" "$@" >out 2>err 3>&- &
    job=$!
    while :; do
        for rank in $(pgrep -P "$job" -f "$MPI"); do stopped "$rank" && return; done
        kill -0 $job 2>/dev/null || fail "it ended too early: $(cat out err)" || return
        sleep 0.01
    done
}
# The newest process of ours below mpirun: one of the ranks.
kill_a_rank() {
    pkill -KILL -n -P "$job" -f "$MPI" || fail "no rank is there"
}

@test "eval by 1, 2, 3, 4 ranks: the bytes of one process" {
    for n in 1 2 3 4; do
        fine $n $(eval_args) --out "r$n"
        same_run "$REF" "r$n"
        [ ! -e "r$n/ranks" ] || fail "r$n/ranks is left" || return 1
        (cd "r$n" && sha256sum -c --quiet SHA256SUMS)
    done
}

@test "an ONNX file by 1 and 3 ranks, one of them resumed: the bytes of one process" {
    local args="eval $ROOT/tests/fixtures/onnx/shapes10_inside.onnx --data $ROOT/datasets/shapes10 --images 0:9 --eps 1/255 --attack pgd:steps=5 --attack square:queries=30 --no-selftest --threads 1"
    vt $args --out one
    fine 1 $args --out r1
    fine 3 $args --out r3
    fine 2 $args --images 0:4 --out half
    fine 3 $args --out half --resume
    for r in r1 r3 half; do same_run one $r || return 1; done
}

@test "each rank with a folder of its own, as on machines that share no disk" {
    run --separate-stderr timeout 120 mpirun -n 1 "$MPI" $(eval_args) --out a : -n 1 "$MPI" $(eval_args) --out b : -n 1 "$MPI" $(eval_args) --out c
    [ "$status" = 0 ] || fail "$stderr"
    same_run "$REF" a
    [ -z "$(find b c -type f)" ] || fail "left: $(find b c)"
}

@test "a rank killed twice, resumed by other numbers of ranks and alone" {
    at_work 4 ledger.jsonl 12 $(eval_args) --out r # of more than 60 lines, one rank writes 15 or more
    kill_a_rank
    never wait $job
    [ -d r/ranks ] || fail "no part was left: the kill came too late"
    at_work 2 ledger.jsonl 3 $(eval_args) --out r --resume
    kill_a_rank
    never wait $job
    cp -r r alone
    fine 3 $(eval_args) --out r --resume
    same_run "$REF" r
    good $(eval_args) --out alone --resume
    same_run "$REF" alone
    [ ! -e r/ranks ] && [ ! -e alone/ranks ]
}

@test "mpirun is told to stop: one sentence, and the run goes on" {
    at_work 2 ledger.jsonl 25 $(eval_args) --out r
    kill -TERM $job
    never wait $job
    [ "$(grep -c '^vitrine: ' err)" -le 1 ] || fail "$(cat err)"
    fine 2 $(eval_args) --out r --resume
    same_run "$REF" r
}

@test "one rank alone is told to stop: all do, soon" {
    local endless="eval $W --data $D --eps 0.002 --attack square:queries=10000000 --no-selftest --threads 1"
    at_work 3 ledger.jsonl 2 $endless --out r
    pkill -TERM -n -P "$job" -f "$MPI"
    pkill -CONT -P "$job" -f "$MPI"
    never wait $job
    grep -q '^vitrine: interrupted; [0-9]* ledger lines are kept' err
    [ ! -e r/ranks ]
}

@test "--json under mpirun is one document, and --quiet says nothing" {
    fine 2 $(eval_args) --images 0:4 --out j --json
    jq -e .version <<<"$output" >/dev/null
    fine 2 $(eval_args) --images 0:4 --out q --quiet
    [ -z "$output" ] || fail "$output"
}

@test "curve by 3 ranks: the bytes of one process" {
    local args="curve $W --data $D --images 0:8 --attacks fmn:steps=10 --confirm 1/255,2/255 --confirm-with pgd:steps=3 --no-selftest --threads 1"
    vt $args --out one
    fine 3 $args --out three
    for f in ledger.jsonl adv.bin curve.csv curve.json; do cmp one/$f three/$f || fail "$f differs" || return 1; done
}

@test "train by 1, 2, 3, 4 ranks, killed and resumed by another number: the bytes of one process" {
    for n in 1 2 3 4; do
        ranks $n train "$R" --data "$T" --threads 1 --out "t$n"
        [ "$status" = 0 ] || fail "$stderr" || return 1
        same_training "$TRAINED" "t$n"
        [ "$(grep -c '"step"' "t$n/log.jsonl")" = "$(grep -c '"step"' "$TRAINED/log.jsonl")" ]
    done
    at_work 3 state.safetensors 2 train "$R" --data "$T" --threads 1 --out k --set epochs=4
    kill_a_rank
    never wait $job
    ranks 2 train "$R" --data "$T" --threads 1 --out k --resume
    [ "$status" = 0 ] || fail "$stderr"
    same_training "$TRAINED" k
}

@test "table by 2 and 3 ranks: the bytes of one process; a cache that is not one folder is refused" {
    cat >m.yaml <<END
name: m
orderings: ["A > B"]
data: {D: {path: $T, side: 32, classes: 10, train: 64, test: 20}}
attacks: {clean: {}, PGD: {spec: "pgd:steps=3", eps: 8/255}}
rows:
  A: {recipe: $R, set: ["epochs=1"], seeds: [0, 1]}
  B: {recipe: $R, set: ["epochs=2"], seeds: [0, 1]}
END
    good table m.yaml --out one
    for n in 2 3; do
        fine $n table m.yaml --out "by$n" --threads 1
        for f in m.md m.csv m.json m.html m.tex; do cmp "one/$f" "by$n/$f" || fail "$f differs" || return 1; done
        [ -z "$(find "by$n" -name '.ranks*')" ]
    done
    fine 2 table m.yaml --out one --threads 1 # nothing is left to do
    differ "is not the folder that rank 0 writes to" -- table m.yaml --out a -- table m.yaml --out b
    sed s/steps=3/steps=4/ m.yaml >other.yaml
    differ "its cells are not those of rank 0" -- table m.yaml --out a -- table other.yaml --out a
    ranks 2 table m.yaml --out one --merge by2
    judge 2 "--merge is the work of one process"
}

@test "a cell that fails ends the table for all ranks, in one sentence" {
    cat >m.yaml <<END
name: m
data: {D: {path: $T, side: 32, classes: 10, train: 64, test: 20}}
attacks: {clean: {}, Bad: {spec: "patch-fool", eps: 8/255}}
rows:
  A: {recipe: $R, set: ["epochs=1"]}
  B: {recipe: $R, set: ["epochs=2", "lr=1e30"]}
END
    ranks 2 table m.yaml --out t --threads 1
    [ "$status" != 0 ] && [ "$(wc -l <<<"$stderr")" = 1 ] || fail "status $status: $stderr"
}

@test "ranks that differ: in seed, weights, images, recipe, program" {
    local e="eval $W --data $D --eps 2/255 --attack pgd:steps=2 --no-selftest --out r" t="train $R --data $T --out r"
    differ "another seed than rank 0's" -- $e -- $e --seed 4
    differ "another weights" -- $e -- eval "$ROOT/weights/shapes10-vit" --data "$D" --eps 2/255 --attack pgd:steps=2 --no-selftest --out r
    "$DRAW" --out other --train 64 --test 20 --seed 9 >/dev/null
    differ "another data" -- $e -- eval "$W" --data other --eps 2/255 --attack pgd:steps=2 --no-selftest --out r
    differ "lr" -- $t -- $t --set lr=2e-3
    differ "images" -- $t -- train "$R" --data other --out r
    differ "its --images are others than rank 0's" -- $e --images 0:4 -- $e --images 0:5
    differ "its --images are others than rank 0's" -- $e --images 0:4 -- $e --images 1:5
    run --separate-stderr timeout 60 mpirun -n 1 "$MPI" $e : -n 1 "$MPI" $e --dry-run
    stderr=$(grep '^vitrine: ' <<<"$stderr")
    judge 2 "rank 1 has ended while others work on"
    differ "was started to curve, rank 0 to eval" -- $e -- curve "$W" --data "$D" --out r
    differ "to train --max-steps 2, rank 0 to train --max-steps 1" -- $t --max-steps 1 -- $t --max-steps 2
    for odd in "eval --help" --version "help eval"; do
        run --separate-stderr timeout 60 mpirun -n 1 "$MPI" $e : -n 1 "$MPI" $odd
        stderr=$(grep '^vitrine: ' <<<"$stderr")
        judge 2 "rank 1 has ended while others work on"
    done
    ranks 2 help eval
    [ "$status" = 0 ] && [ "$(grep -c '^usage\|^  --attack\|--attack SPEC' <<<"$output")" -le 2 ] || fail "$output"
    differ "/nowhere" -- $e -- eval /nowhere --data "$D" --eps 2/255 --attack pgd:steps=2 --out r
    [ ! -e r ] || fail "something was written: $(find r)"
    cp "$MPI" m2 && printf x >>m2
    run --separate-stderr timeout 60 mpirun -n 1 "$MPI" $e : -n 1 ./m2 $e
    [[ $stderr == *"rank 1 on "*"runs another vitrine"* ]] || fail "$stderr"
    printf x >file
    differ "file/" -- $e -- eval "$W" --data "$D" --eps 2/255 --attack pgd:steps=2 --no-selftest --out file/x
}

@test "parts are somebody's work: a new run does not take them" {
    mkdir -p r/ranks/1
    bad 1 "r holds parts of a run (ranks): continue it with --resume" -- $(eval_args) --out r
    [ -z "$(find r -type f)" ]
}

@test "what ranks cannot do together, and words that nobody knows: once, status 2" {
    ranks 2 info "$W"
    judge 2 "info is the work of one process"
    ranks 2 eval "$W" --data "$D"
    judge 2 "needs --out"
    ranks 2 eval "$W" --data "$D" --attack pgd --eps 2/255 --seeds 0,1 --out r
    judge 2 "--seed"
    ranks 3 eval --nonsense
    judge 2 "no option '--nonsense'"
    [ "$(wc -l <<<"$stderr")" = 1 ] || fail "$stderr"
    ranks 2 eval "$W" --data "$D" --attack pgd --eps 2/255 --dry-run
    [ "$status" = 0 ] && [ "$(grep -c '^memory' <<<"$output")" -le 1 ] || fail "$output $stderr"
}

@test "without mpirun it is the plain program" {
    run --separate-stderr "$MPI" --version
    [ "$output" = "$("$VITRINE" --version)" ]
    run --separate-stderr "$MPI" $(eval_args) --out r
    [ "$status" = 0 ] || fail "$stderr"
    same_run "$REF" r
}
