#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What scripts rely on: --json, --quiet, --fail-under, results.json and its schema, tables that can be joined.
load helpers

# valid SCHEMA FILE...: by Debian's python3-jsonschema (draft 2020-12). The system's own Python has its packages.
valid() {
    /usr/bin/python3 - "$@" <<'END'
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
judge = jsonschema.Draft202012Validator(schema)
for name in sys.argv[2:]:
    for error in judge.iter_errors(json.load(open(name))):
        sys.exit("%s: %s: %s" % (name, "/".join(map(str, error.absolute_path)), error.message[:300]))
END
}

@test "results.json is what docs/results.schema.json says, whatever ran" {
    quick --images 0:6 --out clean
    quick --images 0:6 --eps 2/255 --attack fgsm --attack pgd:steps=2+square:queries=5,share=0.5 --eight-bit --out norms
    quick --images 0:6 --norm l2 --eps 0.2 --profile quick --no-selftest --out profile
    quick --images 0:4 --threat patch:size=4 --attack pgd:steps=2 --out patch
    quick --images 0:4 --eps 4/255 --as-published specformer --out paper
    quick --images 0:4 --eps 4/255 --attack transfer --attack pgd:steps=2 --wrap quantise --out twin
    quick --images 0:4 --eps 4/255 --surrogate "$W" --out surrogate
    valid "$ROOT/docs/results.schema.json" {clean,norms,profile,patch,paper,twin,surrogate}/results.json
    truth clean/results.json '.version == 1 and (keys_unsorted[0] == "version")'
    truth twin/results.json '.surrogate.name == "twin" and has("wrap")'
    # and the schema refuses what it does not describe
    jq '.attacks[0].extra = 1' norms/results.json >more.json
    jq 'del(.clean)' norms/results.json >less.json
    jq '.attacks[0].cost = "much"' norms/results.json >other.json
    for f in more less other; do
        run valid "$ROOT/docs/results.schema.json" $f.json
        [ "$status" = 1 ] || fail "$f.json is taken for results"
    done
}

# digits: the numbers of JSON on standard input outside of texts, one a line, as they are written
digits() { sed 's/"\([^"\\]\|\\.\)*"//g' | grep -oE -- '-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?'; }

@test "numbers have as few digits as read back: Python writes the same" {
    quick --images 0:6 --eps 2/255 --attack pgd:steps=2 --out r
    for f in r/results.json r/ledger.jsonl r/run.json; do
        digits <$f | grep '\.' >ours
        [ -s ours ]
        /usr/bin/python3 -c 'import sys
for t in sys.stdin.read().split():
    if len(t.strip("-").replace(".", "").strip("0")) > 17 or float(t) != float(repr(float(t))) or len(t) > len(repr(float(t))) + 1:
        sys.exit(t + " for " + repr(float(t)))' <ours || fail "in $f"
    done
    ! grep -q '000000000[0-9]\b\|99999999[0-9]\b' r/results.json || fail "noise in results.json"
}

# A run as vitrine wrote it at 6cfebee: 17 digits a number, checksums over them, no version, no name of the weights.
OLD=$ROOT/tests/fixtures/run-17-digits
SHAPES="$ROOT/weights/shapes10-vit --data $ROOT/datasets/shapes10"

@test "reports of another form are not taken for those of this version, whatever they leave out" {
    vt verify "$OLD" --weights $SHAPES
    [ "$status" = 1 ]
    says "results.json is not what the ledger gives" "table.md is not what the ledger gives"
    cp -r "$OLD" r
    sed -i '3s/"margin":-\{0,1\}/&1/' r/ledger.jsonl
    bad 1 "r/ledger.jsonl: line 3" -- merge r --out m
}

@test "a run of the version before is merged into one of this version's form" {
    good merge "$OLD" --out m
    truth m/results.json '.version == 1 and .eps_value == 4 / 255'
    grep -q '"eps_value":0.01568627450980392,' m/ledger.jsonl
    good verify m --weights $SHAPES
    valid "$ROOT/docs/results.schema.json" m/results.json
}

@test "the weights' name is for reading: another name is the same run" {
    cp "$W" again.safetensors
    quick --images 0:4 --eps 2/255 --attack fgsm --out r
    cp r/results.json kept
    good eval again.safetensors --data "$D" --images 0:4 --eps 2/255 --attack fgsm --out r --resume
    cmp kept r/results.json
    good eval again.safetensors --data "$D" --images 4:8 --eps 2/255 --attack fgsm --out s
    good merge r s --out m
    truth m/results.json '.weights_name == "w.safetensors" and .clean.total == 8'
    truth s/results.json '.weights_name == "again.safetensors"'
}

