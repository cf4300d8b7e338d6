#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine compare: two evaluations of the same images, paired.
load helpers

W=$ROOT/weights/shapes10-vit
SHAPES=$ROOT/datasets/shapes10

setup_file() {
    load helpers
    export A=$BATS_FILE_TMPDIR/a B=$BATS_FILE_TMPDIR/b
    "$VITRINE" eval "$W" --data "$SHAPES" --images 0:60 --eps 4/255 --attack fgsm --attack pgd:steps=2 --out "$A" >/dev/null
    # the same weights, read with another mean: other answers
    "$VITRINE" eval "$W" --mean 0.6 --data "$SHAPES" --images 0:60 --eps 4/255 --attack pgd:steps=2 --attack cw20 --out "$B" >/dev/null
}

# alone ENTRY_A ENTRY_B: images right in A's ledger and not in B's (entry 0: clean)
right() { # LEDGER ENTRY: images that are right under it
    jq -s --argjson k "$2" '[.[] | select(has("image"))] | group_by(.image) | map(select(
        (map(select(.entry == 0 and .status == "correct")) | length > 0) and
        (map(select(.entry == $k and .status == "broken")) | length == 0)) | .[0].image) | .[]' "$1/ledger.jsonl" | sort
}

@test "counts are those of the ledgers, for clean and for what both ran" {
    good compare --verbose "$A" "$B"
    for row in "clean 0 0" "pgd 2 1"; do
        set -- $row
        right "$A" $2 >ra
        right "$B" $3 >rb
        read -r only_a only_b < <(echo "$(comm -23 ra rb | wc -l) $(comm -13 ra rb | wc -l)")
        line=$(grep "^$1 " <<<"$output")
        [ "$(awk '{print $2, $6, $7}' <<<"$line")" = "60 $only_a $only_b" ] || fail "$line, expected $only_a and $only_b"
    done
    never grep -E '^(fgsm|cw20) ' <<<"$output"
}

@test "attacks that only one of the runs has are named, in text and JSON" {
    good compare "$A" "$B"
    says "A alone ran fgsm: not compared" "B alone ran cw20: not compared"
    good compare "$A" "$A"
    [[ $output != *alone\ ran* ]]
    "$VITRINE" eval "$ROOT/weights/shapes10-vit" --data "$SHAPES" --images 0:60 --eps 4/255 --attack pgd:steps=3 --attack fgsm+square:queries=2 --out other --no-selftest >/dev/null
    good compare "$A" other
    says "A alone ran fgsm, pgd (with other options): not compared" "B alone ran pgd (with other options), fgsm+square: not compared"
    good compare "$A" other --json
    jq -e '.pairs[0] | .a_alone == "fgsm, pgd (with other options)" and (.rows | length == 1)' <<<"$output" >/dev/null
    good compare "$A" "$A" --json
    jq -e '.pairs[0] | has("a_alone") or has("b_alone") | not' <<<"$output" >/dev/null
}

@test "--tex: one table of all runs, whose numbers are those of each run's own" {
    "$VITRINE" eval "$ROOT/weights/shapes10-vit" --data "$SHAPES" --images 0:60 --eps 4/255 --attack pgd:steps=3 --out other --no-selftest >/dev/null
    good compare "$A" "$B" other --tex all.tex
    grep -q '^% \\usepackage{booktabs}' all.tex
    [ "$(grep -c 'toprule\|midrule\|bottomrule' all.tex)" = 3 ]
    grep -qF '\begin{tabular}{lrrrrr}' all.tex
    grep -qxF ' & clean & fgsm & pgd (1) & cw20 & pgd (2) \\' all.tex || fail "$(<all.tex)"
    grep -q '^% pgd (2): pgd:steps=3,' all.tex
    [ "$(grep -c '\] .*\\\\$' all.tex)" = 3 ]
    k=0
    for run in "$A" "$B" other; do
        k=$((k + 1))
        row=$(grep '\] .*\\\\$' all.tex | sed -n ${k}p)
        # "NAME & 85.00 [73.89, 91.90] & ... \\": clean, then each column's attack or --
        for cell in "2 clean" $([ $run = "$A" ] && echo "3 fgsm 4 pgd" | xargs -n 2 | tr ' ' :) $([ $run = other ] && echo 6:pgd) \
            $([ $run = "$B" ] && echo 4:pgd 5:cw20); do
            at=${cell%%[ :]*} name=${cell#*[ :]}
            want=$(sed -n "s/^$name & [0-9]* \/ [0-9]* & \(.*\) & \[\(.*\)\] .*/\1 [\2]/p" "$run/table.tex")
            got=$(awk -F ' & ' -v k="$at" '{ sub(/ [\\][\\]$/, ""); print $k }' <<<"$row")
            [ -n "$want" ] && [ "$got" = "$want" ] || fail "$run, $name: '$got' in the table, '$want' in its own" "$row"
        done
        case $run in other) [[ $row == *"& -- & -- & -- &"* ]] ;; esac
    done
    # names are escaped, and told apart where two runs have the same
    header "$A" 'x_%' '.weights_name = "a_b%{"'
    good compare "$A" 'x_%' other --tex names.tex
    grep -qF 'a\_b\%\{ &' names.tex
    grep -qF '(other) &' names.tex
    # nothing is written where it cannot be told
    bad 2 "--tex is a table of runs over the same images: leave out --common" -- compare "$A" "$B" --common --tex no.tex
    cp -r "$B" part
    sed -i "$(grep -n '"entry":2[,}]' part/ledger.jsonl | tail -n 1 | cut -d: -f1)d" part/ledger.jsonl
    bad 2 "part is not finished: 1 image-stages are missing" -- compare "$A" part --tex no.tex
    [ ! -e no.tex ] && [ -z "$(ls -A | grep '^no\.')" ]
}

