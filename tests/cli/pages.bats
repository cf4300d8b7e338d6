#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The HTML pages of a run, a curve and a table, opened in headless Chromium: on a phone, a tablet and a wide screen, light
# and dark, nothing is cut off, nothing is too faint or too small to read, nothing goes to a network or to the console.
load helpers

setup_file() {
    load helpers
    python3 "$ROOT/tools/browser.py" --found >/dev/null || return 0
    export P=$BATS_FILE_TMPDIR
    cd "$ROOT"
    local s=(weights/shapes10-vit --data datasets/shapes10)
    "$VITRINE" eval "${s[@]}" --images 0:60 --eps 4/255 --attack fgsm --attack apgd-ce:steps=5+apgd-t:steps=3 --attack pgd:steps=5 \
        --no-selftest --out "$P/run" >/dev/null
    "$VITRINE" eval "${s[@]}" --images 0:60 --eps 1/255 --attack pgd:steps=5 --out "$P/run-1" >/dev/null
    "$VITRINE" eval weights/shapes10-specformer --data datasets/shapes10 --images 0:60 --eps 4/255 --attack pgd:steps=5 --out "$P/other" >/dev/null
    "$VITRINE" curve "${s[@]}" --images 0:30 --attacks fmn:steps=10,ddn:steps=10 --norm l2 --confirm 0.1,0.25 --confirm-with pgd:steps=2 \
        --no-selftest --out "$P/curve" >/dev/null
    "$VITRINE" show "$P/run" "$P/run-1" "$P/other" >/dev/null
    "$VITRINE" show "$P/curve" >/dev/null
    "$VITRINE" show "$P/run" "$P/run-1" --dossier "$P/dossier.html" >/dev/null
    table
}

# A table of two rows, six columns, published numbers, footnotes and orderings.
table() {
    mkdir "$P/t" && cd "$P/t"
    ln -s "$ROOT/datasets" "$ROOT/weights" .
    cat >t.yaml <<END
name: tiny
title: "Twin <1> & 5 % | of a paper"
table: 4
published: pub.csv
match: {training: adversarial, backbone: ViT-S}
subject: SpecFormer
data:
  CIFAR-10: {path: datasets/shapes10, images: "0:40", side: 32, classes: 10}
attacks:
  clean: {}
  FGSM: {spec: fgsm, eps: 8/255}
  PGD-2: {spec: "pgd:steps=2", eps: 8/255}
  PGD-20: {spec: "pgd:steps=3", eps: 8/255}
  margin-PGD-20: {spec: "cw20", eps: 4/255}
  AutoAttack: {spec: "fgsm+pgd:steps=2", eps: 8/255}
rows:
  TransFormer: {checkpoint: weights/shapes10-plain/model.safetensors}
  SpecFormer: {checkpoint: weights/shapes10-specformer/model.safetensors}
END
    {
        echo table,training,backbone,method,dataset,attack,accuracy
        printf '4,adversarial,ViT-S,%s\n' TransFormer,CIFAR-10,clean,71.76 TransFormer,CIFAR-10,PGD-20,35.49 \
            TransFormer,CIFAR-10,AutoAttack,46.32 SpecFormer,CIFAR-10,clean,72.73 SpecFormer,CIFAR-10,PGD-20,31.90
    } >pub.csv
    "$VITRINE" table t.yaml --out "$P/table" >/dev/null
}

browser() {
    python3 "$ROOT/tools/browser.py" --found >/dev/null || skip "chromium is not installed (tools/deps.sh --install browser)"
    run python3 "$ROOT/tools/browser.py" "$@"
}

@test "a run, a curve, a table and a dossier at 360, 800 and 1280 pixels, light and dark" {
    browser --check "$P/run/show.html" "$P/curve/show.html" "$P/table/tiny.html" "$P/dossier.html"
    [ "$status" = 0 ] || fail "$output"
    # each page was looked at six times, and there was something to look at
    [ "${#lines[@]}" = 24 ] || fail "$output"
    [ "$(grep -cE ' px, (light|dark): [0-9]{2,} texts, least contrast ([4-9]|1[0-9])\.' <<<"$output")" = 24 ] || fail "$output"
}

@test "what the check would not let pass" {
    page() { printf '<!DOCTYPE html><html><head><title>t</title></head><body style="margin:0">%s</body></html>' "$1" >"$2.html"; }
    page '<p style="color:#888">faint</p>' faint
    page '<p style="color:#000;opacity:.4">half there</p>' half
    page '<div style="background:#335"><p>dark on dark</p></div>' ground
    page '<p style="font-size:9px">small</p>' small
    page '<svg viewBox="0 0 4000 400" width="300"><text x="0" y="99" font-size="90">shrunk</text></svg>' shrunk
    page '<div style="width:900px">wide</div>' wide
    page '<p style="width:60px;overflow:hidden;white-space:nowrap">what was cut off here</p>' cut
    page '<p style="width:10px;overflow-wrap:anywhere">letterbyletter</p>' letters
    page '<p style="display:none">not there</p><p>there</p>' hidden
    page '<svg viewBox="0 0 300 50" width="300"><text y="20">one text</text><text x="9" y="22">on another</text></svg>' on
    page '<script>console.error("loud")</script><p>x</p>' loud
    page '<script>nowhere()</script><p>x</p>' thrown
    page '<img src="missing.png" alt="x"/><p>x</p>' request
    page '<style>@media (prefers-color-scheme:dark){p{color:#333;background:#222}}</style><p>light alone</p>' night
    page '<p>fine</p>' fine
    browser --check --widths 360 ./*.html
    [ "$status" = 1 ]
    finds() { grep -E "^$1\.html, 360 px, $2: $3" <<<"$output" >/dev/null || fail "not found: $*" "$output"; }
    finds faint light 'contrast 3\.'
    finds half light 'contrast 2\.'
    finds ground light 'contrast 1\.'
    finds small light '9\.0 px: <p> "small"'
    finds shrunk light '6\.8 px: <text> "shrunk"'
    finds wide light 'wider than its box'
    finds cut light 'wider than its box'
    finds letters light 'broken into letters'
    finds hidden light 'not shown: <p> "not there"'
    finds on light 'lies on another text'
    finds loud light 'console error'
    finds thrown light 'exception'
    finds request light 'request to file:.*missing\.png'
    finds night dark 'contrast 1\.'
    [ "$(grep -c '^night.html, 360 px, light' <<<"$output")" = 1 ]
    [ "$(grep -c '^fine.html' <<<"$output")" = 2 ]
}

@test "the index of docs names every page, and links of the pages that people begin with lead somewhere" {
    cd "$ROOT"
    for page in docs/*.md; do
        [ "$page" = docs/README.md ] || grep -qF "](${page#docs/})" docs/README.md || fail "$page is not in docs/README.md"
    done
    for page in docs/README.md docs/papers/README.md docs/results/README.md SECURITY.md README.md; do
        grep -o '](\([^)#]*\)' "$page" | sed 's/](//' | grep -v '^[a-z]*:' | sort -u | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || fail "$page: $link"
        done
    done
    # CITATION.cff names the version that the program prints
    [ "$("$VITRINE" --version | grep -o '[0-9][0-9.]*[0-9]' | head -n 1)" = "$(sed -n 's/^version: //p' CITATION.cff)" ]
}

@test "the picture of README is a small PNG" {
    [ "$(head -c 8 "$ROOT/docs/picture.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]
    [ "$(stat -c %s "$ROOT/docs/picture.png")" -lt 150000 ]
}