@test "tables of two runs can be joined, and are named" {
    quick --images 0:4 --eps 2/255 --attack fgsm --out a
    quick --images 0:4 --norm l2 --eps 0.5 --seed 3 --attack pgd:steps=2 --out b
    quick --images 0:4 --threat patch:size=4 --attack pgd:steps=2 --out c
    /usr/bin/python3 - "$(jq -r .weights a/results.json)" <<'END'
import csv, sys
rows = [r for d in "abc" for r in csv.DictReader(open(d + "/table.csv"))]
keys = {(r["weights"], r["weights_name"], r["data"], r["norm"], r["eps"], r["seed"]) for r in rows}
assert len(keys) == 3 and len({k[2] for k in keys}) == 1, keys
assert {k[0] for k in keys} == {sys.argv[1]} and {k[1] for k in keys} == {"w.safetensors"}, keys
assert {k[3:] for k in keys} == {("linf", "2/255", "0"), ("l2", "0.5", "3"),
                                 ("patch", "patch 4 x 4, count 1, anywhere", "0")}, keys
END
    [ "$(head -1 a/table.tex)" = '% \usepackage{booktabs}' ]
    grep -qF '\caption{w.safetensors: accuracy under attack, linf eps 2/255,' a/table.tex
    grep -qF '\label{tab:w-safetensors-linf-eps-2-255}' a/table.tex
    [ "$(grep -c '^\\\(begin\|end\){table}' a/table.tex)" = 2 ]
    grep -q "weights w\.safetensors ($(jq -r '.weights[:12]' a/results.json))" a/table.md
}

@test "the line of files names every file of the run" {
    quick --images 0:4 --eps 2/255 --attack fgsm --save-adv --save-npz --out r
    line=$(grep '^r: ' <<<"$output")
    (cd r && ls -p) | while read -r f; do [[ "$line," == *" $f,"* ]] || fail "$f is not in: $line" || exit 1; done
}

# ---- --json, --quiet, --fail-under ----

@test "--json: the document on standard output, and nothing else anywhere" {
    A="--images 0:6 --eps 2/255 --attack fgsm"
    quick $A --json --out r
    printf '%s\n' "$output" | cmp - r/results.json
    quick $A --json
    printf '%s\n' "$output" | cmp - r/results.json
    quick $A --seeds 0,1 --json --out seeds
    printf '%s\n' "$output" | cmp - seeds/seeds.json
    good selftest "$W" --data "$D" --images 0:4 --eps 2/255 --json --out self
    printf '%s\n' "$output" | cmp - self/selftest.json
    good curve "$W" --data "$D" --images 0:4 --attacks fmn:steps=5 --no-selftest --json --out curve
    printf '%s\n' "$output" | cmp - curve/curve.json
    good lab attgd --part local --seeds 2 --json --out lab
    printf '%s\n' "$output" | cmp - lab/lab.json
    good compare r r --json
    printf '%s\n' "$output" >c.json
    truth c.json '[.pairs[0].rows[].row] == ["clean", "fgsm"] and .pairs[0].rows[0].right_a == 6'
    good info "$W" --json
    printf '%s\n' "$output" >i.json
    truth i.json '.model.heads.value == 2 and (.model.heads.source | length) > 0 and (.sha256 | length) == 64'
    jq -e --slurpfile r r/results.json '.sha256 == $r[0].weights' i.json
}

@test "--json: what fails leaves standard output empty" {
    for args in "$W --data nowhere --json" "$W --data $D --eps 8 --attack fgsm --json" "$W --data $D --json=1"; do
        vt eval $args
        [ "$status" != 0 ]
        [ -n "$stderr" ]
        [ -z "$output" ] || fail "$args: $output"
    done
    run bash -c '"$VITRINE" info "$1" --json >/dev/full' - "$W"
    [ "$status" = 1 ]
    [[ $output == *"standard output could not be written"* ]]
}

@test "verify --adv --json -: points and totals on standard output" {
    quick --images 0:6 --eps 4/255 --attack fgsm --save-npz --out r
    V="verify --adv r/adv/fgsm.npz --weights $W --data $D --eps 4/255"
    good $V --json t.json
    good $V --json -
    printf '%s\n' "$output" | cmp - t.json
    [ ! -e - ]
}

