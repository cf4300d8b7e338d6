#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Wraps that are defences: what is attacked is the wrapped classifier, whatever the threads; refusals; cost estimates.
load helpers

setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    W=$ROOT/weights/shapes10-vit D=$ROOT/datasets/shapes10
}

# the ledger's lines without their order, and what follows from it
lines() { tail -n +2 "$1/ledger.jsonl" | jq -c '[.image, .entry, .status, .borderline, .pred, .margin, .gradients, .forwards, .sha]' | sort; }

@test "patchcleanser: attacked as a whole, the same by one thread and by two, judged again to the last bit" {
    local run="eval $W --data $D --images 0:12 --threat patch:size=4 --attack pgd:steps=3 --wrap patchcleanser:patch=4,masks=3"
    good $run --threads 1 --out a
    says "a defence around it (patchcleanser:patch=4,masks=3)"
    good $run --threads 2 --batch 2 --out b
    cmp <(lines a) <(lines b)
    good verify a --weights "$W" --data "$D"
    says "WRAPPED: judged under the same wrap (patchcleanser:patch=4,masks=3)" "to the last bit"
}

@test "smooth: the same draws by one thread and by two, PGD and smooth-pgd beside it, uncertain answers are borderline" {
    local run="eval $W --data $D --images 0:8 --norm l2 --eps 0.5 --attack pgd:steps=2,loss=ce --attack smooth-pgd:steps=2,draws=2"
    good $run --wrap smooth:sigma=0.25,n0=12,n=20 --threads 1 --out a
    good $run --wrap smooth:sigma=0.25,n0=12,n=20 --threads 2 --batch 2 --out b
    cmp <(lines a) <(lines b)
    good verify a --weights "$W" --data "$D"
    good $run --wrap smooth:sigma=0.25,n0=12,n=20 --seed 1 --threads 1 --out c
    ! cmp -s <(lines a) <(lines c) || fail "another seed draws the same noise"
    good eval "$W" --data "$D" --images 0:20 --norm l2 --eps 0.5 --attack fgsm --wrap smooth:sigma=1,n0=12,n=20 --out d
    lines d | grep -q ',0,"[a-z]*",true,' || fail "under much noise no answer is uncertain"
}

