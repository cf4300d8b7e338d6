#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine train: what a run writes, that nothing is lost to kills, Ctrl-C and full disks, that its bytes depend on the
# recipe and the data alone, and that bad input leaves everything as it was.
load helpers

SHAPES=$ROOT/datasets/shapes10
SHAPE="--set model.dim=16 --set model.depth=2 --set model.heads=2 --set model.hidden=24 --set model.patch=16"
EPOCHS=20

# IMAGES: 40 to train on, 10 to watch. LONG: all that draws random numbers or keeps state, two steps an epoch, and WHOLE
# is its run in one piece. SHORT: the least there is.
setup_file() {
    load helpers
    export IMAGES=$BATS_FILE_TMPDIR/images LONG=$BATS_FILE_TMPDIR/long.yaml SHORT=$BATS_FILE_TMPDIR/short.yaml
    export WHOLE=$BATS_FILE_TMPDIR/whole
    "$DRAW" --out "$IMAGES" --train 40 --test 10 --seed 3 >/dev/null
    cat >"$LONG" <<END
epochs: $EPOCHS
batch: 16
micro_batch: 4
objective: at
optimiser: adamw
attention_optimiser: sgd
lr: 0.003
ema: 0.8
label_smoothing: 0.1
model: {dim: 16, depth: 2, heads: 2, hidden: 24, patch: 16, mean: 0.5, std: 0.25}
attack: {eps: 8/255, spec: 'pgd:steps=1,alpha=8/255', ard: 1, prm: 1, drop_rate: 0.7}
augment: {mix_prob: 0.5}
msvp: {lambda: 0.01}
probe: {images: 10, split: test, attack: 'pgd:steps=2,alpha=4/255'}
END
    printf 'epochs: 1\nbatch: 16\nmicro_batch: 4\nlr: 0.01\naugment: {mix_prob: 0}\nprobe: {images: 0}\n' >"$SHORT"
    "$VITRINE" train "$LONG" --data "$IMAGES" --out "$WHOLE" --threads 1 >/dev/null 2>"$BATS_FILE_TMPDIR/err" || fail "$(cat "$BATS_FILE_TMPDIR/err")"
}

teardown() { # a test that failed leaves no endless run
    local left
    left=$(jobs -p)
    [ -z "$left" ] || kill -KILL $left
}

# trained ARGS: a run that must end well; its progress on stderr is of no interest.
trained() {
    vt train "$@"
    [ "$status" = 0 ] || fail "status $status of: vitrine train $*" "stderr: $stderr"
}
long() { trained "$LONG" --data "$IMAGES" "$@"; }
short() { trained "$SHORT" $SHAPE --data "$IMAGES" --threads 1 "$@"; }

# same_weights A B: every .safetensors of two runs is equal, and nothing is left of a write that failed.
same_weights() {
    local f
    for f in model best state; do
        cmp "$1/$f.safetensors" "$2/$f.safetensors" >&2 || fail "$f.safetensors differs" || return 1
    done
    [ -z "$(find "$2" -name '*.tmp')" ] || fail "left behind: $(ls -A "$2")"
}

# without_times RUN: its log, but for what the clock says
without_times() { jq -c 'del(.seconds)' "$1/log.jsonl"; }
same_run() {
    same_weights "$1" "$2" && diff <(without_times "$1") <(without_times "$2") >&2 || fail "$1 and $2 differ"
}

# A run that no machine finishes while a test looks on; it is compared where it stands (as_far).
ENDLESS="--set epochs=10000"
# begin ARGS: the endless run with --out r in the background, its number in $pid; goes on when there is a checkpoint.
begin() {
    "$VITRINE" train "$LONG" --data "$IMAGES" $ENDLESS --out r "$@" >out 2>err 3>&- &
    pid=$!
    until [ -f r/state.safetensors ]; do
        kill -0 $pid 2>/dev/null || fail "the run ended too early: $(cat err)" || return
        sleep 0.01
    done
}
step_of() { st_header "$1/state.safetensors" | jq -r .__metadata__.step; } # RUN: the step of its checkpoint
# as_far: the endless run in r, taken three steps further, is what it would be in one piece.
as_far() {
    local step
    vt train "$LONG" --data "$IMAGES" $ENDLESS --out r --resume --max-steps 3
    step=$(step_of r)
    vt train "$LONG" --data "$IMAGES" $ENDLESS --out piece --threads 1 --max-steps "$step"
    [ "$status" = 0 ] && same_run piece r
}

# everything: name, size, times and number of all that is here
everything() { find . -printf '%p %s %T@ %C@ %i\n'; }
# refused CODE TEXT... -- ARGS: vitrine train ARGS is refused in one sentence and writes nothing.
refused() {
    local texts=() before
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    before=$(everything)
    bad "${texts[@]}" -- train "$@" || return 1
    [[ $stderr != *$'\n'* ]] || fail "more than a sentence: $stderr" || return 1
    [ "$(everything)" = "$before" ] || fail "something was written by: vitrine train $*"
}
# no CODE TEXT... -- ARGS: the same with the short recipe and the images, to the folder o.
no() {
    local texts=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    refused "${texts[@]}" -- "$SHORT" $SHAPE --data "$IMAGES" --out o "$@"
}
untouched() { [ ! -e o ] || fail "o was made"; }

# ---- a run ----

