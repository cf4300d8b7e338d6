#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine show --dossier: the auditor's page. Its numbers are held against results.json and the ledger, its commands are
# run as they stand.
load helpers

setup() {
    W=$BASE/w.safetensors D=$BASE/data
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    mkdir bin && ln -s "$VITRINE" bin/vitrine
}

# dossier RUN...: the page of a run, well-formed
dossier() {
    good show "$@" --dossier page.html
    xmllint --noout page.html
    [ "$(xmllint --xpath 'count(//*[local-name()="script" or local-name()="link"])' page.html)" = 0 ]
}

# cell SECTION ROW COLUMN; value SECTION NAME; text SECTION: what the page says
cell() { xmllint --xpath "string(//*[@id='$1']//*[local-name()='tr'][not(@class)][*[1]=\"$2\"]/*[$3])" page.html; }
value() { xmllint --xpath "string(//*[@id='$1']//*[local-name()='dt'][.='$2']/following-sibling::*[1])" page.html; }
text() { xmllint --xpath "string(//*[@id='$1'])" page.html; }

# commands [FILE]: each command of the page once, in its order
commands() {
    local n
    n=$(xmllint --xpath 'count(//*[@class="command"])' "${1:-page.html}")
    for k in $(seq "$n"); do xmllint --xpath "string((//*[@class='command'])[$k])" "${1:-page.html}"; done | awk '!seen[$0]++'
}

# run_all: every command of the page succeeds as it stands, in another folder; and the page comes out as it was
run_all() {
    cp page.html before.html
    commands before.html >all
    grep -q "vitrine eval" all
    while read -r line; do
        (mkdir -p elsewhere && cd elsewhere && PATH=$BATS_TEST_TMPDIR/here/bin:$PATH bash -euc "$line" >../said 2>&1 3>&-) ||
            fail "this command of the page fails: $line" "$(cat said)"
    done <all
    cmp page.html before.html
}

# shares RUN: the page's shares of images are those of results.json
shares() {
    local r=$1/results.json
    for row in "right without perturbation:.clean.correct:.clean" "right under every attack of this run:.worst_case.robust:.worst_case" "certified:.certified.certified:.certified"; do
        IFS=: read -r name count of <<<"$row"
        [ "$(jq "$of" "$r")" = null ] && continue
        [ "$of" = .worst_case ] && [ "$(jq '.attacks == []' "$r")" = true ] && continue
        [ "$(cell result "$name" 2 | sed 's/at most //')" = "$(jq -r "\"\\($count) / \\($of.total)\"" "$r")" ] || fail "$name: $(cell result "$name" 2)"
        [ "$(cell result "$name" 3) $(cell result "$name" 4)" = "$(jq -r "$of | [.percent, .interval95[]] | @tsv" "$r" | awk -v open="$(cell result "$name" 2)" '{printf open ~ /^at most/ ? "%.2f -" : "%.2f %.2f to %.2f", $1, $2, $3}')" ]
    done
}

# attacks RUN: each stage's row is what the ledger's lines add up to
attacks() {
    local entry=0 name
    while read -r name; do
        entry=$((entry + 1))
        jq -rs --argjson e $entry '[.[] | select(.entry == $e)] | [(map(select(.stage == 0)) | length), (map(select(.status == "broken")) | length),
            (map(select(.borderline)) | length), (map(.gradients) | add // 0), (map(.forwards) | add // 0)] | @tsv' "$1/ledger.jsonl" >want
        for k in 3 4 5 6 7; do cell attacks "$name" $k; done | paste -s >have
        diff want have || fail "$name"
    done < <(jq -r '.attacks[] | .name + (if .scoring then ", " + .scoring else "" end)' "$1/results.json")
}

npy() { # FILE SHAPE, bytes on standard input
    local header
    header="$(printf "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }" "$2")"
    { printf '\x93NUMPY\x01\x00\x76\x00' && printf '%-117s\n' "$header" && cat; } >"$1"
}

