#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --search: attacks on products of bfloat16 inputs, verdicts as ever. What a processor has, the program says itself.
load helpers

M=$ROOT/weights/shapes10-vit
SHAPES=$ROOT/datasets/shapes10
RUN=(--data "$SHAPES" --images 0:12 --eps 2/255 --attack apgd-ce:steps=20 --attack square:queries=30 --no-selftest)

setup_file() {
    load helpers
    export PLAIN=$BATS_FILE_TMPDIR/plain DRAFT=$BATS_FILE_TMPDIR/draft
    "$VITRINE" eval "$M" "${RUN[@]}" --out "$PLAIN" >/dev/null
    "$VITRINE" eval "$M" "${RUN[@]}" --search bf16-emulated --threads 2 --out "$DRAFT" >/dev/null
}

# What multiplies bfloat16 here, as bench says it: empty where nothing does.
hardware() { "$VITRINE" bench "$M" --ms 10 --threads 1 | sed -n 's/^bfloat16 (--search bf16): //p' | grep -v '^none' || true; }

@test "bf16 is refused where the processor has none, with what it would use instead; auto then takes float32 and says so" {
    if [ -n "$(hardware)" ]; then
        good eval "$M" "${RUN[@]}" --search bf16 --out a
        vt eval "$M" "${RUN[@]}" --search auto --out b
        [ "$status" = 0 ]
        [[ $stderr == *"--search auto: bf16"* ]]
        cmp a/ledger.jsonl b/ledger.jsonl
        [ "$(head -n 1 a/ledger.jsonl | jq -r .search)" = bf16 ]
    else
        bad 2 "--search bf16" "neither AVX512-BF16 nor AMX" "float32" "bf16-emulated" -- eval "$M" "${RUN[@]}" --search bf16 --out a
        never test -e a
        vt eval "$M" "${RUN[@]}" --search auto --out b
        [ "$status" = 0 ]
        [[ $stderr == *"--search auto"*"float32"* ]]
        cmp b/ledger.jsonl "$PLAIN/ledger.jsonl"
    fi
}

@test "bad words and models elsewhere are refused" {
    bad 2 "--search is 'bf15'" "float32, auto, bf16 or bf16-emulated" -- eval "$M" "${RUN[@]}" --search bf15
    bad 2 "--search is 'bf15'" -- curve "$M" --data "$SHAPES" --images 0:1 --out c --search bf15
    bad 2 "another process" -- eval --oracle "$VITRINE serve $M" "${RUN[@]}" --search bf16-emulated
}

@test "float32 is the default, and its files are the same bytes" {
    good eval "$M" "${RUN[@]}" --search float32 --out same
    for f in $DETERMINISTIC; do cmp "same/$f" "$PLAIN/$f"; done
    never grep -q '"search"' "$PLAIN/ledger.jsonl"
}

@test "the emulation depends on neither threads nor batch" {
    good eval "$M" "${RUN[@]}" --search bf16-emulated --threads 1 --out one
    for f in $DETERMINISTIC; do cmp "one/$f" "$DRAFT/$f"; done
    good eval "$M" "${RUN[@]}" --search bf16-emulated --threads 1 --batch 5 --out five
    for run in one five; do tail -n +2 "$run/ledger.jsonl" | jq -c 'del(.check)' >"$run.lines"; done
    cmp one.lines five.lines
}

@test "header and every report name it, float32 proves what it found" {
    [ "$(head -n 1 "$DRAFT/ledger.jsonl" | jq -r .search)" = bf16-emulated ]
    [ "$(jq -r .search "$DRAFT/results.json")" = bf16-emulated ]
    grep -q "searched in bf16-emulated" "$DRAFT/table.md"
    grep -q "searched in bf16-emulated" "$DRAFT/table.tex"
    grep -q "bf16-emulated" "$DRAFT/table.csv"
    [ "$(jq -r '.search.asked, .search.used' "$DRAFT/run.json" | paste -sd ' ')" = "bf16-emulated bf16-emulated" ]
    good verify "$DRAFT"
    # other points than float32's search found, or other counts: it did search otherwise
    never cmp -s <(tail -n +2 "$DRAFT/ledger.jsonl" | jq -c '[.image, .entry, .margin]') <(tail -n +2 "$PLAIN/ledger.jsonl" | jq -c '[.image, .entry, .margin]')
    for k in 0 1 2; do # the same clean verdicts; of attacks at most one image more stands
        draft=$(jq -s --argjson k $k '[.[] | select(.entry == $k and (.status == "robust" or .status == "correct"))] | length' "$DRAFT/ledger.jsonl")
        plain=$(jq -s --argjson k $k '[.[] | select(.entry == $k and (.status == "robust" or .status == "correct"))] | length' "$PLAIN/ledger.jsonl")
        [ "$draft" -le $((plain + (k > 0))) ]
    done
}

@test "a run goes on with the same search alone" {
    good eval "$M" "${RUN[@]}" --search bf16-emulated --out r
    cp r/ledger.jsonl before
    bad 2 "search" -- eval "$M" "${RUN[@]}" --out r --resume
    bad 2 "search" -- eval "$M" "${RUN[@]}" --out r --resume --allow-mixed
    cmp r/ledger.jsonl before
    good eval "$M" "${RUN[@]}" --search bf16-emulated --out r --resume
    bad 2 "search" -- merge "$PLAIN" "$DRAFT" --out m
}

@test "compare takes runs of different searches and names them" {
    good compare "$PLAIN" "$DRAFT"
    says "(searched in bf16-emulated)" "different precisions"
    good compare "$DRAFT" "$DRAFT"
    [[ $output != *"different precisions"* ]]
    good compare "$PLAIN" "$DRAFT" --json
    [ "$(jq -r '.pairs[0].searched | join(" ")' <<<"$output")" = "float32 bf16-emulated" ]
    good compare "$PLAIN" "$PLAIN"
    [[ $output != *searched* ]]
}

@test "curves: nearest points are confirmed as ever" {
    good curve "$M" --data "$SHAPES" --images 0:4 --attacks fmn:steps=20 --no-selftest --search bf16-emulated --out c
    [ "$(head -n 1 c/ledger.jsonl | jq -r .search)" = bf16-emulated ]
    good verify c
}

@test "a forecast counts the second session" {
    more=$(memory --search bf16-emulated) less=$(memory)
    [ "$more" -ge "$less" ]
    never test -e f
}
memory() { "$VITRINE" eval "$M" "${RUN[@]}" --dry-run "$@" | sed -n 's/^memory: \([0-9]*\) MB.*/\1/p'; }

@test "bench measures it" {
    good bench "$M" --ms 10 --threads 1 --search bf16-emulated
    says "the same, bf16"
    good bench "$M" --ms 10 --threads 1
    [[ $output != *"the same, bf16"* ]]
}
