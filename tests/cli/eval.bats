#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval on good input: the table, results.json, the evidence in ledger and adv.bin, images saved.
load helpers

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    export RUN=$BATS_FILE_TMPDIR/run
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" --eps 2/255 --attack fgsm --attack pgd:steps=4 --attack cw20 \
        --attack autoattack --verbose --images 0:8 --out "$RUN" --threads 2 >table.txt
}

# The rules that every results.json obeys.
schema() {
    truth "$1" '.clean.correct >= 0 and .clean.correct <= .clean.total'
    truth "$1" '.clean as $c | .attacks | all(.robust + .broken == $c.correct and .total == $c.total and .borderline >= 0
        and .borderline <= .broken and .invalid == 0 and .gradients >= 0 and .forwards >= 0)'
    truth "$1" '.clean as $c | .attacks | all((.stages | length) > 0 and .robust == .stages[-1].robust
        and .broken == ([.stages[].broken] | add) and .gradients == ([.stages[].gradients] | add)
        and .forwards == ([.stages[].forwards] | add) and .borderline == ([.stages[].borderline] | add)
        and (. as $a | [range(.stages | length)]
             | all(. as $i | $a.stages[$i].robust == ((if $i == 0 then $c.correct else $a.stages[$i - 1].robust end) - $a.stages[$i].broken))))'
    truth "$1" '[.clean, .worst_case, .attacks[]] | all(.interval95[0] <= .percent and .percent <= .interval95[1])'
    truth "$1" '.worst_case.robust <= ([.clean.correct, .attacks[].robust] | min)'
}

# values FILE TYPE OFFSET COUNT: numbers of a file, one a line
values() { od -An -v -t"$2" -w"${2#?}" -j "$3" -N "$4" "$1"; }

@test "without attacks: clean accuracy alone, and no eps is needed" {
    quick --out r
    says clean "20 / 20" 100.00
    truth r/results.json '.clean.correct == 20 and .clean.total == 20 and .attacks == [] and .images == "0:20"'
    [ "$(wc -l <r/ledger.jsonl)" = 21 ]
    [ ! -s r/adv.bin ]
}

@test "clean counts labels: with every label moved by one, nothing is right" {
    cp -r "$D" moved
    for i in $(seq 0 19); do
        label=$(values "$D/test_batch.bin" u1 $((i * 3073)) 1)
        poke moved/test_batch.bin $((i * 3073)) "$(byte $(((label + 1) % 10)))"
    done
    good eval "$W" --data moved --eps 8/255 --attack fgsm --out r
    truth r/results.json '.clean.correct == 0 and .attacks[0].robust == 0 and .attacks[0].broken == 0 and .attacks[0].gradients == 0'
    schema r/results.json
}

@test "results.json has the fields that scripts rely on, and they agree with each other" {
    schema "$RUN/results.json"
    truth "$RUN/results.json" '.clean == {correct: 8, total: 8, percent: 100, interval95: .clean.interval95}'
    truth "$RUN/results.json" '[.attacks[].name] == ["fgsm", "pgd", "cw20", "autoattack"]'
    truth "$RUN/results.json" '[.attacks[3].stages[].name] == ["apgd-ce", "apgd-t", "fab-t", "square"]'
    truth "$RUN/results.json" '.attacks[1].id == "pgd:steps=4,alpha=eps/4,random_start=1,restarts=1,loss=ce,kappa=none"'
    truth "$RUN/results.json" '.attacks[2].id | startswith("pgd:steps=20,") and contains("loss=margin")'
    truth "$RUN/results.json" '.eps == "2/255" and .eps_value == 2 / 255 and .norm == "linf" and .seed == 0 and .exhaustive == false'
    [ "$(jq -r .weights "$RUN/results.json")" = "$(sha256sum <"$W" | cut -d' ' -f1)" ]
    [ "$(jq -r .data.sha256 "$RUN/results.json")" = "$(sha256sum <"$D/test_batch.bin" | cut -d' ' -f1)" ]
    truth "$RUN/results.json" '.model.mean.value == [0.5, 0.5, 0.5] and .model.heads.value == 2 and (.model.input | contains("u8/255")) and (.vitrine | length > 0)'
    # the tiny model at this eps is a case with something on both sides
    truth "$RUN/results.json" '.attacks[3].robust > 0 and .attacks[3].broken > 0'
}

