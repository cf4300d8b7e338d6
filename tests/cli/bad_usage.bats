#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Options of eval that make no sense, and places that cannot be written.
load helpers

teardown() { umount "$BATS_TEST_TMPDIR/here/disk" 2>/dev/null || true; } # of the test of a full disk

# wrong TEXT... -- OPTIONS: wrong usage of eval; nothing is written.
wrong() {
    local texts=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    bad 2 "${texts[@]}" -- eval "$W" --data "$D" --out r "$@" || return 1
    [ ! -e r ] || fail "the refused run left something behind"
}
attack() { # SPEC TEXT...
    local spec=$1
    shift
    wrong "$@" -- --eps 8/255 --attack "$spec"
}

@test "eps: 0, negative, NaN, empty, no number" {
    for eps in 0 0/255 -0.1 -8/255 0.0 1e-400; do wrong "--eps is $eps" "above 0" -- --attack fgsm --eps $eps; done
    for eps in nan NaN inf -inf '' 1/0 1/ /255 8/255/2 8:255 abc 0x1p-3 ' 0.1' 1e999; do
        wrong "--eps is '$eps'" "fraction like 8/255" -- --attack fgsm --eps "$eps"
    done
    wrong "attacks need --eps" "8/255" -- --attack fgsm
}

@test "eps: 8 suggests 8/255; linf above 1 is refused, l2 is not" {
    wrong "--eps is 8" "at most 1" "did you mean 8/255?" -- --attack fgsm --eps 8
    wrong "--eps is 1.5" "at most 1" "did you mean 1.5/255?" -- --attack fgsm --eps 1.5
    wrong "--eps is 300" "at most 1" -- --attack fgsm --eps 300
    [[ $stderr != *"did you mean"* ]]
    wrong "--eps is 256/255" "at most 1" -- --attack fgsm --eps 256/255
    quick --images 0:1 --norm l2 --eps 8 --attack fgsm
    wrong "--eps is 1e9" "at most 1e6" -- --norm l2 --attack fgsm --eps 1e9
    quick --images 0:1 --eps 1 --attack fgsm
    quick --images 0:1 --eps 255/255 --attack fgsm
    wrong "--eps is 0" -- --eps 0 # also when nothing attacks
}

@test "an unknown norm" {
    wrong "--norm is 'l3'" "linf, l2, l1 or l0" -- --norm l3 --eps 8/255 --attack fgsm
    wrong "--norm is ''" -- --norm '' --eps 8/255 --attack fgsm
}

@test "an unknown attack is refused, with the nearest one" {
    attack pgdd "unknown attack 'pgdd'" "did you mean 'pgd'?"
    attack auto-attack "unknown attack 'auto-attack'" "did you mean 'autoattack'?"
    attack cw "unknown attack 'cw'" "cw20 is PGD on their margin loss" "cw-l2"
    attack apgdt:steps=3 "unknown attack 'apgdt'" "did you mean 'apgd-t'?"
    attack zeroth-order "unknown attack 'zeroth-order'" "vitrine list attacks"
    attack '' "unknown attack ''"
    attack :steps=3 "unknown attack ''"
    attack "$(repeat 5000 a)" "unknown attack"
    attack $'pgd\ndd' "unknown attack"
}

@test "an unknown option of an attack is refused, with the nearest one" {
    attack pgd:stesp=3 "attack pgd has no option 'stesp'" "did you mean 'steps'?"
    attack pgd:restart=3 "did you mean 'restarts'?"
    attack pgd:colour=3 "its options are: steps, alpha"
    attack square:querys=3 "did you mean 'queries'?"
    attack fgsm:steps=3 "attack fgsm has no option 'steps'" "its options are: share"
    attack autoattack:steps=3 "autoattack takes no options" "steps=3"
}

