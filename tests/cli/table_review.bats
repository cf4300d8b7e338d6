#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine table: what a reviewer found who had read no source. What decides a cell is in its hash; a network is counted
# once; penalties are judged by common seeds and whole recipes; nothing of the user's is overwritten; --check knows all.
load helpers

# PLACE: drawn images, a recipe that trains at once, checkpoints. Every test copies it.
setup_file() {
    load helpers
    export PLACE=$BATS_FILE_TMPDIR/place
    mkdir -p "$PLACE/hub"
    cp "$ROOT"/weights/shapes10-vit/{config.json,model.safetensors} "$PLACE/hub"
    cp "$ROOT/weights/shapes10-plain/model.safetensors" "$PLACE/plain.safetensors"
    cp "$ROOT/weights/shapes10-specformer/model.safetensors" "$PLACE/spec.safetensors"
    "$DRAW" --out "$PLACE/images" --train 64 --test 60 --seed 3 >/dev/null
    cat >"$PLACE/tiny.yaml" <<END
epochs: 1
batch: 16
micro_batch: 4
objective: ce
optimiser: adamw
model: {dim: 16, depth: 1, heads: 2, hidden: 24, patch: 16}
augment: {mix_prob: 0}
END
    sed '$a msvp: {lambda: 1e-7}' "$PLACE/tiny.yaml" >"$PLACE/penalised.yaml"
    cat >"$PLACE/pub.csv" <<END
table,backbone,method,dataset,attack,accuracy
4,big,plain,S,FGSM,71.76
4,big,spec,S,FGSM,35.49
4,big,third,S,FGSM,32.73
END
}
place() { cp -r "$PLACE" p && cd p; }

# manifest LINE...: t.yaml with these lines after its name and data.
manifest() { printf '%s\n' "name: t" 'data: {S: {path: images, images: "0:60"}}' "$@" >t.yaml; }
FGSM='attacks: {clean: {}, FGSM: {spec: fgsm, eps: 2/255}}'

# missing N: so many cells of t.yaml are not there yet.
missing() {
    good table t.yaml --out o --dry-run --verbose
    [ "$(grep -c ^missing: <<<"$output")" = "$1" ] || fail "not $1 missing: $output"
}

@test "configuration beside a checkpoint and files that options name decide its cells" {
    place
    manifest 'attacks: {clean: {}, sigma: {spectrum: q}}' "rows:" "  hub: {checkpoint: hub/model.safetensors}" \
        "  from: {recipe: from.yaml, init: hub/model.safetensors}" \
        '  map: {checkpoint: hub/model.safetensors, options: ["names=id.map"]}'
    printf '* -> *\n' >id.map
    sed '/^model/d' tiny.yaml >from.yaml
    good table t.yaml --out o
    missing 0
    touch hub/config.json id.map
    missing 0
    sed -i 's/"num_heads": 2/"num_heads": 4/' hub/config.json
    missing 7 # with the training
    good table t.yaml --out o
    truth o/t.json '.done == 6'
    printf '* -> * # again\n' >id.map
    missing 2
}

@test "an index is its shards" {
    place
    mv hub/model.safetensors hub/part.safetensors
    st_header hub/part.safetensors | jq '{weight_map: (del(.__metadata__) | map_values("part.safetensors"))}' >hub/model.safetensors.index.json
    manifest "$FGSM" "rows:" "  shards: {checkpoint: hub/model.safetensors.index.json}"
    good table t.yaml --out o
    missing 0
    good table t.yaml --out o # the ledgers answer their cells
    printf '\0' | dd of=hub/part.safetensors bs=1 seek=$(($(stat -c %s hub/part.safetensors) - 1)) conv=notrunc status=none
    missing 2
    good table t.yaml --out o
}

@test "two checkpoints are two networks, however many seeds attack them" {
    place
    for seeds in 0 "0, 1, 2, 3"; do
        manifest "seeds: [$seeds]" "$FGSM" 'orderings: ["spec > plain"]' \
            'primary: {p: {above: spec, below: plain, column: FGSM}, at equal accuracy: {above: spec, frontier: [plain, hub], at: clean, column: FGSM}}' \
            "rows:" "  plain: {checkpoint: plain.safetensors}" "  spec: {checkpoint: spec.safetensors}" "  hub: {checkpoint: hub/model.safetensors}"
        good table t.yaml --out o
        good table --check o/t.json
        jq -c '.orderings' o/t.json >"said${#seeds}"
    done
    cmp said*
    truth o/t.json 'all(.orderings[]; .seeds <= 1 and .fixed)'
}