@test "results.json holds nothing of machine or moment; run.json does" {
    truth "$RUN/results.json" '[.. | objects | keys[]] | any(. == "threads" or . == "host" or . == "seconds" or . == "cpu" or . == "blas" or . == "command") | not'
    truth "$RUN/run.json" '(.command[1:3] == ["eval", .command[2]]) and .threads == 2 and (.seconds >= 0) and (.cpu_seconds > 0)
        and (.host | length > 0) and (.cpu | length > 0) and (.kernels | contains("BLAS")) and (.finished | test("^20.*Z$"))'
}

@test "the tables say what results.json says" {
    for f in table.md table.csv table.tex ../table.txt; do
        [ -s "$RUN/$f" ] || fail "$f is missing"
        for a in fgsm pgd cw20 autoattack apgd-ce; do grep -qF "$a" "$RUN/$f" || fail "$f does not name $a"; done
    done
    jq -r '.attacks[] | "\(.name) \(.robust) / \(.total) \(.borderline) \(.gradients) \(.forwards)"' "$RUN/results.json" |
        while read -r name robust _ total borderline gradients forwards; do
            grep -qE "^\| $name \| $robust / $total \| [0-9.]+ \| \[[0-9.]+, [0-9.]+\] \| $borderline \| $gradients \| $forwards \|$" "$RUN/table.md" ||
                fail "table.md has no row for $name as results.json has it"
            grep -qE "^$name +$robust / $total +[0-9.]+ +\[[0-9.]+, [0-9.]+\] +$borderline +$gradients +$forwards$" "$RUN/../table.txt" ||
                fail "the terminal has no row for $name as results.json has it"
        done
}

@test "the Wilson interval of 8 of 8 and of what is left is right" {
    truth "$RUN/results.json" '(1.959963984540054 * 1.959963984540054) as $q | [.clean, (.attacks[] | .correct = .robust)] | all(
        .total as $n | (.correct / $n) as $p | (($p + $q / (2 * $n)) / (1 + $q / $n)) as $m
        | ((1.959963984540054 / (1 + $q / $n)) * (($p * (1 - $p) / $n + $q / (4 * $n * $n)) | sqrt)) as $h
        | ((.interval95[0] - 100 * ($m - $h)) | fabs) < 1e-9 and ((.interval95[1] - 100 * ($m + $h)) | fabs) < 1e-9)'
}

@test "every broken image of the ledger lies in adv.bin, in the ball, under its hash" {
    n=0
    while read -r image offset sha linf; do
        dd if="$RUN/adv.bin" of=x bs=12288 skip=$((offset / 12288)) count=1 status=none
        [ "$(sha256sum <x | head -c 16)" = "$sha" ] || fail "image $image: hash"
        paste <(values x f4 0 12288) <(values "$D/test_batch.bin" u1 $((image * 3073 + 1)) 3072) |
            awk -v said="$linf" '{d = $1 - $2 / 255; if (d < 0) d = -d; if (d > top) top = d; if ($1 < 0 || $1 > 1) out = 1}
                END {d = top - said; exit !(NR == 3072 && !out && top <= 2 / 255 + 1e-7 && d < 1e-6 && d > -1e-6)}' ||
            fail "image $image: not in the ball, or another norm than the ledger says"
        n=$((n + 1))
    done < <(tail -n +2 "$RUN/ledger.jsonl" | jq -r 'select(.status == "broken") | [.image, .adv, .sha, .linf] | @tsv')
    [ "$n" = "$(jq '[.attacks[].broken] | add' "$RUN/results.json")" ]
    [ "$(stat -c %s "$RUN/adv.bin")" = $((n * 12288)) ]
}

