#!/bin/sh
# Planted bugs that the unit tests must catch. Usage: tests/mutants/run.sh [NAME ...]
# Each record of tests/mutants/ROOM.txt (tests/mutants.py) is planted in a copy of the tree, the tests that it names are
# built and must fail. One line a mutant; exit 1 if one survives, does not apply or does not compile, or if a test fails
# without any mutant (then its failure proves nothing).
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
tree=$tmp/tree
mkdir "$tree"
# tracked and new files, not what git ignores (build/); a file may vanish between the listing and the copy
git ls-files -co --exclude-standard -z | xargs -0 -I{} sh -c '[ -e "$1" ] && cp -P --parents "$1" "$2"' sh {} "$tree"
cd "$tree" || exit 1

# less optimisation: the tests are compiled anew for every mutant
mk() { make -j1 CI= BUILD="$tmp/build" OPT_release='-O1 -march=native' "$@"; }
quick() { timeout 300 "$tmp/build/release/tests/test_$1" >"$tmp/out" 2>&1; } # a mutant may hang

names=$*
records=$tmp/records
python3 tests/mutants.py names $names >"$records" || exit 1
[ -s "$records" ] || { echo "no mutant is called $names"; exit 1; }

status=0 killed=0 total=0
for t in $(cut -f2 "$records" | tr ' ' '\n' | LC_ALL=C sort -u); do
    if ! mk "$tmp/build/release/tests/test_$t" >"$tmp/out" 2>&1 || ! quick "$t"; then
        tail -n 12 "$tmp/out"
        echo "baseline  test_$t fails without a mutant: it cannot judge any"
        status=1
        broken="$broken $t "
    fi
done

while IFS='	' read -r n tests why; do
    total=$((total + 1))
    if ! files=$(python3 tests/mutants.py apply "$n" "$tree"); then
        echo "does not apply  $files"
        status=1
        continue
    fi
    verdict=survived
    for t in $tests; do
        case $broken in *" $t "*) verdict="not judged ($t)"; continue ;; esac
        if ! mk "$tmp/build/release/tests/test_$t" >"$tmp/out" 2>&1; then
            tail -n 12 "$tmp/out"
            verdict='does not compile'
            break
        fi
        quick "$t" || { verdict="killed by $t"; break; }
    done
    case $verdict in killed*) killed=$((killed + 1)) ;; *) status=1 ;; esac
    echo "$verdict  $n: $why"
    for f in $files; do cp "$root/$f" "$f"; done
done <"$records"
echo "$killed of $total mutants killed"
exit $status