@test "a pair is compared once, and in one direction" {
    place
    manifest "table: 4" "published: pub.csv" "match: {backbone: big}" "subject: [spec, plain]" "$FGSM" 'orderings: ["plain > spec", "spec > plain"]' \
        "rows:" "  plain: {checkpoint: plain.safetensors}" "  spec: {checkpoint: spec.safetensors}"
    good table t.yaml --out o
    truth o/t.json '[.orderings[].attack] == ["clean", "FGSM"]'
    good table --check o/t.json
    sed -i 's/"spec > plain"/"spec > spec"/' t.yaml
    bad 2 "'spec > spec' compares a row with itself" -- table t.yaml --out o
    manifest "$FGSM" "primary: {p: {above: spec, below: plain, column: FGSM}, q: {above: plain, below: spec, column: FGSM}}" \
        "rows:" "  plain: {checkpoint: plain.safetensors}" "  spec: {checkpoint: spec.safetensors}"
    bad 2 "primary q compares what primary p does" -- table t.yaml --out o
}

@test "a penalty is idle by the seeds of both rows, wherever its recipe has it" {
    place
    manifest "seeds: [0, 1]" 'attacks: {clean: {}, sigma: {spectrum: q}}' 'orderings: ["file > plain", "set > plain", "one > plain", "other > plain", "longer > plain"]' "rows:" \
        "  plain: {recipe: tiny.yaml}" "  file: {recipe: penalised.yaml}" "  set: {recipe: tiny.yaml, set: [msvp.lambda=1e-7]}" \
        "  one: {recipe: penalised.yaml, seeds: [1]}" "  other: {recipe: penalised.yaml, seeds: [2]}" \
        "  longer: {recipe: penalised.yaml, set: [epochs=2]}"
    good table t.yaml --out o
    truth o/t.json '[.orderings[] | .untested != null] == [true, true, true, false, false]'
    good table --check o/t.json
}

@test "names and values that a manifest cannot have" {
    place
    no() { # TEXT SED-COMMAND
        sed "$2" good.yaml >t.yaml
        bad 2 "$1" -- table t.yaml --out o
        [ ! -e o ] || fail "$2: something was written"
    }
    manifest "table: 4" "published: pub.csv" "match: {backbone: big}" "$FGSM" 'calibrations: {c: {rows: [plain], points: {"0": 3, "1e-3": 5, "1e-2": 4}}}' \
        "rows:" "  plain: {recipe: tiny.yaml, published: {method: plain}}"
    mv t.yaml good.yaml
    no "and not cache" 's/^name: t/name: cache/'
    no "seeds are the key seeds" 's/recipe: tiny.yaml/&, set: [seed=4]/'
    no "FGSM has eps 2, but linf eps is in pixel units, at most 1" 's,eps: 2/255,eps: 2,'
    no "weights is best, but probe.images is 0" 's/recipe: tiny.yaml/&, weights: best, set: [probe.images=0]/'
    no "'1e-3' is not above the one before it" 's/"0": 3, "1e-3": 5, "1e-2": 4/"1e-2": 4, "1e-3": 5, "0": 3/'
    no "the point 1e-3 is 'nan', must be a number" 's/"1e-3": 5/"1e-3": nan/'
    no "match has 'foo', which is no column of" 's/{backbone: big}/{foo: big}/'
    no "match has the backbone 'bag', which is not in" 's/{backbone: big}/{backbone: bag}/'
    no "the manifest has the table '77', which is not in" 's/^table: 4/table: 77/'
    no "row plain has the method 'zz', which is not in" 's/method: plain/method: zz/'
    cp good.yaml t.yaml
    bad 2 "--data S=images: its data set is given twice" -- table t.yaml --out o --data S=images --data S=images
    bad 2 "--check is instead of a manifest" -- table t.yaml --check good.yaml
    bad 2 "--number is of --published" -- table t.yaml --out o --number 2
    bad 2 "--dry-run runs nothing, --merge takes cells over" -- table t.yaml --out o --dry-run --merge x
    bad 2 "nowhere: is no cache of vitrine table" -- table t.yaml --out o --merge nowhere
    printf 'tables,method,training,attack,points\n4,zz,,FGSM,3\n' >claims.csv
    bad 2 "claims.csv:2: pub.csv has no number of its method" -- table --published pub.csv --claims claims.csv
    sed -i '1s/^/\xEF\xBB\xBF/' pub.csv # a byte order mark is none of the first name
    good table t.yaml --out o --dry-run
}

