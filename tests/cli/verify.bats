#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine verify RUNDIR: a run judged again from what it left, and any byte that changed since.
load helpers

setup_file() {
    load helpers
    export R=$BATS_FILE_TMPDIR/run
    cd "$ROOT"
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:30 --eps 4/255 --attack fgsm --attack pgd:steps=3 \
        --save-npz --out "$R" >/dev/null
}

# flip FILE OFFSET: changes the lowest bit of one byte
flip() {
    local b
    b=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    poke "$1" "$2" "$(byte $((b ^ 1)))"
}

# reseal DIR: what somebody does who wants a change to stay unnoticed
reseal() { (cd "$1" && sha256sum $(sed 's/^.\{66\}//' SHA256SUMS) >sums && mv sums SHA256SUMS); }

@test "a run is as it was: every stored point is judged again, nothing is written" {
    before=$(sums "$R")
    good verify "$R"
    says "everything is as the ledger" "clean predictions made again   30" "to the last bit"
    n=$(grep -c '"status":"broken"' "$R/ledger.jsonl")
    [ "$n" -gt 10 ]
    says "$n: $n broken"
    [ "$(sums "$R")" = "$before" ]
    (cd "$R" && sha256sum -c --quiet SHA256SUMS) # anybody's tool reads it
    good verify "$R" --threads 1
}

@test "the paths of run.json also count from where the run was made" {
    good verify "$R" # the run was made in another folder than this one
    bad 1 "nowhere" -- verify "$R" --weights nowhere
    bad 2 "--eps goes with --adv" -- verify "$R" --eps 4/255
}

@test "one changed bit of any file is noticed, and the file is named" {
    for f in adv.bin ledger.jsonl results.json table.csv table.md table.tex run.json adv/pgd.npz; do
        size=$(stat -c %s "$R/$f")
        for part in 10 50 97; do
            rm -rf c && cp -r "$R" c
            flip "c/$f" $((size * part / 100))
            vt verify c
            [ "$status" = 1 ] || fail "$f, byte at $part %: status $status, $stderr"
            [[ "$output$stderr" == *"$f"* ]] || fail "$f is not named: $output$stderr"
        done
    done
    for key in subject weights choices data directory command; do # names nothing, or something else, any more
        rm -rf c && cp -r "$R" c
        flip c/run.json $(($(grep -bo "\"$key\"" c/run.json | head -n 1 | cut -d: -f1) + 2))
        vt verify c
        [ "$status" = 1 ] || fail "$key in run.json: status $status, $stderr"
        says "run.json is changed"
    done
    size=$(stat -c %s "$R/SHA256SUMS")
    for at in 3 65 70 $((size - 1)); do
        rm -rf c && cp -r "$R" c
        flip c/SHA256SUMS "$at"
        vt verify c
        [ "$status" = 1 ] || fail "SHA256SUMS, byte $at: status $status"
    done
}

@test "files that are missing or were added to are named" {
    cp -r "$R" c
    rm c/table.md
    bad 1 "table.md" -- verify c
    cp -r "$R" d
    rm d/SHA256SUMS
    bad 1 "SHA256SUMS" -- verify d
    cp -r "$R" f
    printf x >>f/adv.bin
    bad 1 "adv.bin" -- verify f
}

@test "what was sealed anew after a change is noticed by the judge" {
    cp -r "$R" c # a claim that is better than the truth: a broken image called robust
    line=$(grep -n '"entry":1.*"status":"broken"' c/ledger.jsonl | head -n 1 | cut -d: -f1)
    image=$(sed -n "${line}p" c/ledger.jsonl | jq .image)
    sed -i "${line}s/\"broken\"/\"robust\"/" c/ledger.jsonl
    reseal c
    vt verify c
    [ "$status" = 1 ]
    says "image $image after fgsm is broken, the ledger says robust" "results.json is not what the ledger gives"
    cp -r "$R" d # another distance
    sed -i "${line}s/\"linf\":0\.0/\"linf\":0.1/" d/ledger.jsonl
    reseal d
    bad 1 "image $image after fgsm lies at linf" -- verify d
    cp -r "$R" f # another clean class
    row=$(grep -n '"status":"wrong"' f/ledger.jsonl | head -n 1 | cut -d: -f1)
    pred=$(sed -n "${row}p" f/ledger.jsonl | jq .pred)
    sed -i "${row}s/\"pred\":$pred/\"pred\":$(((pred + 1) % 10))/" f/ledger.jsonl
    reseal f
    bad 1 "is taken for class $pred" -- verify f
    cp -r "$R" g # a tensor and its hash
    poke g/adv.bin 100 "$HALF"
    sha=$(head -c 12288 g/adv.bin | sha256sum | head -c 16)
    row=$(grep -n '"adv":0,' g/ledger.jsonl | cut -d: -f1)
    sed -i "${row}s/\"sha\":\"[0-9a-f]*\"/\"sha\":\"$sha\"/" g/ledger.jsonl
    reseal g
    bad 1 "image $(sed -n "${row}p" g/ledger.jsonl | jq .image) after fgsm is invalid" -- verify g
}