@test "a run: its folder, its log, its recipe in the checkpoint" {
    [ "$(cd "$WHOLE" && ls *.safetensors log.jsonl | tr '\n' ' ')" = "best.safetensors log.jsonl model.safetensors state.safetensors " ]
    truth "$WHOLE/log.jsonl" 'type == "object"'
    jq -es --argjson n $EPOCHS '
        map(select(has("step"))) as $steps | map(select(has("epoch_end"))) as $epochs |
        ([$steps[].step] == [range(1; 2 * $n + 1)]) and ([$epochs[].epoch_end] == [range(1; $n + 1)]) and
        ($steps | all(has("epoch", "loss", "lr", "grad_norm", "seconds", "penalty_msvp") and .seconds > 0)) and
        ($epochs | all(has("loss", "lr", "clean_train", "robust_train", "clean_probe", "robust_probe", "seconds"))) and
        ($epochs | all(.loss > 0 and .lr > 0 and .clean_train >= 0 and .robust_train <= 1 and .clean_probe <= 1 and
            .robust_probe <= .clean_probe))' "$WHOLE/log.jsonl" >/dev/null || fail "log: $(head -c 2000 "$WHOLE/log.jsonl")"
    good info "$WHOLE/model.safetensors"
    says "made by vitrine train" "--from" "objective: at" "  eps: 8/255" "optimiser: adamw" "lambda: 0.01" "2 of width 8"
    good spectrum "$WHOLE/best.safetensors"
}

@test "the watched accuracy is what vitrine eval says of the checkpoint, without any option" {
    good eval "$WHOLE/model.safetensors" --data "$IMAGES" --out e
    accuracy=$(jq '.clean.correct / .clean.total' e/results.json)
    truth <(tail -n 1 "$WHOLE/log.jsonl") ".epoch_end == $EPOCHS and .clean_probe == $accuracy"
    # best.safetensors is of the first epoch that is best
    best=$(jq -s 'map(select(has("epoch_end"))) | max_by([.robust_probe, -.epoch_end]).epoch_end' "$WHOLE/log.jsonl")
    [ "$(st_header "$WHOLE/best.safetensors" | jq -r .__metadata__.steps)" = "$((2 * best)) of $((2 * EPOCHS))" ]
    good eval "$WHOLE/best.safetensors" --data "$IMAGES" --out b
    truth b/results.json ".clean.correct / .clean.total == $(jq -s "map(select(.epoch_end == $best))[0].clean_probe" "$WHOLE/log.jsonl")"
}

@test "training trains: forty images are learned by heart" {
    short --out r --set epochs=40 --set optimiser=adamw --set augment.crop=0 --set augment.flip=0 --set lr=0.02
    jq -es 'map(select(has("epoch_end"))) | .[0].clean_train < 0.5 and .[-1].clean_train > 0.6 and .[-1].loss < .[0].loss / 2 and
        (map(.robust_train, .clean_probe, .robust_probe) | unique == [null])' r/log.jsonl >/dev/null ||
        fail "$(tail -n 1 r/log.jsonl)"
    [ ! -e r/best.safetensors ]
}

@test "--from repeats a run byte for byte, from any of its checkpoints" {
    short --out a --set seed=7 --set epochs=2 --set probe.images=4
    for f in model best state; do
        trained --from a/$f.safetensors --data "$IMAGES" --out $f --threads 2
        same_run a $f
    done
    trained --from a/model.safetensors --data "$IMAGES" --out other --set seed=8
    ! cmp -s a/model.safetensors other/model.safetensors
}

