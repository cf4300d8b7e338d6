#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# selftest and --wrap: a sound model is called sound, every known cheat is noticed, and who put a cheat on reads so.
load helpers

MODEL=$ROOT/weights/shapes10-vit/model.safetensors
SHAPES=$ROOT/datasets/shapes10

# verdict DIR: what selftest.json says
verdict() { jq -r .verdict "$1/selftest.json"; }
# doubts DIR: names of the checks that speak against the model
doubts() { jq -r '[.checks[] | select(.made and .p_holm <= 0.05) | .name] | join(" ")' "$1/selftest.json"; }
test_shapes() { vt selftest "$MODEL" --data "$SHAPES" --images 0:24 --out r --eps 1/255 "$@" && [ "$status" = 0 ] || fail "status $status: $stderr"; }

# what every selftest.json obeys
schema() {
    truth "$1" '.checks | length == 24 and all((.null_hypothesis | length) > 20)'
    truth "$1" '[.checks[] | select(.made)] | all(.hits >= 0 and .hits <= .trials and .p >= 0 and .p <= .p_holm and .p_holm <= 1 and (.images | length) <= 6 and (.images | length) <= .hits)'
    truth "$1" '(.verdict == "sound") == ([.checks[] | select(.made and .p_holm <= 0.05)] == [])'
    truth "$1" '.checks | all(has("settle") == (.made and .p_holm <= 0.05))'
    truth "$1" '[.checks[] | select(has("bound"))] | length >= 4 and all(.bound > 0)'
    truth "$1" '[.checks[] | select(.made) | .name] as $made | .not_tested | all(. as $n | $made | index($n) | not)'
    truth "$1" '.active | .found <= .attacked and .attacked <= .images - .setup_failed and .random_corner <= .images'
    truth "$1" '.cost.forwards > 0 and .escalation.further_broken <= .escalation.images'
}

@test "selftest: the shipped checkpoint is sound, at the cost that was allowed" {
    test_shapes
    schema r/selftest.json
    [ "$(verdict r)" = sound ] || fail "accused: $(doubts r)"
    says "self-test: sound" "active test: found" "cost:" "of autoattack on the same images"
    truth r/selftest.json '.cost.forwards <= .cost.allowance and .cost.excess == null and .escalation.made == false'
    truth r/selftest.json '.active.found == .active.images and .active.random_corner * 2 <= .active.images'
}

@test "selftest: each known cheat is noticed, by the checks that are made for it, with the command that settles it" {
    local wrap checks check
    while read -r wrap checks; do
        test_shapes --wrap "$wrap"
        schema r/selftest.json
        [ "$(verdict r)" = "gradients are masked" ] || fail "$wrap is called $(verdict r)"
        for check in $checks; do
            [[ " $(doubts r) " == *" $check "* ]] || fail "$wrap: $(doubts r), without $check"
        done
        truth r/selftest.json ".wrap | startswith(\"$wrap:\")"
        says "to settle it: vitrine eval $MODEL --data $SHAPES" "--wrap $wrap"
    done <<'END'
quantise quantised-forward active-test
noise random-forward
saturate saturated-attention
END
}

@test "selftest: a scale of the logits is no mask, since attacks follow the margin where cross-entropy is flat: it is said" {
    test_shapes --wrap logit-scale
    schema r/selftest.json
    [ "$(verdict r)" = sound ] || fail "accused: $(doubts r)"
    says "warning: the gradient of ce is zero" "warning: cross-entropy underflows"
    truth r/selftest.json '.flags.saturated_logits == .flags.looked_at and .flags.zero_gradient.ce == .flags.looked_at'
}

@test "selftest: where the attacks leave nothing, the cost keeps to 100 forwards an image, and so it says" {
    test_shapes --eps 32/255
    schema r/selftest.json
    [ "$(verdict r)" = sound ] || fail "accused: $(doubts r)"
    says "(100 forwards an image are allowed)" "should it leave a tenth of all right images nevertheless:"
    truth r/selftest.json '.samples.survivors == 0 and .cost.forwards <= .cost.allowance and .cost.forwards > 0.1 * .cost.attack and .cost.excess == null and .cost.allowance == 2400'
}

