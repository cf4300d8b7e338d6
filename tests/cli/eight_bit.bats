#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# --eight-bit on the command line: rows and header, points of whole levels, PNGs to the last bit, kill and resume, judging
# again, export, comparison, refusals.
load helpers

ATTACKS="--attack fgsm --attack pgd:steps=5 --attack deepfool+square:queries=30"
eight() { quick --eps 2/255 $ATTACKS --eight-bit "$@"; }

setup_file() {
    load helpers
    export REF=$BATS_FILE_TMPDIR/run
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" --eps 2/255 $ATTACKS --eight-bit --save-npz --out "$REF" >/dev/null
}

lines() { jq -c "$@"; } # of a ledger without its header
records() { tail -n +2 "$1/ledger.jsonl"; }

@test "a row after each attack, and a worst case of its own" {
    eight --out r
    same_run "$REF" r
    says "at most 2 levels from the clean byte" "fgsm, 8-bit" "pgd, 8-bit" "deepfool+square, 8-bit" "worst case, 8-bit"
    truth r/results.json '[.attacks[] | .scoring // "ball"] == ["ball", "8-bit", "ball", "8-bit", "ball", "8-bit"]'
    truth r/results.json '[.attacks[].id] | .[0] == .[1] and .[2] == .[3] and .[4] == .[5]'
    truth r/results.json '[.attacks[] | .broken] | .[0] >= .[1] and .[2] >= .[3] and .[3] > 0 and .[4] >= .[5]'
    truth r/results.json '.attacks | all(.invalid == 0)'
    truth r/results.json '.worst_case.robust <= .worst_case_8bit.robust and .worst_case_8bit.robust < .clean.correct'
    head -1 r/ledger.jsonl | jq -e '[.attacks[].scoring] == [null, "8-bit", null, "8-bit", null, "8-bit"]' >/dev/null
    for f in table.md table.csv table.tex; do grep -q "pgd, 8-bit" r/$f; done
    # a comma in a label does not move the columns
    awk -F, '{ sub(/"[^"]*"/, "label") } NR == 1 { n = NF } NF != n { exit 1 }' OFS=, r/table.csv
}

@test "what no float point broke is not tried in 8 bits, and costs nothing" {
    records "$REF" | jq -s -e '[.[] | select(.entry == 3 and .status == "broken") | .image] as $float |
        [.[] | select(.entry == 4) | .image] == $float' >/dev/null
    [ "$(records "$REF" | jq -s '[.[] | select(.entry == 4)] | length')" -gt 0 ]
}

@test "every stored 8-bit point is k/255, at most two levels from the image" {
    side=$(jq .model.image.value "$REF/results.json") N=$((3 * side * side)) points=0
    while read -r image at; do
        points=$((points + 1))
        paste <(od -An -v -tf4 -w4 -j "$at" -N $((4 * N)) "$REF/adv.bin") \
            <(od -An -v -tu1 -w1 -j $((image * 3073 + 1)) -N "$N" "$D/test_batch.bin") |
            awk '{ k = $1 * 255; r = int(k + 0.5); e = k - r; d = r - $2 } e > 2e-5 || e < -2e-5 || d > 2 || d < -2 { exit 1 }' ||
            fail "image $image is no 8-bit point"
    done < <(records "$REF" | jq -r 'select(.entry % 2 == 0 and .entry > 0 and .adv != null) | "\(.image) \(.adv)"')
    [ $points -gt 3 ]
}

