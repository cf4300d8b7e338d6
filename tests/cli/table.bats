#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine table: a table runs, resumes and is merged to the same bytes; a change reruns its own cells; bad input leaves
# the cache as it was; published numbers carry their footnotes.
load helpers

FORMS="tiny.md tiny.tex tiny.html tiny.csv tiny.json"

# PLACE: a manifest of six trainings and evaluations by the dozen, and WHOLE, its table in one piece.
setup_file() {
    load helpers
    export PLACE=$BATS_FILE_TMPDIR/place WHOLE=$BATS_FILE_TMPDIR/whole
    mkdir "$PLACE"
    cp "$ROOT/weights/shapes10-plain/model.safetensors" "$PLACE/w.safetensors"
    "$DRAW" --out "$PLACE/images" --train 64 --test 40 --seed 3 >/dev/null
    cat >"$PLACE/tiny.yaml" <<END
epochs: 2
batch: 16
micro_batch: 4
objective: ce
optimiser: adamw
lr: 1e-3
model: {dim: 16, depth: 2, heads: 2, hidden: 24, patch: 16}
augment: {mix_prob: 0}
END
    cat >"$PLACE/t.yaml" <<END
name: tiny
title: "Twin <1> & 5 % | of"
table: 4
published: pub.csv
match: {training: adversarial, backbone: ViT-S}
subject: SpecFormer
orderings: ["File > TransFormer"]
notes: ["corrected: nothing"]
data:
  CIFAR-10: {path: images, images: "0:40", side: 32, classes: 10, train: 64, test: 40}
attacks:
  clean: {}
  PGD-20: {spec: "pgd:steps=3", eps: 8/255}
  AutoAttack: {spec: fgsm+pgd:steps=2, eps: 8/255}
rows:
  TransFormer: {recipe: tiny.yaml, seeds: [0, 1]}
  SpecFormer: {recipe: tiny.yaml, set: [msvp.lambda=1e-3]}
  File: {checkpoint: w.safetensors}
END
    cat >"$PLACE/pub.csv" <<END
table,training,backbone,method,dataset,attack,accuracy
4,adversarial,ViT-S,TransFormer,CIFAR-10,clean,71.76
4,adversarial,ViT-S,TransFormer,CIFAR-10,PGD-20,35.49
4,adversarial,ViT-S,TransFormer,CIFAR-10,AutoAttack,46.32
4,adversarial,ViT-S,SpecFormer,CIFAR-10,clean,72.73
4,adversarial,ViT-S,SpecFormer,CIFAR-10,PGD-20,31.90
END
    cd "$PLACE" && "$VITRINE" table t.yaml --out "$WHOLE" >"$BATS_FILE_TMPDIR/whole.txt"
}

# Every test has the manifest's place to itself.
place() { cp -r "$PLACE" p && cd p; }
same_table() { # A B
    local f
    for f in $FORMS; do cmp "$1/$f" "$2/$f" || fail "$f differs" || return 1; done
}
cells() { ls "$1/cells"; }

@test "a table in six forms: ours with interval and seeds, published, difference, footnote, verdicts, bold where it may be" {
    output=$(<"$BATS_FILE_TMPDIR/whole.txt")
    says "[1] inconsistent as published: Table 4, adversarial, ViT-S" "46.32 [1]" "corrected: nothing"
    says "SpecFormer above TransFormer, CIFAR-10, clean (published: by 0.97 points): "
    says "TransFormer above SpecFormer, CIFAR-10, PGD-20 (published: by 3.59 points)"
    says "File above TransFormer, CIFAR-10, clean: held here"
    for f in $FORMS; do [ -s "$WHOLE/$f" ] || fail "$f"; done
    # the checkpoint was trained to the end, the others for eight steps; attacked nobody is ahead
    truth "$WHOLE/tiny.json" '[.cells[] | select(.best) | .row + " " + .attack] == ["File clean"]'
    truth "$WHOLE/tiny.json" '[.footer[] | select(startswith("Orderings: of"))] as $said | (.orderings | length) as $all
        | (.orderings | group_by(.verdict) | map([.[0].verdict, length]))
        | ($said | length) == 1 and ($said[0] | contains("of \($all)")) and all(.[]; .[1] as $n | .[0] as $v | $said[0] | contains(", \($n) \($v)"))'
    truth "$WHOLE/tiny.json" 'all(.orderings[]; (.primary | not) and .low <= .points and .points <= .high and (.seeds == 1 or .seeds == 2))'
    truth "$WHOLE/tiny.json" '.evaluations == 12 and .done == 12 and (.cells | length) == 9'
    truth "$WHOLE/tiny.json" '.cells[] | select(.row == "TransFormer" and .attack == "clean")
        | ((.value - ([.seeds[].right] | add) / 80 * 100) | fabs) < 1e-9
        and .published == 71.76 and ((.difference - (.value - 71.76)) | fabs) < 1e-9 and .low < .value and .value < .high'
    [ "$(wc -l <"$WHOLE/tiny.csv")" = 10 ]
    grep -q '\*\*' "$WHOLE/tiny.md"
    grep -qF '\toprule' "$WHOLE/tiny.tex"
    grep -qF '\textbf{' "$WHOLE/tiny.tex"
    grep -qF 'Twin &lt;1&gt; &amp; 5 % | of' "$WHOLE/tiny.html" && grep -qF 'Twin \<1\> \& 5 % \| of' "$WHOLE/tiny.md"
}

