#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval, curve, selftest, verify and doctor of a model in another process: vitrine serve gives the verdicts and counts of the same
# checkpoint here; a Python child without a double copy, one that draws and one that looks at its batch are judged as
# docs/oracle.md says; cheats are noticed; what is killed goes on to the same bytes.
load helpers

SHAPES=$ROOT/datasets/shapes10 V=$ROOT/weights/shapes10-vit
child() { echo "/usr/bin/python3 $ROOT/tests/fixtures/oracle_child.py $* --of=$BATS_FILE_TMPDIR"; } # tests run side by side: each knows its own

# Images that the Python child has right: its own answers are their labels.
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
    ps -eo pid= | sort >before
}

# Lines of a run without what names the run and where its points are stored: what was found, and what it cost.
lines() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.image, .entry, .stage, .status, .pred, .margin, .gradients, .forwards, .sha]' | sort; }

# No process of this test is left, and no shared memory.
nothing_left() {
    local k
    for k in $(seq 600); do
        pgrep -f "oracle_child.py .*--of=$BATS_FILE_TMPDIR" >left || pgrep -f "vitrine serve $V" >left || return 0
        sleep 0.1
    done
    fail "still there: $(ps -o pid,args -p "$(tr '\n' ',' <left)0")"
}

@test "vitrine serve: every verdict, margin and count of the same checkpoint in one process, over a socket pair, unix: and tcp:" {
    run=(--data "$SHAPES" --images 0:16 --eps 4/255 --attack apgd-ce:steps=8 --attack fab-t:steps=4,targets=2 --attack square:queries=60 --individual)
    good eval "$V" "${run[@]}" --no-selftest --out here
    good eval --oracle "$VITRINE serve $V" "${run[@]}" --no-selftest --out pair
    lines here >want
    [ "$(wc -l <want)" -gt 40 ]
    lines pair | cmp want -
    "$VITRINE" serve "$V" --batch 3 --listen unix:s 2>said &
    "$VITRINE" serve "$V" --listen tcp:$((20000 + $$ % 20000)) 2>said2 &
    until [ -s said ] && [ -s said2 ]; do [ "$(jobs -pr | wc -l)" = 2 ] && sleep 0.05 || fail "$(cat said said2)" || return; done
    good eval --oracle unix:s "${run[@]}" --no-selftest --threads 2 --out unix
    lines unix | cmp want -
    good eval --oracle tcp:$((20000 + $$ % 20000)) "${run[@]}" --no-selftest --out tcp
    lines tcp | cmp want -
    good verify unix --oracle unix:s
    says "stored points judged again" "everything is as"
    kill %1 %2
    wait
    [ ! -e s ]
    bad 1 "unix:s: nobody answers there" -- verify unix --oracle unix:s
    good verify unix --oracle "$VITRINE serve $V"
    bad 1 "is not that of unix: it is known by" -- verify unix --oracle "$VITRINE serve $ROOT/weights/shapes10-plain"
    nothing_left
}

@test "a model without a double copy is asked again: the same verdicts, and the header says how they came about" {
    good eval --oracle "$VITRINE serve $V" --data "$SHAPES" --images 0:16 --eps 4/255 --attack pgd:steps=5 --out double
    good eval --oracle "$VITRINE serve $V --no-double --batch 4" --data "$SHAPES" --images 0:16 --eps 4/255 --attack pgd:steps=5 --out single
    says "judged by the model's own forward, as it shows no copy in double"
    truth single/results.json '.oracle.logits64 == false and .oracle.name == "shapes10-vit" and .batch == 4 and .attacks[0].borderline == 0'
    diff <(lines double | jq -c '.[0:5]') <(lines single | jq -c '.[0:5]')
    schema="$ROOT/docs/results.schema.json"
    /usr/bin/python3 -c "import json, jsonschema, sys
[jsonschema.validate(json.load(open(f)), json.load(open('$schema'))) for f in sys.argv[1:]]" {double,single}/results.json
    good verify single --oracle "$VITRINE serve $V --no-double"
    good show single --out s.html
    grep -q "a model in another process" s.html
}

