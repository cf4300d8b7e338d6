#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The threat of two bounds a value (--threat box --box FILE): the verdicts of the balls and squares that it can stand
# for, what verify reopens, and what is refused.
load helpers

setup() {
    W=$BASE/w.safetensors D=$BASE/data
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
}

# boxes SCRIPT: runs Python with x [20,3,32,32], the images of $D, and save(NAME, lo, hi, ...).
boxes() {
    /usr/bin/python3 - "$D" <<END
import sys, numpy as np
raw = np.fromfile(sys.argv[1] + "/test_batch.bin", np.uint8).reshape(-1, 3073)
x = (raw[:, 1:] / np.float32(255)).reshape(-1, 3, 32, 32)
def save(name, lo, hi, **more):
    np.savez(name, lo=np.asarray(lo, np.float32), hi=np.asarray(hi, np.float32), **more)
def ball(x, eps): # the floats nearest to the bounds whose distance in double is at most eps
    lo, hi = (np.float32(x.astype(float) + s * eps) for s in (-1, 1))
    lo = np.where(x.astype(float) - lo > eps, np.nextafter(lo, np.float32(2)), lo)
    hi = np.where(hi.astype(float) - x > eps, np.nextafter(hi, np.float32(-1)), hi)
    return np.maximum(lo, 0), np.minimum(hi, 1)
$1
END
}
# same_verdicts A B: what the two runs say of each image after each attack
verdicts() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.image, .entry, .status]' | sort; }
same_verdicts() { diff <(verdicts "$1") <(verdicts "$2") >&2 || fail "the verdicts of $1 and $2 differ"; }
attack_box() { quick --threat box --box "$@"; }
wrong() { # TEXT... -- OPTIONS
    local texts=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    bad 2 "${texts[@]}" -- eval "$W" --data "$D" --out r "$@" || return 1
    [ ! -e r ] || fail "the refused run left something behind"
}

@test "a box that is an linf ball gives the ball's verdicts; header, results and tables name it by its hash" {
    boxes 'save("ball", *ball(x, 2 / 255))'
    local a="--attack pgd:steps=10 --attack apgd-ce:steps=10 --attack square:queries=60 --no-selftest"
    quick --eps 2/255 $a --out ball
    attack_box ball.npz $a --out box
    truth box/results.json '.attacks | any(.broken > 0) and any(.broken < 20) and all(.invalid == 0)'
    same_verdicts ball box
    local sha
    sha=$(sha256sum ball.npz | cut -c 1-64)
    truth box/results.json ".norm == \"box\" and .threat == {box: {sha256: \"$sha\"}}"
    grep -q "box of SHA-256 ${sha:0:12}" box/table.md
    attack_box ball.npz $a --threads 1 --out one
    same_run box one
}

@test "a box around a square gives the verdicts of that patch, and outside of it nothing moves" {
    boxes 'lo, hi = x.copy(), x.copy(); lo[:, :, :6, :6], hi[:, :, :6, :6] = 0, 1; save("square", lo, hi)'
    local a="pgd:steps=30,alpha=0.1"
    quick --threat patch:size=6 --attack $a,where=corner --out patch
    attack_box square.npz --attack $a --save-npz --out box
    truth box/results.json '.attacks[0] | .broken > 0 and .broken < 20'
    same_verdicts patch box
    boxes 'f = np.load("box/adv/pgd.npz"); d = f["x_adv"] != x[f["indices"]]
assert d[:, :, :6, :6].any() and not d[:, :, 6:].any() and not d[:, :, :, 6:].any()'
}

@test "one box for all images; boxes with image numbers; targets; a resumed run" {
    boxes 'lo, hi = x.min(0), x.max(0); save("all", lo, hi); save("one", lo[None], hi[None])
save("numbered", *(np.stack([b, b]) for b in (lo, hi)), index=np.array([7, 3]))'
    attack_box all.npz --attack pgd:steps=5 --out all
    attack_box one.npz --attack pgd:steps=5 --out one
    same_verdicts all one
    attack_box numbered.npz --attack pgd:steps=5 --images 3:4 --out three
    diff <(verdicts three) <(verdicts all | grep '^\[3,') >&2
    wrong "has 2 boxes, and none for image 4" -- --threat box --box numbered.npz --attack pgd --images 3:5
    attack_box all.npz --attack pgd:steps=5 --images 0:9 --out half
    attack_box all.npz --attack pgd:steps=5 --out half --resume
    same_run all half
    bad 2 "another threat" -- eval "$W" --data "$D" --threat box --box one.npz --attack pgd:steps=5 --out half --resume
    attack_box all.npz --attack pgd:steps=20 --targets random --out aimed
    truth aimed/results.json '.attacks[0] | .broken > 0 and .invalid == 0'
}