@test "the ledger has one line for each image and stage that it reached" {
    tail -n +2 "$RUN/ledger.jsonl" | jq -s . >lines.json
    truth lines.json 'map([.entry, .stage, .image]) | . == sort'
    truth lines.json 'length == ([.[] | [.image, .entry, .stage]] | unique | length)'
    truth lines.json 'all(if .entry == 0 then .status == "correct" else .status == "broken" or .status == "robust" end)'
    truth lines.json 'all(.pred >= 0 and .pred < 10 and (.margin > 0) == (.pred != .label))'
    truth lines.json 'all((.status == "broken") == has("adv")) and all((.status == "broken") == (.pred != .label))'
    jq -c '[.attacks | to_entries[] | .key as $e | .value.stages | to_entries[] | [$e + 1, .key, .value.broken, .value.gradients]]' "$RUN/results.json" >want
    jq -c '[group_by([.entry, .stage])[] | select(.[0].entry > 0) | [.[0].entry, .[0].stage, (map(select(.status == "broken")) | length), (map(.gradients) | add)]]' lines.json >got
    # stages that nothing reached have no line
    jq -nc --slurpfile w want --slurpfile g got '$w[0] - $g[0] | map(select(.[2] + .[3] > 0))' | grep -qx '\[\]'
}

@test "threads, --out, the current folder and the weights' folder change no byte" {
    mkdir -p other/place && cp "$W" other/place && cp -r "$D" other/images
    cd other
    good eval place/"${W##*/}" --data ./images/ --eps 2/255 --attack fgsm --attack pgd:steps=4 --attack cw20 \
        --attack autoattack --images 0:8 --out deep/er/run --threads 1
    same_run "$RUN" deep/er/run
}

@test "another seed is another random start" {
    quick --images 0:4 --eps 2/255 --attack pgd:steps=1 --exhaustive --out a
    quick --images 0:4 --eps 2/255 --attack pgd:steps=1 --exhaustive --out b --seed 1
    quick --images 0:4 --eps 2/255 --attack pgd:steps=1,random_start=0 --exhaustive --out c
    quick --images 0:4 --eps 2/255 --attack pgd:steps=1,random_start=0 --exhaustive --out d --seed 1
    ! cmp -s a/adv.bin b/adv.bin || fail "seeds 0 and 1 give the same points"
    cmp c/adv.bin d/adv.bin
    truth b/results.json '.seed == 1'
}

@test "--no-selftest is accepted and changes nothing" {
    quick --images 0:3 --eps 2/255 --attack fgsm --out a
    quick --images 0:3 --eps 2/255 --attack fgsm --out b --no-selftest
    same_run a b
}

@test "without --out nothing is written; off a terminal a short run says nothing on stderr" {
    quick --images 0:3 --eps 2/255 --attack fgsm
    says fgsm "/ 3"
    [ -z "$(ls -A)" ]
}

@test "FGSM is PGD with one step of eps and no random start" {
    quick --eps 2/255 --exhaustive --attack fgsm --attack pgd:steps=1,alpha=2/255,random_start=0 --out r
    n=$(stat -c %s r/adv.bin)
    cmp <(head -c $((n / 2)) r/adv.bin) <(tail -c $((n / 2)) r/adv.bin)
    truth r/results.json '.attacks[0].robust == .attacks[1].robust and .attacks[1].id == "pgd:steps=1,alpha=2/255,random_start=0,restarts=1,loss=ce,kappa=none"'
}

@test "--exhaustive: every image spends the whole budget and every last iterate is kept" {
    quick --images 0:5 --eps 2/255 --attack pgd:steps=4 --exhaustive --out r
    truth r/results.json '.exhaustive and .attacks[0].gradients == 20'
    schema r/results.json
    [ "$(stat -c %s r/adv.bin)" = $((5 * 12288)) ]
    quick --images 0:5 --eps 200/255 --attack pgd:steps=4 --out e
    truth e/results.json '.attacks[0].gradients < 20'
}

