#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs one part of the tests and keeps what it said and took. Usage: tests/part.sh FOLDER NAME COMMAND...
# Shows one line when all is well, everything that was said when it is not. FOLDER/NAME.log and FOLDER/NAME.time (exit
# status, seconds, seconds of processors) stay.
#          tests/part.sh --table FOLDER   what each part took, the longest first, how many tests passed, and which were
# skipped and why
#          tests/part.sh --record FOLDER  the parts that took half a second of processors or more
if [ "$1" = --table ]; then
    cd "$2" || exit 1
    printf '%-32s %6s %9s %11s\n' part tests seconds 'processor s'
    for t in *.time; do
        log=${t%.time}.log
        read -r status wall cpu <"$t"
        # tests of cmocka, of bats; anything else is one test
        counts=$(awk -v status="$status" '
            /^\[       OK \]/ || /^ok / && !/ # skip/ { passed++ }
            (/^\[  FAILED  \] [^ ]*$/ || /^not ok /) && !seen[$0]++ { failed++ } # cmocka says it twice
            (/^\[  SKIPPED \] [^ ]*$/ || /^ok .* # skip/) && !seen[$0]++ { skipped++ }
            END {
                if (status && !failed) failed = 1
                if (!status && !passed && !skipped) passed = 1
                print passed + 0, failed + 0, skipped + 0
            }' "$log")
        echo "${t%.time} $counts $wall $cpu"
    done | sort -k6,6 -rn | awk '
        { wall += $5; cpu += $6; passed += $2; failed += $3; skipped += $4 }
        $6 >= 1 { printf "%-32s %6d %9.1f %11.1f%s\n", $1, $2, $5, $6, $3 ? "  FAILED" : ""; next }
        $3 { print $1 "  FAILED" }
        { few++; rest += $2; few_wall += $5; few_cpu += $6 }
        END {
            printf "%-32s %6d %9.1f %11.1f\n", few " parts of less than a second", rest, few_wall, few_cpu
            printf "%-32s %6d %9.1f %11.1f\n\n", "together", passed, wall, cpu
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0
        }'
    status=$?
    grep -hE '^(\[  SKIPPED \] [^ ]*$|ok .* # skip)' -- *.log | sort -u | sed 's/^/skipped: /'
    exit $status
fi
if [ "$1" = --record ]; then
    echo "# Processor seconds of each part of \`make test\` that took half or more (make times writes this)."
    for t in "$2"/*.time; do
        read -r _ _ cpu <"$t"
        echo "$(basename "$t" .time) $cpu"
    done | awk '$2 >= 0.5' | LC_ALL=C sort -k2,2nr -k1,1
    exit
fi
folder=$1 name=$2
shift 2
mkdir -p "$folder"
# threads of a part that wait leave the processor to the other parts; tests of the command line set what they want
export OMP_WAIT_POLICY=passive
TIMEFORMAT='%R %U %S'
{ time "$@" >"$folder/$name.log" 2>&1 </dev/null; } 2>"$folder/$name.new"
status=$?
read -r wall user system < <(tail -n 1 "$folder/$name.new") # before it, a shell says of which signal a part died
echo "$status $wall $(awk "BEGIN{print $user + $system}")" >"$folder/$name.time"
rm "$folder/$name.new"
[ $status = 0 ] || { cat "$folder/$name.log"; printf 'FAILED '; }
printf '%6.1f s  %s\n' "$wall" "$name"
exit $status