@test "a Python child: attacks, threads and batches, the same bytes again; its points hold; a curve, a surrogate" {
    good eval --oracle "$(child single)" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --no-selftest --out a
    truth a/results.json '.clean.correct == 20 and .attacks[0].broken > 10 and .attacks[0].invalid == 0 and .batch == 8'
    good eval --oracle "$(child single)" --data "$C" --eps 4/255 --attack pgd:steps=5 --attack square:queries=40 --no-selftest --threads 2 --out b
    same_run a b
    good verify a --oracle "$(child single)"
    good export a --out a.npz
    good curve --oracle "$(child good)" --data "$C" --images 0:6 --attacks fmn:steps=10 --no-selftest --out curve
    truth curve/curve.json '.images | length == 6'
    good eval "$V" --data "$SHAPES" --images 0:8 --eps 8/255 --surrogate-oracle "$VITRINE serve $ROOT/weights/shapes10-plain" --no-selftest --out through
    good eval "$V" --data "$SHAPES" --images 0:8 --eps 8/255 --surrogate "$ROOT/weights/shapes10-plain" --no-selftest --out direct
    diff <(lines through) <(lines direct)
    nothing_left
}

@test "a model that draws is judged by votes, one that looks at its batch is named" {
    good eval --oracle "$(child random)" --data "$C" --eps 4/255 --attack pgd:steps=5 --no-selftest --out random
    says "judged by votes" "it draws at random"
    truth random/results.json '.oracle.random and .attacks[0].broken > 5'
    good verify random --oracle "$(child random)"
    good eval --oracle "$(child batchnorm)" --data "$C" --out bn
    says "clean images changes when the model is asked again" "BatchNorm in train mode"
    truth bn/results.json '.clean_unsure.images > 2'
}

# forged RUN HEADER-FILTER LINE-FILTER: the run with another header and other lines, sealed anew
forged() {
    rm -rf forged && cp -r "$1" forged
    { head -n 1 "$1/ledger.jsonl" | jq -c "$2" && tail -n +2 "$1/ledger.jsonl" | jq -c "$3"; } >forged/ledger.jsonl
    ! cmp -s "$1/ledger.jsonl" forged/ledger.jsonl || fail "nothing planted: $2, $3"
    seal forged
}

@test "what draws at random is what says so now: a header switches no check off" {
    good eval "$V" --data "$SHAPES" --images 0:8 --eps 4/255 --attack pgd:steps=5 --no-selftest --out r
    forged r '.oracle = {name: "x", random: true}' '.borderline = true'
    bad 1 "its ledger says that a model in another process was evaluated" "is a checkpoint: give --oracle" -- verify forged
    bad 1 "is a checkpoint: give --oracle" -- verify forged --weights "$V" --data "$SHAPES"
    bad 1 "is a checkpoint: give --oracle" -- export forged --weights "$V" --data "$SHAPES" --out x.npz
    bad 1 "its ledger says that a checkpoint was evaluated" "give --weights FILE and no --oracle" -- verify r --oracle "$VITRINE serve $V"
    good eval --oracle "$(child random)" --data "$C" --eps 4/255 --attack pgd:steps=5 --no-selftest --out random
    good eval --oracle "$(child good)" --data "$C" --eps 4/255 --attack pgd:steps=5 --no-selftest --out good
    for name in random good; do
        forged $name '.oracle.random |= not' .
        bad 1 "at random when it is asked" "says that it does" -- verify forged --oracle "$(child $name)"
    done
    bad 1 "at random when it is asked" "says that it does not" -- verify random --oracle "$(child good)"
    nothing_left
}