@test "other weights and other data are refused by their hashes" {
    cp "$ROOT/weights/shapes10-vit/model.safetensors" w.safetensors
    cp "$ROOT/weights/shapes10-vit/config.json" .
    good verify "$R" --weights w.safetensors
    flip w.safetensors $(($(stat -c %s w.safetensors) - 3))
    bad 1 "w.safetensors is not the checkpoint" "SHA-256" -- verify "$R" --weights w.safetensors
    cp -r "$ROOT/datasets/shapes10" d
    flip d/test_batch.bin 200000 # an image that the run did not look at
    bad 1 "d are not the data" "SHA-256" -- verify "$R" --data d
    bad 2 "describes the model otherwise" "mean" -- verify "$R" --mean 0.6
}

@test "a missing tensor: one sentence, exit status 2, nothing changed" {
    cp -r "$R" c
    rm c/adv.bin
    before=$(sums c)
    for command in verify export show; do bad 2 "c has no adv.bin" -- $command c; done
    [ "$(sums c)" = "$before" ]
    cp -r "$R" d
    truncate -s -12288 d/adv.bin
    bad 2 "d/adv.bin" "is missing" -- verify d
    cp -r "$R" f
    sed -i '0,/"adv":0,/s///' f/ledger.jsonl
    bad 2 "is broken, but its line names no tensor" -- verify f
    cp -r "$R" g
    last=$(wc -l <g/ledger.jsonl)
    sed -i "${last}d" g/ledger.jsonl
    bad 2 "not finished" -- verify g
}

@test "a merged run has no command: weights and data have to be given" {
    quick --images 0:10 --eps 2/255 --attack fgsm --out a
    quick --images 10:20 --eps 2/255 --attack fgsm --out b
    good merge a b --out m
    bad 2 "give --weights and --data" -- verify m
    good verify m --weights "$W" --data "$D"
    says "clean predictions made again   20"
}

@test "norms and options of the run are taken from it" {
    quick --images 0:10 --norm l2 --eps 0.5 --attack pgd:steps=3 --mean 0.4 --out r
    good verify r
    says "l2 eps 0.5"
    good eval "$W" --data "$D" --images 0:5 --eps 2/255 --attack pgd:steps=2 --exhaustive --out x
    good verify x
}

@test "squares: a patch run is verified by squares, and its export too" {
    quick --images 0:10 --threat patch:size=8,count=1 --attack pgd:steps=5 --out r
    good verify r
    says "patch 8 x 8"
    truth r/results.json '.worst_case.robust < .clean.correct'
    good export r --format npz --out x.npz
    good verify --adv x.npz --weights "$W" --data "$D" --threat patch:size=8,count=1
    says "0 violations"
    vt verify --adv x.npz --weights "$W" --data "$D" --threat patch:size=4,count=1
    [ "$status" = 1 ]
    says "more has changed than fits into the squares"
    bad 2 "stands in place of" -- verify --adv x.npz --weights "$W" --data "$D" --threat patch:size=4,count=1 --eps 1/255
    bad 2 "patch" -- verify --adv x.npz --weights "$W" --data "$D" --threat patch:size=64,count=1
    good show r
}

# points: the last verify judged at least one stored point
points() { [ "$(awk '/^stored points/{print $5 + 0}' <<<"$output")" -gt 0 ] || fail "no point was judged: $output"; }