@test "values of attack options: empty, negative, too large, no number" {
    attack pgd:steps= "option steps has no value"
    attack pgd:steps "'steps' is not of the form key=value"
    attack pgd: "ends in a colon"
    attack pgd:steps=3, "ends in a comma"
    attack pgd:steps=3,,alpha=1 "not a list"
    attack pgd:steps=0 "steps is 0" "between 1 and 100000"
    attack pgd:steps=-3 "steps is -3" "between 1 and 100000"
    attack pgd:steps=100001 "steps is 100001" "between 1 and 100000"
    attack pgd:steps=99999999999999999999999 "steps is"
    attack pgd:steps=2.5 "steps is '2.5'" "whole number"
    attack pgd:steps=ten "'ten'" "whole number"
    attack pgd:alpha=-1/255 "alpha is -1/255" "between 0 and 1000"
    attack pgd:alpha=nan "alpha is 'nan'"
    attack pgd:alpha=1/0 "alpha is '1/0'"
    attack pgd:alpha=1e9 "alpha is 1e9" "between 0 and 1000"
    attack pgd:loss=cee "loss is 'cee'" "ce|margin|dlr"
    attack pgd:random_start=2 "random_start is '2'" "0 or 1"
    attack square:queries=-5 "queries is -5" "between 1 and"
    attack square:p_init=2 "p_init is 2" "between 0.0001 and 1"
    attack fab:restarts=0 "restarts is 0"
    attack "pgd:steps=$(repeat 300 1)" "pgd"
}

@test "--images: beyond the end, reversed, empty, negative, not numbers" {
    wrong "--images is '0:21'" "$D has 20 images in its test split" -- --images 0:21
    wrong "'20:21'" "20 images" -- --images 20:21
    wrong "'5:2'" "below B" -- --images 5:2
    wrong "'3:3'" "below B" -- --images 3:3
    wrong "'-1:3'" "at least 0" -- --images -1:3
    wrong "'0:99999999999999999999'" -- --images 0:99999999999999999999
    for text in a:b 1:b : 0: :5 1:2:3 0x1:0x3 1.0:3; do wrong "--images is '$text'" "A:B" -- --images $text; done
    wrong "--images is 'nowhere'" "neither A:B nor a readable file" "No such file" -- --images nowhere
    wrong "--images is ''" -- --images ''
}

@test "--images: a list with duplicates, out-of-range lines, or what is no index" {
    list() { printf "$1" >list && shift && "$@"; }
    list '3\n5\n3\n' wrong list "image 3 is listed twice" -- --images list
    list '3\n20\n' wrong list "line 2 is image 20" "images 0 to 19" -- --images list
    list '3\n-1\n' wrong list "line 2 is image -1" -- --images list
    list '' wrong list "holds no image index" -- --images list
    list '# nothing\n\n' wrong list "holds no image index" -- --images list
    for line in three '1 2' 1.5 0:5 1e3 99999999999999999999; do
        printf '3\n%s\n' "$line" >list
        bad 1 list "line 2 is '$line'" "not an image index" -- eval "$W" --data "$D" --out r --images list
        [ ! -e r ]
    done
    mkdir folder
    wrong folder -- --images folder
}

@test "threads below 1 and seeds that are none" {
    for n in 0 -1 1025; do wrong "--threads is $n" "between 1 and 1024" -- --threads $n; done
    for n in two '' 1.5; do wrong "--threads is '$n'" "whole number" -- --threads "$n"; done
    wrong "--seed is -1" "between 0 and" -- --seed -1
    wrong "--seed is '1.5'" -- --seed 1.5
}

@test "--resume and --save-adv need --out" {
    bad 2 "--resume needs --out" -- eval "$W" --data "$D" --resume
    bad 2 "--save-adv needs --out" -- eval "$W" --data "$D" --save-adv
}

@test "an existing run is not overwritten" {
    quick --images 0:4 --eps 2/255 --attack fgsm --save-adv --out r
    before=$(sums r)
    bad 1 "r already holds a run" "--resume" "another --out" -- eval "$W" --data "$D" --images 0:4 --eps 2/255 --attack fgsm --out r
    bad 1 "r/../r/ already holds a run" -- eval "$W" --data "$D" --out r/../r/
    [ "$(sums r)" = "$before" ]
}