@test "an evaluation by the same options outside a table says the same" {
    place
    good eval w.safetensors --data images --images 0:40 --attack fgsm+pgd:steps=2 --eps 8/255 --out e
    count=$(jq '.cells[] | select(.row == "File" and .attack == "AutoAttack") | .seeds[0].right' "$WHOLE/tiny.json")
    truth e/results.json "[.. | objects | select(has(\"robust\")) | .robust] | index($count) != null"
}

@test "from cache, after a deleted cell, with other threads and jobs: the same bytes" {
    place
    cp -r "$WHOLE" o
    good table t.yaml --out o
    same_table o "$WHOLE"
    before=$(cells o)
    rm -r "o/cells/$(cells o | head -1)" "o/cells/$(cells o | tail -1)" o/tiny.*
    good table t.yaml --out o
    [ "$(cells o)" = "$before" ]
    same_table o "$WHOLE"
    good table t.yaml --out other --jobs 3 --threads 3
    same_table other "$WHOLE"
}

@test "killed, it goes on, to the same bytes, and its children end with it" {
    place
    sed -i 's/^epochs: 2/epochs: 100000/' tiny.yaml
    "$VITRINE" table t.yaml --out o --only TransFormer >/dev/null 2>err 3>&- &
    pid=$!
    until child=$(pgrep -P $pid) && [ -s "$(echo o/cells/*/run/state.safetensors)" ]; do
        kill -0 $pid 2>/dev/null || fail "it ended too early: $(cat err)" || return
        sleep 0.1
    done
    kill -9 $pid
    wait $pid || true
    for _ in $(seq 600); do kill -0 "$child" 2>/dev/null || break; sleep 0.1; done
    ! kill -0 "$child" 2>/dev/null || fail "the training goes on without its table"
    [ -s o/cells/*/run/state.safetensors ] || fail "nothing was begun"
    # a whole table is killed in its middle
    sed -i 's/^epochs: 100000/epochs: 2/' tiny.yaml
    hold done.json 3 "$VITRINE" table t.yaml --out k
    kill -9 $pid
    wait $pid || true
    [ -s "$(ls k/cells/*/done.json | head -n 1)" ] && [ ! -e k/tiny.json ] || fail "not in its middle"
    good table t.yaml --out k
    same_table k "$WHOLE"
}

@test "a changed recipe reruns its own cells" {
    place
    cp -r "$WHOLE" o
    before=$(cells o)
    sed -i 's/msvp.lambda=1e-3/msvp.lambda=2e-3/' t.yaml
    good table t.yaml --out o
    [ "$(comm -13 <(echo "$before") <(cells o) | wc -l)" = 4 ] || fail "not one training and three evaluations"
    # a comment, another way to write a number, another order of keys: the same recipe
    place
    cp -r "$WHOLE" o
    sed -i 's/^lr: 1e-3/lr: 0.001 # as before/; 1{h;d};$G' tiny.yaml
    good table t.yaml --out o
    [ "$(cells o)" = "$before" ]
    same_table o "$WHOLE"
}

# A manifest with all that a comparison fixed beforehand needs, of the same trainings.
fixed() {
    cat >s.yaml <<END
name: fixed
data: {CIFAR-10: {path: images, images: "0:40", side: 32, classes: 10, train: 64, test: 40}}
attacks:
  clean: {}
  FGSM: {spec: fgsm, eps: 8/255}
  few: {spec: fgsm, eps: 8/255, images: "3:7", seeds: [0], orderings: none}
  sigma Q: {spectrum: q}
  sigma V: {spectrum: v}
rows:
  TransFormer: {recipe: tiny.yaml, seeds: [0, 1], curve: by length}
  long: {recipe: tiny.yaml, set: [epochs=40], seeds: [0, 1], curve: by length}
  SpecFormer: {recipe: tiny.yaml, set: [msvp.lambda=1e-3], seeds: [0, 1]}
  idle: {recipe: tiny.yaml, set: [msvp.lambda=1e-9], seeds: [0, 1], attacks: [clean, "sigma Q", "sigma V"]}
  one branch: {recipe: tiny.yaml, set: ["msvp.lambda=0,0,1e-9"], seeds: [0], attacks: [clean, "sigma Q", "sigma V"]}
  pulled: {recipe: tiny.yaml, set: [msvp.lambda=1], seeds: [0, 1], attacks: [clean, "sigma Q", "sigma V"]}
orderings: ["long > TransFormer", "SpecFormer > TransFormer"]
primary:
  SpecFormer and TransFormer: {above: SpecFormer, below: TransFormer, column: FGSM}
  at equal clean accuracy: {above: SpecFormer, frontier: [TransFormer, long], at: clean, column: FGSM}
figures:
  two <&> epochs: {x: clean, y: FGSM}
calibrations:
  epochs: {rows: [TransFormer, long], column: clean}
  rate: {rows: [pulled], points: {"1": 40, "10": 50.5, "100": 45}}
END
}

