#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Numbers that docs quote are those that the commands beside them print. In a row of a table of docs/papers and
# docs/analysis.md a span of code that holds numbers alone is a quote: a command of the same row prints them in this order.
# A row's commands that need nothing but files of the repository are run, those that need CIFAR-10 where it is found in
# ../shared/datasets. Commands behind the words "takes longer:" are left out, and so are the numbers that they alone print, which
# stand in plain type. What was left out is said.
#
# A printed number is the quoted one if it differs by no more than one of the last quoted digit or by 0.2 %: attacks and labs
# compute in float32, and other processors' products round otherwise.
load helpers

DOCS="$(echo "$ROOT"/docs/papers/*.md) $ROOT/docs/analysis.md"
CIFAR=$ROOT/../shared/datasets/cifar-10-batches-bin

# quotes FILE...: "FILE:LINE<tab>KIND<tab>TEXT" for each command (c) and each quote (q) of a row that has quotes. A row
# whose first cell is empty has the commands of the row above.
quotes() {
    awk -F'`' '
        function quote(s) { return s ~ /^-?[0-9.][-+0-9.e ]*$/ && s ~ /[0-9]/ }
        /^\| / {
            if ($0 !~ /^\| \|/) commands = 0
            n = 0
            for (i = 2; i < NF; i += 2)
                if (quote($i)) text[++n] = $i
                else if ($i ~ /^(vitrine|tools\/[a-z_]+\.sh) /) {
                    if ($(i - 1) ~ /takes longer: $/) late = FNR
                    if (late != FNR) command[++commands] = $i
                    else longer[FILENAME ":" FNR "\tl\t" $i]
                }
            where = FILENAME ":" FNR
            for (i = 1; n && i <= commands; i++) print where "\tc\t" command[i]
            for (i = 1; i <= n; i++) print where "\tq\t" text[i]
        }
        END { for (l in longer) print l }' "$@"
}

# missing QUOTES OUTPUT: quotes (one a line of the file) that the output does not hold, each on a line.
missing() {
    awk '
        function shift_of(s) { # one of the last digit
            sub(/e.*/, "", s)
            return index(s, ".") ? 10 ^ -(length(s) - index(s, ".")) : 1
        }
        function size(x) { return x < 0 ? -x : x }
        function same(a, b,    d) {
            d = shift_of(a); if (a ~ /e/) d *= 10 ^ substr(a, index(a, "e") + 1)
            return size(a - b) <= 1.01 * d || size(a - b) <= 0.002 * size(a)
        }
        FNR == NR { # the output: its numbers, in order
            gsub(/[][(),=%:;*|]/, " ")
            for (i = 1; i <= NF; i++) if ($i ~ /^-?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?\.?$/) printed[++n] = $i + 0
            next
        }
        { # in order, with others between no more than a row of the output has
            found = 0
            for (at = 1; at <= n && !found; at++) {
                if (!same($1, printed[at])) continue
                k = 2
                for (j = at + 1; j <= n && k <= NF && j < at + 12 * NF; j++) if (same($k, printed[j])) k++
                found = k > NF
            }
            if (!found) print
        }' "$2" "$1"
}

# run_one COMMAND OUT: its output; status 3: it needs images that are not here.
run_one() {
    local words
    if [[ $1 == *cifar-10-batches-bin* ]]; then
        [ -e "$CIFAR" ] || return 3
        [ -e cifar-10-batches-bin ] || ln -s "$CIFAR" cifar-10-batches-bin
    fi
    read -ra words <<<"$1"
    [ "${words[0]}" != vitrine ] || words[0]=$VITRINE
    "${words[@]}" >"$2" 2>"$2.err" || { cat "$2.err" >&2 && return 1; }
}

setup_rows() {
    ln -sfn "$ROOT/weights" weights && ln -sfn "$ROOT/datasets" datasets && ln -sfn "$ROOT/recipes" recipes && ln -sfn "$ROOT/tools" tools
}

# check QUOTES: complaints about quotes (the form of quotes), one a line. left_out: what was left out. A command runs once.
check() {
    local row kind text file status
    declare -A have
    while IFS=$'\t' read -r row kind text; do
        [ "$kind" = c ] || continue
        if [ -z "${have[$text]:-}" ]; then
            file=$PWD/out.$((${#have[@]} + 1))
            status=0
            run_one "$text" "$file" || status=$?
            [ "$status" = 0 ] || file=left
            [ "$status" != 1 ] || echo "$row: does not run: $text"
            [ "$status" != 3 ] || echo "left out, for want of CIFAR-10 in ../shared/datasets: $text" >>left_out
            have[$text]=$file
        fi
        echo "${have[$text]}" >>"ran.${row##*/}"
        [ "${have[$text]}" = left ] || cat "${have[$text]}" >>"of.${row##*/}"
    done <"$1"
    cut -f 1 "$1" | sort -u | while read -r row; do
        awk -F'\t' -v r="$row" '$1 == r && $2 == "q" {print $3}' "$1" >wanted
        [ -e "of.${row##*/}" ] || : >"of.${row##*/}"
        missing wanted "of.${row##*/}" >lost
        lacking "$row" || sed "s|^|${row##*/}: not printed: |" lost
    done
}

# lacking ROW: may what is in lost be what commands print that were left out? Of quotes, as many as are its share of commands.
lacking() {
    local ran=ran.${1##*/} all left
    all=$(wc -l <"$ran")
    left=$(grep -c '^left$' "$ran") || true
    [ $(($(wc -l <lost) * all)) -le $(($(wc -l <wanted) * left)) ]
}

@test "quoted numbers are those that the commands beside them print" {
    setup_rows
    quotes $DOCS >all
    grep -P '\tl\t' all | cut -f 3 | sed 's/^/takes longer than 20 s: /' | sort -u >left_out
    sed -i '/\tl\t/d' all
    [ "$(grep -c $'\tq\t' all)" -ge 70 ] || fail "few quotes: $(grep -c $'\tq\t' all)"
    check all >complaints
    sed 's/^/# /' left_out >&3
    [ ! -s complaints ] || fail "$(cat complaints)"
}

@test "quoted numbers: a digit that is another, one out of order, a command that prints another, and one that fails are found" {
    setup_rows
    local text
    printf '| a | `vitrine lab regions --p 100 --s0 10` | `129.2` and `1024 616666 1048576` |\n' >sound.md
    quotes sound.md >all
    [ "$(wc -l <all)" = 3 ]
    [ -z "$(check all)" ] || fail "$(check all)"
    for text in '127.7` and `1024 616666|127.7' '129.2` and `1048576 616666 1024|1048576 616666 1024' '119.2` and `1024|119.2'; do
        rm -f of.* ran.* out.*
        printf '| a | `vitrine lab regions --p 100 --s0 10` | `%s` |\n' "${text%|*}" >planted.md
        quotes planted.md >all
        check all | grep -qF "not printed: ${text##*|}" || fail "not found: $text; $(check all)"
    done
    rm -f of.* ran.* out.*
    printf '| a | `vitrine lab regions --p 101 --s0 10` | `129.2` |\n' >planted.md
    quotes planted.md >all
    check all | grep -qF "not printed: 129.2"
    printf '| a | `vitrine lab regoins` | `129.2` |\n' >planted.md
    quotes planted.md >all
    check all 2>/dev/null | grep -qF "does not run: vitrine lab regoins"
}