@test "l2: eps may exceed 1, and the ball is l2" {
    quick --images 0:6 --norm l2 --eps 1.5 --attack fgsm --attack pgd:steps=3 --attack square:queries=30 --out r
    truth r/results.json '.norm == "l2" and .eps_value == 1.5 and .attacks[0].broken > 0'
    schema r/results.json
    tail -n +2 r/ledger.jsonl | jq -s . >lines.json
    truth lines.json 'all(.l2 <= 1.5) and any(.l2 > 1.4)'
}

@test "l1: the ball is l1, and a radius of another norm is noticed" {
    quick --images 0:6 --norm l1 --eps 40 --attack pgd:steps=5 --out r
    truth r/results.json '.norm == "l1" and .eps_value == 40 and .attacks[0].broken > 0 and .attacks[0].median_l1 <= 40'
    schema r/results.json
    tail -n +2 r/ledger.jsonl | jq -s . >lines.json
    truth lines.json 'all(.l1 <= 40) and any(.l1 > 39)'
    bad 2 "--eps is 8/255" "sum over all values" "did you mean --norm linf?" -- eval "$W" --data "$D" --norm l1 --eps 8/255 --attack pgd
    bad 2 "attack fgsm does not support --norm l1" -- eval "$W" --data "$D" --norm l1 --eps 12 --attack fgsm
}

@test "every attack runs, in all its norms" {
    for norm in linf l2; do
        quick --images 0:2 --norm $norm --eps 2/255 --attack fgsm --attack pgd:steps=2,restarts=2,loss=dlr --attack pgd:loss=margin,kappa=0,steps=2 --attack cw20 \
            --attack apgd-ce:steps=5 --attack apgd-dlr:steps=5 --attack apgd-t:steps=5,targets=2 --attack fab:steps=3 \
            --attack fab-t:steps=3,targets=2 --attack square:queries=20 --out $norm
        schema $norm/results.json
        truth $norm/results.json '.attacks | length == 10'
    done
    quick --images 0:2 --norm l1 --eps 2 --attack pgd:steps=2,restarts=2,loss=dlr --attack cw20 --attack apgd-ce:steps=5 \
        --attack apgd-dlr:steps=5,large_eps=0 --attack apgd-t:steps=5,targets=2 --attack fab:steps=3 \
        --attack fab-t:steps=3,targets=2 --attack square:queries=20 --out l1
    schema l1/results.json
    truth l1/results.json '.attacks | length == 8'
}

@test "--images: a file with one index a line, in any order, comments allowed, is the same as the range" {
    printf '# chosen\n3\n 1\t\n\n2\r\n' >list
    quick --images list --eps 2/255 --attack fgsm --out a
    quick --images 1:4 --eps 2/255 --attack fgsm --out b
    same_run a b
    printf '19\n0\n7\n8\n' >list
    quick --images list --out c
    truth c/results.json '.images == "0:1,7:9,19:20" and .clean.total == 4'
}

@test "--split train reads the other file, and indices count within it" {
    quick --split train --out r
    truth r/results.json '.data.split == "train" and .data.count == 10 and .clean.total == 10'
    [ "$(jq -r .data.sha256 r/results.json)" = "$(sha256sum <"$D/data_batch_1.bin" | cut -d' ' -f1)" ]
    bad 2 "'0:11'" "10 images in its train split" -- eval "$W" --data "$D" --split train --images 0:11
    bad 2 "--split is 'dev'" "must be test, train or val" -- eval "$W" --data "$D" --split dev
}