@test "a wrapped run is judged under the same known cheat, its noise included" {
    local w=$ROOT/weights/shapes10-vit d=$ROOT/datasets/shapes10
    # each with an attack that gets through it, so that there are points to judge
    for row in "logit-scale pgd:loss=margin,steps=5" "quantise:levels=12 square:queries=100" \
        "noise:sigma=0.0612345678 pgd:steps=5" "saturate pgd:steps=5"; do
        set -- $row
        rm -rf r c
        good eval "$w" --data "$d" --images 0:20 --eps 4/255 --attack "$2" --wrap "$1" --seed 5 --threads 2 --out r
        before=$(sums r)
        good verify r --threads 1
        says "WRAPPED: judged under the same wrap ($1" "everything is as the ledger" "to the last bit"
        points
        [ "$(sums r)" = "$before" ]
        good verify r --threads 3
        # the header says it, not the command line: a merged run has none
        cp -r r c && rm c/run.json
        bad 2 "give --weights and --data" -- verify c
        vt verify c --weights "$w" --data "$d"
        says "WRAPPED: judged under the same wrap ($1" "to the last bit"
        # a claim sealed anew with another cheat, or with none, is not believed
        head -n 1 r/ledger.jsonl | jq -c '.wrap.id |= sub("=[0-9.e+-]+"; "=77")' >head
        cp -r r d0 && { cat head && tail -n +2 r/ledger.jsonl; } >d0/ledger.jsonl && reseal d0
        vt verify d0
        [ "$status" != 0 ] || fail "$1: another cheat was believed"
        head -n 1 r/ledger.jsonl | jq -c 'del(.wrap)' >head
        rm -rf d0 && cp -r r d0 && { cat head && tail -n +2 r/ledger.jsonl; } >d0/ledger.jsonl && reseal d0
        bad 2 "describes the model otherwise" -- verify d0
        rm -rf d0
    done
    # noise is drawn by the run's seed: with another one, other verdicts
    good eval "$w" --data "$d" --images 0:20 --eps 4/255 --attack pgd:steps=5 --wrap noise --seed 5 --out n
    head -n 1 n/ledger.jsonl | jq -c '.seed = 6' >head
    cp -r n m && { cat head && tail -n +2 n/ledger.jsonl; } >m/ledger.jsonl && reseal m
    vt verify m
    [ "$status" = 1 ]
    says "has margin"
    head -n 1 n/ledger.jsonl | jq -c '.wrap.id = "mirror:x=1"' >head
    { cat head && tail -n +2 n/ledger.jsonl; } >m/ledger.jsonl && reseal m
    bad 1 "its wrap 'mirror:x=1' is none of this program" -- verify m
    good export n --format npz --out n.npz
    good show n
}

# forged JQ-FILTER: the run with another header, its lines and files sealed anew
forged() {
    rm -rf forged && cp -r "$R" forged
    { head -n 1 "$R/ledger.jsonl" | jq -c "$1" && tail -n +2 "$R/ledger.jsonl"; } >forged/ledger.jsonl
    ! cmp -s "$R/ledger.jsonl" forged/ledger.jsonl || fail "nothing planted: $1"
    seal forged
}

@test "a header that prints one radius and is judged by another is refused by all that read it" {
    local row command
    for row in '.eps = "1/255"|"1/255", but its eps_value is 0.01568' '.eps_value = 16/255|"4/255", but its eps_value is 0.0627' \
        'del(.eps)|missing, but its eps_value' '.curve = true|says a curve, whose eps_value must be 1, the whole box' \
        '.norm = "patch"|norm is patch, must be patch where threat.patch says which' \
        '.attacks[1].at = {eps: "1/255", value: (4/255)}|attacks[1].at.eps is "1/255", but its attacks[1].at.value is 0.0156'; do
        forged "${row%%|*}"
        for command in "verify forged" "merge forged --out m" "compare forged $R" "compare $R forged" "show forged --pictures 0 --out x" \
            "export forged --out x" "merge --worst a=$R b=forged"; do
            # shellcheck disable=SC2086
            bad 1 "forged/ledger.jsonl: the header" "${row#*|}" -- $command
        done
        [ ! -e m ] && [ ! -e x ] || fail "something was written"
    done
}

@test "an attack without stages, and a line of an attack that says what only a clean line can, are refused" {
    forged '.attacks += [{name: "autoattack", id: "autoattack", stages: []}]'
    bad 1 "the header's attacks[2] has no stages" -- verify forged
    for edit in '0,/"status":"robust"/s//"status":"wrong"/' '0,/"status":"correct"/s//"status":"robust"/' \
        '0,/"status":"robust"/s//"status":"correct"/' '0,/"status":"wrong"/s//"status":"broken"/'; do
        rm -rf c && cp -r "$R" c
        sed -i "$edit" c/ledger.jsonl
        ! cmp -s "$R/ledger.jsonl" c/ledger.jsonl || fail "nothing planted: $edit"
        seal c
        bad 1 "is not a ledger line" -- verify c
    done
}
