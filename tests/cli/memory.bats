#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Little memory: every command ends within seconds, with a sentence or with its work done.
load helpers

# within MB COMMAND...: under that limit on addresses; 0 and 1 are answers, a signal, a hang or silence is none.
within() {
    local mb=$1 status=0
    shift
    (ulimit -v $((mb << 10)) && exec timeout -s KILL 30 "$VITRINE" "$@") >out 2>err || status=$?
    [ "$status" = 0 ] || { [ "$status" = 1 ] && [ -s err ]; } ||
        fail "status $status under $mb MB: vitrine $*" "stderr: $(cat err)"
    echo "$status" >>all
}

@test "finding 4: without memory for OpenBLAS's buffers no command waits for it" {
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer takes memory of its own"
    quick --images 0:4 --eps 2/255 --attack pgd:steps=3 --out r
    "$DRAW" --out small --train 16 --test 4 >/dev/null
    printf 'epochs: 1\nbatch: 16\nmicro_batch: 4\nobjective: at\nattack: {eps: 2/255}\nmodel: {dim: 16, depth: 2, heads: 2, hidden: 24, patch: 16}\nprobe: {images: 0}\n' >recipe.yaml
    for mb in 130 170 260 400 1600; do
        within $mb eval "$W" --data "$D" --images 0:4 --eps 2/255 --attack pgd:steps=3 --threads 2
        within $mb verify r --weights "$W" --data "$D" --threads 2
        within $mb gradcheck "$W"
    done
    for mb in 170 400; do
        within $mb curve "$W" --data "$D" --images 0:2 --threads 2 --out c$mb
        within $mb selftest "$W" --data "$D" --images 0:4 --eps 2/255 --threads 2
        within $mb spectrum "$W"
        within $mb train recipe.yaml --data small --threads 2 --out t$mb
    done
    grep -q 0 all && grep -q 1 all || fail "no limit was too low, or none was high enough: $(tr '\n' ' ' <all)"
    (ulimit -v 409600 && "$VITRINE" eval "$W" --data "$D" --images 0:4 --eps 2/255 --threads 4) 2>err && fail "4 threads in 400 MB"
    grep -q "^vitrine: no memory for the matrix products of 4 threads: .* 128 MB for each" err || fail "$(cat err)"
}

@test "what the machine's memory cannot hold is refused before it starts: eval, curve, train" {
    local V="$ROOT/weights/shapes10-vit" S="$ROOT/datasets/shapes10"
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer takes memory of its own"
    refused() {
        local what=$1
        shift
        (ulimit -v 2097152 && exec "$VITRINE" "$@" --out run) >out 2>err && fail "in 2 GiB: vitrine $*"
        grep -q "^vitrine: $what would need [0-9.]* GiB of memory, this machine has 2.0 GiB" err || fail "$(cat err)"
        [ ! -e run ] || fail "a folder was made"
    }
    refused "the evaluation" eval "$V" --data "$S" --images 0:100 --eps 4/255 --attack autoattack --threads 64 --batch 100
    refused "the evaluation" curve "$V" --data "$S" --images 0:100 --threads 64 --batch 100
    refused "the evaluation" eval --oracle "$VITRINE serve $V --batch 300" --batch 300 --data "$S" --images 0:300 --eps 4/255 --attack autoattack --threads 64
    "$DRAW" --out small --train 64 --test 4 >/dev/null
    printf 'epochs: 1\nbatch: 64\nmicro_batch: 64\nobjective: at\nattack: {eps: 2/255}\nmodel: {dim: 512, depth: 8, heads: 8, hidden: 2048, patch: 2}\nprobe: {images: 0}\n' >recipe.yaml
    refused "the training" train recipe.yaml --data small --threads 16
}
