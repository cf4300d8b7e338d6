# SPDX-License-Identifier: MIT
# Shared by all command-line tests. Needs bash, coreutils, jq, awk; the program is $VITRINE (default build/vitrine).
bats_require_minimum_version 1.5.0
LC_ALL=C
export LC_ALL
unset OPENBLAS_CORETYPE OMP_WAIT_POLICY VITRINE_RESTARTED
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VITRINE=$(realpath "${VITRINE:-$ROOT/build/vitrine}")
DRAW=$(dirname "$VITRINE")/tools/draw # drawn images: built beside the command
export ROOT VITRINE DRAW
# A run's files that depend on nothing but weights, data and options.
DETERMINISTIC="results.json ledger.jsonl adv.bin table.md table.csv table.tex"

# Every test works in its own folder; W weights, D data (CIFAR-10 format, 20 test images, all right).
setup() {
    W=$BASE/w.safetensors D=$BASE/data
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here" # bats keeps files of its own one level up
}

fail() {
    printf '%s\n' "$@" >&2
    return 1
}

# here NAME: may this program be tried? Where it is missing the test says which one.
here() { command -v "$1" >/dev/null || skip "$1 is not installed: nothing was tried with it"; }

# The folder in which make leaves libvitrine.a and libvitrine.so.0 beside (release: below) the command.
library() {
    local d
    d=$(dirname "$VITRINE")
    if [ -e "$d/release/libvitrine.so.0" ]; then echo "$d/release"; else echo "$d"; fi
}

# never COMMAND...: must fail. (A line that begins with ! ends no test, whatever comes of it, unless it is the last.)
never() { if "$@"; then fail "this must not be so: $*"; fi; }

# vt ARGS: runs the program, keeps status, output and stderr.
vt() { run --separate-stderr "$VITRINE" "$@"; }

# row KEY VALUE [SOURCE]: a line of info, in $output.
row() { grep -Eq "^  $1 +$2 +\(${3:-.*}\)$" <<<"$output" || fail "no line '$1 $2 (${3:-.*})' in: $output"; }

# Lines of progress: how far a part is on a machine where it takes half a minute, what a self-test may
# cost, and that a random network is right near chance.
PROGRESS='^(self-test: )?([^:]* )?[0-9]+ of [0-9]+[ :,]|^self-test: (.*: )?up to [0-9]+ forwards, |^vitrine: hint: [0-9]+ of [0-9]+ images are right, which is near chance: '

# good ARGS: must succeed and say nothing on stderr but progress.
good() {
    vt "$@"
    [ "$status" = 0 ] && [ -z "$(grep -vE "$PROGRESS" <<<"$stderr")" ] || fail "status $status of: vitrine $*" "stdout: $output" "stderr: $stderr"
}

# assumes ARGS: must succeed, and say on stderr, in one line for each checkpoint, what was assumed of it; and of several
# state dicts, which was read.
assumes() {
    vt "$@"
    [ "$status" = 0 ] || fail "status $status of: vitrine $*" "stdout: $output" "stderr: $stderr" || return 1
    stderr=$(grep -vE "$PROGRESS" <<<"$stderr" || true)
    [ -n "$stderr" ] && ! grep -vE '^vitrine: .*: (assumed, not in the file: .*; `vitrine doctor --logits` proves or corrects them|.* was read, one of its parts .*)$' <<<"$stderr" ||
        fail "stderr is no line of assumptions: $stderr"
}

# The house rule of a refusal: exit status CODE, one to three lines on stderr that begin with the program's name, no
# number of a signal; and the sentence holds every TEXT.
judge() { # CODE TEXT...
    local code=$1 text
    shift
    [ "$status" = "$code" ] || fail "status $status, not $code; stderr: $stderr" || return 1
    stderr=$(grep -vE "$PROGRESS" <<<"$stderr" || true)
    [ -n "$stderr" ] && [ "$(wc -l <<<"$stderr")" -le 3 ] || fail "stderr must be one to three lines: $stderr" || return 1
    [[ $stderr == vitrine:\ * ]] || fail "stderr does not begin with 'vitrine: ': $stderr" || return 1
    for text; do
        [[ $stderr == *"$text"* ]] || fail "'$text' is not in: $stderr" || return 1
    done
}

# bad CODE TEXT... -- ARGS: vitrine ARGS must be refused.
bad() {
    local code=$1 texts=()
    shift
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    vt "$@"
    local line="$*"
    judge "$code" "${texts[@]}" || fail "of: vitrine ${line:0:300}"
}