@test "the numbers are those of results.json and the ledger; every command gives them again" {
    quick --images spread:12 --eps 3/255 --attack pgd:steps=5 --attack fgsm+square:queries=40 --attack square:queries=60 --eight-bit --seed 3 --threads 2 --out r
    dossier r
    shares r
    attacks r
    r=r/results.json
    [ "$(value model SHA-256)" = "$(sha256sum <"$W" | cut -d' ' -f1)" ]
    [ "$(value images SHA-256)" = "$(jq -r .data.sha256 $r)" ]
    [ "$(value images evaluated)" = "12 of 20" ]
    [ "$(value images 'chosen by')" = spread:12 ]
    [ "$(value images indices)" = "$(jq -r .images $r)" ]
    [ "$(value images seed)" = 3 ]
    [ "$(value threat allowed)" = "linf eps 3/255" ]
    [ "$(value threat 'adversary uses')" = "gradients; logits" ]
    [ "$(value attacks pgd | cut -d';' -f1)" = "$(jq -r '.attacks[0].id' $r)" ]
    [ "$(value files ledger.jsonl)" = "$(sha256sum <r/ledger.jsonl | cut -d' ' -f1)" ]
    [ "$(value versions 'product kernels')" = "$(head -n 1 r/ledger.jsonl | jq -r .blas)" ]
    [ "$(cell result 'broken, or without finite logits under attack' 2)" = "$(jq -r '"\(.clean.correct - .worst_case.robust) / \(.clean.total)"' $r)" ]
    [ "$(cell result 'right under every attack, as 8-bit pictures' 2)" = "$(jq -r '.worst_case_8bit | "\(.robust) / \(.total)"' $r)" ]
    # success over queries, as export says it
    good export r --queries q.csv
    [ "$(cell queries square 2) $(cell queries square 3)" = "$(awk -F, '$1 == "square" {n = $3; t = $4} END {print t, n}' q.csv)" ]
    [ "$(cell queries square 5)" = "$(awk -F, '$1 == "square" {q = $2} END {print q}' q.csv)" ]
    [ "$(cell queries square 4)" = "$(awk -F, '$1 == "square" {q[NR] = $2; n[NR] = $3; last = $3} END {for (i = 1; i <= NR; i++) if (n[i] >= int((last + 1) / 2)) {print q[i]; exit}}' q.csv)" ]
    [[ $(text selftest) == *"not tested"* ]]
    [[ $(text others) == *"Not tested"* ]]
    [[ $(text untested) == *"8 of the 20 images"*"apgd-ce"*"Black-box attacks that were not run: "*"Each stage alone"*"Seeds other than 3"*"Proofs: no image is certified"*"no self-test was made"* ]]
    [[ $(text untested) == *"l2, l1, l0, patches"* ]]
    never grep -q "not run: .*square" page.html
    [[ $(text untested) != *"8-bit pictures"* ]]
    run_all
    same_run r r-again
    [ "$(commands | grep -c "vitrine selftest")" = 1 ]
}

@test "certificates, images that were not attacked, a self-test: in the page and among what is left open" {
    good new --set image=8 patch=4 dim=8 depth=1 heads=2 classes=3 --mean 0.5 --std 0.5 --seed 3 -o v.safetensors
    awk 'BEGIN { for (i = s = 1; i <= 2304; i++) { s = (s * 1103515245 + 12345) % 2147483648; printf "\\x%02x", int(s / 65536) % 256 } }' >drawn
    printf "$(cat drawn)" | npy x.npy "12, 3, 8, 8"
    printf '\0%.0s' {1..12} | npy y.npy "12,"
    good eval v.safetensors --data x.npy,y.npy --out label
    printf "$(tail -n +2 label/ledger.jsonl | jq -r '"\\\(.pred)"' | tr -d '\n')" | npy y.npy "12,"
    good eval v.safetensors --data x.npy,y.npy --eps 8/255 --certify linear --certify-first --attack apgd-ce:steps=3 --threads 2 --out r
    truth r/results.json '.certified | .certified > 0 and .attacks_saved > 0'
    dossier r
    shares r
    attacks r
    [ "$(cell result 'undecided: neither certified nor broken' 2)" = "$(jq -r '.certified | "\(.undecided) / \(.total)"' r/results.json)" ]
    [[ $(text untested) == *"$(jq .certified.undecided r/results.json) images are neither certified nor broken"*"$(jq .certified.certified r/results.json) certified images were not attacked"* ]]
    [[ $(text selftest) == *"self-test: "* ]]
    never grep -q "no self-test was made" page.html
    for name in $(jq -r '.not_tested[]' r/selftest.json); do [[ $(text untested) == *"Parts of the self-test: "*"$name"* ]]; done
    run_all
    same_run r r-again
}

@test "a run that the time ended: what it left out, at most; its commands finish a copy" {
    local minutes=0.0005
    A="$ROOT/weights/shapes10-vit --data $ROOT/datasets/shapes10 --images spread:40 --eps 4/255 --attack apgd-ce:steps=10+apgd-t:steps=5+square:queries=50 --no-selftest --threads 2"
    while :; do
        rm -rf r && good eval $A --minutes $minutes --out r
        [ ! -e r/SHA256SUMS ] && jq -e .left_out r/results.json >/dev/null && break
        minutes=$(awk -v m=$minutes -v done=$(test -e r/SHA256SUMS; echo $?) 'BEGIN {print done == 0 ? m / 2 : 1.5 * m}')
    done
    dossier r
    shares r
    [[ $(cell result "right under every attack of this run" 2) == "at most "* ]]
    left=$(jq -r .left_out.text r/results.json)
    [[ $(text result) == *"$left"* ]]
    [[ $(text untested) == *"$left"*" stages of images are still to be done"* || $(text untested) == *" stages of images are still to be done"*"$left"* ]]
    cp -r r kept
    run_all
    diff -r r kept
    [ -e r-again/SHA256SUMS ]
}