@test "of a model that draws: lines left open are counted, what no vote says is found, distances are compared" {
    good eval --oracle "$(child random)" --data "$C" --eps 4/255 --attack pgd:steps=5 --no-selftest --out r
    # the surest of the right images called wrong, by half of its votes
    image=$(tail -n +2 r/ledger.jsonl | jq -s 'map(select(.entry == 0 and .status == "correct")) | min_by(.margin) | .image')
    forged r . "select(.image != $image or .entry == 0) | if .image == $image then .status = \"wrong\" | .borderline = true else . end"
    vt verify forged --oracle "$(child random)"
    [ "$status" = 1 ]
    says "image $image is correct, the ledger says wrong"
    # a distance that half of the votes would leave open
    image=$(tail -n +2 r/ledger.jsonl | jq -s 'map(select(.status == "broken")) | max_by(.margin) | .image')
    forged r . "if .image == $image and .entry == 1 then .borderline = true | .linf = .linf / 2 else . end"
    vt verify forged --oracle "$(child random)"
    [ "$status" = 1 ]
    says "image $image after pgd lies at linf"
    forged r . "if .image == $image and .entry == 1 then .borderline = true else . end"
    vt verify forged --oracle "$(child random)"
    [[ $output =~ "left open by the model"\ +([0-9]+)\ of ]] || fail "$output"
    [ "${BASH_REMATCH[1]}" -ge 1 ]
    nothing_left
}

@test "self-test: a claimed vjp is held against the logits, the batch and the box are looked at; honest ones pass" {
    for m in good single; do
        good selftest --oracle "$(child $m)" --data "$C" --eps 2/255 --attack pgd --out "$m"
        truth "$m/selftest.json" '.verdict == "no sign of masking" and ([.checks[] | select(.name == "derivative")][0].trials == 20)'
    done
    for m in detached bpda scaled sign stale; do
        good selftest --oracle "$(child $m)" --data "$C" --eps 2/255 --attack pgd --out "$m"
        truth "$m/selftest.json" '.verdict != "no sign of masking" and ([.checks[] | select(.name == "derivative")][0].hits > 15)'
    done
    good selftest --oracle "$(child batchnorm)" --data "$C" --eps 2/255 --attack pgd --out bn
    truth bn/selftest.json '.verdict != "no sign of masking" and ([.checks[] | select(.name == "batch")][0].hits >= 1)'
    good selftest --oracle "$(child clips)" --data "$C" --eps 2/255 --attack pgd --out clips
    says "clips its input"
    truth clips/selftest.json '.verdict == "no sign of masking" and .flags.clips_input == 20'
    truth good/selftest.json '.flags.clips_input == 0 and (.not_tested | index("transfer") != null and index("head") != null)'
}

@test "labels alone: hopskipjump walks as on the logits; what needs more is refused by name" {
    run=(--data "$C" --images 0:8 --norm l2 --eps 0.1 --attack hopskipjump:queries=200)
    good eval --oracle "$(child single)" "${run[@]}" --out logits
    good eval --oracle "$(child labels)" "${run[@]}" --out labels
    says "judged by its labels alone"
    for r in logits labels; do tail -n +2 $r/ledger.jsonl | jq -c '[.image, .entry, .status, .pred, .pred64, .forwards, .sha]' >$r.lines; done
    cmp logits.lines labels.lines
    tail -n +2 labels/ledger.jsonl | jq -se 'length > 8 and all(.margin == 1 or .margin == -1)'
    head -1 labels/ledger.jsonl | jq -e '.oracle.labels' && head -1 logits/ledger.jsonl | jq -e '.oracle | has("labels") | not'
    good verify labels --oracle "$(child labels)"
    good curve --oracle "$(child labels)" --data "$C" --images 0:2 --norm l2 --attacks hopskipjump:queries=60 --out c
    says "the self-test is left out: the model gives no gradients"
    for a in square nes pgd; do
        bad 2 "attack $a needs logits, but the model" "gives labels alone" -- eval --oracle "$(child labels)" --data "$C" --eps 4/255 --attack $a
    done
    bad 2 "the self-test follows gradients" -- selftest --oracle "$(child labels)" --data "$C" --eps 4/255 --attack hopskipjump
    bad 1 "with a label above 9, its last class" -- eval --oracle "$(child labels-above 2)" --data "$C"
    nothing_left
}