@test "a run with itself: nothing differs, p is 1, undecided" {
    good compare --verbose "$A" "$A"
    [ "$(grep -c "undecided" <<<"$output")" = 3 ]
    [[ $(grep "^pgd " <<<"$output") =~ \ 0\ +0\ +1\ +1\ +undecided ]]
}

@test "runs that do not answer the same question are refused" {
    good eval "$W" --data "$SHAPES" --images 0:20 --eps 2/255 --attack fgsm --out c
    bad 2 "eps" "2/255" -- compare "$A" c
    good eval "$W" --data "$SHAPES" --images 60:80 --eps 4/255 --attack fgsm --out d
    bad 2 "no image in common" "d" -- compare "$A" d
    bad 2 "--alpha is '0.7'" "below 0.5" -- compare "$A" "$B" --alpha 0.7
    bad 2 "needs RUN_A RUN_B" "" -- compare "$A"
    bad 1 "nowhere" "" -- compare "$A" nowhere
}

# header IN OUT JQ-FILTER: a run whose ledger has another header
header() {
    cp -r "$1" "$2"
    { head -n 1 "$1/ledger.jsonl" | jq -c "$3" && tail -n +2 "$1/ledger.jsonl"; } >"$2/ledger.jsonl"
    seal "$2"
}

@test "an evaluation that is not finished is refused, first or second" {
    cp -r "$B" part
    # its last result of pgd (entry 1) is missing: what a killed run leaves
    last=$(grep -n '"entry":1[,}]' part/ledger.jsonl | tail -n 1 | cut -d: -f1)
    [ "$last" -gt 60 ]
    sed -i "${last}d" part/ledger.jsonl
    bad 2 "not finished" "pgd" "59 of 60 images" -- compare "$A" part
    bad 2 "not finished" "pgd" -- compare part "$A"
    good compare --verbose "$A" "$B"
}

@test "a key that only one header has is refused, in both orders" {
    header "$A" more '. + {"norm2": "linf"}'
    bad 2 "norm2" -- compare "$A" more
    bad 2 "norm2" -- compare more "$A"
    header "$A" less 'del(.seed)'
    bad 2 "seed" -- compare "$A" less
    bad 2 "seed" -- compare less "$A"
}

@test "runs over different images are refused; --common takes those that both have" {
    good eval "$W" --mean 0.6 --data "$SHAPES" --images 20:50 --eps 4/255 --attack pgd:steps=2 --out part
    bad 2 "over different images: 60 and 30, of which 30 are in both" "image 0" "--common" -- compare "$A" part
    bad 2 "over different images: 30 and 60" -- compare part "$A"
    good compare --verbose "$A" part --common
    [ "$(awk '/^pgd /{print $2}' <<<"$output")" = 30 ]
}

