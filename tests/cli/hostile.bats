#!/usr/bin/env bats
# Runs, checkpoints and folders of somebody else: what they hold reaches neither files outside of --out nor the terminal,
# and nothing in them makes a command wait or write for ever.
load helpers

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    "$VITRINE" eval "$BASE/w.safetensors" --data "$BASE/data" --images 0:4 --eps 4/255 --attack fgsm --out run >/dev/null
}

# a copy of the run, to be spoilt
foreign() { cp -r "$BATS_FILE_TMPDIR/run" "${1:-foreign}"; }

# brief ARGS: vitrine ARGS, killed after 20 seconds or 4 MB of a file
brief() { run --separate-stderr bash -c 'ulimit -f 4096; exec timeout -s KILL 20 "$@"' - "$VITRINE" "$@"; }

# none ARGS: grep ARGS finds nothing ("! grep" would not end a test)
none() {
    local found
    found=$(grep "$@") || [ $? = 1 ] || return 1
    [ -z "$found" ] || fail "there is: ${found:0:500}"
}

@test "finding 2: show ends on a curve.csv with an eps that has no place on an axis" {
    foreign
    printf 'eps,percent\n0.01,50\n1e307,40\n0.02,45\n' >foreign/curve.csv
    brief show foreign --pictures 0
    [ "$status" = 0 ] && [ "$(stat -c %s foreign/show.html)" -lt 100000 ] || fail "status $status: $stderr"
    none -E '="[^"]*(inf|nan)' foreign/show.html
    printf 'eps,percent,low95,high95\n0.01,50,-1e308,1e308\n0.015,1e300,0,1\n-3,5,0,1\n0.02,45,40,50\n' >foreign/curve.csv
    brief show foreign --pictures 0
    [ "$status" = 0 ]
    none -E '(c?[xy][12]?|points|width|height)="[^"]*[0-9]{12}' foreign/show.html
}

@test "finding 2: show ends on a curve over an eps as large as a number gets" {
    foreign
    sed -i 's/"norm":"linf"/"norm":"l2"/' foreign/ledger.jsonl
    printf 'eps,percent\n0.01,50\n1.7976931348e308,40\n0.02,45\n' >foreign/curve.csv
    brief show foreign --pictures 0
    [ "$status" = 0 ] || fail "status $status: $stderr"
}

@test "finding 2: show ends on a margin as large as a number gets" {
    for margin in -1.79e308 1.79e308; do
        foreign "f$margin"
        sed -i "2s/\"margin\":[-0-9.e+]*/\"margin\":$margin/" "f$margin/ledger.jsonl"
        brief show "f$margin" --pictures 0
        [ "$status" = 0 ] && [ "$(stat -c %s "f$margin/show.html")" -lt 100000 ] || fail "status $status: $stderr"
    done
}

@test "finding 3: a link under a temporary file's old name leads nowhere" {
    foreign
    echo precious >victim
    ln -s ../victim foreign/show.html.new
    good show foreign --pictures 0
    [ "$(cat victim)" = precious ]
    [ -f foreign/show.html ] && [ ! -L foreign/show.html ] || fail "no page"
    ln -s victim points.csv.new
    good spectrum "$W" --csv points.csv
    [ "$(cat victim)" = precious ]
    [ -s points.csv ] && [ ! -L points.csv ] || fail "no points"
    [ -z "$(find . -name '.vitrine*')" ]
}

@test "finding 3: a link in the place of a result is refused, not followed and not replaced" {
    foreign
    echo precious >victim
    ln -s ../victim foreign/show.html
    bad 1 "foreign/show.html: is a link and is not written through" -- show foreign --pictures 0
    ln -s victim out.csv
    bad 1 "out.csv: is a link" -- spectrum "$W" --csv out.csv
    ln -s /dev/null null.csv
    bad 1 "null.csv: is a link" -- spectrum "$W" --csv null.csv
    bad 1 "/dev/null: is not a regular file and is not replaced" -- spectrum "$W" --csv /dev/null
    [ "$(cat victim)" = precious ]
    [ -L out.csv ] && [ -L null.csv ] && [ -L foreign/show.html ] && [ -c /dev/null ] || fail "a link is lost"
    [ -z "$(find . -name '.vitrine*')" ]
}

