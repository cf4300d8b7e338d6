#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The patch threat on the command line: header, evidence, resume, refusals; attacks that look at attention.
load helpers

S=patch:size=3,count=2
# values FILE INDEX: image INDEX of a file of float32 images of the tiny model
image() { od -An -v -tf4 -w4 -j "$(($2 * 4 * N))" -N "$((4 * N))" "$1"; }

wrong() { # TEXT... -- OPTIONS
    local texts=()
    while [ "$1" != -- ]; do texts+=("$1") && shift; done
    shift
    bad 2 "${texts[@]}" -- eval "$W" --data "$D" --out r "$@" || return 1
    [ ! -e r ] || fail "the refused run left something behind"
}

@test "a patch run states its threat in header, results and tables, and every broken image is inside" {
    quick --threat $S --attack pgd:steps=5 --attack patch-fool:steps=5 --attack square:queries=20 --out r
    says "patch 3 x 3, count 2, anywhere" where=saliency where=attention where=random
    truth r/results.json '.norm == "patch" and .threat == {patch: {size: 3, count: 2, aligned: false}}'
    truth r/results.json '.attacks | all(.invalid == 0) and any(.broken > 0)'
    grep -q "patch 3 x 3, count 2, anywhere" r/table.md
    grep -q "patch 3 x 3, count 2, anywhere" r/table.tex
    head -1 r/ledger.jsonl | jq -e '.threat.patch.size == 3' >/dev/null
}

@test "outside the squares nothing changed: the stored images against the pixels of the data" {
    quick --threat patch:size=4 --attack pgd:steps=20,places=4 --save-npz --out r
    truth r/results.json '.attacks[0].broken > 0'
    side=$(jq .model.image.value r/results.json) N=$((3 * side * side))
    while read -r index offset; do
        image r/adv.bin $((offset / 4 / N)) >adv
        od -An -v -tu1 -w1 -j $((index * 3073 + 1)) -N "$N" "$D/test_batch.bin" >clean
        # float32 of u8/255 and what od prints of it agree to 1e-6; a moved pixel moves by more
        paste adv clean | awk -v s="$side" '{ d = $1 - $2 / 255; i = (NR - 1) % (s * s); y = int(i / s); x = i % s
            if (d > 1e-6 || d < -1e-6) { if (!n++) { t = b = y; l = r = x }
                if (y < t) t = y; if (y > b) b = y; if (x < l) l = x; if (x > r) r = x } }
            END { exit !(n > 0 && b - t < 4 && r - l < 4) }' || fail "image $index moved outside a square of 4"
    done < <(jq -r 'select(.adv != null) | "\(.image) \(.adv)"' r/ledger.jsonl)
}

@test "threads, and a run in two halves, change nothing; another threat is not resumed" {
    quick --threat $S --attack apgd-ce:steps=5 --threads 1 --out one
    quick --threat $S --attack apgd-ce:steps=5 --threads 3 --out three
    same_run one three
    quick --threat $S --attack apgd-ce:steps=5 --images 0:7 --out half
    quick --threat $S --attack apgd-ce:steps=5 --out half --resume
    same_run one half
    bad 2 "another threat" -- eval "$W" --data "$D" --threat patch:size=4,count=2 --attack apgd-ce:steps=5 --out one --resume
}

@test "refusals: size, grid, count, words, attacks that know no patch" {
    wrong "size is 99 pixels" "images of" -- --threat patch:size=99 --attack pgd
    wrong "needs a size" -- --threat patch --attack pgd
    wrong "must be patch:size=N" -- --threat squares:size=3 --attack pgd
    wrong "count is 17" -- --threat patch:size=3,count=17 --attack pgd
    wrong "in place of --norm and --eps" -- --threat $S --eps 8/255 --attack pgd
    wrong "in place of --norm and --eps" -- --threat $S --norm l2 --attack pgd
    wrong "does not support --threat patch" -- --threat $S --attack autoattack
    wrong "must be a multiple of the token's" -- --threat patch:size=3,aligned=1 --attack pgd
    wrong "it is for --threat patch" -- --eps 8/255 --attack patch-fool
    wrong "no option 'where'" -- --eps 8/255 --attack pgd:where=centre
    wrong "black-box" -- --threat $S --attack square:where=attention
}

@test "models without attention between all tokens: attention is refused, saliency is not" {
    good new swin_tiny_patch2_window4_32 --set dim=8 depth=2 heads=2 patch=4 --form stages=2 --form stage_depth=1,1 \
        --form stage_heads=2,2 -o swin.safetensors
    bad 2 "swin models do not have" "saliency" -- eval swin.safetensors --data "$D" --threat patch:size=8 --attack pgd:where=attention --images 0:8
    bad 2 "looks at attention" -- eval swin.safetensors --data "$D" --eps 1/255 --attack attention-pgd --images 0:8
    good eval swin.safetensors --data "$D" --threat patch:size=8 --attack pgd:steps=2,where=saliency --images 0:8 --out s
}

@test "attention-pgd works in norms" {
    quick --eps 2/255 --attack attention-pgd:steps=5 --attack attention-pgd:steps=5,query=class,key=1 --images 0:5
    quick --norm l2 --eps 0.3 --attack attention-pgd:steps=5 --images 0:5
}

@test "list attacks tells of patches" {
    good list attacks
    says patch-fool attention-fool attention-pgd "linf, l2, patch" "under --threat patch" places
}
