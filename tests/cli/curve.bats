#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine curve: accuracy over eps in one run.
load helpers

FILES="curve.csv curve.json ledger.jsonl adv.bin"

curve() { good curve "$W" --data "$D" "$@"; }

same_curve() { # A B
    local f
    for f in $FILES; do cmp "$1/$f" "$2/$f" >&2 || fail "$f differs" || return 1; done
}

@test "the curve begins at the clean accuracy, never rises, and falls by the images of each line" {
    curve --attacks fmn:steps=30,deepfool --confirm 1/255,8/255 --confirm-with pgd:steps=5 --out c
    says "fmn" "deepfool" "pgd@1/255" "confirmed"
    [ "$(head -n 1 c/curve.csv)" = "eps,robust,images,percent,low95,high95,broken,attack,confirmed" ]
    awk -F, 'NR == 2 { if ($1 != 0 || $2 != 20) exit 1 } NR > 2 { if ($1 <= e || $2 != r - $7) exit 1 }
             NR > 1 { e = $1; r = $2 } END { exit NR < 5 }' c/curve.csv || fail "$(cat c/curve.csv)"
    [ "$(awk -F, '$9 == 1' c/curve.csv | wc -l)" = 2 ]
    truth c/curve.json '.format == "vitrine curve 1" and .total == 20 and .right == 20 and (.images | length) == 20'
    # each image's distance is the smallest of its norms, which are those of the ledger
    truth c/curve.json '[.images[] | .distance == ([.norms[] | select(. != null)] | min)] | all'
    jq -s '[.[] | select(.entry == 1) | .linf]' c/ledger.jsonl >fmn
    jq -e --slurpfile f fmn '[.images[].norms[0]] == $f[0]' c/curve.json >/dev/null
    # and the curve is what they say
    truth c/curve.json '. as $c | [.points[] | . as $p | $p.robust == ([$c.images[] | select(.right and (.distance == null or .distance > $p.eps))] | length)] | all'
}

@test "an evaluation at a fixed eps agrees with the curve of the same attack" {
    curve --attacks fmn:steps=30 --out c
    # just above and just below the fifth smallest norm
    eps=$(jq '[.images[].distance] | sort | .[4] * 1.002' c/curve.json)
    below=$(jq '[.images[].distance] | sort | .[4] * 0.998' c/curve.json)
    quick --attack fmn:steps=30 --eps "$eps" --out above
    truth above/results.json '[.. | objects | select(has("robust")) | .robust] | min <= 15'
    [ "$(jq -s '[.[] | select(.entry == 1 and .status == "broken")] | length' above/ledger.jsonl)" -ge 5 ]
    quick --attack fmn:steps=30 --eps "$below" --out below
    [ "$(jq -s '[.[] | select(.entry == 1 and .status == "broken")] | length' below/ledger.jsonl)" = 4 ]
}

@test "confirmation runs only on images that stand, and breaks some that a weak attack left" {
    curve --attacks deepfool:steps=1,overshoot=0 --confirm 4/255,16/255 --confirm-with pgd:steps=20 --out c
    says "pgd@4/255" "pgd@16/255"
    truth c/curve.json '.attacks[2].tried < 20 and .attacks[1].tried <= 20 and .attacks[2].tried <= .attacks[1].tried - .attacks[1].found'
    truth c/curve.json '(.attacks[1].found + .attacks[2].found) > 0'
    truth c/curve.json '[.images[] | select(.attack == 1 or .attack == 2) | .distance <= 16/255] | all'
}

@test "l2 and l1; targets" {
    for norm in l2 l1; do
        curve --norm $norm --attacks fmn:steps=20 --images 0:3 --out $norm
        truth $norm/curve.json '.right == 3 and ([.images[].distance] | map(. > 0) | all)'
        says "$norm, 3 images"
    done
    curve --norm l2 --attacks ddn:steps=20,cw-l2:steps=20,search=3,fmn:steps=20,target=3 --images 0:2 --out t
    truth t/curve.json '(.attacks | length) == 3 and (.attacks[2].id | contains("target=3"))'
}

@test "threads change nothing, and a cut run is finished to the same bytes" {
    curve --attacks fmn:steps=10,deepfool --confirm 2/255 --confirm-with fgsm --threads 1 --out one
    curve --attacks fmn:steps=10,deepfool --confirm 2/255 --confirm-with fgsm --threads 3 --out three
    same_curve one three
    mkdir cut
    head -n 32 one/ledger.jsonl >cut/ledger.jsonl
    cp one/adv.bin cut/
    curve --attacks fmn:steps=10,deepfool --confirm 2/255 --confirm-with fgsm --resume --out cut
    same_curve one cut
}

@test "verify judges a curve again, though confirmation left images out, and notices a digit that changed" {
    curve --attacks fmn:steps=30 --confirm 1/255,8/255 --confirm-with pgd:steps=5 --out c
    good verify c --weights "$W" --data "$D"
    says "everything is as the ledger"
    sed -i '2s/0/1/' c/curve.csv
    vt verify c --weights "$W" --data "$D"
    [ "$status" = 1 ]
    says "curve.csv"
}

@test "the picture: title, interval, confirmed points; the same bytes for another number of threads" {
    curve --attacks deepfool --images 0:4 --confirm 2/255 --confirm-with fgsm --threads 1 --out c
    curve --attacks deepfool --images 0:4 --confirm 2/255 --confirm-with fgsm --threads 2 --out d
    cmp c/curve.svg d/curve.svg
    xmllint --noout c/curve.svg
    # the model and the threat are its title, for eyes and for readers aloud; and the interval is drawn
    [ "$(grep -c '>w: robust accuracy over eps, linf, 4 images</t' c/curve.svg)" = 2 ]
    grep -q '95 % interval' c/curve.svg
    grep -q 'class="a band" d="M' c/curve.svg
    grep -q '<title>2: [0-9]*</title>' c/curve.svg
}

@test "wrong usage" {
    bad 2 "pgd attacks at a fixed eps" "--confirm-with" -- curve "$W" --data "$D" --attacks pgd --out c
    bad 2 "needs --out" -- curve "$W" --data "$D"
    bad 2 "--confirm-with needs --confirm" -- curve "$W" --data "$D" --confirm-with pgd --out c
    bad 2 "twice" -- curve "$W" --data "$D" --confirm 2/255,0.00784313725490196 --out c
    bad 2 "did you mean 8/255" -- curve "$W" --data "$D" --confirm 8 --out c
    bad 2 "unknown attack 'fnm'" -- curve "$W" --data "$D" --attacks fnm --out c
    bad 2 "does not support --norm linf" -- curve "$W" --data "$D" --attacks ddn --out c
    bad 2 "target=10" "0 to 9" -- curve "$W" --data "$D" --attacks fmn:target=10 --out c
    bad 2 "target=12" -- eval "$W" --data "$D" --norm l2 --eps 1 --attack ddn:target=12
    [ ! -e c ]
    curve --attacks deepfool --images 0:2 --out c
    bad 1 "already holds a run" -- curve "$W" --data "$D" --attacks deepfool --images 0:2 --out c
    bad 2 "another" "attacks" -- curve "$W" --data "$D" --attacks fmn --images 0:2 --resume --out c
}
