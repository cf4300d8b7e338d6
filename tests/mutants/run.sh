#!/bin/sh
# Planted bugs that the unit tests must catch. Usage: tests/mutants/run.sh [NAME ...]   (names of tests/mutants/*.patch)
# Each patch (patch -p1, with a sentence and "Killed by: TEST ..." on top) is applied to a copy of the tree, the tests
# that it names are built and must fail. One line a mutant; exit 1 if one survives, does not apply or does not compile, or
# if a test fails without any mutant (then its failure proves nothing).
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
[ -n "$names" ] || names=$(ls "$root/tests/mutants" | sed -n 's/\.patch$//p')
killers() { sed -n 's/^Killed by: //p' "$root/tests/mutants/$1.patch"; }

status=0 killed=0 total=0
for t in $(for n in $names; do killers "$n"; done | tr ' ' '\n' | LC_ALL=C sort -u); do
    if ! mk "$tmp/build/release/tests/test_$t" >"$tmp/out" 2>&1 || ! quick "$t"; then
        tail -n 12 "$tmp/out"
        echo "baseline  test_$t fails without a mutant: it cannot judge any"
        status=1
        broken="$broken $t "
    fi
done

for n in $names; do
    patch=$root/tests/mutants/$n.patch
    total=$((total + 1))
    if ! patch -p1 -s -f -F0 --no-backup-if-mismatch <"$patch" >"$tmp/out" 2>&1; then
        cat "$tmp/out"
        echo "does not apply  $n"
        status=1
        git -C "$root" ls-files -co --exclude-standard src | while read -r f; do [ -e "$root/$f" ] && cp "$root/$f" "$f"; done
        continue
    fi
    verdict=survived
    for t in $(killers "$n"); do
        case $broken in *" $t "*) verdict="not judged ($t)"; continue ;; esac
        if ! mk "$tmp/build/release/tests/test_$t" >"$tmp/out" 2>&1; then
            tail -n 12 "$tmp/out"
            verdict='does not compile'
            break
        fi
        quick "$t" || { verdict="killed by $t"; break; }
    done
    case $verdict in killed*) killed=$((killed + 1)) ;; *) status=1 ;; esac
    echo "$verdict  $n: $(sed -n 1p "$patch")"
    patch -p1 -s -R -f -F0 --no-backup-if-mismatch <"$patch" || exit 1
done
echo "$killed of $total mutants killed"
exit $status