@test "selftest: nothing depends on the number of threads, also where the forward is random" {
    local extra
    for extra in "" "--wrap noise:sigma=0.02"; do
        for n in 1 2; do
            vt selftest "$W" --data "$D" --eps 2/255 --threads $n --out "t$n" $extra
            [ "$status" = 0 ] || fail "$stderr"
        done
        cmp t1/selftest.json t2/selftest.json
    done
}

@test "eval: autoattack is followed by the self-test, unless --no-selftest; smaller runs say how to run it" {
    good eval "$W" --data "$D" --eps 2/255 --attack autoattack --images 0:8 --out a
    says "self-test: sound" "(measured)"
    schema a/selftest.json
    truth a/selftest.json '.cost.attack_measured'
    [ "$(jq '.attacks[0].gradients' a/results.json)" -gt 0 ]
    good eval "$W" --data "$D" --eps 2/255 --attack autoattack --images 0:8 --out b --no-selftest
    [ ! -e b/selftest.json ]
    [[ $output != *self-test:* ]]
    same_run a b
    good eval "$W" --data "$D" --eps 2/255 --attack fgsm --images 0:4
    says "vitrine selftest $W --data $D --images 0:4 --eps 2/255"
}

@test "eval --wrap: ledger, results and table name the cheat and its hash; another run may not go on with it" {
    good eval "$W" --data "$D" --eps 2/255 --attack fgsm --images 0:4 --out a --wrap quantise:levels=16
    truth a/results.json '.wrap.id == "quantise:levels=16,gradient=zero" and (.wrap.sha256_64 | length) == 16'
    [ "$(head -n 1 a/ledger.jsonl | jq -r .wrap.id)" = "quantise:levels=16,gradient=zero" ]
    says "WRAPPED" "quantise:levels=16,gradient=zero"
    grep -q WRAPPED a/table.md
    bad 2 wrap -- eval "$W" --data "$D" --eps 2/255 --attack fgsm --images 0:4 --out a --resume
    good eval "$W" --data "$D" --eps 2/255 --attack fgsm --images 0:4 --out b --wrap quantise:levels=32
    [ "$(jq .wrap.sha256_64 a/results.json)" != "$(jq .wrap.sha256_64 b/results.json)" ]
    # zero gradients: FGSM moves nothing, and the points stay where they are
    truth a/results.json '.attacks[0].broken == 0'
    good eval "$W" --data "$D" --eps 2/255 --attack fgsm --images 0:4 --out c
    truth c/results.json 'has("wrap") | not'
}

@test "a random forward repeats itself to the bit for any number of threads" {
    good eval "$W" --data "$D" --eps 2/255 --attack pgd:steps=3 --out a --wrap noise:sigma=0.02 --threads 1
    good eval "$W" --data "$D" --eps 2/255 --attack pgd:steps=3 --out b --wrap noise:sigma=0.02 --threads 2
    same_run a b
    good eval "$W" --data "$D" --eps 2/255 --attack pgd:steps=3 --out c --wrap noise:sigma=0.02 --threads 2 --seed 1
    ! cmp -s a/ledger.jsonl c/ledger.jsonl
}

@test "list wraps names every cheat with its options" {
    good list wraps
    says logit-scale quantise noise saturate "(default 1000)" "(default 8)" "zero|through"
}

@test "bad wraps and missing options: one sentence, nothing written" {
    bad 2 "unknown wrap 'quantize'" quantise -- selftest "$W" --data "$D" --eps 1/255 --wrap quantize --out r
    bad 2 "unknown wrap 'x'" "list wraps" -- eval "$W" --data "$D" --eps 1/255 --attack fgsm --wrap x --out r
    bad 2 levels -- eval "$W" --data "$D" --eps 1/255 --attack fgsm --wrap quantise:levels=1 --out r
    bad 2 "attacks need --eps" -- selftest "$W" --data "$D" --out r
    bad 2 "--data" -- selftest "$W" --eps 1/255 --out r
    bad 2 "unknown attack" -- selftest "$W" --data "$D" --eps 1/255 --attack autoatack --out r
    [ ! -e r ]
}

# run_printed TEXT: runs what the output offers behind TEXT, each line of it, as a user would paste it
run_printed() {
    local line offers
    mapfile -t offers < <(sed -n "s/.*$1vitrine //p" <<<"$output" | sort -u) # several checks offer the same
    [ "${#offers[@]}" -gt 0 ] || fail "nothing behind '$1' in $output"
    for line in "${offers[@]}"; do
        eval "vt $line"
        [ "$status" = 0 ] || fail "vitrine $line: status $status: $stderr"
    done
}