@test "spectrum columns, columns of other images and seeds, primary comparisons, figures; killed, it goes on, to the same bytes" {
    place
    fixed
    good table s.yaml --out s
    says "Primary comparisons, fixed before" "Secondary orderings" "Warning: the penalty of idle changed its targets by" "sigma Q by" ", sigma V by" "Warning: the penalty of one branch changed its targets by" "few: fgsm, linf eps 8/255; images 3:7; seed 0; orders nothing"
    [[ $output != *"the penalty of pulled"* ]] || fail "a strong penalty is called idle"
    says "Warning: calibration, epochs: best value at the end of its grid" "Calibration, rate: best at 10 (50.50), inner maximum of 3 values."
    truth s/fixed.json '.calibrations | map(.name) == ["epochs", "rate"] and map(.inner) == [false, true] and .[1].best == "10"'
    truth s/fixed.json 'all(.orderings[]; .verdict == "not tested" and (.untested == "no calibration" or .untested == "the penalty did nothing"))'
    truth s/fixed.json '[.cells[] | select(.attack == "few")] | all(.images == 4 and (.seeds | length) == 1) and length == 3'
    truth s/fixed.json '[.orderings[] | select(.primary)] | length == 2 and .[1].frontier == ["TransFormer", "long"] and all(.p_holm >= .p and .seeds == 2)'
    truth s/fixed.json '[.orderings[] | select(.primary | not)] | length == 3 and all(.p_holm == null and .attack != "few")' # FGSM: SpecFormer > TransFormer is primary
    # what is in the column is what vitrine spectrum measures, by hand: the largest head of each layer, their mean
    model=$(echo s/cells/*/sigma.csv | tr ' ' '\n' | head -n 1)
    trained=$(jq -r .trained "$(dirname "$model")/cell.json")
    good spectrum "s/cells/$trained/run/model.safetensors" --csv again.csv
    cmp <(sed 's/^[^,]*,//' again.csv) <(sed 's/^[^,]*,//' "$model")
    by_hand=$(awk -F, '$3 == "W_V" && $4 ~ /^rows:/ {if ($5 > m[$2]) m[$2] = $5} END {for (l in m) {s += m[l]; n++} printf "%.9f", s / n}' again.csv)
    truth s/fixed.json "[.cells[] | select(.attack == \"sigma V\") | .seeds[].sigma_max] | any((. - $by_hand) | fabs < 1e-8)"
    truth s/fixed.json '(.cells[] | select(.row == "pulled" and .attack == "sigma Q") | .value) < 0.95 * (.cells[] | select(.row == "TransFormer" and .attack == "sigma Q") | .value)'
    grep -q '^idle,CIFAR-10,sigma Q,sigma_max,2,' s/fixed.csv
    # its intervals and p from its seeds' counts; every number that is altered is named
    good table --check s/fixed.json
    says "24 cells and 5 comparisons: all" "numbers are what the seeds give"
    good table --check "$WHOLE/tiny.json"
    altered() { # WHAT-IS-SAID FILTER
        jq "$2" s/fixed.json >altered.json
        bad 1 "numbers are not what its seeds give" -- table --check altered.json
        [[ $output == *"$1"* ]] || fail "$2: $output"
    }
    altered "value of TransFormer, CIFAR-10, clean is" '(.cells[0].seeds[1].right) += 1'
    altered "low of TransFormer, CIFAR-10, sigma Q is" '(.cells[] | select(.attack == "sigma Q" and .row == "TransFormer").low) += 1e-6'
    altered "p of SpecFormer above the frontier, CIFAR-10, FGSM is" '.orderings[1].p *= 1.01'
    altered "high of SpecFormer above the frontier" '.orderings[1].high += 0.001'
    altered "p_holm of SpecFormer is" '.orderings[0].p_holm = 0.01'
    altered "is called 'held' at p" '.orderings[0].verdict = "held"'
    altered "seeds of " '.orderings[2].seeds = 3'
    bad 1 "run.json: is no table of vitrine" -- table --check "$(ls s/cells/*/run/run.json | head -n 1)"
    bad 1 "nothing.json" -- table --check nothing.json
    # killed in its middle; two cells deleted
    hold sigma.csv 1 "$VITRINE" table s.yaml --out k
    kill -9 $pid
    wait $pid || true
    [ -s "$(ls k/cells/*/sigma.csv | head -n 1)" ] && [ ! -e k/fixed.json ] || fail "not in its middle"
    good table s.yaml --out k
    for f in fixed.md fixed.tex fixed.html fixed.csv fixed.json; do cmp "s/$f" "k/$f"; done
    rm -r "$(dirname "$(ls k/cells/*/sigma.csv | head -n 1)")" "$(dirname "$(ls -d k/cells/*/run | tail -n 1)")"
    good table s.yaml --out k
    for f in fixed.md fixed.json; do cmp "s/$f" "k/$f"; done
    # a damaged value is seen
    sed -i 's/rows:0,[0-9]/rows:0,9/' "$(ls k/cells/*/sigma.csv | head -n 1)"
    bad 1 "is not what its cell was finished with" -- table s.yaml --out k
}

@test "figures are drawn, of what is there; a manifest without any is refused" {
    place
    fixed
    good table s.yaml --out s --plot f.svg
    xmllint --noout f.svg
    grep -q '>two &lt;&amp;&gt; epochs</text>' f.svg
    grep -q 'by length' f.svg
    good table s.yaml --out s --plot g.svg
    cmp f.svg g.svg
    bad 2 "t.yaml: has no figures" -- table t.yaml --out s --plot h.svg
    [ ! -e h.svg ]
}