@test "--quiet: nothing but files" {
    quick --images 0:6 --eps 2/255 --attack fgsm --quiet --out r
    [ -z "$output" ]
    [ -s r/results.json ]
    good verify r --quiet
    [ -z "$output" ]
    good curve "$W" --data "$D" --images 0:4 --attacks fmn:steps=5 --no-selftest --quiet --out curve
    [ -z "$output" ]
    [ -s curve/curve.json ]
    vt eval "$W" --data "$D" --attack fgsm --quiet # what is wrong is said
    [ "$status" = 2 ]
    [[ $stderr == *"attacks need --eps"* ]]
}

@test "--fail-under: the exit status says whether the shares are reached" {
    A="--images 0:10 --eps 4/255 --attack fgsm"
    quick $A --out r
    at=$(jq .worst_case.percent r/results.json) # as it is: reached
    quick $A --fail-under robust=$at
    quick $A --fail-under clean=100,robust=0 --fail-under robust=$at
    over=$(awk "BEGIN {print $at + 0.01}")
    bad 1 "robust accuracy is" "of 10 images), below --fail-under robust=$over" -- eval "$W" --data "$D" $A --fail-under clean=90,robust=$over
    says fgsm
    bad 1 "robust accuracy" -- eval "$W" --data "$D" $A --fail-under robust=$over --json
    jq -e .version <<<"$output"
    bad 1 "robust accuracy" -- eval "$W" --data "$D" $A --fail-under robust=$over --seeds 1,2 --out seeds
    [ -s seeds/seeds.json ] && [ -s seeds/seed-2/results.json ]
}

@test "--fail-under: what is no share is refused before anything runs" {
    A="--images 0:2 --eps 4/255 --attack fgsm"
    for value in abc 1e400 nan -1 100.5 "" 3O; do
        bad 2 "--fail-under: option robust" "$value" -- eval "$W" --data "$D" $A --out r --fail-under "robust=$value"
    done
    bad 2 "--fail-under has no option 'robus'; did you mean 'robust'?" -- eval "$W" --data "$D" $A --out r --fail-under robus=3
    bad 2 "--fail-under has no option 'speed'; its options are: clean, robust" -- eval "$W" --data "$D" $A --out r --fail-under clean=3,speed=3
    bad 2 "'30' is not of the form key=value" -- eval "$W" --data "$D" $A --out r --fail-under 30
    bad 2 "is not a list key=value,key=value" -- eval "$W" --data "$D" $A --out r --fail-under ""
    bad 2 "'clean=3,' ends in a comma" -- eval "$W" --data "$D" $A --out r --fail-under clean=3,
    bad 2 "needs an attack" -- eval "$W" --data "$D" --images 0:2 --out r --fail-under robust=30
    [ ! -e r ]
}

# ---- threads ----

@test "threads: OMP_NUM_THREADS, else the affinity mask; --threads goes before both" {
    local cpu
    cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
    threads() { grep -o '[0-9]* thread' <<<"$output"; }
    vt_under() { run --separate-stderr env "$@" eval "$W" --data "$D" --images 0:6; }
    vt_under -u OMP_NUM_THREADS taskset -c "$cpu" "$VITRINE"
    [ "$(threads)" = "1 thread" ]
    vt_under OMP_NUM_THREADS=3 taskset -c "$cpu" "$VITRINE"
    [ "$(threads)" = "3 thread" ]
    vt_under OMP_NUM_THREADS=4,2 "$VITRINE"
    [ "$(threads)" = "4 thread" ]
    run --separate-stderr env OMP_NUM_THREADS=3 "$VITRINE" eval "$W" --data "$D" --images 0:6 --threads 2
    [ "$(threads)" = "2 thread" ]
    vt_under OMP_NUM_THREADS=many "$VITRINE"
    [ "$status" = 2 ]
    [[ $stderr == *"vitrine: OMP_NUM_THREADS is 'many', must be a number of threads from 1 to 1024"* ]] # libgomp complains too
    [ "$(grep -c ^vitrine <<<"$stderr")" = 1 ]
}

# ---- --dry-run ----

# planned ROW COLUMN: of the last --dry-run
planned() { awk -v row="$1" -v column="$2" 'index($0, row) == 1 {print $(NF - column); exit}' <<<"$output"; }

