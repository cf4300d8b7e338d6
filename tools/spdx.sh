#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every source file says its licence in its first lines (https://spdx.dev, LICENSE has the words).
# Usage: tools/spdx.sh          adds the line where it is missing
#        tools/spdx.sh --check  names the files that lack it, exit 1 if any
set -euo pipefail
cd "$(dirname "$0")/.."
words="SPDX-License-Identifier: MIT"

# tracked files that are written by hand and can hold a comment: by suffix, or by their first two bytes
sources() {
    git ls-files --cached --others --exclude-standard | grep -Ev '^(tests/(mutants|fixtures|fuzz/corpus)|datasets|weights|recipes|maps|docs)/' |
        while read -r f; do
            [ -f "$f" ] || continue
            case "$f" in
            *.c | *.h | *.css | *.js | *.py | *.sh | *.bash | *.bats | Makefile) echo "$f" ;;
            *) if [ "$(head -c 2 "$f" | tr -d '\0')" = '#!' ]; then echo "$f"; fi ;;
            esac
        done
}

line() { # FILE: the comment
    case "$1" in
    *.c | *.h | *.css) echo "/* $words */" ;;
    *.js) echo "// $words" ;;
    *) echo "# $words" ;;
    esac
}

lacking() { sources | while read -r f; do head -n 3 "$f" | grep -qF "$words" || echo "$f"; done; }

if [ "${1:-}" = --check ]; then
    found=$(lacking)
    [ -z "$found" ] || { sed 's/$/: no SPDX-License-Identifier (tools\/spdx.sh adds it)/' <<<"$found"; exit 1; }
    exit 0
fi
lacking | while read -r f; do
    text=$(line "$f")
    if [ "$(head -c 2 "$f" | tr -d '\0')" = '#!' ]; then sed -i "1a $text" "$f"; else sed -i "1i $text" "$f"; fi
done