@test "no times, hosts, folders or thread counts in a checkpoint: other folder, threads, TZ and names, the same bytes" {
    export TZ=Pacific/Auckland HOSTNAME=elsewhere USER=nobody HOME=$PWD LANG=de_DE.UTF-8
    cp -r "$IMAGES" images && cp "$LONG" other-name.yaml
    trained other-name.yaml --data images --out deep/er --threads 2
    same_run "$WHOLE" deep/er
    ! grep -qaF -e "$PWD" -e elsewhere -e "$IMAGES" deep/er/*.safetensors || fail "a name of this machine is in a checkpoint"
    ! st_header deep/er/state.safetensors | jq -r '.__metadata__ | keys[]' | grep -E 'time|date|host|thread|second'
}

@test "--max-steps stops with a checkpoint, exit status 0, and the sentence says how to go on" {
    vt train "$LONG" --data "$IMAGES" --out r --max-steps 3
    [ "$status" = 0 ]
    says "stopped after step 3 of $((2 * EPOCHS))" "--resume"
    [ "$(st_header r/state.safetensors | jq -r .__metadata__.step)" = 3 ]
    [ "$(jq -s 'map(select(has("step"))) | length' r/log.jsonl)" = 3 ]
    short --out s --max-steps 2 # as many as there are: done
}

# ---- interruptions ----

@test "kill -9 at random moments, resumed with other threads: not a byte differs" {
    seed=${SEED:-$RANDOM}
    echo "SEED=$seed bats -f 'kill -9' tests/cli/train.bats"
    RANDOM=$seed before=0
    for turn in 1 2 3 4 5; do
        if [ $turn = 3 ]; then # just behind the second checkpoint: the first may be that of step 0
            hold state.safetensors 2 "$VITRINE" train "$LONG" --data "$IMAGES" $ENDLESS --out r --resume --threads 2
        else
            begin --resume --threads $((turn % 2 + 1))
            sleep "$(printf 0.%03d $((RANDOM % 250)))"
        fi
        kill -KILL $pid
        status=0
        wait $pid || status=$?
        [ $status = 137 ] || fail "the run was not killed: $(cat err)"
        step=$(step_of r) # never less than a whole file
        echo "killed after the checkpoint of step $step"
        [ "$step" -ge $before ]
        before=$step
    done
    [ $before -gt 0 ] || fail "no progress"
    as_far
}

@test "--resume without a checkpoint starts; on a finished run it changes nothing, exit status 0" {
    short --out plain
    short --out r --resume
    cmp plain/model.safetensors r/model.safetensors
    cmp plain/state.safetensors r/state.safetensors
    before=$(sums r | grep -v curves)
    short --out r --resume
    [ "$(sums r | grep -v curves)" = "$before" ]
    # killed before the first checkpoint: a log, perhaps weights
    mkdir early && cp r/model.safetensors early && : >early/log.jsonl
    short --out early --resume
    cmp plain/state.safetensors early/state.safetensors
    # a state that is lost is no run before its first checkpoint
    before=$(cat r/model.safetensors | sha256sum)
    rm r/state.safetensors
    bad 2 "r holds a training run without its state.safetensors" -- train "$SHORT" --data "$IMAGES" --out r --resume
    [ "$(sha256sum <r/model.safetensors)" = "$before" ]
}

@test "Ctrl-C and SIGTERM: the step is finished, a checkpoint written, exit status 1, the sentence says --resume" {
    for signal in INT TERM; do
        rm -rf r
        begin --threads 2
        sleep 0.1
        kill -$signal $pid
        status=0
        wait $pid || status=$?
        stderr=$(tail -n 1 err)
        judge 1 "stopped after step" "of 20000" "--resume"
        step=$(step_of r)
        [[ $stderr == *"after step $step of"* ]] || fail "state at step $step: $stderr"
        truth <(grep '"step"' r/log.jsonl | tail -n 1) ".step == $step"
        good eval r/model.safetensors --data "$IMAGES"
    done
    as_far
}

@test "two processes on one --out: the second is refused, the first goes on" {
    begin --threads 1
    bad 2 "r holds a training run already" "--resume" -- train "$LONG" --data "$IMAGES" $ENDLESS --out r
    bad 1 r/log.jsonl "another vitrine is writing this run" -- train "$LONG" --data "$IMAGES" $ENDLESS --out r --resume
    kill -INT $pid
    wait $pid || [ $? = 1 ]
    as_far
}

# stopped RUN: the long run, stopped at step 7
stopped() { vt train "$LONG" --data "$IMAGES" --out "$1" --threads 1 --max-steps 7 && [ "$status" = 0 ]; }

@test "a file size limit while a checkpoint is written: the last good one stays, --resume without the limit finishes" {
    stopped r
    before=$(sums r | grep safetensors)
    for at in 1:log.jsonl 8:model.safetensors 150:state.safetensors; do # what does not fit any more
        blocks=${at%:*}
        status=0
        (ulimit -f $blocks && exec "$VITRINE" train "$LONG" --data "$IMAGES" --out r --threads 1 --resume) >out 2>err || status=$?
        stderr=$(tail -n 1 err)
        judge 1 "r/${at#*:}: cannot be written: File too large" || fail "with $blocks KiB"
        [ "$(sums r | grep state)" = "$(grep state <<<"$before")" ] || fail "the state changed with $blocks KiB"
        good info r/model.safetensors
    done
    long --out r --resume --threads 1
    same_run "$WHOLE" r
}

@test "a full disk while a checkpoint is written: the last good one stays, --resume with room finishes" {
    mkdir disk
    unshare -rm mount -t tmpfs -o size=1m none disk 2>why || skip "no small disk can be mounted here: $(cat why)"
    cat >script <<'END'
set -e
mount -t tmpfs -o size=1200k none disk
go() { "$VITRINE" train "$LONG" --data "$IMAGES" --out disk/r --threads 1 "$@" 2>err >out; }
go --max-steps 7 || true
cp -r disk/r before
cat /dev/zero >disk/fill 2>/dev/null || true
go --resume && exit 9 || echo $? >status
tail -n 1 err >said
cp -r disk/r after
rm disk/fill
go --resume || { cat err; df disk; exit 8; }
cp -r disk/r .
END
    unshare -rm bash script >&2
    status=$(cat status) stderr=$(cat said)
    judge 1 disk/r "No space left on device"
    [ "$(sums after | grep safetensors)" = "$(sums before | grep safetensors)" ] || fail "$(sums before)" "$(sums after)"
    same_run "$WHOLE" r
}

@test "a disk that is full from the start is noticed before the first step" {
    status=0
    (ulimit -f 8 && exec "$VITRINE" train "$LONG" --data "$IMAGES" --out r --threads 1) >out 2>err || status=$?
    stderr=$(cat err)
    judge 1 r/model.safetensors "File too large"
    [ "$(ls -A r)" = log.jsonl ]
    [ ! -s r/log.jsonl ]
    long --out r --resume --threads 1
    same_run "$WHOLE" r
}

@test "what a killed writer left in the folder is cleared by --resume" {
    stopped r
    : >r/.vitrine-1-2.tmp
    : >r/.mine.tmp
    long --out r --resume --threads 1
    [ ! -e r/.vitrine-1-2.tmp ]
    rm r/.mine.tmp
    same_run "$WHOLE" r
}

@test "finding 7: a checkpoint with other bytes than were written is not resumed, one without a checksum is" {
    run_short() { vt train "$SHORT" --data "$IMAGES" $SHAPE --threads 1 "$@" && [ "$status" = 0 ] || fail "$stderr"; }
    run_short --out whole
    vt train "$SHORT" --data "$IMAGES" $SHAPE --threads 1 --out r --max-steps 1
    cp r/state.safetensors kept
    at=$(st_at kept weight.head.weight)
    for k in 0 21 400; do # the lowest bit of a number, which nothing else could notice
        cp kept r/state.safetensors
        poke r/state.safetensors $((at + 4 * k)) "$(byte $(($(od -An -tu1 -j $((at + 4 * k)) -N 1 kept) ^ 1)))"
        sums r >before
        bad 1 "r/state.safetensors: is not as it was written" "file_sha256" -- train "$SHORT" --data "$IMAGES" $SHAPE --threads 1 --out r --resume
        [ "$(sums r)" = "$(cat before)" ] || fail "the refused run changed something"
    done
    for edit in '.lr_scale = "0x1p+1"' '.step = "0"' '.more = "1"'; do # numbers that make another model
        st_edit kept r/state.safetensors ".__metadata__ |= ($edit)"
        bad 1 "r/state.safetensors: is not as it was written" "file_sha256" -- train "$SHORT" --data "$IMAGES" $SHAPE --threads 1 --out r --resume
    done
    # of earlier versions: with a hash of the tensors alone, or with none
    old=$(st_data kept | sha256sum | head -c 64)
    for edit in "del(.file_sha256) | .tensors_sha256 = \"$old\"" 'del(.file_sha256)'; do
        rm -rf o && mkdir o && cp r/log.jsonl o
        st_edit kept o/state.safetensors ".__metadata__ |= ($edit)"
        run_short --out o --resume
        cmp o/model.safetensors whole/model.safetensors
    done
    st_edit kept r/state.safetensors ".__metadata__ |= (del(.file_sha256) | .tensors_sha256 = \"0${old#?}\")"
    bad 1 "r/state.safetensors: its tensors are not those that were written" "tensors_sha256" -- train "$SHORT" --data "$IMAGES" $SHAPE --threads 1 --out r --resume
    at=$(st_at whole/model.safetensors head.weight) # what training leaves is checked where it is used
    good info whole/model.safetensors
    says "file_sha256" "of the whole file"
    old=$(st_data whole/model.safetensors | sha256sum | head -c 64)
    st_edit whole/model.safetensors m.safetensors ".__metadata__ |= (del(.file_sha256) | .tensors_sha256 = \"$old\")"
    good info m.safetensors
    says "tensors_sha256" "its metadata are held by nothing"
    good info "$ROOT/weights/shapes10-plain"
    says "none in the file"
    good info whole/model.safetensors --json
    [ "$(jq -r .checksum <<<"$output")" = file_sha256 ]
    for key in mean num_heads attn_scale ln_eps; do
        st_edit whole/model.safetensors m.safetensors ".__metadata__.$key |= (\"1\" + .)"
        vt eval m.safetensors --data "$IMAGES" --out e
        [ "$status" != 0 ] && [ ! -e e ] || fail "$key is another one, and that is believed"
    done
    st_edit whole/model.safetensors m.safetensors '.__metadata__.mean = "0.4,0.4,0.4"'
    bad 1 "m.safetensors: is not as it was written" "leaves that key out" -- info m.safetensors
    poke whole/model.safetensors "$at" "$(byte $(($(od -An -tu1 -j "$at" -N 1 whole/model.safetensors) ^ 1)))"
    bad 1 "whole/model.safetensors: is not as it was written" -- eval whole/model.safetensors --data "$IMAGES" --out e
    [ ! -e e ] || fail "the refused run left something behind"
}

# ---- recipes ----

@test "every recipe runs, with the model made small" {
    for recipe in "$ROOT"/recipes/*.yaml; do
        name=$(basename "$recipe" .yaml)
        small=$SHAPE
        [[ $name != @(lipschitz|ibp)_cifar10 ]] || small="--set model.dim=18 --set model.depth=2 --set model.hidden=18 --set batch=64"
        trained "$recipe" --data "$SHAPES" --out "$name" --set epochs=1 $small --set probe.images=4
        jq -es 'map(select(has("epoch_end"))) | length == 1 and .[0].loss > 0 and (.[0].clean_probe != null)' "$name/log.jsonl" >/dev/null ||
            fail "$name: $(cat "$name/log.jsonl")"
        vt info "$name/model.safetensors"
        says "$(grep '^name:' "$recipe")"
    done
    [ -d specformer_at_cifar10 ]
}

@test "objective ibp: what it cannot bound is refused" {
    local ibp="--set objective=ibp --set attack.eps=2/255"
    no 2 "objective ibp needs interval bounds, which a vit network has not" "shift_cifar_dim144_depth6" -- $ibp --set augment.mix_prob=0
    set -- "$ROOT/recipes/ibp_cifar10.yaml" --data "$SHAPES" --set batch=64 --out o
    refused 2 "attack.norm is l2, must be linf: objective ibp" -- "$@" --set attack.norm=l2
    refused 2 "attack.eps is missing: objective ibp" -- "$@" --set attack.eps=0
    refused 2 "augment.gaussian is 0.1, must be 0: the bounds of objective ibp keep images in [0,1]" -- "$@" --set augment.gaussian=0.1
    refused 2 "takes one label an image" -- "$@" --set label_smoothing=0.1
    refused 2 "objective ibp needs bounds of the input" "model.native=0" -- "$@" --set model.image=64 --set model.native=32
    untouched
}

@test "what is said of attention is refused by a network that has none" {
    local none="--set objective=at --set attack.eps=8/255 --set batch=64 --out o"
    for set in msvp.lambda=1e-3 ortho.variant=LA attack.ard=1; do
        bad 1 "a shift model has no attention" -- train "$ROOT/recipes/lipschitz_cifar10.yaml" --data "$SHAPES" $none --set $set
        [ ! -e o ] || fail "$set: something was written"
    done
}

@test "--dry-run: every recipe as it is, resolved, with steps, work and memory; nothing is written" {
    for recipe in "$ROOT"/recipes/*.yaml; do
        good train "$recipe" --data "$SHAPES" --dry-run --out o --set batch=64
        says "$(grep '^name:' "$recipe")" " 32 x 32" " parameters" "# images: " "watched; 1 steps an epoch" "# work: " " GFLOP a step"
        [[ $output =~ '# time: '[0-9.e+-]+' '(s|min|h)' here with ' ]] || fail "no time: $output"
        [[ $output =~ '# memory: '([0-9]+)' MB peak with '[0-9]+' thread' ]] || fail "no memory: $output"
        [ "${BASH_REMATCH[1]}" -gt 5 ]
    done
    [ -z "$(ls -A)" ]
    # what is printed is a recipe again, and it resolves to itself
    printf '%s\n' "$output" >printed.yaml
    good train printed.yaml --data "$SHAPES" --dry-run
    [ "$(grep -v '^# \(memory\|time\)' <<<"$output")" = "$(grep -v '^# \(memory\|time\)' printed.yaml)" ]
}

# An address sanitizer keeps what was freed, and pages that never come back differ between machines: 10 %, and the two
# roundings to whole MB.
@test "--dry-run states the memory that the run then takes" {
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer takes memory of its own"
    for recipe in cifar10_standard cifar10_at; do
        for threads in 1 2; do
            args="$ROOT/recipes/$recipe.yaml --data $SHAPES --threads $threads --set epochs=1 --set probe.images=4"
            good train $args --dry-run
            [[ $output =~ '# memory: '([0-9]+)' MB peak' ]]
            stated=${BASH_REMATCH[1]}
            trained $args --out $recipe$threads
            [[ $output =~ 'peak memory '([0-9]+)' MB' ]]
            measured=${BASH_REMATCH[1]}
            echo "$recipe, $threads threads: stated $stated MB, measured $measured MB"
            awk -v a="$stated" -v b="$measured" 'BEGIN {exit !((a - b) ^ 2 <= (0.1 * b + 1) ^ 2)}' ||
                fail "$recipe, $threads threads: stated $stated MB, measured $measured MB"
        done
    done
    # of this process alone: not of the one that started it
    output=$(/usr/bin/python3 -c 'import subprocess, sys; big = bytearray(500 << 20); subprocess.run(sys.argv[1:])' \
        "$VITRINE" train $args --dry-run)
    [[ $output =~ '# memory: '([0-9]+)' MB peak' ]]
    [ "${BASH_REMATCH[1]}" -lt 400 ]
}

@test "help recipe lists every section and its keys" {
    good help recipe
    for section in "the run as a whole" model: init: attack: schedule: augment: probe: at: ce: fast: mart: trades: adamw: md: sgd: gate: msvp: ortho: groups:; do
        [[ $'\n'$output == *$'\n'"$section"* ]] || fail "no section $section"
    done
    # no line is too long, and no recipe of ours has a key that is not explained
    [ "$(awk '{if (length > m) m = length} END {print m}' <<<"$output")" -le 120 ]
    for key in epochs batch micro_batch objective lr clip model.dim init.head attack.eps schedule.drops augment.mix_prob probe.images msvp.lambda; do
        grep -qE "^  $key " <<<"$output" || fail "no key $key"
    done
}

@test "an unknown key is refused, with the nearest one" {
    no 2 "--set: there is no key 'epoch'; did you mean 'epochs'?" -- --set epoch=3
    no 2 "there is no key 'atack.eps'; did you mean 'attack.eps'?" -- --set atack.eps=3
    no 2 "there is no key 'model.dimm'; did you mean 'model.dim'?" -- --set model.dimm=8
    no 2 "there is no key 'xyzzy'" "vitrine help recipe" -- --set xyzzy=8
    no 2 "'epochs' is not of the form KEY=VALUE" -- --set epochs
    no 2 "'attack' is a section, not a key" -- --set attack=pgd
    no 2 "unknown objective 'trade'" "did you mean 'trades'?" -- --set objective=trade
    no 2 "model.attn is 'dott'" "did you mean 'dot'?" -- --set model.attn=dott
    printf 'epochs: 1\nlearning_rate: 3\n' >a.yaml
    refused 2 "a.yaml:2" "no key 'learning_rate'" -- a.yaml --data "$IMAGES" --out o
    printf 'attack:\n  epsilon: 3\n' >a.yaml
    refused 2 "a.yaml:2" "attack.epsilon" -- a.yaml --data "$IMAGES" --out o
    untouched
}

@test "values out of range and keys that contradict each other" {
    no 2 "msvp.lambda is -1,0,0, must be between 0 and 1" -- --set msvp.lambda=-1,0,0
    no 2 "msvp.lambda is 1.5, must be between 0 and 1" -- --set msvp.lambda=1.5
    no 2 "lr is 0, must be between" -- --set lr=0
    no 2 "option epochs is 'x', must be a whole number" -- --set epochs=x
    no 2 "attack.eps is missing" "objective at" "attack.eps=8/255" -- --set objective=at
    no 2 "attack.eps is 8," "did you mean 8/255?" -- --set objective=at --set attack.eps=8
    no 2 "probe.eps is 2," "did you mean 2/255?" -- --set probe.images=4 --set probe.eps=2
    no 2 "attack.ard is 1, must be 0" "no inner attack" -- --set attack.ard=1
    no 2 "objective mart takes one label" "label_smoothing=0 (it is 0.1)" -- --set objective=mart --set attack.eps=8/255 --set label_smoothing=0.1
    no 2 "attack.spec" "a paper's evaluator" -- --set objective=at --set attack.eps=8/255 --set attack.spec=pgd-trades
    no 2 "attack.spec" "uses no gradients" -- --set objective=at --set attack.eps=8/255 --set attack.spec=square
    no 2 "attack.spec" "pgdd" -- --set objective=at --set attack.eps=8/255 --set attack.spec=pgdd
    no 2 "schedule.drops is '0.9,0.5'" -- --set schedule.drops=0.9,0.5
    no 2 "model.mean is given and model.std is not" -- --set model.mean=0.5
    no 2 "batch is 15, must be even when augment.mix_prob is above 0" -- --set batch=15 --set augment.mix_prob=0.3
    no 2 "micro_batch is 32, must be at most batch (16)" -- --set micro_batch=32
    no 2 "batch is 41, but $IMAGES has 40 images" -- --set batch=41
    no 2 "batch is 38" "36 images" "held out" -- --set batch=38 --set probe.images=4
    no 1 "width 16 is not a multiple of 3 heads" -- --set model.heads=3
    no 1 "not a multiple of patch size 5" -- --set model.patch=5
    no 2 "model.image is 64" "32 pixels" -- --set model.image=64
    no 2 "model.classes is 7" "10 classes" -- --set model.classes=7
    no 1 "gate.l1 is 0.1, but the model has no patch_gate" -- --set gate.l1=0.1
    untouched
}

@test "keys that would do nothing are refused" {
    at="--set objective=at --set attack.eps=8/255"
    no 2 "attack.ard is 1" "'fgsm' has no steps to mask: use pgd" -- $at --set attack.ard=1 --set attack.spec=fgsm
    no 2 "attack.prm is 1" "'fgsm' has no steps to mask: use pgd" -- $at --set attack.prm=1 --set attack.spec=fgsm
    no 2 "objective trades has its own start" "add random_start=0" -- --set objective=trades --set attack.eps=8/255 --set attack.spec=pgd:steps=2
    no 2 "attack.prm_patch is 7, must divide the image's side (32)" -- $at --set attack.prm=1 --set attack.prm_patch=7
    { cat "$SHORT" && printf "groups: {'*.bias': 0, 'block.*': 0}\n"; } >groups.yaml
    refused 2 "groups.block.*: no tensor of this model has such a name" -- groups.yaml $SHAPE --data "$IMAGES" --out o
    refused 2 "groups.block.*: no tensor" -- groups.yaml $SHAPE --data "$IMAGES" --dry-run
    untouched
}

@test "groups in another order are another recipe: the first pattern that fits counts" {
    groups() { { cat "$SHORT" && printf 'epochs: 2\ngroups: {%s}\n' "$1"; } | sed '/^epochs: 1$/d' >"$2"; }
    groups "'*.bias': 0, 'blocks.0.*': 0.5" ab.yaml
    groups "'blocks.0.*': 0.5, '*.bias': 0" ba.yaml
    vt train ab.yaml $SHAPE --data "$IMAGES" --out r --threads 1 --max-steps 1
    [ "$status" = 0 ]
    refused 2 "made with another recipe: the order of groups" -- ba.yaml $SHAPE --data "$IMAGES" --out r --resume
    trained ab.yaml $SHAPE --data "$IMAGES" --out r --threads 1 --resume
}

@test "the recipe in a checkpoint names the shape: nothing is left open, and --from repeats the run" {
    short --out a --set ortho.variant=VAR-III --set ortho.lambda=1e-3
    for f in model state; do
        st_header a/$f.safetensors | jq -r '.__metadata__ | .recipe // .["vitrine.recipe"] // empty' >$f.txt
        ! grep -wi auto $f.txt || fail "$f.safetensors leaves something open"
    done
    grep -q . state.txt
    good info a/model.safetensors
    [[ $output != *auto* ]] || fail "vitrine info says auto: $output"
    says "image: 32" "patch: 16" "dim: 16" "depth: 2" "heads: 2" "hidden: 24" "classes: 10" "pool: token" "mean: " "std: " "variant: VAR-III" "lambda: 0.001"
    trained --from a/model.safetensors --data "$IMAGES" --out b --threads 2
    cmp a/model.safetensors b/model.safetensors
    cmp a/state.safetensors b/state.safetensors
}

@test "model.forms: other networks than timm's ViT from a recipe, repeated by --from" {
    # a post-norm ViT, an L2Former in its full form, LipsFormer's forms with a mean
    local forms=("--set model.forms=post_norm=1" "--set model.attn=l2:tied=1,full=1 --set model.qkv_bias=0 --set model.forms=tied_qk=1"
        "--set model.attn=scsa --set" "model.forms=norm=center final_norm=center factor=alpha init=spectral pool=avg")
    short --out a ${forms[0]}
    good info a/model.safetensors
    says "post-norm            yes" 'forms: "post_norm=1"'
    short --out b ${forms[1]}
    good info b/model.safetensors
    says "l2:" "W_Q = W_K            yes" 'forms: "tied_qk=1"'
    short --out c ${forms[2]} "${forms[3]}"
    good info c/model.safetensors
    says "norm                 center" "branch factors       alpha" "pool: avg" \
        'forms: "norm=center final_norm=center factor=alpha init=spectral"'
    for r in a b c; do
        trained --from $r/model.safetensors --data "$IMAGES" --out $r.again --threads 2
        cmp $r/model.safetensors $r.again/model.safetensors
    done
    short --out d
    never cmp -s a/model.safetensors d/model.safetensors
    good info d/model.safetensors
    [[ $output != *forms* ]]
    refused 2 "model.forms says pool=all, but model.pool says otherwise" -- --from c/model.safetensors --data "$IMAGES" --out o --set model.forms=pool=all
    refused 2 "model.forms: window is a form of swin alone, and this is a vit" -- "$SHORT" --data "$IMAGES" --out o --set model.forms=window=4
    refused 1 "act is gelu, but the model to train has relu" -- "$SHORT" --data "$IMAGES" --out o --init "$W" --set model.forms=act=relu
    untouched
}

@test "--init of one part of a file: the recipe keeps which" {
    local pth=$ROOT/tests/fixtures/pth o="--heads 2 --mean 0.5 --std 0.5 --data $IMAGES --threads 1"
    assumes convert "$pth/parts_ema.pth" ema.safetensors --heads 2 --mean 0.5 --std 0.5 --part ema
    trained "$SHORT" $o --out a --init "$pth/parts_ema.pth" --part ema
    trained "$SHORT" $o --out b --init ema.safetensors
    cmp <(st_data a/model.safetensors) <(st_data b/model.safetensors)
    trained --from a/model.safetensors $o --out c --init "$pth/parts_ema.pth"
    cmp a/model.safetensors c/model.safetensors
    good info a/model.safetensors
    says "  part: ema"
    refused 2 "--part is 'model', but the recipe's init.part is 'ema'" -- --from a/model.safetensors $o --out o --init "$pth/parts_ema.pth" --part model
    no 2 "--part says how the checkpoint of --init is read" -- --part ema
    no 2 "init.part is 'ema', and there is no --init" -- --set init.part=ema
    refused 1 "--part NAME reads one of its parts: first, second" -- "$SHORT" $o --out o --init "$pth/parts_open.pth"
    untouched
}

@test "a recipe file that is missing, a folder, no YAML; no recipe; two" {
    run_of() { refused "${@:2}" -- "$1" --data "$IMAGES" --out o; }
    run_of none.yaml 1 "none.yaml: cannot be opened: No such file"
    run_of . 1 ".: cannot be read: Is a directory"
    run_of "$W" 1 "$W:1: not YAML"
    printf 'a line\n' >a.yaml
    run_of a.yaml 1 "a.yaml:1: a recipe must be lines of the form KEY: VALUE"
    printf 'epochs: "1\n' >a.yaml
    run_of a.yaml 1 "a.yaml:2: not YAML"
    printf 'epochs: [1, 2]\n' >a.yaml
    run_of a.yaml 2 "a.yaml:1: epochs takes one value, not a list"
    printf 'epochs: 1\nepochs: 2\n' >a.yaml
    run_of a.yaml 2 "a.yaml:2" epochs
    printf 'epochs: 1\n---\nlr: 1\n' >a.yaml
    run_of a.yaml 1 "a.yaml:"
    refused 2 "needs a RECIPE.yaml, or --from CHECKPOINT" -- --data "$IMAGES" --out o
    refused 2 "not both" -- "$SHORT" --from "$WHOLE/model.safetensors" --data "$IMAGES" --out o
    refused 2 "unexpected operand" -- "$SHORT" "$LONG" --data "$IMAGES" --out o
    untouched
}

@test "--data missing, not there, without a training split" {
    from() { refused "${@:2}" -- "$SHORT" --out o $1; }
    from "" 2 "vitrine train needs --data"
    from "--data nowhere" 1 "nowhere: cannot be opened: No such file"
    mkdir test-only empty && cp "$IMAGES"/test_batch.bin "$IMAGES"/batches.meta.txt test-only
    from "--data test-only" 1 test-only/data_batch_1.bin
    from "--data empty" 1 "empty"
    mkdir -p pngs/test/a
    from "--data pngs" 1 "pngs: has no folder train"
    cp -r "$IMAGES" cut && truncate -s 5000 cut/data_batch_1.bin
    from "--data cut" 1 cut/data_batch_1.bin "record 1 is incomplete"
    untouched
}

@test "--out missing, holding a run or weights, and not to be written to" {
    refused 2 "vitrine train needs --out" -- "$SHORT" $SHAPE --data "$IMAGES"
    short --out r
    to() { refused "${@:2}" -- "$SHORT" $SHAPE --data "$IMAGES" --out "$1"; }
    to r 2 "r holds a training run already" "--resume"
    rm r/state.safetensors
    to r 2 "r holds a training run already" "--resume"
    mkdir mine && cp "$W" mine/model.safetensors
    to mine 2 "mine holds model.safetensors and no training run"
    refused 2 "mine holds model.safetensors" -- "$SHORT" $SHAPE --data "$IMAGES" --out mine --resume
    : >file
    to file 1 "file: exists and is not a folder"
    to file/o 1 "file/o: the folder cannot be made: Not a directory"
    to /proc/o 1 "/proc/o: the folder cannot be made"
    to "" 1 "cannot be used as a folder"
    mkdir -p full/log.jsonl
    refused 1 "full/log.jsonl: cannot be written: Is a directory" -- "$SHORT" $SHAPE --data "$IMAGES" --out full --resume
    if [ "$(id -u)" != 0 ]; then
        mkdir locked && chmod 500 locked
        to locked 1 "locked/log.jsonl: cannot be written: Permission denied"
        to locked/o 1 "locked/o: the folder cannot be made: Permission denied"
    fi
}

@test "--threads and --max-steps out of range" {
    no 2 "--threads is 0, must be between 1 and 1024" -- --threads 0
    no 2 "--threads is 'two', must be a whole number" -- --threads two
    no 2 "--max-steps is 0, must be between 1" -- --max-steps 0
    untouched
}

@test "--init: the checkpoint's shape and weights; another number of classes needs init.head=fresh" {
    start="--data $IMAGES --threads 1"
    good new --set dim=16 depth=2 heads=2 patch=16 image=32 classes=7 --seed 0 -o seven.safetensors
    good new --set dim=16 depth=2 heads=2 patch=16 image=32 classes=10 --seed 0 -o ten.safetensors
    refused 1 "seven.safetensors: classes are 7, but the model to train has 10" "init.head" fresh -- "$SHORT" $start --out o --init seven.safetensors
    refused 1 "width" "only image size, patch and classes may differ" -- "$SHORT" $start --out o --init seven.safetensors --set init.head=fresh --set model.dim=32
    refused 1 "none.safetensors: cannot be opened" -- "$SHORT" $start --out o --init none.safetensors
    untouched
    trained "$SHORT" $start --out fresh --init seven.safetensors --set init.head=fresh
    vt info fresh/model.safetensors
    says "$(sha256sum seven.safetensors | head -c 64)" "classes              10"
    # with a vanishing rate what comes out is what went in
    trained "$SHORT" $start --out still --init ten.safetensors --set lr=1e-9
    paste <(st_floats ten.safetensors head.weight f4) <(st_floats still/model.safetensors head.weight f4) |
        awk '($1 - $2) ^ 2 > 1e-12 {bad = 1} END {exit bad || NR != 160}' || fail "not the weights of --init"
    trained "$SHORT" $start --out r --init ten.safetensors --max-steps 100
    vt train "$SHORT" $start --out part --init ten.safetensors --max-steps 1
    refused 2 "made with another recipe" "init.sha256 (" -- "$SHORT" $start $SHAPE --set model.hidden=64 --out part --resume
    refused 2 "another recipe: model.heads (2 -> 4)" -- "$SHORT" $start --out part --resume --init ten.safetensors --heads 4
    refused 2 "made with other options: attn-scale" -- "$SHORT" $start --out part --resume --init ten.safetensors --attn-scale dim
    trained "$SHORT" $start --out part --init ten.safetensors --resume
    cmp r/state.safetensors part/state.safetensors
}

@test "init.sha256: the checkpoint must be the one that is named; model options need --init" {
    no 2 "starts from the checkpoint with sha256 $(printf %064d 0)" "--init" -- --set init.sha256="$(printf %064d 0)"
    sum=$(sha256sum "$W" | head -c 64)
    refused 2 "$W has sha256 $sum, but the recipe starts from $(printf %064d 0)" -- "$SHORT" --data "$IMAGES" --out o --init "$W" --set init.sha256="$(printf %064d 0)"
    no 2 "--heads says how the checkpoint of --init is read" -- --heads 4
    no 2 "--std says how the checkpoint of --init is read" -- --std 0.3
    untouched
    trained "$SHORT" --data "$IMAGES" --out a --init "$W" --set init.sha256="$sum"
    refused 2 "sha256 $sum" "--init" -- --from a/model.safetensors --data "$IMAGES" --out o
    trained --from a/model.safetensors --init "$W" --data "$IMAGES" --out b
    cmp a/model.safetensors b/model.safetensors
}

@test "--from a checkpoint without a recipe, and from what is none" {
    refused 1 "$W: holds no recipe" -- --from "$W" --data "$IMAGES" --out o
    refused 1 "none: cannot be opened" -- --from none --data "$IMAGES" --out o
    refused 1 "$SHORT" -- --from "$SHORT" --data "$IMAGES" --out o
    untouched
}

@test "--resume with another recipe, other images, a damaged state: refused, the run stays as it was" {
    short --out r
    again() { refused "$@" --data "$IMAGES" --out r --resume; }
    again 2 "r/state.safetensors was made with another recipe: " "lr (0.01 -> 0.02)" "seed (0 -> 3)" -- "$SHORT" $SHAPE --set lr=0.02 --set seed=3
    [[ $stderr != *batch* ]] || fail "a key that is the same is named: $stderr"
    again 2 "another recipe" "ema (0 -> 0.9)" -- "$SHORT" $SHAPE --set ema=0.9
    refused 2 "r/state.safetensors was made with other images" "$SHAPES" -- "$SHORT" $SHAPE --data "$SHAPES" --out r --resume
    cp r/state.safetensors whole
    for bytes in 0 5 500 $(($(stat -c %s whole) - 1)); do
        head -c $bytes whole >r/state.safetensors
        again 1 r/state.safetensors -- "$SHORT" $SHAPE
    done
    for edit in '.__metadata__.step = "junk"' '.__metadata__.step = "-1"' '.__metadata__.step = "3"' '.__metadata__.step = "1.5"'; do
        st_edit whole r/state.safetensors "$edit"
        again 1 "r/state.safetensors: is at step" -- "$SHORT" $SHAPE
    done
    st_edit whole r/state.safetensors '.__metadata__.loss = "many"'
    again 1 "metadata loss is 'many'" -- "$SHORT" $SHAPE
    st_edit whole r/state.safetensors 'del(.__metadata__.best)'
    again 1 "metadata best is missing" -- "$SHORT" $SHAPE
    st_edit whole r/state.safetensors 'del(.__metadata__)'
    again 1 "is not the state of a training run" -- "$SHORT" $SHAPE
    st_edit whole r/state.safetensors '.__metadata__.vitrine = "0.0.0"'
    again 2 "made by vitrine 0.0.0" -- "$SHORT" $SHAPE
    cp whole r/state.safetensors
    short --out r --resume
}

@test "a model with BatchNorm: train says in one line that its statistics stay; one without says nothing" {
    batch="--set model.dim=16 --set model.depth=1 --set model.heads=2 --set model.hidden=24 --set model.patch=16 --set model.forms=norm=batch"
    vt train "$SHORT" --data "$IMAGES" $batch --dry-run
    [ "$status" = 0 ]
    [ "$(wc -l <<<"$stderr")" = 1 ]
    [[ $stderr == "vitrine: the model has BatchNorm, whose statistics stay in training as they start, mean 0 and variance 1" ]]
    vt train "$SHORT" --data "$IMAGES" $batch --max-steps 1 --out a
    [ "$status" = 0 ]
    grep -q "whose statistics stay in training" <<<"$stderr"
    vt train "$SHORT" --data "$IMAGES" --init a/model.safetensors --dry-run
    grep -q "stay in training as the checkpoint has them$" <<<"$stderr" || fail "$stderr"
    good train "$SHORT" --data "$IMAGES" $SHAPE --dry-run
}