@test "bad comparisons: a row that is not there, seeds missing from a shard; one sentence, the cache untouched" {
    place
    fixed
    sed 's/above: SpecFormer, below/above: SpecFormr, below/' s.yaml >bad.yaml
    cp -r "$WHOLE" o
    before=$(sums o)
    bad 2 "primary SpecFormer and TransFormer: unknown row 'SpecFormr'" "did you mean 'SpecFormer'?" -- table bad.yaml --out o
    sed 's/frontier: \[TransFormer, long\]/frontier: [TransFormer, lang]/' s.yaml >bad.yaml
    bad 2 "primary at equal clean accuracy: unknown row 'lang'" "did you mean 'long'?" -- table bad.yaml --out o
    sed 's/frontier: \[TransFormer, long\]/frontier: [long, long]/' s.yaml >bad.yaml
    bad 2 "primary at equal clean accuracy: row long stands twice in the frontier" -- table bad.yaml --out o
    sed 's/^  sigma Q: .*/  sigma Q: {spectrum: q, eps: 8\/255, spec: fgsm}/' s.yaml >bad.yaml
    bad 2 "is a spectrum" -- table bad.yaml --out o
    # a row without attention: a checkpoint of another kind of network, of which no cell of the table is begun
    jq -nj '{"conv1.weight": [0, 192, 16, 3, 1, 1], "bn1.running_mean": [192, 256, 16], "layer1.0.conv1.weight": [256, 1280, 16, 16], "fc.weight": [1280, 1920, 10, 16]}
        | map_values({dtype: "F32", shape: .[2:], data_offsets: .[:2]}) | tojson' >head
    { printf "\\x$(printf %x $(($(stat -c %s head) & 255)))\\x$(printf %x $(($(stat -c %s head) >> 8)))\\0\\0\\0\\0\\0\\0" && cat head && head -c 1920 /dev/zero; } >conv.safetensors
    sed 's/^  idle: .*/  idle: {checkpoint: conv.safetensors, attacks: [clean, "sigma Q"]}/' s.yaml >bad.yaml
    bad 2 "to measure idle, CIFAR-10, sigma Q, seed 0: conv.safetensors: is a convolutional network" -- table bad.yaml --out o
    bad 2 "conv.safetensors: is a convolutional network" -- table bad.yaml --out fresh
    [ ! -e fresh ] || fail "a cache was begun"
    for k in 1 2; do good table s.yaml --out "s$k" --shard "$k/2"; done
    bad 2 "lacks the seeds" "merge all shards at once" -- table s.yaml --out o --merge s1
    [ "$(sums o)" = "$before" ] || fail "the cache changed"
    good table s.yaml --out o --merge s1 --merge s2
    good table s.yaml --out whole
    cmp whole/fixed.json o/fixed.json
}

@test "shards and merge make the whole table; --only runs a row" {
    place
    for k in 1 2 3; do good table t.yaml --out "s$k" --shard "$k/3"; done
    n=0
    for k in 1 2 3; do n=$((n + $(cells "s$k" | wc -l))); done
    [ $n = "$(cells "$WHOLE" | wc -l)" ] || fail "shards hold $n cells"
    good table t.yaml --out all --merge s1 --merge s2 --merge s3
    same_table all "$WHOLE"
    good table t.yaml --out one --only File
    [ "$(cells one | wc -l)" = 3 ]
    says "Incomplete: 3 of 12 evaluations are there"
    bad 2 "--shard is '4/3'" -- table t.yaml --out one --shard 4/3
    bad 2 "--only: unknown row 'Fill'" "did you mean 'File'?" -- table t.yaml --out one --only Fill
    bad 2 "exists and is not a folder" -- table t.yaml --out images/data_batch_1.bin --merge s1
    bad 2 "nowhere: is no cache" -- table t.yaml --out all --merge nowhere
}

@test "a dry run needs no data, weights or folder, and says what is missing and what it costs" {
    place
    rm -r images w.safetensors
    good table t.yaml --dry-run
    says "missing: train TransFormer, CIFAR-10, seed 1" "missing: evaluate File, CIFAR-10, AutoAttack, seed 0"
    says "not here: data CIFAR-10: images does not exist" "not here: checkpoint of File: w.safetensors does not exist"
    says "TFLOP" "hours" "disk" "--shard"
    [ "$(ls | sort | xargs)" = "pub.csv t.yaml tiny.yaml" ] || fail "it left something: $(ls)"
    good table "$PLACE/t.yaml" --dry-run --out "$WHOLE" --data CIFAR-10="$PLACE/images"
    [[ $output != *"missing: train"* ]] || fail "trained cells are missing"
}