@test "a folder with a result but no ledger is not written into, with --resume or without" {
    quick --images 0:4 --eps 2/255 --attack fgsm --out r
    for f in results.json adv.bin; do
        mkdir $f.only && cp r/$f $f.only/
        before=$(sums $f.only)
        for resume in "" --resume; do
            bad 1 "$f.only holds $f but no ledger.jsonl" "another --out" -- eval "$W" --data "$D" --images 0:4 --eps 2/255 --attack fgsm --out $f.only $resume
        done
        [ "$(sums $f.only)" = "$before" ]
    done
}

@test "an --out that cannot be: a file in the way, below a file, empty, too long" {
    echo kept >file
    bad 1 "file: exists and is not a folder" -- eval "$W" --data "$D" --out file
    bad 1 "file/deep" "cannot be made" "Not a directory" -- eval "$W" --data "$D" --out file/deep/er
    bad 1 file -- merge "$BASE/label" --out file/x
    bad 1 "''" -- eval "$W" --data "$D" --out ''
    bad 1 "longer than 4095 bytes" -- eval "$W" --data "$D" --out "$(repeat 5000 x)"
    [ "$(cat file)" = kept ]
    [ "$(ls -A)" = file ]
    if [ "$(id -u)" != 0 ]; then
        mkdir closed && chmod 555 closed
        bad 1 closed/r "cannot be made" "Permission denied" -- eval "$W" --data "$D" --out closed/r
    fi
}

@test "a file size limit is a write error with a sentence, and what was written stays good" {
    quick --eps 2/255 --attack fgsm --attack pgd:steps=3 --out whole
    for kib in 1 2 4 12 24 100; do
        rm -rf r
        status=0
        (ulimit -f $kib && exec "$VITRINE" eval "$W" --data "$D" --eps 2/255 --attack fgsm --attack pgd:steps=3 --out r) >out 2>err || status=$?
        stderr=$(cat err)
        judge 1 r/ "cannot be written: File too large" || fail "limit $kib KiB"
        [ ! -e r/results.json ]
        if [ -e r/ledger.jsonl ]; then
            jq -es 'length > 0' r/ledger.jsonl >/dev/null && [ -z "$(tail -c 1 r/ledger.jsonl | tr -d '\n')" ]
        fi
        quick --eps 2/255 --attack fgsm --attack pgd:steps=3 --out r --resume
        same_run whole r
    done
    status=0
    (ulimit -f 4 && exec "$VITRINE" new --set dim=16 depth=1 -o f) >out 2>err || status=$?
    stderr=$(cat err)
    judge 1 f "File too large"
    [ -z "$(find f -type f 2>/dev/null)" ] || fail "left behind: $(find f)"
}

@test "a full disk is a write error with a sentence; with room again the run goes on" {
    mkdir disk
    mount -t tmpfs -o size=96k none disk 2>/dev/null || skip "no right to mount a small tmpfs"
    quick --eps 2/255 --attack fgsm --attack pgd:steps=3 --out whole
    vt eval "$W" --data "$D" --eps 2/255 --attack fgsm --attack pgd:steps=3 --out disk/r
    judge 1 disk/r "cannot be written: No space left on device"
    [ ! -e disk/r/results.json ]
    vt eval "$W" --data "$D" --eps 2/255 --attack fgsm --attack pgd:steps=3 --out disk/r --resume
    judge 1 disk/r "No space left on device"
    mount -o remount,size=4m disk
    quick --eps 2/255 --attack fgsm --attack pgd:steps=3 --out disk/r --resume
    same_run whole disk/r
}

@test "names from the command line stay on one line and do not end the terminal" {
    vt eval $'no\nsuch\e[31mfile' --data "$D"
    judge 1 "no?such?[31mfile"
    [ "$(wc -l <<<"$stderr")" = 1 ]
}
