#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The program as such: commands, help, option parsing, output that cannot be written.
load helpers

COMMANDS="bench compare eval gradcheck info list merge new probe selftest spectrum train"
MODEL="heads mean std ln-eps attn-scale preset attn"

options_of() {
    case $1 in
    eval) echo "data attack eps norm images split out resume allow-mixed seed threads exhaustive save-adv save-npz no-selftest wrap $MODEL" ;;
    selftest) echo "data eps norm attack images split out seed threads wrap $MODEL" ;;
    new) echo "seed set $MODEL" ;;
    info) echo "tensors $MODEL" ;;
    probe) echo "input out loss precision param-grads $MODEL" ;;
    gradcheck) echo "images directions seed $MODEL" ;;
    bench) echo "threads train ms $MODEL" ;;
    compare) echo "alpha" ;;
    merge) echo "out allow-mixed" ;;
    spectrum) echo "split all csv plot threads $MODEL" ;;
    train) echo "data out resume init from set dry-run max-steps threads $MODEL" ;;
    esac
}

@test "without a command: the help page on stderr, exit status 2" {
    vt
    [ "$status" = 2 ]
    [ -z "$output" ]
    [[ $stderr == *"Usage: vitrine COMMAND"* ]]
}

@test "--version prints name and version" {
    good --version
    [[ $output =~ ^vitrine\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "help, --help and -h are one page that names every command and the exit statuses" {
    good help
    page=$output
    for c in $COMMANDS; do
        [[ $page == *$'\n'"  $c "* ]] || fail "$c is not in the help page"
    done
    says "0 ok, 1 failed, 2 wrong usage"
    # what people use every day comes first, what developers use last
    [[ $page == *"  eval "*"  list "*"For papers:"*"  table "*"  lab "*"For developers:"*"  probe "*"  help "* ]] || fail "$page"
    good --help
    [ "$output" = "$page" ]
    good -h
    [ "$output" = "$page" ]
}

@test "the help of every command mentions every option, and every option that it mentions is taken" {
    for c in $COMMANDS; do
        good help "$c"
        page=$output
        says "Usage: vitrine $c"
        for o in $(options_of "$c"); do
            [[ $page == *$'\n'"  --$o "* ]] || fail "help $c does not mention --$o"
        done
        for o in $(sed -n 's/^  \(--\?[a-z0-9-]*\) .*/\1/p' <<<"$page"); do
            vt "$c" "$o"
            [[ $stderr != *"has no option"* ]] || fail "help $c mentions $o, which is refused: $stderr"
            [ "$status" = 2 ] || fail "$c $o alone: status $status"
        done
    done
    good help new
    says $'\n  -o FILE'
}

@test "help recipe is a page of its own; the help page names it" {
    good help recipe
    says "attack.eps" "--set"
    good help
    says "vitrine help recipe"
    good help train
    says "vitrine help recipe"
}

@test "COMMAND --help and COMMAND -h are help COMMAND, whatever else is given" {
    good help eval
    page=$output
    good eval --help
    [ "$output" = "$page" ]
    good eval nowhere.safetensors --eps 8 -h
    [ "$output" = "$page" ]
}

@test "an unknown command is refused, with the nearest one" {
    bad 2 "unknown command 'evla'" "did you mean 'eval'?" -- evla
    bad 2 "unknown command 'gradchek'" "did you mean 'gradcheck'?" -- gradchek
    bad 2 "unknown command 'trian'" "did you mean 'train'?" -- trian
    bad 2 "unknown command 'xyzzyx'" "vitrine help" -- xyzzyx
    bad 2 "unknown command 'infos'" "did you mean 'info'?" -- help infos
}

@test "an unknown option is refused, with the nearest one" {
    bad 2 "vitrine eval has no option '--imagse'" "did you mean '--images'?" -- eval w --imagse 0:10
    bad 2 "vitrine train has no option '--dryrun'" "did you mean '--dry-run'?" -- train r.yaml --dryrun
    bad 2 "vitrine eval has no option '--thread'" "did you mean '--threads'?" -- eval w --thread=2
    bad 2 "vitrine info has no option '--head'" "did you mean '--heads'?" -- info w --head 3
    bad 2 "vitrine list has no option '--all'" -- list attacks --all
    bad 2 "vitrine merge has no option '--allow-mix'" "did you mean '--allow-mixed'?" -- merge a --allow-mix
}

@test "an option without its value, a flag with one, too few and too many operands" {
    bad 2 "--eps needs a value" "--eps A/B" -- eval w --eps
    bad 2 "--resume takes no value" "yes" -- eval w --resume=yes
    bad 2 "vitrine info needs WEIGHTS" -- info
    bad 2 "vitrine info: unexpected operand 'b'" -- info a b
    bad 2 "vitrine probe needs" "--input" "--out" -- probe w
    bad 2 "--all takes no value" -- spectrum w --all=yes
    bad 2 "--dry-run takes no value" -- train r.yaml --dry-run=1
    bad 2 "vitrine train: unexpected operand 'b'" -- train a b
    bad 2 "vitrine train needs a RECIPE.yaml" -- train
    bad 2 "vitrine merge needs --out" -- merge a
    bad 2 "vitrine new needs -o" -- new
    bad 2 "vitrine eval needs --data" -- eval "$W"
}

@test "--name=value is --name value, the last one counts, and -- ends the options" {
    quick --images=0:3
    says "clean" "3 / 3"
    quick --images 0:3 --images 0:2
    says "2 / 2"
    cp "$W" ./--odd.safetensors
    good info -- --odd.safetensors
    says "--odd.safetensors"
}

@test "a standard output that is full is a failure, with a sentence" {
    [ -w /dev/full ] || skip "no /dev/full"
    for args in --version "list attacks" "info $W" "eval $W --data $D --images 0:1" "help recipe"; do
        status=0
        "$VITRINE" $args >/dev/full 2>err || status=$?
        [ "$status" = 1 ] || fail "$args: status $status"
        grep -q '^vitrine: standard output' err
    done
}
