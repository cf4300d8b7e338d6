#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# docs/papers.md: every command, option, recipe and test that it names exists, what it calls "not yet" does not, and every
# item of the four papers has a row. What exists is asked of the program itself: help, list, help recipe.
load helpers

DOC=$ROOT/docs/papers.md
declare -gA SAID # what the program answered, by question

# ask OUT ARGS: what vitrine ARGS prints, asked once.
ask() {
    local -n ask_out=$1
    shift
    [ -n "${SAID[$*]+x}" ] || SAID[$*]=$("$VITRINE" "$@" 2>/dev/null) || SAID[$*]=
    ask_out=${SAID[$*]}
}

# entry TEXT NAME: the lines of NAME in a list: a line that begins with the name, and what is indented below it.
entry() { awk -v n="$2" '/^[^ ]/ {on = $1 == n} on' <<<"$1"; }

# key TEXT NAME: NAME's line in a table of options, with the lines that it goes on in.
key() { awk -v n="$2" '{match($0, /^ */)} on && RLENGTH > at + 2 {print; next} {on = 0} $1 == n && RLENGTH {on = 1; at = RLENGTH; print}' <<<"$1"; }

# fits LINES VALUE: where the lines offer a choice a|b|c (A:B|FILE is none), the value is one of it.
fits() {
    local choice
    choice=$(grep -oE '[][A-Za-z0-9.+-]+(\|[A-Za-z0-9.+-]+)+' <<<"$1" | tail -n 1 | tr -d '[]')
    [[ ! $choice =~ [a-z] ]] || [[ "|$choice|" == *"|$2|"* ]]
}

no() { echo "$*" && return 1; } # a complaint

# Attack SPEC (a:key=value,...+b) is listed, with its keys.
has_attack() {
    local all part name line
    ask all list attacks
    for part in ${1//+/ }; do
        name=${part%%:*}
        line=$(entry "$all" "$name")
        [ -n "$line" ] || no "no attack '$name'" || return
        [[ $part != *:* ]] && continue
        for part in $(tr ',' ' ' <<<"${part#*:}"); do
            [ -n "$(key "$line" "${part%%=*}")" ] || no "attack $name has no option '${part%%=*}'" || return
        done
    done
}

# A file below one of our folders is there. FILE:FUNCTION also wants the function's name in it.
has_file() {
    local file=${1%%:*}
    [ -e "$ROOT/$file" ] || no "no file $file" || return
    [[ $1 != *:* ]] || grep -qw "${1#*:}" "$ROOT/$file" || no "no ${1#*:} in $file"
}
OURS='^(recipes|weights|datasets|tests|tools|bench|src|docs|maps)/'

# The value of an option, where something says which there are.
has_value() { # COMMAND OPTION VALUE HELP LISTED
    local text line
    case $2 in
    attack) has_attack "$3" ;;
    attn | preset)
        ask text list models
        [ -n "$(key "$text" "${3%%:*}")" ] || no "no $2 '${3%%:*}'"
        ;;
    set)
        text=$5
        [ "$1" != train ] || ask text help recipe
        line=$(key "$text" "${3%%=*}")
        [ -n "$line" ] || no "$1 has no key '${3%%=*}'" || return
        fits "$line" "${3#*=}" || no "'${3#*=}' is no choice of ${3%%=*}"
        ;;
    only) [ -z "$MANIFEST" ] || grep -qE "^  \"?${3//./\\.}\"?:" "$ROOT/$MANIFEST" || no "no row '$3' in $MANIFEST" ;;
    as-published) grep -qw -- "$3" <<<"$(key "$4" --as-published)" || no "no paper '$3'" ;;
    *)
        line=$(key "$5" "${2//-/_}")
        [ -n "$line" ] || line=$(key "$4" "--$2")
        fits "$line" "$3" || no "'$3' is no choice of --$2"
        ;;
    esac
}