@test "what is to be written is none of the files that are read" {
    place
    manifest "$FGSM" "figures: {f: {x: clean, y: FGSM}}" "rows:" "  plain: {checkpoint: plain.safetensors}"
    good table t.yaml --out o --plot f.svg
    good table t.yaml --out o --plot f.svg # a picture may be drawn again
    sha256sum t.yaml tiny.yaml plain.safetensors o/t.json o/cache.json >sums
    bad 2 "--plot is ./t.yaml, which 't.yaml' names as well: it would be overwritten" -- table t.yaml --out o --plot ./t.yaml
    for f in tiny.yaml o/t.json o/cache.json; do bad 2 "$f: is there and was not written by such a command" -- table t.yaml --out o --plot $f; done
    bad 2 "--csv is plain.safetensors, which" -- spectrum plain.safetensors --csv plain.safetensors
    sha256sum -c --quiet sums
}

@test "names of any letters stay UTF-8 in every form" {
    place
    manifest "$FGSM" "rows:" '  "a\u00e9\u4e2d": {checkpoint: plain.safetensors}'
    good table t.yaml --out o
    for f in md tex csv html; do iconv -f UTF-8 -t UTF-8 o/t.$f | grep -q 'aé中' || fail "t.$f"; done
}

@test "a killed merge leaves nothing behind" {
    place
    manifest "$FGSM" "rows:" "  plain: {recipe: tiny.yaml}"
    good table t.yaml --out o
    good table t.yaml --out m --merge o
    for c in o/cells/*/run; do : >"$c/.vitrine-1-1.tmp"; rm "m/${c#o/}/../done.json"; : >"m/${c#o/}/.vitrine-2-1.tmp"; done
    good table t.yaml --out m --merge o
    [ -z "$(find m -name '.vitrine-*')" ] || fail "$(find m -name '.vitrine-*')"
    cmp o/t.json m/t.json
}

@test "--check: counts, differences of two networks and verdicts that are not what the cells give" {
    cd "$BATS_TEST_TMPDIR/here"
    t=$ROOT/docs/results/finetune_msvp.json
    altered() { # TEXT FILTER
        jq "$2" "$t" >a.json
        bad 1 "numbers are not what its seeds give" -- table --check a.json
        says "$1" || fail "$2"
    }
    two=$(jq '[.orderings[] | .verdict == "contradicted" and .seeds == 1] | index(true)' "$t")
    altered "for - against of lambda 2e-3 above lambda 0, CIFAR-10, clean is 204 - 104" ".orderings[$two] |= (.for = 204 | .against = 104)"
    altered "seed 0: no such number of 10000 images can be right" '(.cells[] | select(.row == "lambda 0" and .attack == "clean").seeds[0].right) = 10001'
    altered "seed 0: no such number" '(.cells[] | select(.row == "lambda 0" and .attack == "clean").seeds[0].right) = 5342.5'
    altered "is there twice" '.cells += [.cells[0]]'
    altered "row ZZ has no cell" '.orderings[0].below = "ZZ"'
    altered "difference of lambda 0, CIFAR-10, PGD-20 is" '(.cells[] | select(.row == "lambda 0" and .attack == "PGD-20").difference) += 1'
    altered "must be false" '.orderings[2].smaller_than_published = true'
    for v in undecided identical "within the published range" "not tested" "not there" contradicted foo; do
        altered "is called '$v' at p 0.0164, must be 'held'" ".orderings[0].verdict = \"$v\""
    done
    altered "is called 'held' at p 0.674, must be 'undecided'" '.orderings[1].verdict = "held"'
    altered "is called 'undecided' at p nan, must be 'not there'" '.orderings[2].verdict = "undecided"'
    altered "has a seed twice" '(.cells[] | select(.attack == "PGD-20").seeds[].seed) = 3'
    altered "seed 0: no such" '(.cells[].seeds[]? | select(.seed == 0).right?) = 9007199254740993'
    bad 1 "nowhere.json" "No such file" -- table --check nowhere.json
    echo '{"cells": [NaN]}' >a.json
    bad 1 "a.json is no JSON: invalid token near 'NaN'" -- table --check a.json
}