@test "refused: no gradients, no weights, two models, options of checkpoints, images of another shape" {
    bad 2 "attack pgd follows gradients, which the model" "vjp is false" -- eval --oracle "$(child no-vjp)" --data "$C" --eps 4/255 --attack pgd
    good eval --oracle "$(child no-vjp)" --data "$C" --images 0:4 --eps 4/255 --attack square:queries=20
    bad 2 "give WEIGHTS ($V) or --oracle, not both" -- eval "$V" --oracle "$(child good)" --data "$C"
    bad 2 "vitrine eval needs WEIGHTS" -- eval --data "$C"
    bad 2 "--heads tells of a checkpoint" -- eval --oracle "$(child good)" --heads 3 --data "$C"
    bad 2 "--wrap tells of a checkpoint" -- eval --oracle "$(child good)" --wrap noise --data "$C"
    bad 2 "--batch is 9, but the model" "at most 8 images" -- eval --oracle "$(child good)" --batch 9 --data "$C" --eps 4/255 --attack pgd
    bad 2 "transfer needs --surrogate WEIGHTS" -- eval --oracle "$(child good)" --data "$C" --eps 4/255 --attack transfer
    bad 2 "attack patch-fool looks at attention" -- eval --oracle "$(child good)" --data "$C" --threat patch:size=16,count=1 --attack patch-fool
    bad 2 "--oracle-timeout is 'soon'" -- eval --oracle "$(child good)" --oracle-timeout soon --data "$C"
    bad 2 "--oracle is empty" -- eval --oracle "" --data "$C"
    bad 2 "--surrogate or --surrogate-oracle, not both" -- eval "$V" --surrogate "$V" --surrogate-oracle "$(child good)" --data "$SHAPES" --eps 1/255
    bad 1 "image 0 is 3 x 32 x 32, the model wants 1 x 28 x 28" -- eval --oracle "$(child hello-shape)" --data "$C"
    bad 1 "has 10 classes, but the model" "has 7" -- eval --oracle "$(child hello-other)" --data "$C"
    nothing_left
}

@test "a command that a run's files name is not run: verify asks for --oracle" {
    good eval --oracle "touch started; $(child single)" --data "$C" --images 0:4 --eps 4/255 --attack pgd:steps=3 --no-selftest --out r
    rm started
    bad 2 "give --oracle COMMAND to start it, which run.json calls 'touch started; /usr/bin/python3" -- verify r
    good show r --out page.html
    good export r --out points.npz
    [ ! -e started ]
    good verify r --oracle "$(child single)"
}

# Rows that a child of a mode has computed, to the last one.
computed() { grep -o 'computed [0-9]* rows' "$1" | tail -1 | tr -dc 0-9; }

@test "rows that nobody asks for are left out where trials show the same bits, there alone: the same run for less; a place that matters is said" {
    run=(--data "$C" --images 0:9 --eps 1/255 --attack pgd:steps=40 --attack square:queries=300 --exhaustive --no-selftest)
    for mode in rows sizes places; do
        good eval --oracle "$(child $mode)" "${run[@]}" --out "$mode"
        "$VITRINE" eval --oracle "$(child $mode --pack --count)" "${run[@]}" --out "$mode-packed" >"$mode-said" 2>&1
        same_run "$mode" "$mode-packed"
        "$VITRINE" eval --oracle "$(child $mode --pack)" "${run[@]}" --threads 2 --out "$mode-two" >/dev/null 2>&1
        [ $mode = places ] || same_run "$mode" "$mode-two"
    done
    echo "$(computed rows-said) $(computed sizes-said) $(computed places-said)"
    [ "$(computed rows-said)" -lt "$(computed sizes-said)" ]
    [ "$(computed sizes-said)" -lt "$(computed places-said)" ]
    grep -q "in a batch of 8 an image's last bits depend on its place" places-said
    [ "$(cat rows-said sizes-said | grep -c "depend on its place")" = 0 ]
    nothing_left
}

