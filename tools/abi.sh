#!/bin/sh
# SPDX-License-Identifier: MIT
# Does a new libvitrine.so.0 still serve programs that were linked with an old one? Usage: tools/abi.sh OLD.so NEW.so
# (or a tag in place of OLD.so, which is then built in a folder of its own). Needs abidiff (apt: abigail-tools).
# Exit status 0: nothing that a program sees changed, or something was added; 1: it would break; 2: nothing was compared.
set -eu
[ $# = 2 ] || { echo "usage: tools/abi.sh OLD.so|TAG NEW.so" >&2; exit 2; }
command -v abidiff >/dev/null || { echo "tools/abi.sh: abidiff is not here (apt-get install abigail-tools)" >&2; exit 2; }
old=$1 new=$2 made=
[ -f "$new" ] || { echo "tools/abi.sh: there is no $new" >&2; exit 2; }
if [ ! -f "$old" ]; then
    git rev-parse -q --verify "$old^{commit}" >/dev/null || { echo "tools/abi.sh: $old is neither a file nor a tag" >&2; exit 2; }
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    git archive "$old" | tar -x -C "$made"
    make -s -C "$made" shared >&2
    old=$made/build/release/libvitrine.so.0
fi
headers=$(dirname "$0")/../include
# abidiff's bits: 1 and 2 its own failures, 4 a change, 8 one that breaks
status=0
abidiff --headers-dir1 "$headers" --headers-dir2 "$headers" "$old" "$new" || status=$?
[ $((status & 3)) = 0 ] || exit 2
[ $((status & 8)) = 0 ] || exit 1
# a function that is gone, or a struct of another size, must not pass as "a change"
if [ $((status & 4)) != 0 ]; then
    abidiff --headers-dir1 "$headers" --headers-dir2 "$headers" --no-added-syms "$old" "$new" >/dev/null || exit 1
fi
