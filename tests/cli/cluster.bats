#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# recipes/cluster: the scripts for Slurm, by stand-ins for sbatch and srun, which run what they are given.
load helpers

ARRAY=$ROOT/recipes/cluster/array.sbatch RANKS=$ROOT/recipes/cluster/ranks.sbatch

# sbatch --array=1-N SCRIPT ARGS, or --ntasks=N: every task after the other, with the variables that Slurm sets.
fake_sbatch() {
    local array="" n=1 k
    while [[ $1 == --* ]]; do
        case $1 in
            --array=*) array=${1#--array=} ;;
            --ntasks=*) export SLURM_NTASKS=${1#--ntasks=} ;;
            --cpus-per-task=*) export SLURM_CPUS_PER_TASK=${1#--cpus-per-task=} ;;
        esac
        shift
    done
    if [ -z "$array" ]; then
        bash "$@"
        return
    fi
    export SLURM_ARRAY_TASK_MIN=${array%-*} SLURM_ARRAY_TASK_MAX=${array#*-}
    n=$((SLURM_ARRAY_TASK_MAX - SLURM_ARRAY_TASK_MIN + 1))
    for k in $(seq "$SLURM_ARRAY_TASK_MIN" "$SLURM_ARRAY_TASK_MAX"); do
        SLURM_ARRAY_TASK_ID=$k SLURM_ARRAY_TASK_COUNT=$n bash "$@" || return
    done
}

@test "an array of evaluations, joined, is the run in one piece; the same line again changes nothing" {
    local args="$W --data $D --eps 2/255 --attack pgd:steps=3"
    fake_sbatch --array=1-3 "$ARRAY" eval parts 20 $args >/dev/null
    good eval $args --images 0:20 --no-selftest --out whole
    good merge parts/1 parts/2 parts/3 --out joined
    same_run whole joined
    before=$(sums joined)
    fake_sbatch --array=1-3 "$ARRAY" eval parts 20 $args >/dev/null
    [ "$(sums joined)" = "$before" ]
}

@test "an array of a table's parts, joined, is the table in one piece" {
    "$DRAW" --out images --train 32 --test 10 --seed 3 >/dev/null
    cat >r.yaml <<END
{epochs: 1, batch: 16, micro_batch: 8, objective: ce, model: {dim: 8, depth: 1, heads: 1, hidden: 8, patch: 16}}
END
    cat >m.yaml <<END
name: m
data: {D: {path: images, side: 32, classes: 10, train: 32, test: 10}}
attacks: {clean: {}, FGSM: {spec: fgsm, eps: 8/255}}
rows: {A: {recipe: r.yaml}, B: {recipe: r.yaml, set: ["lr=0.01"]}}
END
    good table m.yaml --out whole
    fake_sbatch --array=1-2 "$ARRAY" table parts m.yaml >/dev/null
    good table m.yaml --out joined --merge parts/1 --merge parts/2
    cmp whole/m.csv joined/m.csv && cmp whole/m.md joined/m.md
}

@test "ranks: what srun is given" {
    mkdir bin
    printf '#!/bin/sh\necho "threads $OMP_NUM_THREADS: $*"\n' >bin/srun && chmod +x bin/srun
    PATH=$PWD/bin:$PATH
    run fake_sbatch --ntasks=4 --cpus-per-task=2 "$RANKS" eval w --data d --out o
    [ "$output" = "threads 2: --mpi=pmix --cpus-per-task=2 vitrine-mpi eval w --data d --out o --resume" ] || fail "$output"
    VITRINE_PMI=pmi2 VITRINE_MPI=/opt/v run fake_sbatch --ntasks=4 "$RANKS" table m.yaml --out o
    [ "$output" = "threads 1: --mpi=pmi2 --cpus-per-task=1 /opt/v table m.yaml --out o" ] || fail "$output"
}

@test "lines that would leave work out are refused, with status 2, before anything runs" {
    refused() {
        local text=$1
        shift
        run fake_sbatch "$@"
        [ "$status" = 2 ] && [[ $output == *"$text"* ]] && [ ! -e o ] || fail "status $status: $output"
    }
    run bash "$ARRAY" eval o 20 "$W"
    [ "$status" = 2 ] && [[ $output == *"is a job array"* ]] || fail "$output"
    refused "must be 1-N" --array=0-3 "$ARRAY" eval o 20 "$W" --data "$D"
    refused "must be 1-N" --array=2-3 "$ARRAY" eval o 20 "$W" --data "$D"
    refused "at most 16 parts" --array=1-17 "$ARRAY" eval o 20 "$W" --data "$D"
    refused "cannot be cut" --array=1-3 "$ARRAY" eval o 2 "$W" --data "$D"
    refused "IMAGES is 'ten'" --array=1-3 "$ARRAY" eval o ten "$W" --data "$D"
    refused "must be eval or table" --array=1-3 "$ARRAY" train o r.yaml --data "$D"
    refused "wants eval OUT" --array=1-3 "$ARRAY" eval o
    run bash "$RANKS" eval w
    [ "$status" = 2 ] && [[ $output == *"several tasks"* ]] || fail "$output"
    refused "must be eval, curve, train or table" --ntasks=2 "$RANKS" info w
}

@test "shellcheck has nothing to say" {
    here shellcheck
    shellcheck "$ARRAY" "$RANKS"
}