@test "kill -9 of the child and of vitrine at many moments: no orphan, and --resume ends with the same bytes" {
    run=(--oracle "$(child single)" --data "$C" --eps 4/255 --attack pgd:steps=20 --attack square:queries=300 --exhaustive --no-selftest)
    good eval "${run[@]}" --out want
    for k in 1 2 3 4 5 6 7 8; do
        "$VITRINE" eval "${run[@]}" --out "r$k" >said$k 2>&1 &
        vitrine=$!
        until [ -f "r$k/ledger.jsonl" ]; do kill -0 $vitrine 2>/dev/null && sleep 0.01 || fail "$(cat said$k)" || return; done
        sleep "0.0$((k * 7 % 10))"
        if [ $((k % 2)) = 0 ]; then kill -9 $vitrine 2>/dev/null || true; else pkill -9 -f "[o]racle_child.py single --of=$BATS_FILE_TMPDIR" || true; fi
        wait $vitrine || true
        nothing_left
        good eval "${run[@]}" --resume --out "r$k"
        same_run want "r$k"
    done
}

@test "doctor: what a process does not do to its pixels is found, with the numbers of the same checkpoint here; labels too; faults are faults" {
    good doctor --oracle "$VITRINE serve $V" --data "$SHAPES" --images 0:150 --verbose
    says "gets pixels in [0,1] and does the rest itself" "nothing clearly better"
    grep -o "^blue, green, red .*" <<<"$output" >there
    good doctor "$V" --data "$SHAPES" --images 0:150 --verbose
    grep -o "^blue, green, red .*" <<<"$output" | cmp there -
    good doctor --oracle "$VITRINE serve $V --mean 0 --std 1" --data "$SHAPES" --images 0:150
    says "clearly better: " "its process is to take: (x - mean) / std with mean 0."
    grep -Eq "^0\.5 / 0\.5 .* (better|as good)$" <<<"$output" || fail "$output" # of several that 150 images do not tell apart
    good doctor --oracle "$VITRINE serve $V --mean 127.5 --std 127.5" --data "$SHAPES" --images 0:150
    says "clearly better: raw pixels 0 to 255" "its process is to take: (x - mean) / std with mean 0,0,0 and std 0.00392157"
    bad 2 "--heads tells of a checkpoint" -- doctor --oracle "$VITRINE serve $V" --data "$SHAPES" --heads 2
    bad 2 "give WEIGHTS" -- doctor "$V" --oracle "$VITRINE serve $V" --data "$SHAPES"
    bad 2 "needs WEIGHTS" -- doctor --data "$SHAPES"
    bad 1 "ended when it was asked for" "exit status 5" -- doctor --oracle "$(child exit 1) 2>/dev/null" --data "$C"
    bad 1 "did not answer when it was asked for" -- doctor --oracle "$(child hang 1)" --data "$C" --oracle-timeout 1
    nothing_left
}

@test "the Python side by itself: the size of a batch, answers that hold a tensor; in PyTorch copies in double and hashes (where python3-torch is)" {
    run /usr/bin/python3 "$ROOT/tests/fixtures/oracle_python.py" plain
    [ "$status" = 0 ] && [ "$output" = ok ] || fail "$output"
    /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "no python3-torch: the rest was not tried"
    OMP_NUM_THREADS=1 run /usr/bin/python3 "$ROOT/tests/fixtures/oracle_python.py" torch
    [ "$status" = 0 ] && [ "$output" = ok ] || fail "$output"
}

