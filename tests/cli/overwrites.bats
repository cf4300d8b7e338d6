#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a command writes replaces only what such a command wrote: a user's files stay, whatever name is given.
load helpers

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    export M=$ROOT/weights/shapes10-vit IMAGES=$ROOT/datasets/shapes10
    "$VITRINE" eval "$M" --data "$IMAGES" --images 0:6 --attack fgsm --eps 2/255 --no-selftest --out run >/dev/null
}

# kept COMMAND...: with FILE in it, which is each of the user's files in turn, must be refused and leave it.
kept() {
    local f
    for f in notes.md model.safetensors table.csv; do
        bad 2 "$f: is there and was not written by such a command" -- "${@//FILE/$f}"
        cmp "$f" "before/$f"
    done
}

@test "pages, tables, figures and pictures replace their like alone" {
    mkdir before
    echo "# notes" >before/notes.md && cp "$ROOT/weights/shapes10-plain/model.safetensors" before && echo "a,b" >before/table.csv
    cp before/* .
    run=$BATS_FILE_TMPDIR/run
    kept show "$run" --pictures 0 --out FILE
    kept show "$run" --dossier FILE
    kept spectrum "$M" --csv FILE
    kept spectrum "$M" --plot FILE
    for f in page.html page.html; do good show "$run" --pictures 0 --out $f; done
    for f in sigma.csv sigma.csv; do good spectrum "$M" --csv $f; done
    cp notes.md p.png
    bad 2 "p.png: is there and was not" -- patch "$M" --data "$IMAGES" --images 0:2 --threat patch:size=4 --steps 1 --draws 1 --out p.png
    cmp p.png notes.md
}

@test "an evaluation and a training begin in no folder that holds another's results" {
    mkdir data && cp "$IMAGES"/SHA256SUMS data
    before=$(sha256sum data/*)
    bad 1 "data holds SHA256SUMS but no ledger.jsonl" -- eval "$M" --data "$IMAGES" --images 0:2 --out data
    [ "$(sha256sum data/*)" = "$before" ]
    cp -r "$BATS_FILE_TMPDIR/run" run
    before=$(sha256sum run/*)
    for resume in "" --resume; do
        bad 2 "run holds an evaluation: choose another --out" -- train "$ROOT/recipes/cifar10_standard.yaml" --data "$IMAGES" --set epochs=1 --out run $resume
    done
    [ "$(sha256sum run/*)" = "$before" ]
}

@test "an evaluation that is not finished says so; a radius in l2 that was meant in 255ths is asked about" {
    cp -r "$BATS_FILE_TMPDIR/run" run && rm run/run.json
    for c in show verify; do bad 2 "run/run.json does not exist: the run is not finished (go on with vitrine eval --resume)" -- $c run; done
    bad 2 "did you mean 128/255?" -- eval "$M" --data "$IMAGES" --norm l2 --eps 128 --attack pgd --out new
}