@test "verify opens the box again by run.json or --box, and tells another file, and a point outside, from it" {
    boxes 'save("b", *ball(x, 8 / 255)); save("narrow", *ball(x, 1 / 255))'
    attack_box b.npz --attack pgd:steps=10 --out run
    good verify run
    says "everything is as the ledger"
    mkdir elsewhere && (cd elsewhere && good verify ../run)
    mv b.npz c.npz
    bad 1 "b.npz: cannot be opened" -- verify run
    good verify run --box c.npz
    bad 1 "is not the box of run: its SHA-256 is" -- verify run --box narrow.npz
    bad 2 "--box goes with RUNDIR" -- verify --adv c.npz --box c.npz --weights "$W" --data "$D" --eps 1/255
    local sha
    sha=$(sha256sum narrow.npz | cut -c 1-64)
    sed -i "1s/\"sha256\":\"$(sha256sum c.npz | cut -c 1-64)\"/\"sha256\":\"$sha\"/" run/ledger.jsonl
    seal run
    bad 1 "are not as they were" -- verify run --box narrow.npz
    says "is invalid, the ledger says broken"
    jq -c 'if .threat then .norm = "linf" else . end' run/ledger.jsonl >x && mv x run/ledger.jsonl && seal run
    bad 1 "box where threat.box does" -- verify run --box narrow.npz
}

@test "refusals: what is no box, does not hold the images, or knows no box" {
    boxes 'lo, hi = ball(x, 0.1)
def broken(name, at, low, high):
    a, b = lo.copy(), hi.copy(); a[at], b[at] = low, high; save(name, a, b)
at = (2, 1, 30, 5); v = x[at]
save("good", lo, hi); save("small", lo[:, :, :16, :16], hi[:, :, :16, :16]); save("first", lo[:2], hi[:2])
save("uneven", lo, hi[:5]); np.savez("nohi", lo=lo); save("far", lo * 255, hi * 255); save("miss", lo, hi, index=np.arange(3))
broken("below", at, -0.25, v); broken("above", at, v, 1.25); broken("nan", at, np.nan, v); broken("nan2", at, v, np.nan)
broken("turned", at, 0.75, 0.25); broken("beside", at, 0.0 if v > 0.5 else 0.9, 0.1 if v > 0.5 else 1.0)'
    local b="--threat box --attack pgd:steps=1 --box"
    wrong "below.npz: lo of image 2 at [1,30,5] is -0.25, must lie in [0,1]" -- $b below.npz
    wrong "above.npz: hi of image 2 at [1,30,5] is 1.25, must lie in [0,1]" -- $b above.npz
    wrong "nan.npz: lo of image 2 at [1,30,5] is nan" -- $b nan.npz
    wrong "nan2.npz: hi of image 2 at [1,30,5] is nan" -- $b nan2.npz
    wrong "turned.npz: lo of image 2 at [1,30,5] is 0.75, must be at most hi, 0.25" -- $b turned.npz
    wrong "beside.npz: the value of image 2 at [1,30,5] is" "must lie in the box of images" -- $b beside.npz
    wrong "small.npz: its images are 16 x 16 pixels, the model's input is 32 x 32" -- $b small.npz
    wrong "first.npz: has 2 boxes, and none for image 2" -- $b first.npz
    wrong "lo is [20,3,32,32], but hi is [5,3,32,32]: must be of one shape" -- $b uneven.npz
    wrong "nohi.npz has no tensor hi (it has: lo" -- $b nohi.npz
    wrong "grey levels 0 to 255: divide by 255" -- $b far.npz
    wrong "miss.npz: has 20 boxes, but the numbers of 3 images" -- $b miss.npz
    wrong "is a folder" -- $b "$D"
    bad 1 "none.npz: cannot be opened" -- eval "$W" --data "$D" --out r $b none.npz
    wrong "needs --box FILE" -- --threat box --attack pgd
    wrong "is for --threat box: give both" -- --box good.npz --eps 8/255 --attack pgd
    wrong "is for --threat box: give both" -- --box good.npz --threat patch:size=3 --attack pgd
    wrong "in place of --norm and --eps" -- $b good.npz --eps 8/255
    wrong "knows nothing of --threat box" -- $b good.npz --eight-bit
    wrong "attack autoattack does not support --threat box" -- --threat box --box good.npz --attack autoattack
    wrong "attack patch-fool does not support --threat box" -- --threat box --box good.npz --attack patch-fool
    wrong "attack ddn does not support --threat box" -- --threat box --box good.npz --attack ddn
    wrong "cannot be combined with" -- --threat box --box good.npz --as-published trades
    bad 2 "vitrine curve has no option '--threat'" -- curve "$W" --data "$D" --threat box --box good.npz --out r
}
