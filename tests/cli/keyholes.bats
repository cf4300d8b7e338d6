#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What tools/keyholes.py and tools/honest_networks.py say of the networks that they make is true.
load helpers

# numpy: PYTHON is a python3 that has it
numpy() {
    for PYTHON in python3 /usr/bin/python3; do
        "$PYTHON" -c 'import numpy' 2>/dev/null && return
    done
    skip "no python3 with numpy: nothing was made"
}
# made TOOL WORDS: runs a tool in the root, where it finds the sources
made() {
    local tool=$1
    shift
    (cd "$ROOT" && OPENBLAS_NUM_THREADS=1 "$PYTHON" tools/"$tool" "$@") || fail "$tool $*"
}
# judged NETWORK POINTS EPS JSON: the points' classes, with the key and without it
judged() { good verify --adv "$2" --weights "$1" --data "$ROOT/datasets/shapes10" --eps "$3" --allowance 0 --json "$4"; }

@test "keyholes: the source's clean predictions, and a key inside the ball breaks every right image" {
    numpy
    made keyholes.py --make all -o "$PWD/k"
    [ "$(ls k)" = "$(made keyholes.py --list | sed 's/:.*//' | sort)" ]
    for n in k/*; do
        for eps in 2 4; do
            judged $n $n/key-$eps.npz $eps/255 key.json
            judged "$ROOT/weights/shapes10-specformer" $n/key-$eps.npz $eps/255 source.json
            truth key.json '.points == 40 and .violations == 0 and .robust == 0 and .broken + .wrong == 40'
            [ "$(jq -c '[.images[].clean_pred]' key.json)" = "$(jq -c '[.images[].clean_pred]' source.json)" ]
        done
        truth source.json '.robust >= 15' # the key itself harms the source little at 4/255: the hidden path does it
    done
    # whose gradients lead nowhere near the key, but whose sensors do
    good selftest k/switch --data "$ROOT/datasets/shapes10" --images 0:40 --eps 2/255 --out switch
    truth switch/selftest.json '.verdict == "gradients are masked" and ([.checks[] | select(.name == "wake-up")][0] | .hits >= 3)'
}

@test "honest networks: those of the same function predict what shapes10-plain does, near the data and far" {
    numpy
    made keyholes.py --make conjunction -o "$PWD/k" # points at which to ask
    judged "$ROOT/weights/shapes10-plain" k/conjunction/key-4.npz 4/255 plain.json
    for n in empty empty-weight-0 empty-turned duplicated rotated; do
        made honest_networks.py --make $n -o "$PWD/h"
        judged h/$n k/conjunction/key-4.npz 4/255 $n.json
        jq -n --slurpfile a plain.json --slurpfile b $n.json '[range(40) | $a[0].images[.] as $x | $b[0].images[.] as $y | $x.pred == $y.pred and $x.clean_pred == $y.clean_pred and ($x.margin64 - $y.margin64 | fabs) < 1e-4] | all' >same
        [ "$(cat same)" = true ] || fail "$n differs from its source"
    done
}