@test "a batch that is measured: the header has it, threads share it, --resume keeps it, --batch wins, few images take less" {
    run=(--data "$C" --eps 4/255 --attack pgd:steps=3 --no-selftest)
    good eval --oracle "$(child good --usual=16)" "${run[@]}" --images 0:12 --out a
    truth a/results.json '.batch == 16 and .oracle.batch == 64 and (.oracle | has("usual") | not)'
    good eval --oracle "$(child good --usual=32)" "${run[@]}" --resume --out a
    truth a/results.json '.batch == 16 and .clean.total == 20'
    good eval --oracle "$(child good --usual=16)" "${run[@]}" --threads 2 --out b
    same_run a b
    good verify a --oracle "$(child good --usual=64)"
    good eval --oracle "$(child good --usual=64)" "${run[@]}" --out c
    truth c/results.json '.batch == 32'
    good eval --oracle "$(child good --usual=64)" "${run[@]}" --batch 3 --out d
    truth d/results.json '.batch == 3'
    nothing_left
}

@test "importing vitrine_oracle changes no stream; a child that vitrine did not start takes them when it serves" {
    printf 'import sys\nsys.path.insert(0, "%s/python")\nimport vitrine_oracle\nprint("result:", sys.stdin.readline())\n' "$ROOT" >p.py
    echo hello | env -u VITRINE_ORACLE /usr/bin/python3 p.py 2>/dev/null | cat >said
    [ "$(head -1 said)" = "result: hello" ]
    good eval --oracle "env -u VITRINE_ORACLE $(child good | sed 's/^exec //')" --data "$C" --images 0:2
    nothing_left
}

@test "a socket that a killed server left is taken over, one that answers is not" {
    for server in "$VITRINE serve $V --listen unix:s" "$(child good --address=unix:s)"; do
        rm -f said
        $server 2>said &
        killed=$!
        until [ -s said ]; do sleep 0.05; done
        vt serve "$V" --listen unix:s
        judge 1 "cannot listen there"
        run /usr/bin/python3 "$ROOT/tests/fixtures/oracle_child.py" good --address=unix:s
        [ "$status" = 1 ] && [ "$output" = "unix:s: another process answers there: stop it, or take another path" ] || fail "$output"
        kill -9 $killed
        wait $killed || true
        [ -S s ]
    done
    for server in "$VITRINE serve $V --listen unix:s" "$(child good --address=unix:s)"; do
        rm -f said
        $server 2>said &
        killed=$!
        until [ -s said ]; do sleep 0.05; done
        "$VITRINE" eval --oracle unix:s --data "$C" --images 0:2 >/dev/null
        [ "$(stat -c %a s)" = 600 ]
        kill -9 $killed
        wait $killed || true
        [ -S s ]
    done
    echo mine >file
    run /usr/bin/python3 "$ROOT/tests/fixtures/oracle_child.py" good --address=unix:file
    [ "$status" = 1 ] && grep -q "unix:file: cannot listen there" <<<"$output" && [ "$(cat file)" = mine ]
}

