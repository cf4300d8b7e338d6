#!/bin/sh
# SPDX-License-Identifier: MIT
# Rules of the house that a compiler does not check. Usage: tests/lint.sh [FILE ...]   one line a finding, exit 1 if any
#                                                           tests/lint.sh --self-test  every rule must find a planted breach
#                                                           tests/lint.sh --archive LIB  its objects keep no state of their own
# FILEs are of the form src/ROOM/NAME; without any, all of src is read. Comments are stripped before the search, so they
# may name what code may not.
cd "$(dirname "$0")/.." || exit 1
root=$PWD

common='
function finding(text) { print FILENAME ":" FNR ": " text; bad = 1 }
function code(s,    out, k, l) { # the line without comments; `said`: what stands in them
    out = said = ""
    while (s != "") {
        if (inside) {
            if (!(k = index(s, "*/"))) { said = said s; return out }
            said = said substr(s, 1, k - 1) " "; s = substr(s, k + 2); inside = 0
            continue
        }
        k = index(s, "/*"); l = index(s, "//")
        if (l && (!k || l < k) && substr(s, l - 1, 1) != ":") { said = said substr(s, l + 2); return out substr(s, 1, l - 1) } # not of http://
        if (!k) return out s
        out = out substr(s, 1, k - 1); s = substr(s, k + 2); inside = 1
    }
    return out
}
'