@test "--certify masks: the same by one thread and by two, resumed to the same report; no attack breaks what it proves" {
    local run="eval $W --data $D --images 0:24 --threat patch:size=2 --attack pgd:steps=4,places=3 --wrap patchcleanser:patch=2,masks=3 --certify masks"
    good $run --threads 1 --out a
    says "certified (masks)" "gives no other class, whatever stands in one square of 2 pixels"
    good $run --threads 2 --batch 2 --out b
    cmp <(lines a) <(lines b)
    truth a/results.json '.certified.certified >= 2 and .certified.undecided >= 2'
    good verify a --weights "$W" --data "$D"
    # 9 masks: 45 predictions prove, and fewer end at a disagreement
    [ "$(lines a | grep '"certified"' | jq -c '.[7]' | sort -u)" = 45 ]
    lines a | grep '"undecided"' | jq -e '.[7] < 45' >/dev/null
    comm -12 <(lines a | grep '"certified"' | jq '.[0]' | sort) <(lines a | grep '"broken"' | jq '.[0]' | sort) >both
    [ ! -s both ] || fail "certified and broken: $(cat both)"
    mkdir cut && cp a/* cut && head -n 20 a/ledger.jsonl >cut/ledger.jsonl
    good $run --threads 1 --out cut --resume
    cmp a/results.json cut/results.json
    # a smaller patch lies in the same masks: the same certificates
    good eval "$W" --data "$D" --images 0:24 --threat patch:size=1 --attack pgd:steps=1 --wrap patchcleanser:patch=2,masks=3 --certify masks --out small
    cmp <(lines a | grep '"certified"') <(lines small | grep '"certified"')
}

@test "--certify smooth: radii above eps certify, the same by one thread and by two; fewer draws, smaller radii" {
    local run="eval $W --data $D --images 0:12 --norm l2 --eps 0.1 --attack fgsm --certify smooth"
    good $run --wrap smooth:sigma=0.12,n0=30,n=200 --threads 1 --out a
    says "certified (smooth)" "with probability at least 1 - alpha"
    good $run --wrap smooth:sigma=0.12,n0=30,n=200 --threads 2 --batch 2 --out b
    cmp <(lines a) <(lines b)
    good verify a --weights "$W" --data "$D"
    radii() { tail -n +2 "$1/ledger.jsonl" | jq -c "select(.entry > 1000 and $2) | [.image, .l2, .forwards]"; }
    [ "$(radii a '.status == "certified"' | wc -l)" -ge 2 ]
    radii a '.status == "certified"' | jq -es 'all(.[]; .[1] > 0.1 and .[2] == 230)' >/dev/null
    radii a '.status == "undecided"' | jq -es 'all(.[]; .[1] == null or .[1] <= 0.1)' >/dev/null
    # all votes of 200 for one class prove 0.12 Phi^-1(0.001^(1/200)) = 0.2191
    radii a 'true' | jq -es 'all(.[]; .[1] == null or .[1] < 0.21909)' >/dev/null
    good eval "$W" --data "$D" --images 0:12 --norm l2 --eps 0.1 --attack fgsm --certify smooth --wrap smooth:sigma=0.12,n0=30,n=20 --out few
    radii few 'true' | jq -es 'all(.[]; .[1] == null or .[1] < 0.0657)' >/dev/null # Phi^-1(0.001^(1/20)) = 0.547
}

@test "a defence multiplies the cost that a dry run shows" {
    gflop() { # OPTIONS...
        good eval "$W" --data "$D" --images 0:4 --norm l2 --eps 0.5 --attack pgd:steps=2 --dry-run "$@"
        awk '/^pgd/ { print $5 }' <<<"$output"
    }
    awk -v a="$(gflop)" -v b="$(gflop --wrap smooth:n0=50)" 'BEGIN { exit !(b / a > 50 && b / a < 75) }'
    awk -v a="$(gflop)" -v b="$(gflop --wrap patchcleanser:masks=4)" 'BEGIN { exit !(b / a > 5 && b / a < 17) }'
}

@test "options that prove or say nothing, a view that is not there: one sentence, nothing written" {
    local l2="eval $W --data $D --images 0:2 --norm l2 --eps 0.5"
    bad 2 "n is 9, but with alpha=0.001" "at least 10" -- $l2 --attack fgsm --wrap smooth:n=9 --out o
    bad 2 "n0 is 10, but with alpha=0.001" "at least 11" -- $l2 --attack fgsm --wrap smooth:n0=10 --out o
    bad 2 "sigma is 0," -- $l2 --attack fgsm --wrap smooth:sigma=0 --out o
    bad 2 "looks at attention" "wrap smooth" -- eval "$W" --data "$D" --images 0:2 --eps 1/255 --attack attention-pgd --wrap smooth --out o
    local patch="eval $W --data $D --images 0:2 --threat patch:size=4 --attack pgd:steps=2"
    bad 2 "patch is 32 pixels, must be smaller than the images of 32 x 32" -- $patch --wrap patchcleanser:patch=32 --out o
    bad 2 "masks is 17" -- $patch --wrap patchcleanser:masks=17 --out o
    bad 2 "masks is 1," -- $patch --wrap patchcleanser:masks=1 --out o
    bad 2 "size is 4 pixels" "cover patches up to 3" -- $patch --wrap patchcleanser:patch=3 --certify masks --out o
    bad 2 "proves one patch" "count=2" -- eval "$W" --data "$D" --images 0:2 --threat patch:size=2,count=2 --attack pgd --wrap patchcleanser --certify masks --out o
    bad 2 "masks needs --wrap patchcleanser" -- $patch --certify masks --out o
    bad 2 "masks needs --threat patch" "l2" -- $l2 --attack fgsm --wrap patchcleanser --certify masks --out o
    bad 2 "smooth needs --wrap smooth" -- $l2 --attack fgsm --wrap noise --certify smooth --out o
    bad 2 "smooth knows l2 alone" "linf" -- eval "$W" --data "$D" --images 0:2 --eps 1/255 --attack fgsm --wrap smooth --certify smooth --out o
    [ ! -e o ]
}

@test "selftest runs around a defence, without the active test" {
    vt selftest "$W" --data "$D" --images 0:12 --eps 1/255 --wrap patchcleanser:patch=4,masks=2 --out r
    [ "$status" = 0 ] || fail "$stderr"
    says "active"
}