@test "a clean image without finite logits: named with the way on; --skip-not-finite counts it apart, in every report, --resume, merge, verify, compare" {
    run=(--data "$C" --eps 4/255 --attack pgd:steps=3 --no-selftest)
    bad 1 "the model's logits are not finite (--skip-not-finite counts such images apart)" -- eval --oracle "$(child dark)" "${run[@]}" --out a
    good eval --oracle "$(child dark)" "${run[@]}" --resume --skip-not-finite --out a
    dark=$(tail -n +2 a/ledger.jsonl | jq -r 'select(.entry == 0 and .status == "not-finite") | .image' | sort -n)
    n=$(wc -w <<<"$dark") right=$((20 - n))
    [ "$n" -gt 2 ] && [ "$n" -lt 15 ] || fail "$n images"
    grep -q "^ *logits not finite *$n / 20" <<<"$output" || fail "$output"
    truth a/results.json ".clean.correct == $right and .clean.not_finite == $n and .clean.total == 20 and .attacks[0].robust + .attacks[0].broken == $right"
    grep -q "logits not finite" a/table.md a/table.csv a/table.tex
    [ -z "$(tail -n +2 a/ledger.jsonl | jq "select(.entry > 0 and (.image | IN($(tr '\n' ',' <<<"$dark" | sed 's/,$//'))))")" ]
    /usr/bin/python3 -c "import json, jsonschema
jsonschema.validate(json.load(open('a/results.json')), json.load(open('$ROOT/docs/results.schema.json')))"
    good eval --oracle "$(child dark)" "${run[@]}" --skip-not-finite --images 0:9 --out b
    good eval --oracle "$(child dark)" "${run[@]}" --skip-not-finite --images 9:20 --out c
    good merge b c --out m
    jq -S '[.clean, .attacks[0].robust]' m/results.json >merged
    jq -S '[.clean, .attacks[0].robust]' a/results.json | cmp - merged
    good verify a --oracle "$(child dark)"
    says "to the last bit (the model answers as it did then)" "everything is as"
    vt verify a --oracle "$(child good --as-dark)"
    [ "$status" = 1 ] && grep -q "the ledger says not-finite" <<<"$output" || fail "$output"
    good compare a m
    good eval --oracle "$(child dark)" --data "$C" --images "$(head -1 <<<"$dark"):$(($(head -1 <<<"$dark") + 1))" --skip-not-finite --out one
    bad 1 "is not robust: without perturbation its logits are not finite" -- eval --oracle "$(child dark)" "${run[@]}" --skip-not-finite --images "$(head -1 <<<"$dark"):$(($(head -1 <<<"$dark") + 1))" --expect-robust --out robust
    good curve --oracle "$(child dark)" --data "$C" --images 0:9 --attacks fmn:steps=5 --no-selftest --skip-not-finite --out curve
    nothing_left
}

@test "verify says why margins moved: another library, another batch; a child whose answers differ hears of random=True" {
    sha=$(printf '%064d' 7)
    good eval --oracle "$(child single --sha=$sha)" --data "$C" --images 0:8 --eps 4/255 --attack pgd:steps=3 --no-selftest --out r
    good verify r --oracle "$(child single --sha=$sha)"
    says "margins                        to the last bit (the model answers as it did then)"
    good verify r --oracle "$(child single --sha=$sha --nudge)"
    says "within float noise (the model answers with other last bits than then)"
    good verify r --oracle "$(child single --sha=$sha --nudge --batch=3)"
    says "within float noise (another batch: 3 images at most, then 8)"
    good verify r --oracle "$(child single --sha=$sha --nudge --batch=3 --library=numpie)"
    says "within float noise (another library: numpie, then numpy)"
    good eval --oracle "$(child single)" --data "$C" --images 0:2 --eps 4/255 --attack pgd:steps=3 --no-selftest --out unhashed
    bad 1 "is not that of unhashed" "; it greets with another batch" -- verify unhashed --oracle "$(child single --batch=3)"
    good eval --oracle "$(child batchnorm)" --data "$C" --out bn
    says "A model that is meant to draw is served with random=True"
}

@test "a listener without a free descriptor ends with a sentence, and does not spin" {
    here prlimit
    "$VITRINE" serve "$V" --listen unix:s >/dev/null 2>said 3>&- &
    until [ -s said ]; do sleep 0.05; done
    prlimit --pid $! --nofile=3:3
    # a server that waits in accept() already has a descriptor for the first caller; the next it has not
    "$VITRINE" eval --oracle unix:s --data "$SHAPES" --images 0:1 >/dev/null 2>&1 || true
    wait $! && fail "exit 0"
    grep -q "unix:s: no conversation can be begun: Too many open files (ulimit -n)" said || fail "$(cat said)"
    [ ! -e s ]
}