@test "F4: the hint after a small run is the self-test of the same model, data and threat, and runs as printed" {
    good eval "$W" --data "$D" --images 0:3 --norm l1 --eps 12 --wrap quantise --attack pgd:steps=2
    says "vitrine selftest $W --data $D --images 0:3 --norm l1 --wrap quantise --eps 12"
    run_printed "to be believed? "
    says "self-test: "
}

@test "what is printed to go on with repeats every option of model and data, whatever its text, and runs" {
    cp -r "$D" "it's data"
    printf 'patch_embed.* -> patch_embed.*\ncls_token -> cls_token\npos_embed -> pos_embed\nblocks.{i}.* -> blocks.{i}.*\nnorm.* -> norm.*\nhead.* -> head.*\n' >my.map
    options=(--names my.map --heads 2 --mean 0.5,0.4,0.5 --std 0.25 --ln-eps 1e-5 --attn-scale head --form act=relu --form pool=avg
        --split train --images 0:6 --preprocess short:32,bicubic --attack-at native --norm l2 --wrap logit-scale:factor=2)
    vt eval "$W" --data "it's data" "${options[@]}" --eps 0.25 --attack pgd:steps=2
    [ "$status" = 0 ] || fail "$stderr"
    line=$(sed -n 's/.*to be believed? vitrine //p' <<<"$output")
    for ((i = 0; i < ${#options[@]}; i += 2)); do
        [[ "$line " == *" ${options[i]} ${options[i + 1]} "* ]] || fail "${options[i]} ${options[i + 1]} is not in: $line"
    done
    eval "vt $line"
    [ "$status" = 0 ] || fail "vitrine $line: $stderr"
    says "self-test: "
}

@test "F8: every run with Auto-PGD is followed by the self-test: lists, versions, single attacks, patches, curves" {
    local n=0 extra
    for extra in "--attack apgd-ce:steps=3" "--attack pgd:steps=2+apgd-t:steps=3+square:queries=5" \
        "--attack apgd-ce:steps=3+square:queries=5 --individual" "--attack autoattack:version=rand" "--attack autoattack-plus" \
        "--attack fgsm --attack apgd-dlr:steps=3"; do
        # shellcheck disable=SC2086
        good eval "$W" --data "$D" --images 0:3 --eps 2/255 $extra --out r$((n += 1))
        says "self-test: "
        schema r$n/selftest.json
    done
    good eval "$W" --data "$D" --images 0:3 --threat patch:size=8 --attack apgd-ce:steps=3 --out p
    says "self-test: " "(not tested: steps"
    truth p/selftest.json '.not_tested | index("active-test")'
    good curve "$W" --data "$D" --images 0:3 --attacks fmn:steps=5 --out c
    says "self-test: " "(not tested: steps"
    schema c/selftest.json
    grep -q selftest.json c/SHA256SUMS
    good curve "$W" --data "$D" --images 0:3 --attacks fmn:steps=5 --out d --no-selftest
    [ ! -e d/selftest.json ]
}

@test "F9: the commands that would settle a doubt can, and run as printed: of a random model, of a flat one" {
    good selftest "$W" --data "$D" --images 0:4 --eps 2/255 --wrap noise
    says "random-forward" "--wrap noise --eps 2/255 --attack autoattack:version=rand" "warning: the model is random"
    run_printed "to settle it: "
    good selftest "$W" --data "$D" --images 0:4 --eps 2/255 --wrap quantise
    says "to settle it: "
    run_printed "to settle it: "
}

@test "F1, F5: survivors are tried in other ways whatever the budget, and AutoAttack's own flags stand beside the verdict" {
    good eval "$MODEL" --data "$SHAPES" --images 0:12 --eps 4/255 --wrap quantise --attack apgd-ce:steps=5+square:queries=200 --out r
    schema r/selftest.json
    truth r/selftest.json '.samples.other_ways >= 4 and .cost.allowance >= 1200 and ([.checks[] | select(.name == "probe") | .trials] == [.samples.other_ways])'
    says "warning: Square alone lowers robust accuracy by" "warning: the gradient of margin is zero in every pixel on" "warning: the gradient of ce is zero in every pixel on"
    truth r/selftest.json '.flags.square_alone > 0 and .flags.images == 12 and .flags.zero_gradient.margin == .flags.looked_at'
}
