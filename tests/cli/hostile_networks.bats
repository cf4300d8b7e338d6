#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Hostile .onnx and .vnnlib files, some 750 of them (tests/fixtures/hostile): each is refused in one sentence or is sound,
# within seconds and bounded memory, and no file outside of the model's folder is opened.
load helpers

hostile() { # PROGRAM
    run /usr/bin/python3 "$ROOT/tests/fixtures/hostile/run.py" h "$1" "$ROOT/datasets/shapes10"
}

@test "hostile networks and specifications: one sentence each, no crash, nothing outside is opened" {
    hostile "$VITRINE"
    [ "$status" = 0 ] && [[ $output == *" specifications: 0 faults" ]] || fail "$output"
}

@test "programs that take all, crash or talk are found out" {
    hostile /bin/true
    [ "$status" = 1 ] && [[ $output == *"empty: taken, must be refused"* ]] || fail "$output"
    rm -r h
    printf '#!/bin/sh\ncase $2 in */cut-1.onnx) kill -SEGV $$ ;; */cut-5.onnx) printf "vitrine: a\\nb\\n" >&2 ;; esac\ncat "$(dirname "$2")/../out/secret" >/dev/null\necho "vitrine: no" >&2\nexit 1\n' >bad && chmod +x bad
    hostile "$PWD/bad"
    [ "$status" = 1 ]
    for text in "info cut-1: signal 11" "info cut-5: 3 lines" "falsify good: refused, though it is sound" "a file outside"; do
        [[ $output == *"$text"* ]] || fail "'$text' is not in: $output" || return 1
    done
}