@test "CIFAR-100: fine labels, one hundred classes" {
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=100 --seed 2 -o hundred.safetensors
    mkdir c100
    for i in 0 1 2; do
        printf '\x13\x63'
        tail -c +$((i * 3073 + 2)) "$D/test_batch.bin" | head -c 3072
    done >c100/test.bin
    good eval hundred.safetensors --data c100 --out r
    truth r/results.json '.data.classes == 100 and .clean.total == 3'
    [ "$(tail -n 1 r/ledger.jsonl | jq .label)" = 99 ]
}

@test "--save-adv: one safetensors file and PNGs; as a PNG folder they are the images again" {
    # eps below half a grey level: rounded to 8 bits, the adversarial image is the clean one
    quick --eps 1/1024 --attack fgsm --attack pgd:steps=2 --attack pgd:steps=3 --exhaustive --save-adv --out r --images 2:12
    st_header r/adv.safetensors >h.json
    truth h.json '[keys[] | select(startswith("__") | not)] == ([("fgsm", "pgd", "pgd#3") | .+ (".x_adv", ".index", ".label", ".pred", ".broken")] | sort)'
    truth h.json '[.["fgsm.x_adv"], .["pgd.x_adv"], .["pgd#3.x_adv"]] | all(.dtype == "F32" and .shape == [10, 3, 32, 32])'
    truth h.json '.["pgd.index"] | .dtype == "I64" and .shape == [10]'
    truth h.json '.["pgd.broken"] | .dtype == "U8" and .shape == [10]'
    st_floats r/adv.safetensors pgd.index d8 | tr -d ' ' | diff - <(seq 2 11)
    tail -c +$((1 + $(st_at r/adv.safetensors fgsm.x_adv))) r/adv.safetensors | head -c $((10 * 12288)) | cmp - <(head -c $((10 * 12288)) r/adv.bin)
    [ "$(ls r/adv)" = "fgsm"$'\n'"pgd"$'\n'"pgd#3" ]
    [ "$(ls r/adv/fgsm | wc -l)" = 10 ]
    [ -f r/adv/fgsm/00002.png ]
    [ -f r/adv/fgsm/00011.png ]
    for c in 0 1 2 3 4 5 6 7 8 9; do mkdir -p png/$c; done
    tail -n +2 r/ledger.jsonl | jq -r 'select(.entry == 0) | [.image, .label] | @tsv' | while read -r image label; do
        cp "r/adv/pgd/$(printf %05d "$image").png" "png/$label/"
    done
    vt eval "$W" --data png --out p
    judge 0 "class folders hold no pictures (0), and each is a class all the same"
    truth p/results.json '.data.format == "folder" and .data.classes == 10 and .clean == {correct: 10, total: 10, percent: 100, interval95: .clean.interval95}'
    tail -n +2 p/ledger.jsonl | jq -c '[.sha, .label, .pred, .margin]' | sort >got
    tail -n +2 r/ledger.jsonl | jq -c 'select(.entry == 0) | [.sha, .label, .pred, .margin]' | sort | diff - got
}

@test "the commands that a new user types, in small" {
    good info "$W"
    quick --images 0:10 --eps 1/255 --attack fgsm --attack pgd:steps=20 --attack cw20 --attack square:queries=50 --out runs/first
    bad 1 "runs/first already holds a run" "--resume" -- eval "$W" --data "$D" --images 0:10 --eps 1/255 --attack fgsm --out runs/first
    cp -r runs/first before
    quick --images 0:10 --eps 1/255 --attack fgsm --attack pgd:steps=20 --attack cw20 --attack square:queries=50 --out runs/first --resume
    same_run before runs/first
    schema runs/first/results.json
}