@test "a wrap, beside it other threats and corrupted images" {
    mkdir -p CIFAR-10-C
    for k in $(seq 20); do tail -c +$(((k - 1) * 3073 + 2)) "$D/test_batch.bin" | head -c 3072; done | head -c 61440 >planar
    for name in fog snow; do npy CIFAR-10-C/$name.npy "20, 32, 32, 3" <planar; done
    for k in $(seq 20); do tail -c +$(((k - 1) * 3073 + 1)) "$D/test_batch.bin" | head -c 1; done | npy CIFAR-10-C/labels.npy "20,"
    quick --images 0:10 --eps 2/255 --attack pgd:steps=4 --wrap quantise --out r
    quick --images 0:10 --norm l2 --eps 0.3 --attack fgsm --wrap quantise --out "r two"
    quick --images 0:10 --eps 6/255 --attack fgsm --wrap quantise --out r6
    good eval "$W" --data CIFAR-10-C --corruption all --severity 2 --wrap quantise --eps 1/255 --attack fgsm --out sweep
    good eval "$W" --data CIFAR-10-C --corruption fog --severity 1 --wrap quantise --out fog
    dossier r "r two" r6 sweep fog
    shares r
    grep -q '<h1>WRAPPED ' page.html
    [[ $(value model wrap) == quantise:* ]]
    [ "$(cell others "r two" 3)" = "$(jq -r '.clean | "\(.correct) / \(.total)"' "r two/results.json")" ]
    [ "$(xmllint --xpath "string(//*[@id='others']//*[local-name()='tr'][*[2]='l2 eps 0.3']/*[3])" page.html)" = "$(jq -r '.worst_case | "\(.robust) / \(.total)"' "r two/results.json")" ]
    [ "$(cell others sweep 4)" = "$(jq '.rows[0].mean' sweep/corruptions.json | awk '{printf "%.2f", $1}')" ]
    [ "$(cell others sweep 3)" = "mean of 2 corruptions, 1 severities" ]
    [ "$(cell others fog 2)" = "fog, severity 1, clean" ]
    [[ $(text untested) == *"Other threats: l1, l0, patches"*"above linf eps 6/255"*"Adaptive attacks on quantise:"* ]]
    [[ $(text untested) != *"Corrupted images, such as"* ]]
    run_all
    for a in r "r two" r6 fog; do same_run "$a" "$a-again"; done
    cmp sweep/corruptions.json sweep-again/corruptions.json
}

@test "clean images alone; a model in another process; one of several seeds; a merged run; names from outside" {
    quick --images 0:6 --out clean
    dossier clean
    shares clean
    [ "$(value threat allowed)" = "nothing: clean images" ]
    [[ $(text untested) == *"linf, l2, l1, l0"*"Attacks: none was run"* ]]
    run_all
    good eval --oracle "$VITRINE serve $W" --data "$D" --images 0:4 --eps 2/255 --attack square:queries=9 --out asked
    dossier asked
    shares asked
    run_all
    same_run asked asked-again
    quick --images 0:6 --eps 2/255 --attack pgd:steps=2 --seeds 1,2 --out many
    dossier many/seed-2
    [ "$(value images seed)" = 2 ]
    run_all
    same_run many/seed-2 many/seed-2-again
    quick --images 0:3 --eps 2/255 --attack pgd:steps=2 --out a
    quick --images 3:6 --eps 2/255 --attack pgd:steps=2 --out b
    good merge a b --out "m <b>'s"
    bad 2 "give --weights and --data" -- show "m <b>'s" --dossier page2.html
    [ ! -e page2.html ]
    dossier "m <b>'s" --weights "$W" --data "$D"
    grep -q "run.json names none" page.html
    never grep -q "vitrine eval" page.html
    commands | grep "vitrine verify" >all
    PATH=$PWD/bin:$PATH bash -euc "$(cat all)" >/dev/null
}

@test "wrong usage: other page's options, a curve, another model, changed files" {
    quick --images 0:4 --eps 2/255 --attack fgsm --out r
    bad 2 "--out is of the other page" -- show r --dossier d.html --out e.html
    bad 2 "--pictures is of the other page" -- show r --dossier d.html --pictures 3
    good curve "$W" --data "$D" --images 0:3 --attacks fmn:steps=3 --no-selftest --out c
    bad 2 "c is a curve" -- show c --dossier d.html
    bad 2 "c is a curve" -- show r c --dossier d.html
    quick --images 0:4 --eps 2/255 --attack fgsm --wrap quantise --out w
    bad 2 "w is of another model than r, by its wrap" -- show r w --dossier d.html
    good eval "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --images 0:3 --out o
    bad 2 "o is of another model than r, by its weights" -- show r o --dossier d.html
    bad 1 "nowhere" -- show r nowhere --dossier d.html
    bad 1 "is not the checkpoint" -- show r --weights "$ROOT/weights/shapes10-vit" --dossier d.html
    quick --images 0:4 --mean 0.3 --eps 2/255 --attack fgsm --out s
    bad 2 "s is of another model than r, by its settings" -- show r s --dossier d.html
    [ ! -e d.html ]
    dossier r
    [[ $(text files) == *"Every file is as SHA256SUMS says"* ]]
    sed -i 's/fgsm/fgsn/' r/table.md
    dossier r
    [[ $(text files) == *"Files are NOT as they were:"*"table.md"* ]]
}
