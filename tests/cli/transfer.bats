#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval --surrogate: transfer from a second checkpoint, from a twin without one; what reports say, what is refused.
load helpers

P=$ROOT/weights/shapes10-plain V=$ROOT/weights/shapes10-vit
SHAPES=$ROOT/datasets/shapes10

# from SURROGATE OPTIONS: shapes10-vit is the target
from() {
    local s=$1
    shift
    good eval "$V" --data "$SHAPES" --images 0:20 --eps 8/255 --surrogate "$s" "$@"
}

@test "another checkpoint: an entry of its own, its name and hash in header and every report" {
    from "$P" --out r
    sha=$(sha256sum "$P/model.safetensors" | cut -c1-64)
    says "transfer: from shapes10-plain (SHA-256 $sha)" "transfer:steps=50"
    truth r/results.json '[.attacks[].name] == ["transfer"] and .attacks[0].broken > 0 and .attacks[0].invalid == 0'
    truth r/results.json ".surrogate.sha256 == \"$sha\" and .surrogate.name == \"shapes10-plain\""
    head -1 r/ledger.jsonl | jq -e ".surrogate.sha256 == \"$sha\"" >/dev/null
    grep -q "from shapes10-plain (SHA-256 $sha)" r/table.md
    grep -q "from shapes10-plain (SHA-256 $sha)" r/table.tex
    # one query of the target for every gradient of the surrogate, but where a query ended the image
    jq -se 'map(select(.entry == 1)) | length > 10 and all(.gradients == .forwards and .gradients <= 50)' r/ledger.jsonl >/dev/null
    # by file or by folder, named or not, with any number of threads: the same run
    from "$P/model.safetensors" --attack transfer --threads 1 --out s
    same_run r s
    from "$P" --attack transfer --threads 3 --out t
    same_run r t
}

@test "the two checkpoints are not one: the other direction, and one through itself, give other results" {
    from "$P" --attack transfer:steps=10 --out r
    from "$V" --attack transfer:steps=10 --out white
    truth white/results.json '.surrogate.name == "shapes10-vit"'
    [ "$(jq .surrogate.sha256 white/results.json)" = "$(jq .weights white/results.json)" ]
    # of one network from itself more is broken than from another
    [ "$(jq '.attacks[0].broken' white/results.json)" -gt "$(jq '.attacks[0].broken' r/results.json)" ]
    good eval "$P" --data "$SHAPES" --images 0:20 --eps 8/255 --surrogate "$V" --attack transfer:steps=10
    says "transfer: from shapes10-vit"
}

@test "without a surrogate a twin stands in, and reports say so; with one it is not added to attacks that use it" {
    quick --eps 8/255 --attack transfer:steps=10 --out r
    says "from a twin of the checkpoint itself (weights moved by 1 %), no --surrogate given"
    truth r/results.json '.surrogate.name == "twin" and .attacks[0].broken > 0'
    quick --eps 8/255 --attack transfer:steps=10 --out s --threads 3
    same_run r s
    quick --eps 8/255 --attack transfer:steps=10 --seed 5 --out other # another twin
    run cmp r/adv.bin other/adv.bin
    [ "$status" = 1 ]
    quick --eps 8/255 --attack pgd:steps=2+transfer:steps=2 --surrogate "$W" --out list
    truth list/results.json '[.attacks[].name] == ["pgd+transfer"]'
    quick --eps 8/255 --attack fgsm --surrogate "$W" --out beside
    truth beside/results.json '[.attacks[].name] == ["fgsm", "transfer"]'
    quick --eps 8/255 --attack fgsm --out none
    truth none/results.json 'has("surrogate") | not'
}

@test "norms, patches, lists, every option" {
    quick --norm l2 --eps 1 --images 0:5 --attack transfer:steps=5,momentum=0.5,loss=margin,restarts=2,diversity=0.5
    quick --norm l1 --eps 12 --images 0:5 --attack transfer:steps=5,loss=dlr,ask=last
    quick --threat patch:size=8 --attack transfer:steps=10 --out r
    truth r/results.json '.attacks | all(.invalid == 0) and any(.broken > 0)'
    bad 2 "black-box" "saliency" -- eval "$W" --data "$D" --threat patch:size=8 --attack transfer:where=attention
    good list attacks
    says "black-box, uses a surrogate's gradients"
}

@test "a run in two halves is the whole; another surrogate, or none, is not resumed, and not merged" {
    from "$P" --attack transfer:steps=5 --out whole
    good eval "$V" --data "$SHAPES" --images 0:8 --eps 8/255 --surrogate "$P" --attack transfer:steps=5 --out half
    cp -r half again
    from "$P" --attack transfer:steps=5 --out half --resume
    same_run whole half
    before=$(sums again)
    bad 2 "another surrogate" -- eval "$V" --data "$SHAPES" --images 0:20 --eps 8/255 --surrogate "$V" --attack transfer:steps=5 --out again --resume
    bad 2 "another surrogate" -- eval "$V" --data "$SHAPES" --images 0:20 --eps 8/255 --attack transfer:steps=5 --out again --resume
    [ "$(sums again)" = "$before" ]
    good eval "$V" --data "$SHAPES" --images 8:20 --eps 8/255 --attack transfer:steps=5 --out twin
    bad 2 "another surrogate" -- merge again twin --out m
    [ ! -e m ]
    good eval "$V" --data "$SHAPES" --images 8:20 --eps 8/255 --surrogate "$P" --attack transfer:steps=5 --out rest
    good merge again rest --out m
    same_run whole m
}