@test "--save-npz: an archive for each attack; NumPy sets that are unfit are refused" {
    quick --eps 1/255 --attack fgsm --attack pgd:steps=2 --exhaustive --save-npz --save-adv --out r --images 2:12
    [ "$(ls r/adv | tr '\n' ' ')" = "fgsm fgsm.npz pgd pgd.npz " ]
    # x_adv of the archive is x_adv of adv.safetensors: stored plainly, so its bytes stand in the file
    span=$(st_header r/adv.safetensors | jq -r '.["pgd.x_adv"].data_offsets | .[1] - .[0]')
    [ "$span" = $((10 * 12288)) ]
    at=$(grep -abo "(10, 3, 32, 32)" r/adv/pgd.npz | head -n 1 | cut -d: -f1)
    head=$(head -c "$at" r/adv/pgd.npz | grep -abo NUMPY | tail -n 1 | cut -d: -f1)
    tail -c +$((head + 128)) r/adv/pgd.npz | head -c "$span" | cmp - <(tail -c +$((1 + $(st_at r/adv.safetensors pgd.x_adv))) r/adv.safetensors | head -c "$span")
    bad 2 "--save-npz needs --out" -- eval "$W" --data "$D" --save-npz
    local set=$ROOT/tests/fuzz/corpus/npy/set.npz
    good new --set dim=16 depth=1 heads=2 patch=2 image=4 classes=10 --seed 0 -o four.safetensors
    bad 1 "6 x 4 pixels, the model wants 4 x 4" -- eval four.safetensors --data "$set"
    bad 1 "has no arrays named images and labels" -- eval four.safetensors --data "$ROOT/tests/fuzz/corpus/npy/bad_keys.npz"
    bad 1 "claims to inflate to 50331776 bytes" -- eval four.safetensors --data "$ROOT/tests/fuzz/corpus/npy/bad_bomb.npz"
}

# lines RUN ENTRY FIELDS: what a ledger says of an entry, a line an image
lines() { tail -n +2 "$1/ledger.jsonl" | jq -c "select(.entry == $2) | [$3]"; }

@test "floats are evaluated as they are: what --save-npz wrote has the same pixels, logits and predictions again" {
    local k=0 name seen='.label, .pred, .margin, .sha'
    quick --eps 1/255 --attack fgsm --attack pgd:steps=3 --attack apgd-ce:steps=5 --exhaustive --save-npz --out r
    truth r/results.json '.attacks | any(.broken > 0) and any(.robust > 0)'
    for name in fgsm pgd apgd-ce; do
        k=$((k + 1))
        good eval "$W" --data r/adv/$name.npz --out again-$name
        [ "$(jq ".attacks[$((k - 1))].robust" r/results.json)" = "$(jq .clean.correct again-$name/results.json)" ]
        [ "$(lines again-$name 0 .image | wc -l)" = 20 ]
        cmp <(lines r $k "$seen") <(lines again-$name 0 "$seen")
        cmp <(jq -r .data.sha256 again-$name/results.json) <(sha256sum r/adv/$name.npz | cut -d' ' -f1)
        truth again-$name/results.json '.model.input | startswith("float32 as stored")'
    done
    # broken images alone: none is right
    quick --eps 1/255 --attack pgd:steps=3 --save-npz --out s
    good eval "$W" --data s/adv/pgd.npz --out again
    truth again/results.json ".clean.correct == 0 and .clean.total == $(jq .attacks[0].broken s/results.json)"
    # attacks start from the floats, the doctor and the training read them
    good eval "$W" --data r/adv/pgd.npz --eps 1/255 --attack pgd:steps=3 --attack square:queries=20 --norm l2 --out t
    schema t/results.json
    good eval "$W" --data r/adv/pgd.npz --eps 1/255 --attack fgsm --attack fab-t:steps=2 --out u
    schema u/results.json
    good doctor "$W" --data r/adv/pgd.npz
    says "as it is: "
    vt train "$ROOT/recipes/shapes10_plain.yaml" --data r/adv/pgd.npz --set epochs=1 --set micro_batch=5 --set batch=10 \
        --set model.depth=1 --set probe.images=4 --out v
    [ "$status" = 0 ]
}