@test "eval --dry-run: what the run then costs, where every image stands; nothing is written" {
    A="--images 0:12 --eps 1e-6 --attack pgd:steps=4,restarts=2 --attack fgsm+apgd-ce:steps=5+square:queries=30 --threads 2"
    quick $A --dry-run --out r
    plan=$output
    [ ! -e r ]
    quick $A --out r
    truth r/results.json '.worst_case.robust == 12'
    output=$plan
    for row in "pgd" "fgsm+apgd-ce+square" "  fgsm" "  apgd-ce" "  square"; do
        name=${row// /}
        jq -r --arg n "$name" '[.attacks[], .attacks[].stages[]] | map(select(.name == $n)) | .[0] | "\(.forwards) \(.gradients)"' r/results.json >want
        echo "$(planned "$row " 4) $(planned "$row " 3)" | diff want - || fail "$row" "$plan"
    done
    [ "$(planned "all, at most" 3)" = "$(jq '[.attacks[].gradients] | add' r/results.json)" ]
    [ "$(planned "all, at most" 4)" = "$(jq --argjson test "$(planned self-test 4)" '[.attacks[].forwards] | add + 12 + $test' r/results.json)" ]
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer takes memory of its own"
    [[ $plan =~ 'memory: '([0-9]+)' MB peak with 2 threads' ]]
    stated=${BASH_REMATCH[1]} measured=$(jq '.peak_resident_kb / 1024' r/run.json)
    awk -v a="$stated" -v b="$measured" 'BEGIN {exit !((a - b) ^ 2 <= (0.15 * b + 2) ^ 2)}' || fail "stated $stated MB, measured $measured MB"
}

# The self-test counts its forwards itself; where every image stands, its sample is the planned one, whose images cost
# less than the planned mean, a tenth on top, and wake-up: a factor of three.
@test "eval --dry-run: the self-test, its parts and what a doubt adds, are planned at most" {
    tested() { # FILTER ARGS...: the plan of a run, and what the run's self-test says
        local filter=$1
        shift
        quick --images 0:20 --threads 2 "$@" --dry-run
        says "self-test: a gradient counts as"
        parts=$(planned "  its parts" 4) doubt=$(planned "  harder, if in doubt" 4)
        [ "$(planned self-test 4)" = $((parts + doubt)) ]
        rm -rf r && quick --images 0:20 --threads 2 "$@" --out r
        jq -e --argjson parts "$parts" --argjson doubt "$doubt" ".cost | .forwards <= \$parts and .escalation <= \$doubt and ($filter)" r/selftest.json ||
            fail "planned $parts and $doubt" "$(jq -c .cost r/selftest.json)"
    }
    tested '$parts <= 3 * .forwards' --eps 1e-6 --attack apgd-ce:steps=5
    tested '$parts <= 3 * .forwards' --eps 1e-6 --attack apgd-ce:steps=100,restarts=3
    tested 'true' --eps 8/255 --attack autoattack
    tested '.escalation > 0' --eps 2/255 --attack apgd-ce:steps=10 --wrap quantise
    quick --images 0:20 --eps 1e-6 --attack apgd-ce:steps=5 --no-selftest --dry-run
    [[ $output != *self-test* ]]
    good curve "$W" --data "$D" --images 0:4 --dry-run
    says "self-test" "  its parts"
    [ "$(planned "  harder, if in doubt" 4)" = 0 ]
}

# Images that fall to floats and stand in bytes: in a small l2 ball few entries can move by a level. A climb ends before
# it has halved its steps as often as it may: a factor of five.
@test "eval --dry-run: rounded queries and repairs of the 8-bit rows are planned at most" {
    A="--images 0:20 --norm l2 --eps 0.05 --attack pgd:steps=20 --eight-bit --threads 2"
    quick $A --dry-run
    says "a repair of at most 485 forwards and 30 gradients"
    each="$(planned "pgd, 8-bit" 4) $(planned "pgd, 8-bit" 3)"
    quick $A --out r
    jq -r 'select(.entry == 2) | [.status, .forwards, .gradients] | @tsv' r/ledger.jsonl >counted
    grep -q robust counted
    awk -v each="$each" '{split(each, most, " "); f = most[1] / 20; g = most[2] / 20
        if ($2 > f || $3 > g || ($1 == "robust" && f + 2 * g > 5 * ($2 + 2 * $3))) exit 1}' counted || fail "planned $each of 20" "$(cat counted)"
}

# Processor time, which other work on the machine changes little; a factor of three for caches, a sanitizer apart.
@test "eval --dry-run: hours here are those that the run then computes" {
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer slows both down, not alike"
    A="$SHAPES --images 0:30 --eps 1e-6 --attack pgd:steps=40 --threads 1"
    good eval $A --dry-run
    [[ $output =~ 'all, at most '.*' '([0-9.]+)' s' ]] || fail "$output"
    stated=${BASH_REMATCH[1]}
    good eval $A --out r
    # what an image costs that stands, times all images; the process itself takes some hundredths of a second
    measured=$(jq -s '.[0].cpu_seconds * .[1].clean.total / .[1].attacks[0].robust' r/run.json r/results.json)
    awk -v a="$stated" -v b="$measured" 'BEGIN {exit !(a <= 3 * b && b <= 3 * a + 0.3)}' || fail "stated $stated s, measured $measured s"
}