@test "bad manifests, published files and caches: one sentence, status 2, the cache untouched" {
    place
    cp -r "$WHOLE" o
    before=$(sums o)
    refuse() { # SED TEXT...
        local edit=$1
        shift
        sed "$edit" t.yaml >bad.yaml
        ! cmp -s bad.yaml t.yaml || fail "nothing planted: $edit" || return 1
        bad 2 "$@" -- table bad.yaml --out o || return 1
        [ "$(sums o)" = "$before" ] || fail "the cache changed: $edit"
    }
    refuse 's/subject: SpecFormer/subject: SpecForma/' "unknown row 'SpecForma'" "did you mean 'SpecFormer'?"
    refuse 's/File > TransFormer/File > Transformer/' "unknown row 'Transformer'"
    refuse 's/File > TransFormer/File, TransFormer/' "is not of the form ROW > ROW"
    refuse 's/w.safetensors/gone.safetensors/' "checkpoint of File: gone.safetensors does not exist"
    refuse 's/  File: /  SpecFormer: /' "bad.yaml:" "SpecFormer is given twice"
    refuse 's/path: images/path: gone/' "data CIFAR-10: gone does not exist"
    refuse 's/recipe: tiny.yaml, seeds/recipe: tany.yaml, seeds/' "tany.yaml: cannot be opened"
    refuse 's/recipe: tiny.yaml, seeds/recipy: tiny.yaml, seeds/' "unknown key 'recipy'" "did you mean 'recipe'?"
    refuse 's/msvp.lambda=1e-3/msvp.lamda=1e-3/' "row SpecFormer on CIFAR-10" "did you mean"
    refuse 's/msvp.lambda=1e-3/model.patch=5/' "row SpecFormer on CIFAR-10" "patch"
    refuse 's/msvp.lambda=1e-3/msvp.lambda=-1/' "row SpecFormer on CIFAR-10" "msvp.lambda"
    refuse 's/pgd:steps=3/pdg:steps=3/' "attack PGD-20" "pdg"
    refuse 's,eps: 8/255},eps: 8/0},' "attack PGD-20 has eps '8/0'"
    refuse 's/seeds: \[0, 1\]/seeds: [0, 0]/' "seed 0 twice"
    refuse 's/seeds: \[0, 1\]/seeds: [-1]/' "seed '-1'"
    refuse 's/"0:40"/"0:41"/' "images of CIFAR-10 is 0:41"
    mkfifo pipe
    refuse 's/"0:40"/pipe/' "images of CIFAR-10: pipe: is not a regular file"
    refuse 's/name: tiny/name: a\/b/' "name must be a word"
    refuse 's/checkpoint: w.safetensors/checkpoint: w.safetensors, options: [attm=dot]/' "no option '--attm'"
    refuse 's/^title:.*/title: [a/' "not YAML"
    refuse 's/pub.csv/gone.csv/' "gone.csv: cannot be opened"
    awk -F, -v OFS=, 'NR > 1 { $7 /= 100 } 1' pub.csv >shares.csv
    refuse 's/pub.csv/shares.csv/' "shares.csv" "must be in percent"
    refuse 's/^title:/comparable: [ViT-Q]\n&/' "comparable names 'ViT-Q', which is no backbone of"
    refuse 's/^title:/calibrations: {c: {rows: [File]}}\n&/' "calibration c needs rows, and either a column or points"
    sed 's/pub.csv/gone.csv/' t.yaml >bad.yaml # before anything runs, too
    bad 2 "gone.csv: cannot be opened" -- table bad.yaml --out fresh
    [ ! -e fresh ]
    bad 2 "needs a MANIFEST" -- table
    bad 2 "--out FOLDER" -- table t.yaml
    bad 2 "holds files and is no cache" -- table t.yaml --out images
    [ "$(sums o)" = "$before" ]
    sed -i 's/"vitrine": "[^"]*"/"vitrine": "0.0.1"/' o/cache.json
    before=$(sums o)
    bad 2 "o/cache.json: this cache was written by vitrine 0.0.1" -- table t.yaml --out o
    bad 2 "o/cache.json" -- table t.yaml --out n --merge o
    [ "$(sums o)" = "$before" ]
}

@test "a damaged cell is named, not taken" {
    place
    cp -r "$WHOLE" o
    cell=$(grep -l '"attack": "pgd' o/cells/*/cell.json | head -1)
    sed -i 's/8\/255/9\/255/' "$cell"
    bad 1 "cell.json: is damaged" -- table t.yaml --out o
    rm -r "$(dirname "$cell")"
    cell=$(grep -l '"attack": "pgd' o/cells/*/cell.json | head -1)
    [ -n "$cell" ]
    : >"$(dirname "$cell")/run/ledger.jsonl"
    vt table t.yaml --out o
    judge 1 "ledger.jsonl"
}