@test "floats are not resized: refused with file, image and value; the model may do it itself" {
    quick --eps 1/255 --attack pgd:steps=2 --exhaustive --save-npz --out r --images 0:6
    good new --set dim=16 depth=1 heads=2 patch=8 image=48 classes=10 --seed 0 -o large.safetensors
    bad 1 "r/adv/pgd.npz: image 2 has the value 0." "/255: pictures are resized and cropped as bytes" -- \
        eval large.safetensors --data r/adv/pgd.npz --preprocess squash:48 --images 2:4
    bad 1 "r/adv/pgd.npz: image 0 has the value 0." -- eval large.safetensors --data r/adv/pgd.npz --attack-at model
    good eval large.safetensors --data r/adv/pgd.npz --attack-at native
    good doctor large.safetensors --data r/adv/pgd.npz --attack-at native
    [[ $output != *squash* ]] # bytes are no trial
    bad 1 "bad_nan.npz: image 0 has the value nan at channel 0, row 0, column 0; floats must lie in [0,1]" -- \
        eval "$W" --data "$ROOT/tests/fuzz/corpus/npy/bad_nan.npz"
    bad 1 "bad_above.npz: image 2 has the value 1.0000000000000002 at channel 2" -- \
        eval "$W" --data "$ROOT/tests/fuzz/corpus/npy/bad_above.npz"
}

@test "--minutes: the run stops with a bound on what was left out; continued it has the bytes of a run without a limit" {
    local minutes=0.001 stops=0 A="$ROOT/weights/shapes10-vit --data $ROOT/datasets/shapes10 --images spread:40 --eps 4/255 --attack apgd-ce:steps=10+apgd-t:steps=5+square:queries=50 --attack pgd:steps=5 --no-selftest --threads 2"
    good eval $A --out whole
    good eval $A --minutes $minutes --out r
    while [ ! -e r/SHA256SUMS ]; do
        stops=$((stops + 1))
        says "the time is up after"
        [ ! -e r/results.json ] || truth r/results.json '.left_out | . == null or (.further95 <= .survivors and .sampled <= .survivors)'
        bad 2 "is not finished" -- verify r
        minutes=$(awk -v m=$minutes 'BEGIN {print 2 * m}')
        good eval $A --minutes $minutes --resume --out r
    done
    [ $stops -ge 1 ]
    for f in ledger.jsonl adv.bin results.json table.md table.csv table.tex; do cmp r/$f whole/$f; done
    local B="$ROOT/weights/shapes10-vit --data $ROOT/datasets/shapes10 --images 0:4 --eps 4/255 --no-selftest" # AutoAttack
    good eval $B --minutes 0.0001 --out b
    good eval $B --attack autoattack --minutes 0.0002 --resume --out b
    bad 2 "made with" -- eval $B --attack pgd --resume --out b
    bad 2 "--minutes is '0', must be a number above 0" -- eval $A --minutes 0
    bad 2 "--hours is 'nan', must be a number above 0" -- eval $A --hours nan
    bad 2 "one limit: give one of them" -- eval $A --hours 1 --minutes 1
    bad 2 "leave it out with --seeds" -- eval $A --hours 1 --seeds 0,1 --out s
}

# The judge is a cheat that changes nothing: around it no gradient is believed to repeat itself.
@test "circles of pgd are not computed again, and the ledger is the same" {
    quick --eps 1/255 --attack pgd:steps=150,alpha=0.4/255 --attack mt-pgd:steps=60,targets=2 --out r
    says "of these gradients were known already"
    quick --eps 1/255 --attack pgd:steps=150,alpha=0.4/255 --attack mt-pgd:steps=60,targets=2 --wrap logit-scale:factor=1 \
        --out w
    truth r/run.json '.gradients_repeated > 0'
    truth w/run.json '.gradients_repeated == null'
    for run in r w; do sed '1d; s/,"check.*//' $run/ledger.jsonl >$run.lines; done
    cmp r.lines w.lines
    cmp r/adv.bin w/adv.bin
}
