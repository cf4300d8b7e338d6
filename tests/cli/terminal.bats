# SPDX-License-Identifier: MIT
# What a terminal of 80 columns gets: util-linux's script gives the program a pseudo-terminal, and keeps all that it
# writes there.
load helpers

W80=weights/shapes10-vit
SHAPES=datasets/shapes10

# on_terminal COMMAND...: `vitrine COMMAND...` on a terminal of 80 columns; `shown` is what was written to it.
on_terminal() {
    local line there
    for there in weights datasets recipes; do ln -sfn "$ROOT/$there" $there; done # short names, as from the repository's root
    printf -v line '%q ' "$VITRINE" "$@"
    TERM=xterm script -qfec "stty cols 80 rows 24 -echo; $line" typescript >/dev/null </dev/null
    sed -e '1d' typescript | sed -e '/^Script done on /,$d' >shown
}

# plain: shown as a person sees it, without styles; a line that was drawn over keeps only its last state.
plain() { sed -e 's/\x1b\[[0-9;]*m//g' -e 's/\r$//' -e 's/.*\r//' shown; }

# narrow: nothing on the terminal was ever wider than 80 columns, in any state of its lines.
narrow() {
    local wide
    wide=$(sed -e 's/\x1b\[[0-9;]*m//g' shown | tr '\r' '\n' | LC_ALL=C.UTF-8 awk 'length($0) > 80')
    [ -z "$wide" ] || fail "wider than 80 columns:" "$wide"
}

@test "tables fit 80 columns: eval, profile, curve, compare" {
    for w in shapes10-plain shapes10-specformer; do
        on_terminal eval "weights/$w" --data "$SHAPES" --images 0:40 --eps 4/255 --attack pgd:steps=2 --attack cw20 --eight-bit --out $w
        narrow
    done
    plain | grep -qE '^worst case, 8-bit +[0-9]+ / 40 '
    on_terminal compare shapes10-specformer shapes10-plain
    narrow
    plain | grep -qE '^pgd .* worse '
    on_terminal curve "$W80" --data "$SHAPES" --images 0:6 --confirm 2/255 --confirm-with pgd:steps=2 --out c
    narrow
    plain | grep -qE '^2/255 .* confirmed'
    on_terminal eval "$W80" --data "$SHAPES" --images 0:4 --eps 8/255 --profile quick --out q
    narrow
    plain | grep -q 'after pgd (loss=margin)'
    plain | grep -q 'after pgd (loss=ce)'
}

@test "tables fit 80 columns: info, list, bench, spectrum, selftest, table, lab, analyze, train --dry-run" {
    on_terminal info "$W80"
    narrow
    on_terminal info "$W80" --tensors
    narrow
    on_terminal info "$W80" --explain
    narrow
    for k in attacks models formats wraps labs analyses; do
        on_terminal list $k
        narrow || fail "list $k"
    done
    on_terminal bench "$W80" --ms 20 --threads 1 --train
    narrow
    on_terminal spectrum "weights/cifar10-at" --all
    narrow
    on_terminal spectrum "weights/shapes10-plain" "weights/shapes10-specformer"
    narrow
    on_terminal selftest "$W80" --data "$SHAPES" --images 0:6 --eps 4/255 --attack pgd
    narrow
    on_terminal table "recipes/tables/specformer_table2_small.yaml" --dry-run
    narrow
    on_terminal table --published "recipes/published/specformer_tables.csv" --claims "recipes/published/specformer_claims.csv"
    narrow
    on_terminal table --published "recipes/published/uam_table2.csv"
    narrow
    on_terminal lab attgd --part margin --quick
    narrow
    on_terminal lab regions --most 50 --draws 2
    narrow
    on_terminal analyze lipschitz "$W80" --data "$SHAPES" --images 0:4 --eps 4/255
    narrow
    on_terminal analyze attention "$W80" "weights/shapes10-plain" --data "$SHAPES" --images 0:4 --eps 4/255
    narrow
    on_terminal analyze spectrum "$W80"
    narrow
    on_terminal train "recipes/shapes10_plain.yaml" --data "$SHAPES" --dry-run
    narrow
}

