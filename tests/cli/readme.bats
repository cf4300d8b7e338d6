#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# README.md: every command of its blocks runs as written, every command and option it names is there, every file too.
load helpers

# blocks: the commands of README's ```sh blocks, a line each, without their comments.
blocks() { sed -n '/^```sh$/,/^```$/p' "$ROOT/README.md" | grep -v '^```' | sed 's/ *#.*//'; }

@test "every command of README's blocks runs as written" {
    mkdir build
    ln -s "$VITRINE" build/vitrine
    ln -s "$ROOT/weights" "$ROOT/datasets" "$ROOT/recipes" .
    "$DRAW" --out cifar-10-batches-bin --train 20 --test 200 --seed 1 >/dev/null # in CIFAR-10's place and form
    blocks >commands
    [ "$(grep -c '^build/vitrine' commands)" -ge 6 ] || fail "README has few commands: $(cat commands)"
    [ "$(grep -vc '^build/vitrine' commands)" = 1 ] # make demo, which builds
    grep '^build/vitrine' commands >ours
    while read -r line; do
        bash -c "$line" >out 2>err || fail "status $? of: $line" "$(cat err)" || return 1
    done <ours
    [ -s runs/first.html ]
    grep -q '"version"' runs/quick/results.json
}

@test "every command, option and file that README names is there" {
    for name in $(grep -oE 'vitrine [a-z]+' "$ROOT/README.md" | awk '{print $2}' | sort -u); do
        case $name in loads|attacks|reads|stops|show) continue ;; esac # words of a sentence; show is run above
        "$VITRINE" help "$name" >/dev/null || fail "no command $name" || return 1
    done
    { "$VITRINE" help eval && "$VITRINE" help doctor && "$VITRINE" help train; } >help
    for option in $(grep -oE -- '--[a-z][a-z-]*' "$ROOT/README.md" | sort -u); do
        grep -q -- "$option" help || fail "neither eval, doctor nor train has the option $option" || return 1
    done
    for file in $(grep -oE '\]\([A-Za-z/._-]+\)' "$ROOT/README.md" | tr -d '])(' ); do
        [ -e "$ROOT/$file" ] || fail "README links to $file, which is not there" || return 1
    done
    [ "$(wc -l <"$ROOT/README.md")" -le 125 ]
}
