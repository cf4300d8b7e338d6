#!/bin/sh
# SPDX-License-Identifier: MIT
# A manual page in mdoc(7), made from what the command's help prints: its titles become sections, its lists tagged lists.
# Usage: tools/man.sh COMMAND [NAME|recipe]
set -eu
[ $# -ge 1 ] || { echo "usage: tools/man.sh COMMAND [NAME|recipe]" >&2; exit 2; }
command=$1 name=${2:-}
text=$("$command" help $name)
date=$(sed -n 's/.*VT_VERSION_DATE "\(.*\)".*/\1/p' "$(dirname "$0")/../src/base/version.h")
printf '%s\n' "$text" | LC_ALL=C awk -v name="$name" -v date="$date" '
function escaped(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }
# Lines of running text, at most 72 characters, a new one for each sentence; words that hold an option keep its dashes.
function prose(s,   word, n, i, line) {
    n = split(s, word, /[ \n]+/)
    for (i = 1; i <= n; i++) {
        w = word[i]
        if (w == "") continue
        if (w ~ /^[(\047"`]*-/) w = escaped(w); else gsub(/\\/, "\\e", w)
        if (line != "" && (length(line) + length(w) >= 72 || line ~ /[.?!]$/)) { print line; line = "" }
        if (line == "" && w ~ /^[.\047]/) w = "\\&" w
        line = line (line == "" ? "" : " ") w
    }
    if (line != "") print line
}
function flush() {
    if (term != "") { print ".It " term; prose(item) }
    else if (paragraph != "") {
        if (after_list && name != "recipe") { print ".Ss Notes"; after_list = 0 } else if (spaced || after_list) print ".Pp"
        prose(paragraph); spaced = 1
    }
    term = paragraph = item = ""
}
function end_list() { flush(); if (list) print ".El"; if (literal) print ".Ed"; after_list = after_list || list || literal; list = literal = 0 }
# "--eps A/B", "eval" or "attack.eps" as a tag.
function tag(s,   value) {
    value = s; sub(/^[^ ]+ */, "", value); sub(/ .*/, "", s)
    if (s !~ /^-/) return "Cm " escaped(s)
    return (s ~ /^--/ ? "Fl Fl " : "Fl ") escaped(substr(s, s ~ /^--/ ? 3 : 2)) (value == "" ? "" : " Ar \"" escaped(value) "\"")
}
function title(s) {
    sub(/:$/, "", s)
    end_list()
    if (s == "Examples") print exit_status
    print (s == "Examples" ? ".Sh EXAMPLES" : ".Ss " s)
    literal = s == "Examples"; after_list = spaced = 0
    if (literal) print ".Bd -literal -offset indent"
}
{ line[NR] = $0 }
END {
    exit_status = ".Sh EXIT STATUS\n0 if all went well, 1 if it failed, 2 for wrong usage."
    dashed = name == "" ? "" : "-" name
    summary = name == "" ? "adversarial robustness of Vision Transformers" : name == "recipe" ? "training recipes of vitrine" : line[3]
    first = name == "" ? 4 : name == "recipe" ? 1 : 4
    if (name != "" && name != "recipe") for (i = 4; line[i] != ""; first = ++i) summary = summary " " line[i]
    sub(/[.?!]$/, "", summary)
    print ".Dd " date "\n.Dt VITRINE" toupper(dashed) (name == "recipe" ? " 5" : " 1") "\n.Os"
    print ".Sh NAME\n.Nm vitrine" dashed "\n.Nd " summary
    if (name != "recipe") {
        words = name == "" ? "COMMAND" : line[1]
        sub(/^Usage: vitrine [^ ]* ?/, "", words); sub(/ *\[OPTIONS\]$/, "", words)
        print ".Sh SYNOPSIS\n.Nm vitrine" (name == "" ? "" : "\n.Cm " name)
        if (words != "") print ".Ar \"" escaped(words) "\""
        print ".Op Ar options"
    }
    print ".Sh DESCRIPTION"
    for (i = first; i <= NR; i++) {
        if (line[i] == "") { end_list(); continue }
        if (line[i] ~ /^Exit status /) continue
        if (name != "recipe" && line[i] !~ /^ / && line[i + 1] ~ /^ / && line[i - 1] == "") { flush(); title(line[i]); continue }
        if (literal) { s = escaped(substr(line[i], 3)); print (s ~ /^[.\047]/ ? "\\&" : "") s; continue }
        if (line[i] ~ /^  -/ || line[i] ~ /^  [^ ]+  +[^ ]/) {
            flush()
            if (!list) print ".Bl -tag -width Ds"
            list = 1; s = substr(line[i], 3); item = ""
            if (match(s, /  +/)) { item = substr(s, RSTART + RLENGTH); s = substr(s, 1, RSTART - 1) }
            term = tag(s)
        } else if (list) { item = item " " line[i] }
        else paragraph = paragraph " " line[i]
    }
    end_list()
    print ".Sh SEE ALSO"
    print (name == "" ? ".Xr vitrine-eval 1 ,\n.Xr vitrine-recipe 5" : ".Xr vitrine 1")
}'
