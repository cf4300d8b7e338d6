#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine show: a run as one self-contained HTML page.
load helpers

setup_file() {
    load helpers
    export R=$BATS_FILE_TMPDIR/run
    cd "$ROOT"
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:40 --eps 4/255 --attack fgsm --attack pgd:steps=5 \
        --out "$R" >/dev/null
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:40 --eps 1/255 --attack pgd:steps=5 --out "$R-1" >/dev/null
}

# what each point of the chart over eps says
marks() { grep -o '<path class="[a-d] mark"[^>]*><title>[^<]*' "$1" | sed 's/.*<title>//'; }

@test "the page stands alone: well-formed, no script, no address but the namespace" {
    good show "$R" --out p.html
    [ "$output" = p.html ]
    xmllint --noout p.html
    [ "$(xmllint --xpath 'count(//*[local-name()="script" or local-name()="link" or local-name()="iframe"])' p.html)" = 0 ]
    [ "$(grep -o 'https\?://[^"]*' p.html | sort -u)" = http://www.w3.org/1999/xhtml ]
    [ "$(grep -o 'src="[^:]*:' p.html | sort -u)" = 'src="data:' ]
    good show "$R" --out q.html
    cmp p.html q.html
}

@test "the numbers are those of results.json" {
    good show "$R" --out p.html
    cell() { xmllint --xpath "string(//*[@id='$1']//*[local-name()='tr'][*[1]='$2']/*[$3])" p.html; }
    for a in fgsm pgd; do
        jq -r ".attacks[] | select(.name == \"$a\") | [\"\(.robust) / \(.total)\", .borderline, .gradients, .forwards] | @tsv" "$R/results.json" >want
        [ "$(cell results $a 2)"$'\t'"$(cell cost $a 4)"$'\t'"$(cell cost $a 2)"$'\t'"$(cell cost $a 3)" = "$(cat want)" ]
    done
    [ "$(cell results clean 2)" = "$(jq -r '.clean | "\(.correct) / \(.total)"' "$R/results.json")" ]
    [ "$(cell results 'worst case' 2)" = "$(jq -r '.worst_case | "\(.robust) / \(.total)"' "$R/results.json")" ]
    grep -q "$(jq -r .weights "$R/results.json")" p.html
}

@test "three pictures for each broken image, and they are PNGs of its pixels" {
    good show "$R" --out p.html --pictures 1000
    broken=$(jq -s '[.[] | select(.status == "broken") | .image] | unique | length' "$R/ledger.jsonl")
    [ "$broken" -gt 5 ]
    [ "$(xmllint --xpath 'count(//*[local-name()="figure"])' p.html)" = "$broken" ]
    [ "$(grep -o '<img ' p.html | wc -l)" = $((3 * broken)) ]
    good show "$R" --out few.html --pictures 4
    [ "$(xmllint --xpath 'count(//*[local-name()="figure"])' few.html)" = 4 ]
    grep -o 'base64,[A-Za-z0-9+/=]*' p.html | head -n 1 | cut -c8- | base64 -d >first.png
    [ "$(head -c 8 first.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]
    # the clean picture of the first broken image, as the data set has it
    image=$(jq -s '[.[] | select(.status == "broken") | .image] | min' "$R/ledger.jsonl")
    mkdir -p d/test/a d/test/b && cp first.png d/test/a/x.png && cp first.png d/test/b/x.png
    tail -c +$((image * 3073 + 2)) "$ROOT/datasets/shapes10/test_batch.bin" | head -c 3072 >want
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=2 --seed 0 -o w.safetensors
    good eval w.safetensors --data d --out e
    # the hash of its float32 pixels is that of the run's clean line
    [ "$(jq -r 'select(.image == 0) | .sha' e/ledger.jsonl)" = "$(jq -r "select(.image == $image and .entry == 0) | .sha" "$R/ledger.jsonl")" ]
    good show "$R" --out none.html --pictures 0
    ! grep -q '<img ' none.html
}

@test "several runs give the curve over eps" {
    good show "$R" --out one.html
    never grep -q "Accuracy over eps" one.html
    good show "$R" "$R-1" --out two.html
    xmllint --noout two.html
    grep -q "Accuracy over eps" two.html
    a=$(jq .worst_case.percent "$R/results.json") b=$(jq .worst_case.percent "$R-1/results.json") c=$(jq .clean.percent "$R/results.json")
    [ "$(marks two.html | cut -d, -f1 | xargs -d '\n')" = "$(printf '0: %.2f %% 1: %.2f %% 4: %.2f %%' "$c" "$b" "$a")" ]
}

@test "a curve's page: its confirmed eps and its attacks, no verdict at the eps of the whole box" {
    cd "$ROOT" && dir=$BATS_TEST_TMPDIR/here
    good curve weights/shapes10-vit --data datasets/shapes10 --images 0:30 --attacks fmn:steps=15 --confirm 1/255,4/255 \
        --confirm-with pgd:steps=3 --out "$dir/c"
    good show "$dir/c" --weights weights/shapes10-vit --data datasets/shapes10 --out "$dir/p.html"
    cd "$dir"
    xmllint --noout p.html
    grep -q '<h1>shapes10-vit</h1>' p.html
    grep -q '<p class="threat">linf, curve over eps, cifar test split, images 0:30</p>' p.html
    # run.json says where weights and data are
    cd "$ROOT" && good show "$dir/c" --out "$dir/q.html"
    cd "$dir" && cmp p.html q.html
    cell() { xmllint --xpath "string(//*[local-name()='tr'][*[1]='$1']/*[$2])" p.html; }
    for k in 0 1 4; do
        n=$(jq "[.images[] | select(.right and (.distance == null or .distance > $k / 255))] | length" c/curve.json)
        name=$k/255
        [ $k = 0 ] && name=0
        [ "$(cell $name 2)" = "$n / 30" ] || fail "$name: $(cell $name 2), not $n"
    done
    [ "$(cell fmn 2)" = "$(jq -r '.attacks[0] | "\(.found) / \(.tried)"' c/curve.json)" ]
    never grep -q "Robust against every attack" p.html
    # the curve ends where the last image falls, far below 1
    never grep -q '<title>255: ' p.html
    # nor is a difference of a few grey levels shown at half its size
    [ "$(grep -o 'difference × [0-9.e+]*' p.html | awk '$3 <= 1' | wc -l)" = 0 ]
}

@test "a wrapped run is a line of its own, and says so" {
    good eval "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --images 0:40 --eps 4/255 --attack fgsm --wrap saturate --out w
    good show "$R" "$R-1" w --out p.html
    grep -q 'WRAPPED w, saturate' p.html
    # without it the line of the checkpoint itself is the same
    good show "$R" "$R-1" --out q.html
    marks q.html | while read -r mark; do grep -qF "<title>$mark" p.html; done
    [ "$(marks p.html | wc -l)" = $(($(marks q.html | wc -l) + 2)) ]
}

@test "names from outside are escaped" {
    name='<b>&"q"'$'\xff'
    cp -r "$R" "$name"
    good show "$name" --out p.html
    xmllint --noout p.html
    never grep -q '<b>&' p.html
    grep -qF '&lt;b&gt;&amp;&quot;q&quot;?' p.html
}

@test "the model's name comes first, then threat and data; every table has a caption and its heads a scope" {
    good show "$R" --out p.html
    grep -A1 '<h1>shapes10-vit</h1>' p.html | grep -q '<p class="threat">linf eps 4/255, cifar test split, images 0:40</p>'
    n() { xmllint --xpath "count($1)" p.html; }
    [ "$(n "//*[local-name()='table']")" = 2 ]
    [ "$(n "//*[local-name()='table']/*[local-name()='caption']")" = 2 ]
    [ "$(n "//*[local-name()='th'][not(@scope)]")" = 0 ]
    # a file that is called model.safetensors is known by its folder, any other by itself
    mkdir tiny && cp "$W" tiny/model.safetensors && cp "$W" "my <b> vit.safetensors"
    for w in tiny/model.safetensors tiny "my <b> vit.safetensors"; do
        rm -rf e && good eval "$w" --data "$D" --out e && good show e --out "${w//\//_}.html"
        xmllint --noout "${w//\//_}.html"
    done
    grep -q '<h1>tiny</h1>' tiny_model.safetensors.html
    grep -q '<h1>tiny</h1>' tiny.html
    grep -q '<h1>my &lt;b&gt; vit</h1>' "my <b> vit.safetensors.html"
    # and without run.json by its shape
    rm e/run.json && good show e --pictures 0 --out none.html
    grep -q '<h1>vit, width 16, depth 1</h1>' none.html
}

@test "two lines are told apart without colour: dashes and markers" {
    good eval "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --images 0:40 --eps 4/255 --attack fgsm --wrap saturate --out w
    good show "$R" "$R-1" w --out p.html
    [ "$(grep -o 'class="[a-d] line" stroke-dasharray="[^"]*" d="M[0-9.]* [0-9.]*[HV]' p.html | grep -o 'dasharray="[^"]*' | sort -u | wc -l)" = 2 ]
    for c in a b; do grep -o "<path class=\"$c mark\" d=\"M[0-9. ]*[a-z].*\"><title>" p.html | sed 's/.*d="M[0-9.]* [0-9.]*//' | sort -u >"$c"; done
    [ "$(wc -l <a)" = 1 ]
    [ "$(wc -l <b)" = 1 ]
    never cmp -s a b
    # histogram and bars: the second kind is hatched
    grep -q 'class="b hatched"' p.html
    grep -q 'id="hatch"' p.html
}

@test "wrong usage of show" {
    bad 2 "needs RUNDIR" -- show
    bad 1 "nowhere" -- show nowhere
    bad 2 "--pictures" -- show "$R" --pictures -1
    quick --images 0:5 --norm l2 --eps 0.5 --attack fgsm --out r2
    bad 2 "no common eps" -- show "$R" r2 --out p.html
    bad 1 "is not the checkpoint" -- show "$R" --weights "$W" --out p.html
    [ ! -e p.html ]
}

@test "runs over other images are lines of their own, a curve is drawn in steps, and none rises" {
    mkdir b
    good curve "$ROOT/weights/shapes10-vit" --data "$ROOT/datasets/shapes10" --images 0:25 --attacks fmn:steps=10 --no-selftest --out b/run
    good show "$R" "$R-1" b/run --out p.html --pictures 0
    xmllint --noout p.html
    # two lines of three runs: those over images 0:40, and the curve over 0:25, whose folder has the same name
    grep -oE '<path class="[a-d] line"[^>]* d="M[^"]*V[^"]*"' p.html | sed 's/.* d="M//; s/"//' >lines
    [ "$(wc -l <lines)" = 2 ]
    grep -q '>run (2)</span>' p.html
    # sideways (H), then down (V); downwards in the picture is y growing
    awk '{gsub(/[HV]/, " & "); x = $1; y = $2
        for (i = 3; i <= NF; i += 2) {if ($i == "H") {if ($(i + 1) < x) exit 1; x = $(i + 1)} else {if ($(i + 1) < y) exit 1; y = $(i + 1)}; n++}}
        END {exit n < 20}' lines
    # the same run under another reading is another model, too
    good eval "$ROOT/weights/shapes10-vit" --mean 0.6 --data "$ROOT/datasets/shapes10" --images 0:40 --eps 2/255 --attack pgd:steps=5 --out m
    good show "$R" "$R-1" m --out q.html --pictures 0
    [ "$(grep -cE '<path class="[a-d] line"[^>]* d="M[^"]*V' q.html)" = 2 ]
}

# The judge is the same attack with a smaller budget, in which fewer images fall.
@test "success of black-box attacks over queries, as a chart and as numbers" {
    cd "$ROOT"
    nes() { good eval weights/shapes10-vit --data datasets/shapes10 --images 0:24 --eps 16/255 --attack nes:steps=$1,draws=6 --out "$2"; }
    nes 8 "$BATS_TEST_TMPDIR/here/long"
    nes 3 "$BATS_TEST_TMPDIR/here/short"
    cd "$BATS_TEST_TMPDIR/here"
    good export long --queries q.csv
    says "images fell, half of them within"
    fell=$(jq '.attacks[0].broken' short/results.json)
    [ "$(awk -F, -v most=$((3 * 13)) '$1 == "nes" && $2 <= most { n = $3 } END { print n }' q.csv)" = "$fell" ]
    [ "$fell" -gt 0 ]
    [ "$(tail -1 q.csv | cut -d, -f3,4)" = "$(jq -r '"\(.attacks[0].broken),\(.clean.correct)"' long/results.json)" ]
    good show long --pictures 0 --out p.html
    xmllint --noout p.html
    grep -q "Success over queries" p.html
    [ "$(marks p.html | wc -l)" = "$(sed 1d q.csv | wc -l)" ]
    good show "$R" --pictures 0 --out w.html
    [ "$(grep -c "Success over queries" w.html)" = 0 ]
    bad 2 "has no black-box attack" -- export "$R" --queries w.csv
    bad 2 "q.csv exists" -- export long --queries q.csv
    bad 2 "give one of --proof" -- export long --queries w.csv --format npz
}