# reseal CELL: done.json as if the cell's files had been like this when it was finished
reseal() {
    local f h
    [ ! -f "$1/run/ledger.jsonl" ] || seal "$1/run"
    for f in run/ledger.jsonl run/log.jsonl run/model.safetensors; do
        [ -f "$1/$f" ] || continue
        h=$(sha256sum <"$1/$f" | cut -d' ' -f1)
        jq --arg f "$f" --arg h "$h" '.sha256[$f] = $h' "$1/done.json" >sealed && mv sealed "$1/done.json"
    done
}
cell_of() { # KIND FILTER: the first cell of o whose cell.json is so
    local c
    for c in o/cells/*; do jq -e "$1" "$c/cell.json" >/dev/null && echo "$c" && return; done
    fail "no cell: $1"
}

@test "finding 1: options say how a model is read; what is asked of a cell they may not say again" {
    place
    # every option of eval and train that is not of the model or of reading images is refused, with any value, at every place
    may="preprocess attack-at restrict-classes class-order allow-mixed save-adv save-npz heads image-size mean std ln-eps attn-scale preset attn form names part image-shape layout output"
    for command in eval train; do
        for name in $("$VITRINE" help $command | sed -n 's/^  --\([a-z-]*\).*/\1/p'); do
            [[ " $may " != *" $name "* ]] || continue
            sed "s/checkpoint: w.safetensors/&, options: [\"$name=1\"]/" t.yaml >bad.yaml
            bad 2 "bad.yaml: row File: the option '$name=1' is refused" -- table bad.yaml --out o || return 1
        done
    done
    sed 's/side: 32/options: [eps=1\/255], &/' t.yaml >bad.yaml
    bad 2 "bad.yaml: data CIFAR-10: the option 'eps=1/255' is refused" -- table bad.yaml --dry-run
    sed 's/set: \[msvp/init: w.safetensors, init_options: [max-steps=1], &/' t.yaml >bad.yaml
    bad 2 "bad.yaml: row SpecFormer: the option 'max-steps=1' is refused" -- table bad.yaml --dry-run
    [ ! -e o ]
    # what says how a model is read stays: it is in the cell's key and changes the result
    sed 's/checkpoint: w.safetensors/&, options: [mean=0.6, save-npz]/' t.yaml >other.yaml
    good table other.yaml --out o --only File
    truth o/tiny.json '[.cells[] | select(.row == "File" and .seeds[0].right != null)] | length == 3'
    [ -f "$(cell_of '.options == ["mean=0.6", "save-npz"] and .eps != ""')/run/adv/pgd.npz" ] || fail "no npz"
}

@test "finding 1: a ledger that answers another question is named, not shown" {
    place
    differs() { # TEXT JQ-FILTER of the header
        local c
        rm -rf o && cp -r "$WHOLE" o
        c=$(cell_of '.attack[:9] == "pgd:steps" and .weights != ""')
        { head -n 1 "$c/run/ledger.jsonl" | jq -c "$2" && tail -n +2 "$c/run/ledger.jsonl"; } >ledger
        ! cmp -s ledger "$c/run/ledger.jsonl" || fail "nothing planted: $2" || return 1
        mv ledger "$c/run/ledger.jsonl"
        reseal "$c"
        bad 1 "$c/run" "$1" -- table t.yaml --out o || return 1
        same_table o "$WHOLE"
    }
    differs "eps must be 8/255" '.eps = "0.01/255" | .eps_value = 0.01 / 255'
    differs "norm must be linf" '.norm = "l2"'
    differs "seed must be 0" '.seed = 5'
    differs "the data's SHA-256" '.data.sha256 = ("0" * 64)'
    differs "the weights' SHA-256" '.weights = ("0" * 64)'
    differs "attack must be pgd:steps=3" '.attacks[0].id = "fgsm"'
    differs "the number of attacks must be 1" '.attacks += .attacks'
    differs "wrap" '.wrap = {"id": "noise:sigma=0.05"}'
    differs "exhaustive" '.exhaustive = true'
    # a training's weights are those that its evaluations saw
    rm -r o && cp -r "$WHOLE" o
    c=$(cell_of '.attack == "" and .trained != ""')
    { head -n 1 "$c/run/ledger.jsonl" | jq -c '.weights = ("0" * 64)' && tail -n +2 "$c/run/ledger.jsonl"; } >ledger
    mv ledger "$c/run/ledger.jsonl" && reseal "$c"
    bad 1 "$c/run" "weights" -- table t.yaml --out o
    # other images than the column's
    rm -r o && cp -r "$WHOLE" o
    c=$(cell_of '.attack == "" and .weights != ""')
    sed -i 's/"image":39,/"image":40,/' "$c/run/ledger.jsonl" && reseal "$c"
    bad 1 "$c/run" "images must be 0:40" -- table t.yaml --out o
}