@test "verify needs no surrogate: the stored points are judged without it" {
    cp "$P/model.safetensors" gone.safetensors
    from gone.safetensors --attack transfer:steps=10 --out r
    rm gone.safetensors
    good verify r
    says "everything is as the ledger"
    quick --eps 8/255 --attack transfer:steps=5 --out t # nor a twin
    good verify t
    good compare r r
}

@test "gradients that a wrap hides: transfer through the bare checkpoint finds what pgd does not" {
    good eval "$V" --data "$SHAPES" --images 0:20 --eps 8/255 --wrap quantise:levels=16 --surrogate "$V" \
        --attack pgd:random_start=0 --attack transfer --out r
    truth r/results.json '.attacks[1].broken > .attacks[0].broken'
    says "WRAPPED" "transfer: from shapes10-vit"
}

@test "surrogates that do not fit are refused in a sentence, and nothing is written" {
    refused() { # TEXT... -- SURROGATE
        local texts=()
        while [ "$1" != -- ]; do texts+=("$1") && shift; done
        bad 2 "${texts[@]}" -- eval "$W" --data "$D" --eps 8/255 --surrogate "$2" --out r || return 1
        [ ! -e r ] || fail "the refused run left something behind"
    }
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=7 -o seven.safetensors >/dev/null
    refused "seven.safetensors has 7 classes, must have 10" "w.safetensors" -- seven.safetensors
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=16 classes=10 -o small.safetensors >/dev/null
    refused "small.safetensors takes images of 16 x 16 pixels, must take 32 x 32" "w.safetensors" -- small.safetensors
    # a run that exists stays as it was
    quick --eps 8/255 --attack fgsm --out kept
    before=$(sums kept)
    bad 2 "has 7 classes" -- eval "$W" --data "$D" --eps 8/255 --attack fgsm --surrogate seven.safetensors --out kept --resume
    [ "$(sums kept)" = "$before" ]
    vt eval nowhere.safetensors --data "$D" --eps 8/255 # as the checkpoint itself
    code=$status
    bad "$code" "--surrogate: nowhere.safetensors" -- eval "$W" --data "$D" --eps 8/255 --surrogate nowhere.safetensors --out r
    [ ! -e r ]
    head -c 100 "$W" >cut.safetensors
    bad 1 "--surrogate: cut.safetensors" -- eval "$W" --data "$D" --eps 8/255 --surrogate cut.safetensors --out r
    [ ! -e r ]
    bad 2 "need --eps" -- eval "$W" --data "$D" --surrogate "$W"
}

@test "compare: transfer from one surrogate is another attack than transfer from another; the rest is compared" {
    from "$P" --attack fgsm --attack transfer:steps=3 --out a
    from "$V" --attack fgsm --attack transfer:steps=3 --out b
    good eval "$P" --data "$SHAPES" --images 0:20 --eps 8/255 --surrogate "$P" --attack fgsm --attack transfer:steps=3 --out c
    good compare a b
    grep -q '^fgsm' <<<"$output"
    never grep '^transfer' <<<"$output"
    says "A alone ran transfer" "B alone ran transfer"
    good compare a c
    grep -q '^transfer' <<<"$output"
}

@test "--restrict-classes restricts the surrogate too" {
    p=photos/val f=$ROOT/tests/fixtures/images
    mkdir -p $p/{n01440764,n03028079}
    cp "$f/420.jpg" $p/n01440764/a.JPEG
    cp "$f/grey.jpg" $p/n03028079/b.JPEG
    for seed in 0 1; do
        "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=1000 --seed $seed -o big$seed.safetensors >/dev/null
    done
    good eval big0.safetensors --data photos --preprocess squash:32 --restrict-classes --eps 64/255 --surrogate big0.safetensors --out r
    says "(restricted)" "transfer: from big0.safetensors"
    truth r/results.json '.clean.correct > 0 and .attacks[0].broken > 0'
    [ "$(tail -n +2 r/ledger.jsonl | jq -s 'map(.pred) | max <= 1')" = true ]
    good eval big0.safetensors --data photos --preprocess squash:32 --restrict-classes --eps 64/255 --surrogate big1.safetensors
}

@test "training and curves: transfer is no inner attack; a curve confirms from a twin" {
    bad 2 "attack.spec is 'transfer'" "uses no gradients" -- train "$ROOT/recipes/cifar10_at.yaml" --data "$SHAPES" --set attack.spec=transfer --out t
    good curve "$W" --data "$D" --images 0:5 --attacks fmn:steps=5 --confirm 8/255 --confirm-with transfer:steps=5 --out c
    head -1 c/ledger.jsonl | jq -e '.surrogate.name == "twin"' >/dev/null
}