# No row of a table is wider than 80 columns in a pipe either, where sentences are left as they are.
@test "tables fit 80 columns in a pipe" {
    for there in weights datasets recipes; do ln -s "$ROOT/$there" $there; done
    while read -r line; do
        "$VITRINE" $line >out.txt
        wide=$(LC_ALL=C.UTF-8 awk 'length($0) > 80 && gsub(/[^ ]  +[^ ]/, "&") >= 2' out.txt)
        [ -z "$wide" ] || fail "vitrine $line:" "$wide"
    done <<END
eval weights/shapes10-vit --data datasets/shapes10 --images 0:4 --eps 8/255 --profile quick
spectrum weights/cifar10-at --all
spectrum weights/shapes10-plain weights/shapes10-specformer weights/shapes10-vit
table --published recipes/published/specformer_tables.csv
table recipes/tables/specformer_table2_small.yaml --dry-run
END
}

@test "a wide table comes in parts, and nothing is lost" {
    on_terminal analyze lipschitz weights/shapes10-vit --data datasets/shapes10 --images 0:4 --eps 4/255 --out a
    narrow
    plain | grep -qE '^layer +Thm 4.2'
    numbers() { grep -oE '[0-9]+\.[0-9]+(e[+-][0-9]+)?' "$1" | sort; }
    [ -z "$(comm -13 <(numbers shown) <(numbers a/tables.txt))" ]
}

@test "train's progress is one line, and Ctrl-C begins a new one" {
    ln -s "$ROOT/recipes" "$ROOT/datasets" .
    ( # until a line of an epoch was drawn over: a state of it that is followed by its last one
        until grep -q $'epoch [0-9]*/20000 step.*\r.*epoch [0-9]*/20000 step' typescript 2>/dev/null; do sleep 0.05; done
        kill -INT "$(cat pid)"
    ) 3>&- &
    printf '#!/bin/sh\necho $$ >pid\nexec "$VITRINE" "$@"\n' >started
    chmod +x started
    TERM=xterm script -qfec "stty cols 80 rows 24; ./started train recipes/shapes10_plain.yaml --data datasets/shapes10 --set epochs=20000 --threads 1 --out u" typescript >/dev/null </dev/null || true
    wait
    sed -e 1d -e '/^Script done on /,$d' typescript >shown
    narrow
    [ "$(tr '\r' '\n' <shown | grep -c '^epoch [0-9]*/20000 step')" -gt "$(plain | grep -c '^epoch [0-9]*/20000 step')" ]
    plain | grep -q '^vitrine: stopped after step [0-9]* of 20000; go on with --resume$'
}

@test "eval's progress names the entry that runs and the time of the whole run" {
    on_terminal eval weights/shapes10-vit --data datasets/shapes10 --images 0:40 --eps 4/255 --attack pgd:steps=3 --attack cw20:steps=100 \
        --attack pgd:steps=5,loss=margin+apgd-ce:steps=5 --threads 1
    narrow
    states=$(tr '\r' '\n' <shown)
    grep -qE '^cw20 +[0-9]+ of [0-9]+, robust [0-9]+, [0-9.e+]+ images/s, run [0-9.]+ (s|min|h) left' <<<"$states"
    grep -qE '^pgd\+apgd-ce: (pgd|apgd-ce) +[0-9]+ of' <<<"$states" || fail "$(grep -oE '^[a-z+0-9:-]+( [a-z-]+)? +[0-9]+ of' <<<"$states" | sort -u)"
    [[ $states != *"images, robust"* ]]
}

@test "a verdict is bold, held green, worse red; NO_COLOR, TERM=dumb and a pipe give plain text" {
    for w in plain specformer; do
        on_terminal eval weights/shapes10-$w --data datasets/shapes10 --images 0:60 --eps 4/255 --attack pgd:steps=3 --out $w
    done
    grep -q $'^\x1b\[1mpgd\x1b\[0m' shown
    on_terminal compare plain specformer
    grep -q $'\x1b\[32mheld\x1b\[0m' shown
    on_terminal compare specformer plain
    grep -q $'\x1b\[31mworse\x1b\[0m' shown
    NO_COLOR=1 on_terminal compare specformer plain
    never grep -q $'\x1b' shown
    grep -q worse shown
    NO_COLOR=1 on_terminal eval weights/shapes10-plain --data datasets/shapes10 --images 0:60 --eps 4/255 --attack pgd:steps=3
    never grep -q $'\x1b' shown
    "$VITRINE" compare specformer plain >out.txt
    never grep -q $'\x1b' out.txt
    grep -q worse out.txt
}