@test "as PNGs the 8-bit points are the same to the last bit: hashes and classes" {
    good export "$REF" --eight-bit --attack pgd --format png --out png
    says "8-bit: pgd"
    [[ $output != *rounded* ]] || fail "$output"
    for class in 0 1 2 3 4 5 6 7 8 9; do mkdir -p pictures/test/class$class; done
    while IFS=, read -r file index label pred broken; do
        [ "$broken" = 1 ] || continue
        cp png/"$file" pictures/test/class"$label"/
        echo "$label $file $index $pred"
    done < <(tail -n +2 png/labels.csv) | sort >kept
    [ "$(wc -l <kept)" -gt 2 ]
    for class in 0 1 2 3 4 5 6 7 8 9; do # a class without pictures is no class: any will do, they come last
        ls pictures/test/class$class/*.png >/dev/null 2>&1 || cp png/00000.png pictures/test/class$class/zzzzz.png
    done
    good eval "$W" --data pictures --out again
    records again | jq -r '"\(.sha) \(.pred)"' | sort -u >got
    records "$REF" | jq -r 'select(.entry == 4 and .status == "broken") | "\(.sha) \(.pred)"' | sort -u >want
    [ -z "$(comm -23 want got)" ] || fail "changed on the way: $(comm -23 want got)"
}

@test "kill -9 and --resume with another number of threads: not a byte differs" {
    slow="--eps 1/255 --attack pgd:steps=60 --attack square:queries=300 --eight-bit"
    "$VITRINE" eval "$W" --data "$D" $slow --threads 1 --out whole >/dev/null
    for n in 5 14 11 6; do # lines that each turn adds to the header's, 20 of clean images and 20 of pgd
        hold ledger.jsonl $n "$VITRINE" eval "$W" --data "$D" $slow --threads 2 --out r --resume
        kill -KILL $pid
        wait $pid || true
        [ ! -e r/results.json ]
    done
    good eval "$W" --data "$D" $slow --threads 3 --out r --resume
    same_run whole r
    eight --images 0:9 --out half
    eight --out half --resume --threads 1
    same_run "$REF" half
}

@test "verify judges 8-bit points again, show lists them, compare keeps the two threats apart" {
    good_run() { vt "$@" && [ "$status" = 0 ] || fail "status $status: $stderr"; }
    good_run verify "$REF"
    says "everything is as the ledger"
    good_run show "$REF" --out page.html
    grep -q "pgd, 8-bit" page.html
    good_run compare "$REF" "$REF"
    says "pgd, 8-bit" "deepfool+square, 8-bit"
    quick --eps 2/255 $ATTACKS --out float
    good_run compare float "$REF"
    says "B alone ran fgsm, 8-bit, pgd, 8-bit, deepfool+square, 8-bit: not compared"
    never grep '^[^B].*8-bit' <<<"$output"
    cmp <(records float | jq -c 'select(.entry == 2) | [.image, .status, .sha]') \
        <(records "$REF" | jq -c 'select(.entry == 3) | [.image, .status, .sha]') # the float rows are what they were
}

@test "verify finds a point that is no 8-bit point, though float32 calls it inside" {
    cp -r "$REF" r && rm r/SHA256SUMS
    at=$(records r | jq -r 'select(.entry == 4 and .adv != null) | .adv' | head -n 1)
    record=$(records r | jq -c "select(.adv == $at)")
    # the float point of the same image in its place
    image=$(jq .image <<<"$record")
    float=$(records r | jq -c "select(.entry == 3 and .image == $image and .adv != null)")
    dd if="$REF/adv.bin" of=r/adv.bin bs=1 skip="$(jq .adv <<<"$float")" seek="$at" count=$((4 * 3 * 32 * 32)) conv=notrunc status=none
    jq -c --argjson f "$float" "if .adv == $at then .sha = \$f.sha | .pred = \$f.pred | .pred64 = \$f.pred64 | .linf = \$f.linf | .l2 = \$f.l2 | .l1 = \$f.l1 | .margin = \$f.margin | .margin64 = \$f.margin64 else . end" r/ledger.jsonl >edited
    mv edited r/ledger.jsonl
    vt verify r --weights "$W" --data "$D"
    [ "$status" = 1 ]
    says "image $image after pgd is invalid, the ledger says broken"
}

@test "export and --save-npz keep float and 8-bit points apart" {
    ls "$REF"/adv
    [ -f "$REF/adv/pgd.npz" ]
    [ -f "$REF/adv/pgd-8-bit.npz" ]
    [ -f "$REF/adv/deepfool+square-8-bit.npz" ]
    good export "$REF" --format npy --out floats
    good export "$REF" --eight-bit --format npy --out bytes
    never cmp -s floats/x_adv.npy bytes/x_adv.npy
    quick --eps 2/255 --attack fgsm --out plain
    bad 2 "has no 8-bit rows" -- export plain --eight-bit
}

@test "l2, l1, squares, single attacks, a last iterate: all without a point outside" {
    for threat in "--norm l2 --eps 0.3" "--norm l1 --eps 4" "--threat patch:size=4"; do
        rm -rf r
        quick $threat --attack pgd:steps=5 --attack square:queries=40 --eight-bit --images 0:8 --out r
        truth r/results.json '.attacks | all(.invalid == 0) and (map(select(.scoring == "8-bit").broken) | add > 0)'
        vt verify r
        [ "$status" = 0 ] || fail "$threat: $output $stderr"
    done
    says "everything is as"
    rm -rf r
    quick --eps 2/255 --attack pgd:steps=5 --attack fgsm --eight-bit --exhaustive --out r
    truth r/results.json '.attacks | all(.invalid == 0)'
    rm -rf r
    quick --eps 2/255 --attack fgsm+pgd:steps=3 --individual --eight-bit --out r
    truth r/results.json '[.attacks[].name] == ["fgsm", "fgsm", "pgd", "pgd"]'
}

@test "floats as data: those of whole levels are taken, others refused by name" {
    good eval "$W" --data "$REF/adv/pgd-8-bit.npz" --eps 8/255 --attack fgsm --eight-bit --out r
    vt verify r
    [ "$status" = 0 ] || fail "$stderr"
    bad 2 "--eight-bit needs 8-bit images: image " "pgd.npz has the value 0." "no k/255" -- eval "$W" --data "$REF/adv/pgd.npz" --eps 8/255 --attack fgsm --eight-bit
}

@test "refusals: a ball without another 8-bit image, no attack, a run of the other kind" {
    for threat in "--eps 0.0039" "--norm l2 --eps 0.0039"; do # in l1 such a radius is refused anyway
        bad 2 "0.0039 is below one grey level" -- eval "$W" --data "$D" $threat --attack pgd --eight-bit --out r
        [ ! -e r ]
    done
    bad 2 "--eight-bit needs at least one --attack" -- eval "$W" --data "$D" --eight-bit
    cp -r "$REF" r
    before=$(sums r)
    bad 2 "made with another attacks" -- eval "$W" --data "$D" --eps 2/255 $ATTACKS --out r --resume
    [ "$(sums r)" = "$before" ]
}

@test "a paper's evaluators have no 8-bit rows, other attacks of the same run do" {
    quick --eps 8/255 --as-published mo2022 --attack fgsm --eight-bit --images 0:6 --out r
    truth r/results.json '[.attacks[] | select(.scoring == "8-bit") | .name] == ["fgsm"] and any(.attacks[]; .scoring == "as published")'
    vt verify r
    [ "$status" = 0 ] || fail "$stderr"
    bad 2 "--eight-bit needs at least one --attack" -- eval "$W" --data "$D" --eps 8/255 --as-published mo2022 --eight-bit
}