@test "finding 6: a file of a finished cell that was changed is named, not believed; --merge looks, too" {
    place
    cp -r "$WHOLE" o
    # a ledger that answers the same question with other lines
    c=$(cell_of '.attack == "" and .weights != ""')
    cp -r "$c" kept
    sed -i '0,/"correct"/s//"wrong"/' "$c/run/ledger.jsonl"
    ! cmp -s kept/run/ledger.jsonl "$c/run/ledger.jsonl" || fail "nothing planted"
    bad 1 "$c/run/ledger.jsonl" "SHA-256" "remove" -- table t.yaml --out o
    bad 1 "$c/run/ledger.jsonl" "SHA-256" -- table t.yaml --out n --merge o
    [ ! -e "n/cells/$(basename "$c")" ] || fail "it was taken over"
    # in a cache of before, whose done.json holds no hashes, the run's own SHA256SUMS tell
    jq '{seconds}' kept/done.json >"$c/done.json"
    bad 1 "$c/run/ledger.jsonl" "SHA-256" -- table t.yaml --out o
    rm -r "$c" && mv kept "$c"
    good table t.yaml --out o
    same_table o "$WHOLE"
    # a trained model: refused before a new column takes it
    c=$(cell_of '.kind == "train"')
    truth "$c/done.json" '.seconds >= 0 and (.sha256["run/model.safetensors"] | length) == 64'
    [ "$(jq -r '.sha256["run/model.safetensors"]' "$c/done.json")" = "$(sha256sum <"$c/run/model.safetensors" | cut -d' ' -f1)" ]
    poke "$c/run/model.safetensors" $(($(stat -c %s "$c/run/model.safetensors") - 2)) '\x40'
    sed 's/^  clean: {}/&\n  F: {spec: fgsm, eps: 1\/255}/' t.yaml >more.yaml
    bad 1 "$c/run/model.safetensors" "SHA-256" -- table more.yaml --out o
    # of a cache of before, the evaluations of these weights tell
    for c in o/cells/*; do jq '{seconds}' "$c/done.json" >old && mv old "$c/done.json"; done
    bad 1 "weights" -- table t.yaml --out o
    # and one that is whole is taken
    rm -r o && cp -r "$WHOLE" o
    for c in o/cells/*; do jq '{seconds}' "$c/done.json" >old && mv old "$c/done.json"; done
    good table t.yaml --out o
    same_table o "$WHOLE"
}

@test "finding 9: --merge takes regular files and folders alone, and no more than a cell can hold" {
    place
    echo secret >secret
    cp -r "$WHOLE" o
    c=$(cell_of '.attack == "" and .weights != ""')
    planted() { # TEXT...: refused at once, and nothing of the cell is taken
        vt_limited() { run --separate-stderr timeout 20 "$VITRINE" "$@"; }
        rm -rf n
        vt_limited table t.yaml --out n --merge o
        judge 1 "$@" || return 1
        [ ! -e "n/cells/$(basename "$c")" ] || fail "it was begun: $(ls "n/cells/$(basename "$c")")"
    }
    ln -s "$PWD/secret" "$c/run/extra"
    planted "$c/run/extra" "neither a regular file nor a folder"
    rm "$c/run/extra" && ln -s /dev/zero "$c/zero"
    planted "$c/zero" "neither a regular file nor a folder"
    rm "$c/zero" && ln -s "$PWD" "$c/run/folder"
    planted "$c/run/folder" "neither a regular file nor a folder"
    rm "$c/run/folder" && mkfifo "$c/run/pipe"
    planted "$c/run/pipe" "neither a regular file nor a folder"
    rm "$c/run/pipe" && truncate -s 300G "$c/run/large"
    planted "$c" "GB"
    rm "$c/run/large"
    mv "$c" real && ln -s "$PWD/real" "$c"
    planted "$c" "neither a regular file nor a folder"
    rm "$c" && mv real "$c"
    for f in cell.json done.json run/ledger.jsonl; do
        mv "$c/$f" kept && mkfifo "$c/$f"
        planted "$c/$f" "neither a regular file nor a folder"
        rm "$c/$f" && mv kept "$c/$f"
    done
    mv o/cache.json kept && mkfifo o/cache.json
    run --separate-stderr timeout 20 "$VITRINE" table t.yaml --out n --merge o
    judge 2 "o/cache.json" "is damaged"
    rm o/cache.json && mv kept o/cache.json
    rm -rf n
    good table t.yaml --out n --merge o
    same_table n "$WHOLE"
}

@test "finding 13: started with SIGCHLD ignored, a table runs" {
    place
    run --separate-stderr timeout -s KILL 60 env --ignore-signal=CHLD "$VITRINE" table t.yaml --out o --only File
    [ "$status" = 0 ] && [ -z "$stderr" ] || fail "status $status: $stderr"
    says "Incomplete: 3 of 12 evaluations are there"
}

@test "two tables started at one instant on one --out: one works, the other says that it is not alone" {
    place
    for k in 1 2 3 4 5 6; do
        rm -rf o
        for i in a b c; do
            (timeout 100 "$VITRINE" table t.yaml --out o --only File --threads 1 >/dev/null 2>"said-$i" && echo 0 >"ended-$i" || echo 1 >"ended-$i") 3>&- &
        done
        wait
        grep -qx 0 ended-? || fail "none worked: $(cat said-?)"
        for i in a b c; do
            [ "$(cat ended-$i)" = 0 ] || grep -q "another vitrine" "said-$i" || fail "$(cat "said-$i")"
        done
    done
    good table t.yaml --out o --only File
    says "Incomplete: 3 of 12 evaluations are there"
}

@test "a cell that fails says why" {
    place
    sed -i 's/checkpoint: w.safetensors/checkpoint: x.safetensors/' t.yaml
    head -c 1000 w.safetensors >x.safetensors
    vt table t.yaml --out o --only File
    judge 1 "evaluate File, CIFAR-10, clean, seed 0 failed" "x.safetensors"
}

@test "times of training steps, relative to the first row" {
    place
    sed -i 's/^  PGD-20:.*/  time: {steps: 3, published: clean}/; /AutoAttack:/d; /File/d' t.yaml
    good table t.yaml --out o
    says "time of 3 training steps" "quartiles"
    truth o/tiny.json '[.cells[] | select(.attack == "time")] | length == 2 and .[0].value == 1 and .[1].value > 0 and (map(.best) | any | not)'
    truth o/tiny.json 'all(.orderings[]; .attack == "clean")'
    cp o/tiny.json first.json
    good table t.yaml --out o # a time that is there is not taken again
    cmp first.json o/tiny.json
    bad 2 "one cell at a time" -- table t.yaml --out n --jobs 2
    sed -i 's/^rows:/rows:\n  Fixed: {checkpoint: w.safetensors}/' t.yaml
    bad 2 "row Fixed is a checkpoint, which has no training steps" -- table t.yaml --out n
}

