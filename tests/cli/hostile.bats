#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
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

@test "finding 2: show ends on a margin as large as a number gets" {
    for margin in -1.79e308 1.79e308; do
        foreign "f$margin"
        sed -i "2s/\"margin\":[-0-9.e+]*/\"margin\":$margin/" "f$margin/ledger.jsonl"
        seal "f$margin"
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
    for name in ledger.jsonl SHA256SUMS curve.csv adv.bin run.json results.json; do
        foreign "f$name" && rm -f "f$name/$name" && mkfifo "f$name/$name"
        brief show "f$name" --pictures 0
        [ "$status" != 137 ] || fail "show waits for $name"
        brief show "f$name"
        [ "$status" != 137 ] || fail "show with pictures waits for $name"
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

# no_escapes FILE...: nothing that a terminal obeys, of C0 but for line feeds and tabs, nor of C1
no_escapes() { none -a -n -P '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(?<![\x80-\xff])[\x80-\x9f]' "$@"; }
ODD=$'\e[2J\e]0;PWN\a\x9b31m\xc2\x9b31m' # a cleared screen, a title, colours by C1 as a byte and as UTF-8

@test "finding 11: info prints a recipe, a part's name and a path as text" {
    st_edit "$W" "$ODD.safetensors" '.__metadata__.recipe = "seed: 1\n\u001b[2J\u001b]0;PWN\u0007\u009b31m# é À"'
    vt info "$ODD.safetensors" --explain --tensors
    [ "$status" = 0 ] || fail "$stderr"
    says "seed: 1" "PWN" "é À" # the letters stay
    "$VITRINE" info "$ODD.safetensors" >out 2>err
    "$VITRINE" analyze orthogonality "$ODD.safetensors" >>out 2>>err || true
    "$VITRINE" analyze orthogonality "$ODD.none" >>out 2>>err || true
    "$VITRINE" spectrum "$ODD.safetensors" --out tables >>out 2>>err || true
    grep -q PWN err
    no_escapes out err
}

@test "finding 11: verify prints SHA256SUMS and names of files as text, a line each" {
    foreign
    printf 'deadbeef %s\n' "$ODD" >>foreign/SHA256SUMS
    mkdir foreign/adv && : >"foreign/adv/x$ODD"$'\neverything is as the ledger, the results and the hashes say'
    "$VITRINE" verify foreign >out 2>err || status=$?
    [ "$status" = 1 ]
    grep -q "a line is damaged: deadbeef" out
    no_escapes out err
    none '^everything is as' out
}

@test "finding 11: a run whose header holds control characters is refused by all that read it" {
    local n=0
    for text in '\u001b[2J' 'x\u009by' 'two\nlines' 'a\rb'; do
        for where in '.attacks[0].name' '.attacks[0].stages[0].id' '.eps' '.data.format' '.notes[0]' '.data.notes[0]' '.["k\u001b"]'; do
            d=f$((n += 1))
            foreign $d
            { head -1 $d/ledger.jsonl | jq -c "$where = \"$text\"" && tail -n +2 $d/ledger.jsonl; } >l && mv l $d/ledger.jsonl
            bad 1 "$d/ledger.jsonl: the header's text '" "control characters" -- merge $d --out m
        done
    done
    for command in "show $d" "verify $d" "compare $d $d" "export $d --format npz --out e.npz"; do
        vt $command
        judge 1 "control characters"
    done
    [ ! -e m ]
    cp "$W" "odd$ODD.safetensors" # what a run of ours takes from names is plain when it is written
    good eval "$W" --data "$D" --images 0:2 --eps 4/255 --attack transfer --surrogate "odd$ODD.safetensors" --out o
    good merge o --out m
}

@test "finding 11: a table's title and names reach the terminal as text" {
    cat >m.yaml <<END
name: m
title: "T\e[2J\x9b31m"
data: {"d\e[31m": {path: $D, images: "0:2", side: 32, classes: 10, train: 10, test: 20}}
attacks: {"clean\e[32m": {}}
rows: {"r\e[33m": {checkpoint: $W}}
END
    "$VITRINE" table m.yaml --out t >out 2>err || status=$?
    [ "${status:-0}" = 0 ] || fail "$(cat err)"
    grep -q '?\[33m' out
    no_escapes out err
}

@test "finding 20: with closed descriptors no message goes into a run's files" {
    local recipe="$ROOT/recipes/shapes10_plain.yaml" o="--data $ROOT/datasets/shapes10 --max-steps 1 --threads 1"
    o+=" --set model.dim=16 --set model.depth=1 --set model.hidden=32 --set model.heads=2 --set model.patch=8"
    "$VITRINE" train "$recipe" $o --out t 0<&- 1>&- 2>&- && status=0 || status=$?
    [ "$status" = 1 ] || fail "status $status" # what was printed is lost, and that is no success
    [ -s t/log.jsonl ]
    none -v '^{' t/log.jsonl
    "$VITRINE" eval "$W" --data "$D" --images 0:2 --out r 0<&- 1>&- 2>&- && status=0 || status=$?
    [ "$status" = 1 ]
    none -v '^{' r/ledger.jsonl
    "$VITRINE" eval "$W" --data "$D" --images 0:2 --out s >/dev/null
    cmp s/ledger.jsonl r/ledger.jsonl
    "$VITRINE" info "$W" 1>&- 2>err && status=0 || status=$?
    [ "$status" = 1 ] && grep -q '^vitrine: standard output could not be written' err || fail "status $status: $(cat err)"
    "$VITRINE" info "$W" 0<&- 2>&- >out
    grep -q sha256 out
}

# spoil DIR FILTER: another header, sealed anew
spoil() {
    { head -1 "$1/ledger.jsonl" | jq -c "$2" && tail -n +2 "$1/ledger.jsonl"; } >l && mv l "$1/ledger.jsonl"
    seal "$1"
}

@test "a header whose values are of another type or out of range is refused by all that read it" {
    local d command
    damaged() { # FILTER TEXT: what the header is made to say, and what is said of it
        d=h$((n += 1))
        foreign $d
        spoil $d "$1"
        cp $d/ledger.jsonl before
        bad 1 "$d/ledger.jsonl: the header$2" -- merge $d --out m
        cmp before $d/ledger.jsonl
    }
    n=0
    damaged '.seed = "0"' "'s seed is \"0\", must be a whole number"
    damaged '.model.image = 99999' "'s model.image is 99999, must be a whole number from 1 to 4096"
    damaged '.attacks[0].stages = ["fgsm"]' "'s attacks[0].stages[0] is \"fgsm\", must be an object"
    damaged '.attacks[0].scoring = "8-bit"' " begins with an 8-bit entry"
    damaged '.gradient_cost = 1e300' "'s gradient_cost is 1e300, must be a number from 0 to 1000000"
    damaged '.threat = {patch: {size: 4, count: 4000}}' "'s threat.patch.count is 4000, must be a whole number from 1 to 16"
    damaged '.attacks[0].stages[0].share = -1' "'s attacks[0].stages[0].share is -1, must be a number from 0 to 1"
    for command in "show $d" "verify $d" "compare $d $d" "export $d --format npz --out e.npz"; do
        # shellcheck disable=SC2086
        vt $command
        judge 1 "attacks[0].stages[0].share is -1"
    done
    vt eval "$W" --data "$D" --images 0:2 --eps 4/255 --attack fgsm --out $d --resume
    judge 1 "attacks[0].stages[0].share is -1"
    cmp before $d/ledger.jsonl
    [ ! -e m ]
    [ ! -e e.npz ]
}

@test "finding 12: names, ids, notes and eps of a foreign ledger are text in LaTeX, Markdown and CSV" {
    foreign
    spoil foreign '.attacks[0].name = "=HYPERLINK(\"http://evil\",\"x\"),a" |
        .attacks[0].id = "`<script>x</script>`" | .notes = ["\\immediate\\write18{touch PWN}", "<img onerror=x> ![a](http://evil/?q) $x^2$ ~"]'
    vt merge foreign --out m
    [ "$status" = 0 ] || fail "$stderr"
    grep -v '^%' m/table.tex >lines.tex # comments are TeX's own, and end with their line
    none -E '\\(input|immediate|write)' lines.tex
    none -E '(^|[^\\])[{}$^~&_#]' <(sed -E 's/^\\caption\{(.*)\}$/\1/; s/\\(begin|end)\{tabular\}(\{lrrr\})?|\\(begin|end)\{table\}|\\label\{[A-Za-z0-9:-]*\}|\\text[a-z]*\{\}|\{\[\}|\{\*\}| & //g' lines.tex)
    grep -qF "'=HYPERLINK" m/table.csv
    none -E '(^|[^\\])<(script|img)|(^|[^\\])\[a' <(sed -E 's/`[^`]*`//g' m/table.md)
    grep -qF '\<img onerror=x\> !\[a\](http://evil/?q)' m/table.md
    grep -qF "= \`'<script>x</script>'\`" m/table.md # code, and nothing in it ends it
    grep -qF "\"'=HYPERLINK(\"\"http://evil\"\",\"\"x\"\"),a\"," m/table.csv || fail "$(cat m/table.csv)"
}

@test "finding 12: the fields that a spreadsheet would run are defused, ours are as they were" {
    local n=0 name
    for name in '=1+1' '+1' '-1' '@SUM(1)'; do
        foreign c$((n += 1))
        spoil c$n ".attacks[0].name = \"$name\""
        vt merge c$n --out n$n
        grep -qF "'$name," n$n/table.csv || fail "$(cat n$n/table.csv)"
        none -E '^"?[=+@-]' n$n/table.csv
    done
    grep -q '^fgsm,0,' "$BATS_FILE_TMPDIR/run/table.csv"
}

@test "finding 12: a manifest's names are text in every form of a table" {
    cat >m.yaml <<END
name: m
title: "T\e[2J 'q' & <b>"
data: {"d\e[31m": {path: $D, images: "0:2", side: 32, classes: 10, train: 10, test: 20}}
attacks: {"clean\n| x": {}}
rows: {"=r\e[33m": {checkpoint: $W}, "[5pt] *": {checkpoint: $W}, "[a](http://evil)": {checkpoint: $W}}
END
    good table m.yaml --out t
    no_escapes t/m.tex t/m.md t/m.html t/m.csv
    grep -q "^'=r" t/m.csv
    none -E '^=' t/m.csv
    none -E '^(\[|\*)' t/m.tex # behind \\ they would be its options
    grep -qF '{[}5pt] {*}' t/m.tex
    none -F '| [a](' t/m.md
    [ "$(grep -c '^| *=r' t/m.md)" = 1 ]
    grep -q '<title>T?\[2J &#39;q&#39; &amp; &lt;b&gt; - vitrine</title>' t/m.html
}

@test "folders in --out that are links are not followed: adv, seed-N, cells, a cell; nor read by verify" {
    mkdir victim
    quick --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out run
    ln -s ../victim run/adv
    bad 1 "run/adv: is a link or a file, must be a folder" -- eval "$W" --data "$D" --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out run --resume --save-npz
    bad 1 "run/adv: is a link or a file" -- eval "$W" --data "$D" --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out run --resume --save-adv
    echo precious >victim/inside
    bad 1 "run/adv: is a link, which is not followed" -- verify run
    [[ $output != *inside* ]] || fail "read through the link: $output"
    rm run/adv && mkdir -p run/adv && ln -s ../../victim run/adv/pgd
    bad 1 "run/adv/pgd: is a link or a file" -- eval "$W" --data "$D" --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out run --resume --save-adv
    mkdir s && ln -s ../victim s/seed-0
    bad 1 "s/seed-0: is a link" -- eval "$W" --data "$D" --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out s --seeds 0,1
    printf 'name: t\ntitle: t\ndata:\n  S: {path: %s, images: "0:4", side: 32, classes: 10}\nattacks:\n  clean: {}\nrows:\n  File: {checkpoint: %s}\n' "$D" "$W" >t.yaml
    good table t.yaml --out cache
    mv cache/cells elsewhere && ln -s ../elsewhere cache/cells
    bad 1 "cache/cells: is a link" -- table t.yaml --out cache
    rm cache/cells && mv elsewhere cache/cells
    cell=$(echo cache/cells/*) && mv "$cell" elsewhere && ln -s ../../elsewhere "$cell"
    bad 1 "$cell: is a link" -- table t.yaml --out cache
    ln -s run through # --out itself may be one
    rm -r run/adv
    good eval "$W" --data "$D" --images 0:4 --eps 8/255 --attack pgd:steps=3 --no-selftest --out through --resume --save-npz
    [ "$(ls victim)" = inside ] && [ -s run/adv/pgd.npz ]
}

@test "what stands behind a byte 0 in a list of images is not left out: --images, --indices" {
    printf '0\n1\n\0\n2\n' >list
    bad 1 "list: holds a byte 0 at 4" -- eval "$W" --data "$D" --images list
    quick --images 0:3 --eps 8/255 --attack fgsm --no-selftest --save-adv --out run
    bad 1 "--indices: list: holds a byte 0 at 4" -- verify --adv run/adv.safetensors --tensor fgsm.x_adv --weights "$W" --data "$D" --eps 8/255 --indices list
}

@test "verify stops at the first hundred damaged lines of SHA256SUMS" {
    quick --images 0:2 --eps 8/255 --attack fgsm --no-selftest --out run
    head -c 3000000 /dev/zero | tr '\0' '\n' >run/SHA256SUMS
    bad 1 "run: 1" "things are not as they were" -- verify run
    [ "$(grep -c 'a line is damaged' <<<"$output")" -le 100 ]
    [[ $stderr =~ run:\ 1[0-9][0-9]\ things ]] || fail "$stderr"
}

@test "a mapped file that is cut while it is read ends in a sentence" {
    /usr/bin/python3 "$ROOT/tests/fixtures/linear_child.py" 3x64x64 data 40 big
    vt eval --oracle "truncate -s 4096 big-x.npy; exec /usr/bin/python3 $ROOT/tests/fixtures/linear_child.py 3x64x64" --data big-x.npy,big-y.npy --images 20:22 --eps 4/255 --attack fgsm --no-selftest
    judge 1 "a mapped file was cut while it was read"
}