@test "finding 3: eval --resume follows no link to a ledger or its tensors" {
    foreign
    echo precious >victim
    rm foreign/adv.bin && ln -s ../nowhere foreign/adv.bin
    bad 1 "foreign/adv.bin: is a link" -- eval "$W" --data "$D" --images 0:4 --eps 4/255 --attack fgsm --out foreign --resume
    [ ! -e nowhere ]
    mkdir other && ln -s ../victim other/ledger.jsonl
    bad 1 "other/ledger.jsonl: is a link" -- eval "$W" --data "$D" --images 0:4 --eps 4/255 --attack fgsm --out other --resume
    [ "$(cat victim)" = precious ]
}

@test "finding 10: train --resume follows no link in its folder" {
    local recipe="$ROOT/recipes/shapes10_plain.yaml"
    for name in log.jsonl model.safetensors best.safetensors state.safetensors; do
        rm -rf t && mkdir t && echo precious >victim && ln -s ../victim t/$name
        vt train "$recipe" --data "$ROOT/datasets/shapes10" --out t --resume --max-steps 1
        [ "$status" != 0 ]
        [ $name != log.jsonl ] || judge 1 "t/log.jsonl: is a link and is not written through"
        [ "$(cat victim)" = precious ] && [ -L t/$name ] || fail "$name: $stderr"
    done
    rm -rf t && mkdir t && : >t/log.jsonl && ln -s ../victim t/best.safetensors # of a run killed before its first state
    bad 1 "t/best.safetensors: is a link" -- train "$recipe" --data "$ROOT/datasets/shapes10" --out t --resume --max-steps 1
    [ "$(cat victim)" = precious ]
    [ ! -s t/log.jsonl ]
}

@test "finding 14: what a killed writer left is neither sealed nor kept by --resume" {
    local o="--images 0:4 --eps 4/255 --attack fgsm --save-adv"
    quick $o --out whole
    quick $o --out r
    local name=$(basename r/adv/*/)
    for f in r/.vitrine-1-2.tmp r/adv/.vitrine-1-3.tmp r/adv/.vitrine-1-3.tmp.aBcDeF "r/adv/$name/.vitrine-1-4.tmp"; do echo half >"$f"; done
    echo mine >r/adv/.mine
    quick $o --out r --resume
    [ -z "$(find r -name '.vitrine*')" ] || fail "$(find r -name '.vitrine*')"
    rm r/adv/.mine # kept, and named by nothing
    cmp whole/SHA256SUMS r/SHA256SUMS
    none '/\.' r/SHA256SUMS
}

@test "house.md: a pipe is read to its end, and one that nobody writes to is refused, not waited for" {
    good train <(cat "$ROOT/recipes/shapes10_plain.yaml") --data "$ROOT/datasets/shapes10" --dry-run --out o
    mkfifo p
    for line in "train p --data $D --out o" "table p --out o" "table --published p" "eval $W --data $D --images p" \
        "eval $W --data $D --names p"; do
        brief $line
        [ "$status" != 137 ] || fail "waits: $line"
        judge "$status" "is a pipe that nobody writes to"
    done
    for name in ledger.jsonl SHA256SUMS curve.csv adv.bin; do
        foreign "f$name" && rm -f "f$name/$name" && mkfifo "f$name/$name"
        brief show "f$name" --pictures 0
        [ "$status" != 137 ] || fail "show waits for $name"
        brief verify "f$name"
        [ "$status" = 1 ] || [ $name = curve.csv ] || fail "verify of $name: $status" # no file of an evaluation
    done
}

@test "house.md: what is no file is not taken for an empty one" {
    for what in SHA256SUMS run.json results.json; do
        foreign "f$what" && rm "f$what/$what" && mkdir "f$what/$what"
        bad 1 "" -- verify "f$what"
        [[ $output$stderr == *"$what: cannot be read: Is a directory"* ]] || fail "$output" "$stderr"
    done
    bad 2 "Is a directory" -- table --published .
    bad 2 "Is a directory" -- eval "$W" --data "$D" --images .
    bad 1 "longer than 1048576 bytes, the limit" -- train /dev/zero --data "$D" --out o
}