rules='
BEGIN {
    # a file includes its own room and rooms of a lower level (docs/ARCHITECTURE.md, "Includes point downwards only")
    # models/net is what is computed, models/export the same as ONNX, inference what stands around it: both know the models, which know neither
    # rooms below research/ are named with it; lab stands on base, linalg, parallel, tensors, data and research/numeric alone, and nothing of the product on any of them
    n = split("base 0 linalg 0.3 parallel 0.6 tensors 0.8 data 0.9 nn 1 graph 1.5 certify 1.7 models 2 checkpoint 2.3 models/net 2.3 models/export 2.4 spec 2.6 inference 2.6 remote 2.7 attacks 3 eval 4 eval/report 4.5 eval/doctor 4.5 selftest 5 train 5 api 6 research/numeric 0.9 research/lab 1 research/analysis 6 research/table 6 cli 7 research/cli 7.5 mpi 8", r, " ")
    for (i = 1; i < n; i += 2) level[r[i]] = r[i + 1] + 0
    MOST = 500 # lines of a file
    BODY = 60  # of a function
}
function name(words) { return "(^|[^A-Za-z0-9_])(" words ")" } # an identifier that begins so
function included(what,    to) {
    if (what ~ /\.inc$/) return # written by the Makefile
    if (what == "vitrine.h") {
        if (room != "api") finding("vitrine.h is for users of the library and for src/api")
        return
    }
    if (what !~ /\//) {
        finding("include \"" what "\" does not begin with a room")
        return
    }
    to = what
    sub(/\/[^\/]*$/, "", to)
    if (room == "" || to == room) return
    if (!(to in level) || !(room in level) || level[to] >= level[room] || (to ~ /^research/ && room != "cli" && room != "research/cli" && !(to == "research/numeric" && room ~ /^research/))) finding("src/" room " includes " what ", which does not lie below it")
}
FNR == 1 {
    inside = 0
    room = FILENAME
    sub(/^src\//, "", room)
    if (!sub(/\/[^\/]*$/, "", room)) room = ""
    if (room != "" && !(room in level)) finding("src/" room " is not a room (tests/lint.sh knows the rooms)")
}
FNR == MOST + 1 { finding("longer than " MOST " lines") }
# a function of a .c file: from the line that ends its head to the brace in the first column
FILENAME ~ /\.c$/ && /\) \{$/ && (/^[A-Za-z_]/ || /^  +.*[,A-Za-z_*0-9\]\)]\) \{$/) && !open && (/^[A-Za-z_]/ || head) { open = FNR }
{ head = FILENAME ~ /\.c$/ && (/^[A-Za-z_].*[(,]$/ || (head && !/[;{}]$/)) }
/^}/ { if (open && FNR - open - 1 > BODY) finding("a function of more than " BODY " lines"); open = 0 }
# what the file owns: in its first words, or for X.c in those of X.h
FNR == 2 && !/^\/\*/ {
    header = FILENAME
    if (!sub(/\.c$/, ".h", header) || (getline other < header) < 0) finding("does not begin with what it owns")
    close(header)
}
{
    s = code($0)
    if (s ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
        split(s, quoted, "\"")
        included(quoted[2])
    }
    # strings alone: in code between them "--" counts down
    t = s; strings = ""
    while (match(t, /"([^"\\]|\\.)*"/)) { strings = strings substr(t, RSTART, RLENGTH) " "; t = substr(t, RSTART + RLENGTH) }
    if (room !~ /^(research|cli)/ && strings ~ /[^A-Za-z0-9_-]--[a-z]/)
        finding("the command spells its options, the library names arguments (base/status.h: @eps, VT_OPTION)")
    if (FILENAME != "src/linalg/gemm.c" && s ~ name("cblas|openblas_")) finding("BLAS is for src/linalg/gemm.c")
    # its C interfaces, and the Fortran symbols as they are called: dgesdd_(
    if (FILENAME != "src/base/json.c" && s ~ name("json_load")) finding("parsing JSON is for src/base/json.c")
    if (FILENAME != "src/base/json.c" && s ~ name("json_dump")) finding("writing JSON is for src/base/json.c")
    if (FILENAME != "src/linalg/svd.c" && s ~ name("lapack|LAPACK|[sdcz][a-z0-9]+_[ \t]*\\(")) finding("LAPACK is for src/linalg/svd.c")
    # the header is a document where it is written, and where whole ones are compared or copied; else it is fields
    if (FILENAME !~ /^src\/eval\/(header|header_read|describe|evaluate_start)\.c$/ && s ~ /json_(object|array)_get[ \t]*\([^,]*header/)
        finding("a run\047s header is read by src/eval/header_read.c")
    # not ours: files of the kernel, and a folder that is locked
    if (FILENAME !~ /^src\/(base|parallel)\// && s !~ /"\/(proc|dev)\/|O_DIRECTORY/ && (s ~ name("(fopen|freopen|creat|mkstemp|rename|renameat2?)[ \t]*\\(") || s ~ name("open(at)?[ \t]*\\(.*[^A-Za-z0-9_]O_")))
        finding("files are opened and replaced by src/base/files.c")
    if (FILENAME != "src/base/text.c" && s ~ name("open_memstream|fmemopen")) finding("streams into memory are for src/base/text.c")
    # fprintf to a stream that was handed in is writing a file, which eval and io may do; the two standard ones are not
    # but for a process that it has forked
    if (FILENAME == "src/parallel/child.c") gsub(/_exit\(/, "end(", s)
    if (room !~ /^(research\/)?cli$/ && s ~ name("(exit|_exit|abort|printf|vprintf|puts|putchar|perror)[ \t]*\\(|(stdout|stderr)([^A-Za-z0-9_]|$)"))
        finding("the library neither prints nor exits")
    if (room != "parallel" && room != "linalg" && (s ~ /#[ \t]*pragma[ \t]+omp/ || s ~ /_Pragma.*omp/ || s ~ name("omp\\.h|omp_"))) finding("OpenMP is for src/parallel")
}
END { exit bad }'

check() { awk "$common$rules" "$@"; }

# For src, tests, tools and pages. A return has one expression, on whatever lines it stands.
# What comments and pages name is there: documents (X.md), files by their room or folder, and the functions of a tour
# (`src/X.c: name`). A name with a star, a brace or an X stands for many; table.md is what `vitrine eval` writes.
anywhere='
BEGIN {
    while (("find . -path ./build -prune -o -path ./.git -prune -o -print" | getline p) > 0) {
        sub(/^\.\//, "", p); have[p]
        if (sub(/\.[a-z]+$/, "", p)) have[p]
    }
    n = split(" src/ src/research/ docs/ recipes/ ", from, " ")
}
function one_expression(s,    i, c) {
    gsub(/"([^"\\]|\\.)*"/, "0", s); gsub(/\047([^\047\\]|\\.)\047/, "0", s)
    for (i = 1; s != ""; s = substr(s, i + 1)) {
        if (!returning) {
            if (!match(s, /(^|[^A-Za-z0-9_])return([^A-Za-z0-9_]|$)/)) return
            s = substr(s, RSTART + RLENGTH - 1); returning = 1; depth = 0
        }
        for (i = 1; i <= length(s) && returning; i++) {
            c = substr(s, i, 1)
            if (c ~ /[([{]/) depth++
            else if (c ~ /[])}]/) depth--
            else if (c == "," && !depth) { finding("a return of two expressions: write two statements"); returning = 0 }
            if (depth < 0 || (c == ";" && !depth)) returning = 0
        }
        i--
    }
}
function there(w,    k, p) {
    if (w in have) return 1
    for (k = 1; k <= n; k++) if ((from[k] w) in have) return 1
    p = FILENAME
    if (sub(/\/[^\/]*$/, "/", p)) p = p w; else p = w
    while (sub(/[^\/.]+\/\.\.\//, "", p)) ;
    return p in have
}
function defines(p, name,    line, found) { # a line at the margin with name( or VT_R(name)(
    while ((getline line <p) > 0) {
        sub(/\{.*/, "", line)
        if (line ~ /^[A-Za-z]/ && line ~ ("[ *(]" name "\\)?\\(")) found = 1
    }
    close(p)
    return found
}
function tour(text,    w, at) {
    while (match(text, /src\/[A-Za-z0-9_\/]+\.[ch]: [a-z0-9_]+`/)) {
        w = substr(text, RSTART, RLENGTH - 1); text = substr(text, RSTART + RLENGTH)
        at = substr(w, 1, index(w, ":") - 1)
        if (!defines(at, substr(w, index(w, ":") + 2))) finding(at " has no function" substr(w, index(w, ":") + 1))
    }
}
function look(text,    w) {
    tour(text)
    while (match(text, /[A-Za-z0-9_.\/*{}<>$~+-]+/)) {
        w = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
        sub(/[.\/-]+$/, "", w)
        if (w ~ /[*{}<>$~+]/ || w ~ /(^|[\/_])(X|NAME)(\.[a-z]+)?$/ || w ~ /(^|\/)table\.md$/ || there(w)) continue
        if (w ~ /\.md$/) finding("there is no " w)
        else if (w ~ /^(docs|tools|tests|recipes|maps|bench|src\/[a-z]+|base|linalg|parallel|tensors|data|graph|certify|checkpoint|inference|remote|nn|models|attacks|eval|train|selftest|research|cli)\/[a-z0-9_\/]+(\.(c|h|py|sh|bats|map))?$/ && w !~ /_$/)
            finding("there is no " w)
    }
}
FNR == 1 { inside = returning = macro = 0 }
FILENAME ~ /\.[ch]$/ {
    one_expression(code($0))
    look(said)
    if (macro && $0 !~ /\\$/) returning = 0 # its user writes the semicolon
    macro = $0 ~ /\\$/
    next
}
FILENAME ~ /\.md$/ { look($0); next }
/(^|[ \t])#/ { sub(/^([^#]*[ \t])?#/, ""); look($0) }
END { exit bad }'

anywhere() { awk "$common$anywhere" "$@"; }
prose() { # the files that hold comments or are pages
    find . -path ./build -prune -o -path ./.git -prune -o -path ./docs/results -prune -o -path ./tests/fuzz/corpus -prune -o \
        -type f \( -name '*.[ch]' -o -name '*.md' -o -name '*.py' -o -name '*.sh' -o -name '*.bats' -o -name '*.bash' -o -name '*.yaml' -o -name Makefile \) -print |
        sed 's|^\./||' | grep -vx 'CHANGELOG\.md\|tests/lint\.sh' | LC_ALL=C sort
}

# FILES, pages and sources: the word that no verdict may use. A self-test that finds no sign of
# masking proves nothing about the model. Of C the messages are looked at; comparisons may name it,
# since files of an earlier version hold it.
verdicts() {
    awk "$common"'
    FNR == 1 { inside = 0 }
    {
        text = $0
        if (FILENAME ~ /\.[ch]$/) {
            s = code($0); text = ""
            if (s ~ /strcmp\(/) next
            for (; match(s, /"([^"\\]|\\.)*"/); s = substr(s, RSTART + RLENGTH)) text = text " " substr(s, RSTART, RLENGTH)
        }
        if (tolower(text) ~ /(^|[^a-z])(un)?sound(ly|ness)?([^a-z]|$)/) finding("no verdict says \"sound\": say what was found, or what holds")
    }
    END { exit bad }' "$@"
}

# FILES: rings of includes. A unit is X.h with X.c; in a ring each unit knows, by the others, all of them.
rings() {
    awk '
    function unit(f) { sub(/\.[ch]$/, "", f); return f }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, quoted, "\"")
        from = unit(FILENAME); to = unit("src/" quoted[2])
        if (from != to && !((from, to) in edge)) { edge[from, to] = 1; out[from] = out[from] " " to; unit_of[from]; unit_of[to] }
    }
    function reach(start,    queue, head, tail, k, n, next_) { # seen[start, every unit that start knows]
        head = tail = 0; queue[tail++] = start
        while (head < tail) {
            n = split(out[queue[head++]], next_, " ")
            for (k = 1; k <= n; k++) if (!((start, next_[k]) in seen)) { seen[start, next_[k]] = 1; queue[tail++] = next_[k] }
        }
    }
    END {
        for (u in unit_of) reach(u)
        for (u in unit_of) {
            if (!((u, u) in seen) || u in done) continue
            size = 0; names = ""
            for (w in unit_of) if ((u, w) in seen && (w, u) in seen) { size++; names = names " " w; done[w] }
            if (size > 3) { print "a ring of " size " units that include each other:" names; bad = 1 }
        }
        exit bad
    }' "$@"
}

# FILES of bats: checks that end no test. Of `a && b` only b's failure does, and of `! a` neither, but in the last line of
# a test or function.
hidden() {
    awk '
    BEGIN { check = "^([[] |[[][[] |! |grep |cmp |diff |truth |says |good |bad |same_run )" }
    function last(s,    n, part) { n = split(s, part, " && "); return part[n] }
    function end(next_line) {
        if (held != "" && next_line !~ /^[ \t]*}/) { print where ": a check that ends no test: " held; bad = 1 }
        held = ""
    }
    FNR == 1 { end("}"); whole = "" }
    /^[ \t]*(#|$)/ { next }
    {
        line = $0
        sub(/^[ \t]+/, "", line)
        if (whole == "") { end(line); begin = FILENAME ":" FNR }
        whole = whole line
        if (whole ~ /&&$/) whole = whole " "
        if (whole ~ /&& $/ || sub(/\\$/, "", whole)) next # it goes on
        if (whole !~ /[|][|]/ && (whole ~ /^! / || (whole ~ check && whole ~ / && / && last(whole) ~ check))) {
            held = whole
            where = begin
        }
        whole = ""
    }
    END { end("}"); exit bad }' "$@"
}

# In the root of a tree: tests/unit/ROOM/test_X.c tests room ROOM of src, that of X where one room alone has an X; no two
# have one name, since all programs lie in one folder. Headers lie beside the rooms.
units() {
    find tests/unit -name '*.c' | LC_ALL=C sort | {
        bad=0 seen=' '
        while read -r f; do
            room=${f#tests/unit/} name=$(basename "$f" .c)
            case $room in
            */test_*.c) room=${room%/*} ;;
            *) echo "$f: a unit test lies at tests/unit/ROOM/test_X.c"; bad=1; continue ;;
            esac
            [ -d "src/$room" ] || { echo "$f: $room is not a room of src"; bad=1; }
            case $seen in *" $name "*) echo "$f: another test has this name"; bad=1 ;; esac
            seen="$seen$name "
            home=$(find src -name "${name#test_}.[ch]" | cut -d / -f 2 | sort -u)
            [ "$(echo "$home" | wc -w)" != 1 ] || [ "$home" = "$room" ] || { echo "$f: its place is tests/unit/$home"; bad=1; }
        done
        exit $bad
    }
}

# In the root of a tree: mutants fit the sources, and the tests that they name as killers are there.
killers() { python3 "$root/tests/mutants.py" check .; }

# In the root of a tree: the list of folders in docs/ARCHITECTURE.md is what `make rooms` writes.
rooms() { python3 "$root/tools/rooms.py" --check 2>&1; }

# In the root of a tree: no room has more lines of C than its budget (tests/budget.txt). A feature that needs more raises
# its room's number in its own commit.
budget() {
    find src -name '*.[ch]' -exec wc -l {} + | awk '
        FNR == NR { if ($0 !~ /^#/ && NF == 2) most[$1] = $2; next }
        $2 ~ /^src\// {
            room = $2; sub(/\/[^\/]*$/, "", room); lines[room] += $1
            if ($2 !~ /^src\/research\//) lines["product"] += $1
        }
        END {
            for (room in lines) {
                if (!(room in most)) print "tests/budget.txt: " room " has no budget (it has " lines[room] " lines)"
                else if (lines[room] > most[room]) print room ": " lines[room] " lines, its budget is " most[room] " (tests/budget.txt; a feature raises it in its commit)"
                else continue
                bad = 1
            }
            for (room in most) if (!(room in lines)) { print "tests/budget.txt: " room " is no room"; bad = 1 }
            exit bad
        }' tests/budget.txt -
}

# In the root of a tree: a helper's name says what it does, so it has two words. Slots of plug-in tables and a few words of
# mathematics have one; so many may.
one_word() {
    find src -name '*.c' -exec awk '
        match($0, /^static [A-Za-z_][A-Za-z0-9_ *()]*[ *][a-z][a-z0-9]*\(/) && !/;$/ && !/=/ {
            name = substr($0, RSTART, RLENGTH - 1); sub(/.*[ *]/, "", name); print FILENAME ": " name
        }' {} + | grep -vE ': (run|check|cost|open|close|init|params|infer|import|forward|vjp|backward|work|flops|begin|step|probe|detect|defaults|write|read|parse|plan|view|main)$' |
        awk -v most="$1" '{ said = said $0 "\n" } END { if (NR <= most) exit 0; printf "%s%d static functions have one-word names, %d may\n", said, NR, most; exit 1 }'
}

# In the root of a tree: words that the field's own have replaced (docs/ARCHITECTURE.md, "Words") come back nowhere.
vocabulary() {
    grep -rnwiE 'crews?|kin|strangers?|outlooks?|reverif(y|ies|ied)|opinions?|requantis[a-z]+|unjudged|vt_doubt|vt_told|vt_role|vt_hello' src docs include README.md CONTRIBUTING.md SECURITY.md --include='*.[chm]' --include='*.md' 2>/dev/null |
        grep -v '^docs/results/' | sed 's/$/   <- a word that was replaced (tests\/lint.sh, vocabulary)/' | { ! grep .; }
}

# LIB: writable objects (.data and .bss; what a linker relocates and then write-protects is .data.rel.ro) of the library.
# Allowed is what changes no result (docs/ARCHITECTURE.md, rule 1): the thread's memory of compiled products, how often
# jansson was refused memory in it, and the number in the names of temporary files.
state() {
    objdump -t "$1" | awk '
    /file format/ { file = $1; sub(/:$/, "", file) }
    / (\.t?data|\.t?bss|\*COM\*)[ \t]/ && $NF !~ /^(\.|__)/ { # sections, and what a sanitizer adds
        name = $NF; sub(/\.[0-9]+$/, "", name)
        if (file == "onednn.o" && (name == "key" || name == "once")) next
        if (file == "files.o" && name == "serial") next
        if (file == "json.o" && (name == "refused" || name == "once")) next
        if (file == "gemm.o" && (name == "lock" || name == "have")) next
        if (file == "threads.o" && name == "started") next
        print file ": " name " is a mutable global"; bad = 1
    }
    END { exit bad }'
}

# FILE TEXT WORDS [RULES]: with TEXT put after a copy of FILE, the findings (of check) must hold WORDS
plant() {
    mkdir -p "$tmp/$(dirname "$1")"
    { if [ -f "$1" ]; then cat "$1"; fi; printf "$2"; } >"$tmp/$1"
    if (cd "$tmp" && ${4-check} "$1") | grep -qF "$3"; then echo "finds $1: $3"; else echo "BLIND $1: $3"; fi
    rm "$tmp/$1"
}

self_test() {
    tmp=$(mktemp -d) || exit 1
    trap 'rm -rf "$tmp"' EXIT
    {
        plant src/nn/gelu.c '#include "models/model.h"\n' 'does not lie below'
        plant src/data/image.h '#include "nn/nn.h"\n' 'does not lie below'
        plant src/base/mem.c '  #  include "data/image.h"\n' 'does not lie below'
        plant src/models/model.c '#include "attacks/ball.h"\n' 'does not lie below'
        plant src/models/model.c '#include "models/net/session.h"\n' 'does not lie below'
        plant src/models/net/block.c '#include "inference/classifier.h"\n' 'does not lie below'
        plant src/attacks/ball.c '#include "eval/ledger.h"\n' 'does not lie below'
        plant src/train/optim.c '#include "research/analysis/spectrum.h"\n' 'does not lie below'
        plant src/train/optim.c '#include "research/lab/lab.h"\n' 'does not lie below'
        plant src/research/lab/lab.c '#include "cli/plot.h"\n' 'does not lie below'
        plant src/research/lab/lab.c '#include "nn/nn.h"\n' 'does not lie below'
        plant src/research/lab/lab.c '#include "research/analysis/spectrum.h"\n' 'does not lie below'
        plant src/research/table/plan.c '#include "research/lab/lab.h"\n' 'does not lie below'
        plant src/research/x.c 'int x;\n' 'is not a room'
        plant src/inference/sensors.c '#include "research/numeric/lanczos.h"\n' 'does not lie below'
        plant src/selftest/tools.c '#include "research/analysis/spectrum.h"\n' 'does not lie below'
        plant src/nn/gelu.c '#include "nowhere/x.h"\n' 'does not lie below'
        plant src/nn/gelu.c '#include "nn.h"\n' 'does not begin with a room'
        plant src/shed/x.c 'int x;\n' 'is not a room'
        plant src/attacks/ball.c '#include "vitrine.h"\n' 'users of the library'
        plant src/eval/ledger.c 'vt_status f(vt_err *e) { return vt_fail(e, VT_E_USAGE, "give --eps"); }\n' 'spells its options'
        plant src/tensors/npy.c 'const char *f = "--data";\n' 'spells its options'
        plant src/tensors/npy.c 'FILE *g(void) { return fopen("x", "r"); }\n' 'src/base/files.c'
        plant src/research/cli/result_dir.c 'int g(const char *p) { return open(p, O_RDONLY); }\n' 'src/base/files.c'
        plant src/eval/ledger.c 'int g(void) { return rename("a", "b"); }\n' 'src/base/files.c'
        plant src/nn/linear.c '#include <cblas.h>\n' 'BLAS'
        plant src/base/mem.c 'void f(void) { openblas_set_num_threads(1); }\n' 'BLAS'
        plant src/nn/linear.c 'extern void dgesdd_(const char *jobz);\n' 'LAPACK'
        plant src/linalg/gemm.c 'int f(void) { return 1 + sgesvd_ (0); }\n' 'LAPACK'
        plant src/research/analysis/x.c '#include <lapacke.h>\n' 'LAPACK'
        plant src/base/mem.c 'int f(void) { return LAPACKE_dgesdd(1); }\n' 'LAPACK'
        plant src/linalg/svd.c '#include <cblas.h>\n' 'BLAS'
        plant src/eval/ledger.c 'void f(void) { json_loads("", 0, 0); }\n' 'parsing JSON'
        plant src/eval/ledger.c 'void f(void) { json_dumps(0, 0); }\n' 'writing JSON'
        plant src/cli/cmd_show.c 'int f(void) { return json_is_true(json_object_get(l->header->document, "curve")); }\n' 'header is read by'
        plant src/eval/result_index.c 'const json_t *a = json_array_get(json_object_get(s->header, "attacks"), 0);\n' 'header is read by'
        plant src/base/opt.c 'FILE *f = open_memstream(0, 0);\n' 'streams into memory'
        plant src/models/model.c 'void f(void) { exit(1); }\n' 'prints nor exits'
        plant src/data/image_png.c 'void f(void) { printf("x"); }\n' 'prints nor exits'
        plant src/base/opt.c 'void f(void) {\n  fprintf(stderr, "x"); }\n' 'prints nor exits'
        plant src/eval/ledger.c 'void f(void) {\n/* */ abort (); }\n' 'prints nor exits'
        plant src/base/opt.c 'FILE *f = stdout;\n' 'prints nor exits'
        plant src/nn/softmax.c '#pragma omp parallel for\n' 'OpenMP'
        plant src/attacks/fab.c '# pragma  omp simd\n' 'OpenMP'
        plant src/eval/result_index.c 'int f(int *x) { if (*x) return *x = (1, 2), f(x); return 0; }\n' 'two statements' anywhere
        plant tests/unit/x.c 'int f(void) {\n if (a) return *out = "a(",\n 1;\n}\n' 'two statements' anywhere
        plant tools/x.c '#define E \\\n    if (a) return 1\nint f(int a, int b) {\n E;\n return a++, b; }\n' 'tools/x.c:5: a return of two' anywhere
        plant src/nn/x.c '/* eq. 1 of gone.md */\n' 'there is no gone.md' anywhere
        plant src/nn/x.c 'int x; // (docs/gone.md)\n' 'there is no docs/gone.md' anywhere
        plant src/nn/x.c '/* as\n * models/gone has it */\n' 'there is no models/gone' anywhere
        plant tests/unit/x.py 'x = 1  # as tools/gone.py\n' 'there is no tools/gone.py' anywhere
        plant docs/x.md 'see [these](../gone.md)\n' 'there is no ../gone.md' anywhere
        plant docs/x.md 'see `src/nn/gone.c`\n' 'there is no src/nn/gone.c' anywhere
        mkdir -p "$tmp/src/nn" && echo 'int VT_R(there)(int a) { return gone(a); }' >"$tmp/src/nn/tour.c"
        plant docs/x.md 'first `src/nn/tour.c: there`, then `src/nn/tour.c: gone`\n' 'src/nn/tour.c has no function gone' anywhere
        plant README.md 'The network is sound.\n' 'no verdict says "sound"' verdicts
        plant docs/x.md '| a | 2/255 | **Sound** | 36 |\n' 'no verdict says "sound"' verdicts
        plant python/x.py 'VERDICTS = "sound", "doubtful"\n' 'no verdict says "sound"' verdicts
        plant src/selftest/report.c 'const char *s = names[0] = "self-test: sound (";\n' 'no verdict says "sound"' verdicts
        plant src/nn/new.c '/* SPDX */\n#include "nn/nn.h"\n' 'what it owns'
        plant src/nn/new.h '/* SPDX */\n#ifndef X\n' 'what it owns'
        plant src/nn/loss.h "$(yes '\n' | head -500 | tr -d '\n')" 'longer than 500'
        plant src/nn/loss.c "int f(void) {\\n$(yes '    x++;\n' | head -61 | tr -d '\n')}\\n" 'more than 60 lines'
        plant src/nn/loss.c "static int f(int a,\\n             int b) {\\n$(yes '    x++;\n' | head -61 | tr -d '\n')}\\n" 'more than 60 lines'
    } >"$tmp/results"
    # rings: of four units, and not of three
    mkdir -p "$tmp/src/nn" "$tmp/src/io"
    for pair in a:b b:c c:d; do echo "#include \"nn/${pair#*:}.h\"" >"$tmp/src/nn/${pair%:*}.c"; done
    echo '#include "nn/b.h"' >"$tmp/src/nn/d.h"
    if (cd "$tmp" && rings src/nn/*.[ch]) | grep -q ring; then echo "BLIND: three units are no ring of four"; else echo "finds no ring of three"; fi >>"$tmp/results"
    echo '#include "nn/a.h"' >"$tmp/src/nn/d.c"
    if (cd "$tmp" && rings src/nn/*.[ch]) | grep -q 'ring of 4'; then echo "finds a ring of four"; else echo "BLIND: a ring of four"; fi >>"$tmp/results"
    # unit tests: beside the rooms, in none, twice, in another's; and not where they should be
    for text in tests/unit/test_a.c tests/unit/shed/test_a.c tests/unit/io/test_b.c tests/unit/io/test_nn.c; do
        mkdir -p "$tmp/$(dirname $text)" "$tmp/tests/unit/nn" && touch "$tmp/$text" "$tmp/tests/unit/nn/test_b.c" "$tmp/src/nn/nn.h"
        if (cd "$tmp" && units) | grep -q "^tests/unit/.*/test_.*: \|: a unit test"; then echo "finds $text"; else echo "BLIND $text"; fi
        rm "$tmp/$text"
        (cd "$tmp" && units) || echo "BLIND: blames unit tests that lie well"
    done >>"$tmp/results"
    # mutants whose test is gone, that fit nowhere, in two places, or change nothing
    mkdir -p "$tmp/tests/mutants" "$tmp/tests/golden" && printf 'int a = 1;\nint b = 1;\n' | tee "$tmp/src/io/m.c" >"$tmp/src/m.c"
    mutant() { printf 'm: why\nkilled by %s\nin src/m.c\n-%s\n+%s\n' "$1" "$2" "$3" >"$tmp/tests/mutants/x.txt"; }
    for try in 'b gone|a = 1|a = 2|test_gone' 'b|c = 1|c = 2|occurs 0 times' 'b|= 1|= 2|occurs 2 times' 'b|a = 1|a = 1|changes nothing'; do
        IFS='|' read -r by old new what <<TRY
$try
TRY
        mutant "$by" "$old" "$new"
        if (cd "$tmp" && killers) | grep -q "$what"; then echo "finds a mutant: $what"; else echo "BLIND: a mutant: $what"; fi
    done >>"$tmp/results"
    mutant b 'a = 1' 'a = 2'
    (cd "$tmp" && killers) || echo "BLIND: blames a mutant that fits" >>"$tmp/results"
    # rooms above their budget, and without one
    printf 'src 1000\nproduct 100000\nsrc/nn 1\n' >"$tmp/tests/budget.txt"
    (cd "$tmp" && budget) >"$tmp/said"
    for what in 'src/nn: .* lines, its budget is 1' 'src/io has no budget'; do
        if grep -q "$what" "$tmp/said"; then echo "finds $what"; else echo "BLIND: $what"; fi
    done >>"$tmp/results"
    rm "$tmp/src/m.c" "$tmp/src/io/m.c" "$tmp/tests/budget.txt"
    # a list of folders that is stale, and one that is not
    mkdir -p "$tmp/tree/docs" "$tmp/tree/src/nn" && cp Makefile "$tmp/tree" && cp docs/ARCHITECTURE.md "$tmp/tree/docs"
    (
        cd "$tmp/tree" || exit 1
        if rooms | grep -q stale; then echo "finds a stale list of folders"; else echo "BLIND: a stale list of folders"; fi
        "$root/tools/rooms.py" && rooms || echo "BLIND: blames a list of folders that is not stale"
        mkdir src/shed && touch src/shed/x.c
        if rooms | grep -q 'no purpose for shed'; then echo "finds a folder without a purpose"; else echo "BLIND: a folder without a purpose"; fi
    ) >>"$tmp/results"
    rm -r "$tmp/tree"
    # words that were replaced
    mkdir -p "$tmp/docs" && echo '/* the crew of a lane */' >"$tmp/src/w.h"
    if (cd "$tmp" && vocabulary) | grep -q 'src/w.h:1:'; then echo "finds a word that was replaced"; else echo "BLIND: a word that was replaced"; fi >>"$tmp/results"
    rm "$tmp/src/w.h"
    # helpers of one word, and not slots or two words
    printf 'static int add(int a) {\nstatic vt_status *run(void) {\nstatic int add_all(int a) {\nstatic int x = add(1);\n' >"$tmp/src/m.c"
    if [ "$(cd "$tmp" && one_word 0 | wc -l)" = 2 ]; then echo "finds a one-word helper"; else echo "BLIND: a one-word helper"; fi >>"$tmp/results"
    (cd "$tmp" && one_word 1) || echo "BLIND: blames helpers that may be" >>"$tmp/results"
    rm "$tmp/src/m.c"
    # checks that hide: the first of two, and what is inverted; not the last line, nor one with an else of its own
    for text in '[ a = b ] && [ a = a ]' 'grep -q x f &&\n    grep -q y f' '! grep -q x f'; do
        printf '@test "x" {\n    %b\n    true\n}\n' "$text" >"$tmp/x.bats"
        if hidden "$tmp/x.bats" | grep -q 'x.bats:2: a check that ends no test'; then printf 'finds %s\n' "$text"; else printf 'BLIND %s\n' "$text"; fi
        printf '@test "x" {\n    true\n    %b\n}\n' "$text" >"$tmp/x.bats"
        hidden "$tmp/x.bats" >/dev/null || echo "BLIND: blames the last line $text"
    done >>"$tmp/results"
    printf '@test "x" {\n    [ a = b ] && c=1\n    [ a = b ] && [ c = d ] || fail\n    [[ a = b && c = d ]]\n}\n' >"$tmp/x.bats"
    hidden "$tmp/x.bats" >/dev/null || echo "BLIND: blames what is allowed" >>"$tmp/results"
    # state: a global, a static of a function, one of a thread; and no constant
    for text in 'int shelf;' 'int f(void) { static int calls; return calls++; }' '_Thread_local int own = 1;' 'double w[3] = {1};'; do
        echo "$text" | ${CC:-gcc} -x c -fPIE -c - -o "$tmp/x.o"
        if state "$tmp/x.o" | grep -q 'mutable global'; then echo "finds $text"; else echo "BLIND $text"; fi
    done >>"$tmp/results"
    echo 'const int n = 3; static const char *const names[] = {"a"}; const char *f(void) { return names[n - 3]; }' |
        ${CC:-gcc} -x c -fPIE -c - -o "$tmp/x.o"
    cat "$tmp/results"
    ! grep -q BLIND "$tmp/results" || exit 1
    state "$tmp/x.o" || { echo "BLAMES constants"; exit 1; }
    # and what is allowed stays allowed: words in comments, snprintf, longer names, a stream handed in
    mkdir -p "$tmp/src/models" && cat >"$tmp/src/models/x.c" <<'END'
/* SPDX */
/* exit(1) printf( cblas dgesdd_(
 #pragma omp */ // abort()
#include "models/model.h"
#include "linalg/gemm.h" /* "eval/x.h" */
#include "archs.inc"
int fd = vt_file_open(&f, 0, p, O_RDONLY, e), h = d->def->open(d, e), k = open(dir, O_RDONLY | O_DIRECTORY), vt_rename(int);
FILE *cpus = fopen("/proc/cpuinfo", "r");
int my_exit(int), n = snprintf(0, 0, "x"), xprintf(int), m = fprintf(f, "x"), vt_gemm_openblas_f32(int), d_(int), vt_dgesdd_(int), dgesdd(int);
END
    (cd "$tmp" && check src/models/x.c) || { echo "BLAMES what is allowed"; exit 1; }
    mkdir -p "$tmp/docs" && cat >"$tmp/docs/x.md" <<'END'
docs/x.md, [x](x.md), `models/x.c`, `src/models/x.c: returned`, `src/nn/tour.c: there`, src/models/x, src/attacks/attack_X.c, src/nn/{a,b}.c, io/state_*, DIR/table.md, weights/none, <https://a.b/docs/c.html>
END
    cat >"$tmp/src/models/x.c" <<'END'
/* models/x */ const char *x = "gone.md";
int returned(void) { a = 1, b = 2; if (a) return f("),", ',', a); /* return a, b; */
    return (point){a, b}.x + f(a,
                               b);
}
END
    echo 'bool sound = !strcmp(v, "sound"); /* is it sound? */ f("resounding, sounds"); // unsound' >"$tmp/src/models/y.c"
    (cd "$tmp" && verdicts src/models/y.c) || { echo "BLAMES other words, comments and comparisons"; exit 1; }
    (cd "$tmp" && anywhere docs/x.md src/models/x.c) || { echo "BLAMES names and returns that are allowed"; exit 1; }
}

case $1 in
--self-test) self_test ;;
--archive) state "$2" ;;
'')
    find src -name '*.[ch]' | LC_ALL=C sort | xargs awk "$common$rules" && bad=0 || bad=1
    anywhere $(prose) || bad=1
    verdicts $(find README.md docs src python include recipes examples -name '*.md' -o -name '*.[ch]' -o -name '*.py' -o -name '*.yaml' | LC_ALL=C sort) || bad=1
    rings $(find src -name '*.[ch]') || bad=1
    hidden tests/cli/*.bats tests/cli/*.bash || bad=1
    units || bad=1
    killers || bad=1
    rooms || bad=1
    budget || bad=1
    one_word 100 || bad=1
    vocabulary || bad=1
    exit $bad
    ;;
*) check "$@" ;;
esac