@test "--dry-run of curves, patches, seeds, transfers; and refusals as without it" {
    good curve "$W" --data "$D" --images 0:4 --confirm 2/255 --dry-run
    says "fmn " "apgd-t@2/255" "all, at most"
    quick --images 0:4 --threat patch:size=4 --attack pgd:steps=2 --dry-run
    says "pgd "
    quick --images 0:4 --dry-run
    says "clean "
    quick --images 0:4 --eps 2/255 --attack fgsm --attack transfer --eight-bit --seeds 1,2 --dry-run --out s
    says "transfer " "fgsm, 8-bit"
    while read -r line; do [ ${#line} -le 80 ] || fail "${#line} columns: $line"; done <<<"$output"
    [ ! -e s ]
    bad 2 "attacks need --eps" -- eval "$W" --data "$D" --attack fgsm --dry-run
    bad 1 "nowhere" -- eval "$W" --data nowhere --dry-run
}

# ---- names ----

@test "names of options, attacks, norms and values count in any case, and are written as ever" {
    quick --images 0:4 --norm linf --eps 2/255 --split test --attack pgd:steps=2,loss=margin,random_start=yes --attack autoattack:version=rand --no-selftest --out a
    quick --Images 0:4 --NORM Linf --eps 2/255 --split Test --attack PGD:Steps=2,Loss=Margin,Random_Start=Yes --Attack AutoAttack:Version=Rand --no-selftest --out b
    same_run a b
    quick --images 0:2 --norm L2 --eps 0.1 --profile Standard --no-selftest --wrap Noise:Sigma=0.01 --out c
    truth c/results.json '.norm == "l2" and .attacks[0].name == "standard" and (.wrap.id | startswith("noise:"))'
    quick --images 0:2 --threat Patch:Size=4 --attack PGD:Where=Corner --dry-run
    quick --images 0:2 --eps 8/255 --as-published TRADES --dry-run
}

@test "an option that other tools have gets an answer, and none that is no better than none" {
    for word in gpu device cuda; do
        bad 2 "has no option '--$word': vitrine runs on CPUs; --threads" -- eval w --$word
        bad 2 "has no option '--$word': vitrine runs on CPUs" -- info w --$word
    done
    bad 2 "did you mean '--eps'?" -- eval w --epsilon 8/255
    bad 2 "did you mean '--norm'?" -- eval w --threat-model linf
    bad 2 "did you mean '--threads'?" -- eval w --num_workers=4
    bad 2 "did you mean '--quiet'?" -- eval w --silent
    bad 2 "--images 0:100 is the first hundred" -- eval w --n 100
    bad 2 "--images 0:100" -- curve w --num=100
    bad 2 "the checkpoint stands without an option" -- eval --weights w
    bad 2 "the checkpoint stands without an option" -- info --Model w
    bad 2 "--init CKPT" -- train r.yaml --model w
    bad 2 "did you mean '--batch'" -- eval w --batch-size 64
    bad 2 "none is needed" -- doctor w --batch-size 64
    bad 2 "--set batch=N" -- train r.yaml --batch-size 64
    bad 2 "nothing is overwritten" -- eval w --force
    bad 2 "--attack pgd:steps=20" -- eval w --steps 20
    for word in xyzzy gp zz epochs; do
        bad 2 "vitrine eval has no option '--$word'" -- eval w --$word
        [[ $stderr != *"did you mean"* ]]
    done
    bad 2 "vitrine compare has no option '--model'" -- compare a b --model
    [[ $stderr != *"without an option"* ]]
}

@test "an attack that other tools call otherwise gets an answer" {
    refused() { bad 2 "unknown attack '$1'" "$2" -- eval "$W" --data "$D" --eps 2/255 --attack "$1"; }
    refused aa autoattack
    refused AA autoattack
    refused bim "pgd:random_start=0"
    refused I-FGSM "pgd:random_start=0"
    refused apgd "apgd-ce, apgd-dlr and apgd-t"
    refused pgd-20 "pgd:steps=20"
    refused PGD100 "pgd:steps=100"
    refused mim "momentum"
    refused hsja hopskipjump
    refused rays "logits alone"
    refused xyzzy "vitrine list attacks"
    # what is proposed is there
    for spec in pgd:random_start=0 pgd:steps=1 pgd:steps=20 square; do
        quick --images 0:1 --eps 2/255 --attack $spec --dry-run
    done
}