@test "the images that changed, the agreement and the interval" {
    good compare --verbose "$A" "$B" --changed
    right "$A" 2 | sort -n >ra && right "$B" 1 | sort -n >rb
    only() { grep -vxFf "$2" "$1" | xargs | grep . || echo none; }
    [ "$(grep '^pgd, right under A alone:' <<<"$output")" = "pgd, right under A alone: $(only ra rb)" ]
    [ "$(grep '^pgd, right under B alone:' <<<"$output")" = "pgd, right under B alone: $(only rb ra)" ]
    n=$(cat <(grep -vxFf ra rb) <(grep -vxFf rb ra) | wc -l)
    [ "$n" -gt 0 ]
    [ "$(awk '/^pgd /{print $NF}' <<<"$output")" = "$(awk "BEGIN{printf \"%.2f\", 100 - 100 * $n / 60}")" ]
    # the interval holds the difference
    line=$(grep '^pgd ' <<<"$output")
    awk -F'[][,]' '{split($1, w, " "); d = w[5]; if (!($2 < d && d < $3)) exit 1}' <<<"$line" || fail "$line"
    good compare --verbose "$A" "$A" --changed
    says "pgd, right under A alone: none"
}

@test "eval --seeds: each seed is a run of its own; mean and range" {
    good eval "$W" --data "$SHAPES" --images 0:40 --eps 3/255 --attack pgd:steps=3 --seeds 0,3,7 --out s
    for k in 0 3 7; do
        good eval "$W" --data "$SHAPES" --images 0:40 --eps 3/255 --attack pgd:steps=3 --seed $k --out alone-$k
        same_run s/seed-$k alone-$k
    done
    counts=$(for k in 0 3 7; do jq .worst_case.robust alone-$k/results.json; done | xargs)
    truth s/seeds.json ".seeds == [0,3,7] and (.rows[] | select(.row == \"pgd\") | .counts) == [${counts// /,}]"
    jq -e '.rows[] | select(.row == "pgd") | ((.counts | add) / 3 / 0.4 - .mean | fabs) < 1e-9
        and .low == (.counts | min) / 0.4 and .high == (.counts | max) / 0.4' s/seeds.json
    # images whose verdict depends on the seed
    for k in 0 3 7; do right alone-$k 1; done | sort | uniq -c | awk '$1 < 3' | wc -l >depends
    truth s/seeds.json ".depends_on_seed == $(cat depends)"
    good compare --verbose s/seed-0 s/seed-0
    bad 2 "needs --out" -- eval "$W" --data "$SHAPES" --eps 1/255 --attack fgsm --seeds 0,1
    for bad in 1 0,x 1,1 -1,2 ""; do bad 2 "--seeds" -- eval "$W" --data "$SHAPES" --eps 1/255 --attack fgsm --seeds "$bad" --out t; done
    bad 2 "--seed or --seeds" -- eval "$W" --data "$SHAPES" --eps 1/255 --attack fgsm --seeds 0,1 --seed 3 --out t
    [ ! -e t ]
}

# curve OUT ARGS: a short curve
curve() { good curve "$W" --data "$SHAPES" --images 0:40 --attacks fmn:steps=15 --confirm-with pgd:steps=3 --out "$@"; }

@test "two curves: counts at every confirmed eps, and the norms, are those of curve.json" {
    curve a --confirm 2/255,4/255
    curve b --confirm 4/255,8/255 --mean 0.6
    good compare --verbose a b
    for row in 2:2/255 4:4/255 8:8/255; do
        for run in a b; do
            jq --argjson k "${row%%:*}" '.images[] | select(.right and (.distance == null or .distance > $k / 255)) | .image' $run/curve.json | sort >right-$run
        done
        line=$(awk -v eps="${row#*:}" '$1 == eps && $2 == 40' <<<"$output")
        want="40 $(comm -23 right-a right-b | wc -l) $(comm -13 right-a right-b | wc -l)"
        [ "$(awk '{print $2, $6, $7}' <<<"$line")" = "$want" ] || fail "$line, expected $want"
    done
    says "2/255: attacks of this eps ran in A alone" "8/255: attacks of this eps ran in B alone"
    [[ $output != *"4/255: attacks"* ]]
    larger() { # RUN OTHER: images whose norm by fmn is larger under RUN
        jq -n --slurpfile a "$1/curve.json" --slurpfile b "$2/curve.json" '
            def norms: [.[0].images[] | if .right then (.norms[0] // 1e9) else 0 end];
            [($a | norms), ($b | norms)] | transpose | map(select(.[0] > .[1])) | length'
    }
    says "norms             40 images: larger under A on $(larger a b), under B on $(larger b a)," "over all 5 rows"
    good compare --verbose a a --changed
    [ "$(grep -c "undecided" <<<"$output")" = 4 ]
    says "sign test p 1, p (Holm) 1, B better: undecided" "2/255, right under A alone: none"
}

@test "curves of other images, other attacks, and curves against evaluations" {
    curve a --confirm 4/255
    curve part --confirm 4/255 --images 10:30
    bad 2 "over different images: 40 and 20" "--common" -- compare a part
    good compare --verbose a part --common
    [ "$(awk '/^clean /{print $2}' <<<"$output")" = 20 ]
    bad 2 "a is a curve over eps, the other an evaluation at one eps" -- compare a "$A"
    bad 2 "part is a curve over eps" -- compare "$A" part
    good curve "$W" --data "$SHAPES" --images 0:40 --attacks deepfool --out f
    good compare --verbose a f
    says "norms are not compared"
    last=$(grep -n '"entry":1[,}]' a/ledger.jsonl | tail -n 1 | cut -d: -f1)
    sed -i "${last}d" a/ledger.jsonl
    bad 2 "a is not finished: fmn has results for" -- compare f a
}

@test "finding 16: the number of an image costs no memory" {
    far() { # IN OUT IMAGE: that image has the largest number there is
        cp -r "$1" "$2"
        sed -i "s/\"image\":$3,\"entry\"/\"image\":2147483646,\"entry\"/" "$2/ledger.jsonl"
        ! cmp -s "$1/ledger.jsonl" "$2/ledger.jsonl" || fail "nothing planted"
        seal "$2"
    }
    within() { # ARGS: vitrine in 2 GB
        run --separate-stderr bash -c 'ulimit -v 2000000; exec "$@"' - "$VITRINE" "$@"
    }
    equal() { # A B C D IMAGE: C and D are A and B but for the number
        good compare --verbose "$1" "$2" --changed
        want=$(sed "s#^A  .*#A  $3#; s#^B  .*#B  $4#; s/ $5\$/ 2147483646/" <<<"$output")
        within compare --verbose "$3" "$4" --changed
        [ "$status" = 0 ] || fail "$stderr"
        [ "$output" = "$want" ] || fail "$(diff <(echo "$want") <(echo "$output"))"
    }
    far "$A" a 59
    far "$B" b 59
    equal "$A" "$B" a b 59
    within compare --verbose "$A" a
    judge 2 "over different images: 60 and 60, of which 59 are in both (image 59 is not)"
    within compare --verbose "$A" a --common
    [ "$(awk '/^clean /{print $2}' <<<"$output")" = 59 ]
    curve c --confirm 2/255
    curve d --confirm 4/255 --mean 0.6
    far c e 39
    far d f 39
    equal c d e f 39
}

@test "a loss is worse, the gain the other way held" {
    for m in plain specformer; do
        good eval "$ROOT/weights/shapes10-$m" --data "$SHAPES" --images 0:60 --eps 4/255 --attack pgd:steps=3 --out $m
    done
    good compare specformer plain # on clean images it is the other way round
    [[ $(grep "^pgd " <<<"$output") == *"  worse  "* ]]
    good compare plain specformer
    [[ $(grep "^pgd " <<<"$output") == *"  held  "* ]]
    # 80 columns, whatever leaves; --verbose has it all
    [ "$(awk 'length > 80' <<<"$(grep -B1 -A1 "^clean" <<<"$output")")" = "" ]
    [[ $output != *"agree %"* ]]
    good compare plain specformer --verbose
    says "agree %" "A alone"
}

@test "runs over two data sets: a sentence names both" {
    "$DRAW" --out other --train 10 --test 60 --seed 4 >/dev/null
    vt eval "$ROOT/weights/shapes10-vit" --data other --images 0:60 --eps 4/255 --attack pgd:steps=2 --out o
    bad 2 "over different data sets" "$(jq -r .data.sha256 "$A/results.json" | cut -c1-12)..." "$(jq -r .data.sha256 o/results.json | cut -c1-12)..." -- compare "$A" o
    [[ $stderr != *[{}]* ]]
}

@test "--transfer: as verify --adv judges the same points by the other model; threads change nothing" {
    "$VITRINE" eval "$ROOT/weights/shapes10-plain" --data "$SHAPES" --images 0:20 --eps 4/255 --attack pgd:steps=5 --save-npz --out p --no-selftest >/dev/null
    good compare --transfer "$A" p
    says "points of" "100.00 (" "of those whose clean image it has right"
    good compare --transfer "$A" p --threads 1 --json
    cp <(echo "$output") one
    good compare --transfer "$A" p --threads 3 --json
    diff one <(echo "$output")
    # the points of p, judged by the model of A
    vt verify --adv p/adv/pgd.npz --weights "$ROOT/weights/shapes10-vit" --data "$SHAPES" --eps 4/255 --json judged
    jq -e --slurpfile j judged '$j[0] as $v | .transfer[2] | [.points, .right, .broken] == [$v.points, $v.points - $v.wrong, $v.broken]' one ||
        fail "$(jq -c '.transfer[2]' one) $(jq -c 'del(.images)' judged)"
    bad 2 "--tex goes with a comparison image by image" -- compare --transfer "$A" p --tex t.tex
    bad 2 "--threads goes with --transfer" -- compare "$A" p --threads 2
    "$VITRINE" eval "$ROOT/weights/shapes10-vit" --data "$SHAPES" --split train --images 0:2 --eps 4/255 --attack fgsm --out t --no-selftest >/dev/null
    bad 2 "$A and t are over other data" -- compare --transfer "$A" t
}
