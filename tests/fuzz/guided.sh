#!/bin/sh
# SPDX-License-Identifier: MIT
# One fuzz target under libFuzzer, guided by coverage (make fuzz-guided TARGET=hello). What it meets is kept in
# BUILD/fuzz/found/TARGET, where the next run goes on; the inputs of it that reach code which no other input of
# tests/fuzz/corpus/TARGET reaches are added there, the smallest first, up to 16 KB each. An input that ends the
# program lies in BUILD/fuzz/found/TARGET-crash-*, and the exit status is not 0.
set -eu
TARGET=${TARGET:-}
corpus=tests/fuzz/corpus/$TARGET found=$BUILD/fuzz/found/$TARGET program=$BUILD/fuzz/tests/guided_$TARGET
if [ -z "$TARGET" ] || [ ! -d "$corpus" ]; then
    echo "TARGET is '$TARGET', must be one of: $(ls tests/fuzz/corpus | tr '\n' ' ')" >&2
    exit 2
fi
unset MAKEFLAGS
"$MAKE" --no-print-directory MODE=fuzz CC="${CLANG:-clang}" BUILD="$BUILD" "$program"
mkdir -p "$found"
options="-artifact_prefix=$found- -rss_limit_mb=2048 -timeout=60 -max_len=65536"
"$program" $options -runs="$RUNS" -max_total_time="$SECONDS" -print_final_stats=1 -verbosity=0 "$found" "$corpus"
"$program" $options -max_len=16384 -set_cover_merge=1 -use_counters=0 -verbosity=0 "$corpus" "$found"