# A command of ours, word by word: its name, what it is asked for by name, every option and its value, every file.
has_command() { # COMMAND WORD...
    local c=$1 page help listed='' word option w
    shift
    ask page help
    grep -qE "^  $c +[^ ]" <<<"$page" || no "no command '$c'" || return
    [ "$c" = help ] || ask help help "$c"
    case $c in
    lab) ask listed list labs ;;
    analyze) ask listed list analyses ;;
    list) ask listed list "$1" && { [ -n "$listed" ] || no "nothing to list by '$1'" || return; } ;;
    esac
    case $c in
    lab | analyze)
        listed=$(entry "$listed" "$1")
        [ -n "$listed" ] || no "no $c '$1'" || return
        shift
        ;;
    esac
    MANIFEST=
    for w; do [[ $w != recipes/tables/* ]] || MANIFEST=$w; done
    while [ $# -gt 0 ]; do
        word=$1
        shift
        if [[ $word =~ $OURS ]]; then
            has_file "$word" || return
        elif [[ $word == --* ]]; then
            option=${word#--}
            [ -n "$(key "$help" "--$option")$(key "$listed" "${option//-/_}")" ] || no "$c has no --$option" || return
            [ $# = 0 ] || [[ $1 == --* ]] || has_value "$c" "$option" "$1" "$help" "$listed" || return
        fi
    done
}

# What one code span names. Spans of other kinds are prose.
has_span() {
    local words=()
    case $1 in
    vitrine\ *)
        mapfile -t words < <(xargs printf '%s\n' <<<"${1#vitrine }")
        has_command "${words[@]}"
        ;;
    make\ build/*/tests/*) has_file "tests/unit/$(basename "$1").c" ;;
    make\ *) grep -qE "^${1#make }:" "$ROOT/Makefile" || no "no target '${1#make }'" ;;
    build/*/tests/*) has_file "tests/unit/$(basename "$1").c" ;;
    *) [[ ! $1 =~ $OURS ]] || has_file "$1" ;;
    esac
}

spans() { awk -F'`' '{for (i = 2; i < NF; i += 2) print $i}'; } # of standard input, one a line
rows() { grep '^| ' "$1" | grep -vE '^\| (item|short|SpecFormer \| Hu|l_p-AttGD \| Jul|OC \| Zhang|UAM \| Liu)'; }

# Complaints about a document, one a line; none: all is well. In a shell without bats' trap on every command, which makes
# this many times slower.
complaints() { (trap - DEBUG && set +T && complain "$1"); }

complain() {
    local line item where found span text
    awk -F'`' 'NF && NF % 2 == 0 {print "line " NR ": a code span that does not end"}' "$1"
    while read -r span; do
        [ -e "$ROOT/docs/$span" ] || echo "link to $span, which is not there"
    done < <(grep -oE '\]\([^)#:]+\)' "$1" | sed 's/^](//; s/)$//' | sort -u)
    while read -r line; do
        [ "$(grep -o ' | ' <<<"$line" | wc -l)" = 3 ] || echo "not four cells: ${line:0:60}"
        IFS='|' read -r _ item _ where found _ <<<"$line"
        case $found in
        \ supported* | \ weakened* | \ contradicted* | \ undecided* | \ not\ tested* | \ definition*) ;;
        *) echo "$item: what was found begins with none of the words" ;;
        esac
        case $where in
        \ out\ of\ scope:\ * | \ not\ here:\ *) ;;
        *\`*) ;;
        *) echo "$item: neither a command nor a reason" ;;
        esac
        while read -r span; do
            if [[ $where == \ not\ yet:* ]]; then
                text=$(has_span "$span") && echo "$item: $span is there, so 'not yet' is out of date"
            else
                has_span "$span" >/dev/null || echo "$item: $(has_span "$span") ($span)"
            fi
        done < <(spans <<<"$where")
    done < <(rows "$1")
    while read -r span; do
        has_span "$span" >/dev/null || echo "in the text: $(has_span "$span") ($span)"
    done < <(grep -v '^| ' "$1" | spans)
}

@test "papers: every command, option, file and test that docs/papers.md names exists" {
    complaints "$DOC" >said
    [ ! -s said ] || fail "$(cat said)"
}

@test "papers: what only resolves, counts or shows runs as it stands there" {
    local span words
    cd "$ROOT"
    spans <"$DOC" | grep -E '^vitrine (train|table|list) ' | grep -E -e ' --dry-run|^vitrine table --published|^vitrine list' |
        sort -u >"$BATS_TEST_TMPDIR/cheap"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/cheap")" -ge 30 ]
    while read -r span; do
        mapfile -t words < <(xargs printf '%s\n' <<<"${span#vitrine }")
        good "${words[@]}"
        [ -n "$output" ] || fail "says nothing: $span"
    done <"$BATS_TEST_TMPDIR/cheap"
}

# section NAME: the items of a paper, one a line.
section() { awk -v n="## $1" '/^## /{on = $0 == n} on' "$DOC" | grep '^| ' | awk -F' \\| ' '{print substr($1, 3)}' | tail -n +2; }

# listed PAPER ITEM...: each is the beginning of a row's name.
listed() {
    local paper=$1 items item
    shift
    items=$(section "$paper")
    [ -z "$(sort <<<"$items" | uniq -d)" ] || fail "$paper: twice: $(sort <<<"$items" | uniq -d)" || return
    for item; do
        grep -qE "^$item( |,|$)" <<<"$items" || fail "$paper: no row for $item" || return
    done
}

@test "papers: every numbered item of the four papers has a row" {
    listed SpecFormer 'Eq\. 1,' 'Eq\. 11, 12' 'Eq\. 13, 14' 'Definition '{1,2} 'Theorem '{4.1,4.2,0.C.1} 'Proposition 1' 'Lemma 1' \
        'Algorithm 1' 'Table '{1..8} 'Fig\. 1' 'Fig\. 2\(a\)' 'Fig\. 2\(b, c\)' TransFormer L2Former LNFormer LipsFormer \
        'Headline '{clean,FGSM,PGD,AutoAttack,adversarial}
    listed l_p-AttGD 'Assumption A' 'Definition '{1,3} 'Algorithm l_p-'{AttGD,JointGD} 'Lemma 4' 'Lemma '{12..30} \
        'Theorem, '{norm,direction,rate,'joint path'} 'Fig\. 4' 'IMDb '{table,figures} 'CIFAR-10 ViT figure'
    listed OC 'Theorem 2\.1' L_LA L_LF L_AM VAR-I VAR-II VAR-III 'Table '{1..4} 'Headline 28\.4'
    listed UAM 'Eq\. 1' 'Eq\. 4' Assumptions 'Theorem '{1..5} 'Corollary 1' 'Proposition 1' 'Table '{1,2} 'Fig\. '{1,2,3,4,7} \
        'Recurrent attention'
}

# planted TEXT COMPLAINT: a row that names TEXT is complained of, so.
planted() {
    printf '| item | what it says | where here | found here |\n| planted | a mistake | %s | supported |\n' "$1" >planted.md
    complaints planted.md >said
    grep -qF -- "$2" said || fail "not complained of: $1" "said: $(cat said)"
}

@test "papers: planted mistakes are found" {
    printf '| sound | a row | `vitrine lab attgd --part local` | supported |\n' >planted.md
    [ -z "$(complaints planted.md)" ]
    planted '`vitrine lap attgd`' "no command 'lap'"
    planted '`vitrine lab atgd`' "no lab 'atgd'"
    planted '`vitrine lab attgd --pert local`' 'lab has no --pert'
    planted '`vitrine lab attgd --part locl`' "'locl' is no choice of --part"
    planted '`vitrine lab flatness --set kk=3`' "lab has no key 'kk'"
    planted '`vitrine eval weights/shapes10-plain --epz 8/255`' 'eval has no --epz'
    planted '`vitrine eval weights/shapes11-plain --eps 8/255`' 'no file weights/shapes11-plain'
    planted '`vitrine eval W --attack fgsm+pgd:stepz=2`' "attack pgd has no option 'stepz'"
    planted '`vitrine eval W --attack pgdd`' "no attack 'pgdd'"
    planted '`vitrine eval W --as-published specforma`' "no paper 'specforma'"
    planted '`vitrine new --preset l3former-vit-small`' "no preset 'l3former-vit-small'"
    planted '`vitrine train recipes/mirror_cifar11.yaml`' 'no file recipes/mirror_cifar11.yaml'
    planted '`vitrine train recipes/mirror_cifar10.yaml --set msvp.lambada=1`' "train has no key 'msvp.lambada'"
    planted '`vitrine train recipes/mirror_cifar10.yaml --set ortho.variant=VAR-IV`' "'VAR-IV' is no choice of ortho.variant"
    planted '`vitrine list laps`' "nothing to list by 'laps'"
    planted '`tests/unit/test_msvq.c`' 'no file tests/unit/test_msvq.c'
    planted '`tests/unit/test_msvp.c:test_msvp_plantd`' 'no test_msvp_plantd in tests/unit/test_msvp.c'
    planted '`make build/release/tests/test_msvq`' 'no file tests/unit/test_msvq.c'
    planted '`make tost`' "no target 'tost'"
    planted 'somewhere' 'neither a command nor a reason'
    planted 'not yet: `vitrine lab attgd`' "'not yet' is out of date"
    planted '`make test` | a cell too many' 'not four cells'
}