@test "times: the median over rounds of what a row takes beside the first row in the same round" {
    local c seed rounds
    place
    sed -i 's/^  PGD-20:.*/  time: {steps: 3}/; /AutoAttack:/d; /clean:/d; /File/d; s/lambda=1e-3]/&, seeds: [0, 1, 2]/; s/seeds: \[0, 1]/seeds: [0, 1, 2]/' t.yaml
    good table t.yaml --out o
    # the seconds of TransFormer's and SpecFormer's steps, seed by seed, are put in their logs
    for c in o/cells/*; do
        seed=$(jq -r .recipe "$c/cell.json" | sed -n 's/^seed: //p')
        rounds=(1 2 4)
        [[ $(jq -r .recipe "$c/cell.json") != *"lambda: 0.001"* ]] || rounds=(3 1 8)
        jq -c --argjson s "${rounds[seed]}" 'if .step then .seconds = $s * (1 + (.step - 4) / 10) else . end' "$c/run/log.jsonl" >log
        mv log "$c/run/log.jsonl"
        reseal "$c"
    done
    good table t.yaml --out o
    # factors 3, 0.5, 2 of the steps in the middle; the others take a tenth less and more
    awk -F, '$1 == "SpecFormer" {print $7, $8, $9, $10, $11}' o/tiny.csv >said
    [ "$(cat said)" = "2.0000 1.8000 2.0000 0.5000 3.0000" ] || fail "$(cat said)"
    awk -F, '$1 == "TransFormer" {print $7, $8, $9, $10, $11}' o/tiny.csv >said
    [ "$(cat said)" = "1.0000 0.9000 1.0000 1.0000 1.0000" ] || fail "$(cat said)"
}

@test "published numbers with their footnotes" {
    cd "$ROOT"
    good table --published recipes/published/specformer_tables.csv --claims recipes/published/specformer_claims.csv
    says "47.07 [1]" "inconsistent as published: Table 4, adversarial, ViT-S: in 10 of 15 rows" "126 of 163"
    says "8.96 comes out when Table 2's FGSM column is averaged with Table 3's PGD-2 column"
    good table --published recipes/published/specformer_times.csv
    says "4 of 4 factors are larger under adversarial training"
    good table --published recipes/published/uam_table2.csv
    good table --published recipes/published/uam_parameters.csv
    says "W_V of 100 x 100, not 100 x 2142, gives the printed number"
    good table --published recipes/published/uam_table1.csv
    says "Table 1, n = 50000: regularized attention has 0.0072, attention 0.0060"
    [ "$(grep -c "inconsistent as published" <<<"$output")" = 1 ]
    good table --published recipes/published/oc_tables.csv --claims recipes/published/oc_claims.csv
    says "PersonaChat, VecE: VAR-I has 48.2, the plain Transformer 49.0" "DailyDialog, CIDEr: VAR-I has 79.2"
    says "En-Mk, BLEU: the text's gain is 5.3 %; from the cells the best, VAR-I, has 5.59 (5.3 is VAR-II's)"
    # 102 cells; 27 gains, of which 25 come out; three variants below the plain row
    [ "$(grep -c '^[1-4],' recipes/published/oc_tables.csv)" = 102 ]
    [ "$(grep -c "the text's gain is" <<<"$output")" = 27 ]
    [ "$(grep -c "inconsistent as published" <<<"$output")" = 5 ]
    bad 2 "has no table '77'" -- table --published recipes/published/specformer_tables.csv --number 77
}

@test "every shipped manifest can be counted" {
    cd "$ROOT"
    for f in recipes/tables/*.yaml; do
        good table "$f" --dry-run
        says "TFLOP of matrix products" || fail "$f"
    done
}

@test "the committed tables hold every cell that their manifests ask for, and no other" {
    cd "$ROOT"
    for f in docs/results/*.csv; do
        name=$(basename "$f" .csv)
        good table "recipes/tables/$name.yaml" --dry-run --verbose
        # without seeds and hashes; a time is a training
        sed -n 's/^missing: \(evaluate\|time\|measure\) \(.*\), seed [0-9]*\(, cell .*\)*$/\2/p' <<<"$output" | sort -u >"$BATS_TEST_TMPDIR/asked"
        sed -n '1!{s/^"\([^"]*\)",\([^,]*\),\([^,]*\),.*/\1, \2, \3/;t p;s/^\([^,]*\),\([^,]*\),\([^,]*\),.*/\1, \2, \3/;:p;p}' "$f" | sort -u >"$BATS_TEST_TMPDIR/there"
        [ -s "$BATS_TEST_TMPDIR/asked" ] || fail "$name asks for nothing"
        diff "$BATS_TEST_TMPDIR/asked" "$BATS_TEST_TMPDIR/there" || fail "$f"
        [ -s "docs/results/$name.md" ]
    done
}