# hold NAME N COMMAND...: starts COMMAND in the background ($pid, output in out and err) and returns once it, or a child
# of its, has stopped itself, just after its Nth write to a file of that name or its Nth rename to it (gate.c). It goes on with SIGCONT.
hold() {
    local gate=$1:$2 p
    shift 2
    gated "$gate" "$@" >out 2>err 3>&- &
    pid=$!
    while :; do
        for p in $pid $(pgrep -P $pid); do stopped "$p" && return; done
        kill -0 $pid 2>/dev/null || fail "it ended before the gate $gate: $(cat err)" || return
        sleep 0.01
    done
}
gated() { # GATE COMMAND...
    local gate=$1
    shift
    exec env GATE="$gate" LD_PRELOAD="$BASE/gate.so" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" "$@"
}
stopped() { [ "$(sed -n 's/^State:[^A-Z]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)" = T ]; }

# says TEXT...: standard output of the last vt holds every TEXT.
says() {
    local text
    for text; do
        [[ $output == *"$text"* ]] || fail "'$text' is not in: $output" || return 1
    done
}

# quick ARGS: an evaluation of the tiny model on the drawn images.
quick() { good eval "$W" --data "$D" "$@"; }

# truth FILE FILTER: jq -e, with the file on failure.
truth() { jq -e "$2" "$1" >/dev/null || fail "not true of $1: $2" "$(jq -c . "$1" | head -c 2000)"; }

# same_run A B: all deterministic files of two runs are equal.
same_run() {
    local f
    for f in $DETERMINISTIC; do
        [ -f "$1/$f" ] || fail "$1/$f is missing" || return 1
        cmp "$1/$f" "$2/$f" >&2 || fail "$f differs" || return 1
    done
}

# sums DIR: what a folder holds, to see that it stayed as it was.
sums() { (cd "$1" && find . -type f -exec sha256sum {} + | sort -k2); }

# seal RUN: what a forger who read the source does: the checksums of lines and files anew, as they are now.
seal() { /usr/bin/python3 "$ROOT/tests/fixtures/seal.py" "$1"; }

# ---- bytes ----
byte() { printf '\\x%02x' "$1"; }
le8() { # N as 8 bytes, little-endian
    local i n=$1
    for i in 0 1 2 3 4 5 6 7; do printf "\\x$(printf %02x $(((n >> (8 * i)) & 255)))"; done
}
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; } # FILE OFFSET '\x..'
# relabel MODEL DATA OUT: the label of each of DATA's test images becomes what MODEL says, so that a random model has a
# clean accuracy and something to lose; OUT: the run that asks it
relabel() {
    local image pred
    "$VITRINE" eval "$1" --data "$2" --out "$3" >/dev/null
    tail -n +2 "$3/ledger.jsonl" | jq -r '[.image, .pred] | @tsv' | while read -r image pred; do
        poke "$2/test_batch.bin" $((image * 3073)) "$(byte "$pred")"
    done
}
repeat() { # N '\x..': the bytes N times
    local s
    printf -v s "%${1}s" ''
    printf "${s// /$2}"
}
ZERO='\x00\x00\x00\x00' HALF='\x00\x00\x00\x3f' ONE='\x00\x00\x80\x3f' TWO='\x00\x00\x00\x40'
NAN='\x00\x00\xc0\x7f' INF='\x00\x00\x80\x7f'

# ---- safetensors, by hand: 8 bytes of length, JSON, data ----
st_length() { od -An -tu8 -N8 "$1" | tr -d ' '; }
st_header() { tail -c +9 "$1" | head -c "$(st_length "$1")"; }
st_data() { tail -c +$(($(st_length "$1") + 9)) "$1"; }
st_make() { # OUT HEADER, data on standard input
    { le8 ${#2} && printf %s "$2" && cat; } >"$1"
}
st_edit() { # IN OUT JQ-FILTER: another header on the same data
    local header
    header=$(st_header "$1" | jq -c "$3") && st_data "$1" | st_make "$2" "$header"
}
st_at() { # FILE TENSOR: where its bytes begin in the file
    echo $(($(st_length "$1") + 8 + $(st_header "$1" | jq --arg t "$2" '.[$t].data_offsets[0]')))
}
st_floats() { # FILE TENSOR TYPE(f4|f8|d8): its numbers, one a line
    local span
    span=$(st_header "$1" | jq --arg t "$2" '.[$t].data_offsets | .[1] - .[0]')
    od -An -v -t"$3" -w"${3#?}" -j "$(st_at "$1" "$2")" -N "$span" "$1" | tr -d ' '
}

# said DIR: what a ledger says of images, without the checksums, which its header is part of
said() { tail -n +2 "$1/ledger.jsonl" | sed 's/,"check":"[0-9a-f]*"//'; }
