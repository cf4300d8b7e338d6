#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# selftest and --wrap: an honest model shows no sign of masking, every known cheat is noticed, and
# who put a cheat on reads so.
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
    truth "$1" '(.verdict == "no sign of masking") == ([.checks[] | select(.made and .p_holm <= 0.05)] == [])'
    truth "$1" '.checks_made == ([.checks[] | select(.made)] | length) and .checks_made > 0 and .why_not_tested == null'
    truth "$1" '.images_looked_at <= .correct and .images_looked_at >= ([.samples.gradients, .samples.scale, .samples.other_ways, .samples.attacks] | max)'
    says "($(jq .checks_made "$1") checks on $(jq .images_looked_at "$1") images"
    truth "$1" '.checks | all(has("settle") == (.made and .p_holm <= 0.05))'
    truth "$1" '[.checks[] | select(has("bound"))] | length >= 4 and all(.bound > 0)'
    truth "$1" '[.checks[] | select(.made) | .name] as $made | .not_tested | all(. as $n | $made | index($n) | not)'
    truth "$1" '.active | .found <= .attacked and .attacked <= .images - .setup_failed and .random_corner <= .images'
    truth "$1" '.cost.forwards > 0 and .escalation.further_broken <= .escalation.images'
}

@test "selftest: the shipped checkpoint shows no sign of masking, at the cost that was allowed" {
    test_shapes
    schema r/selftest.json
    [ "$(verdict r)" = "no sign of masking" ] || fail "accused: $(doubts r)"
    says "self-test: no sign of masking (" "active test: found" "cost:" "of autoattack on the same images"
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
    [ "$(verdict r)" = "no sign of masking" ] || fail "accused: $(doubts r)"
    says "warning: the gradient of ce is zero" "warning: cross-entropy underflows"
    truth r/selftest.json '.flags.saturated_logits == .flags.looked_at and .flags.zero_gradient.ce == .flags.looked_at'
}

@test "selftest: where the attacks leave nothing, the cost keeps to 200 forwards an image, and so it says" {
    test_shapes --eps 32/255
    schema r/selftest.json
    [ "$(verdict r)" = "no sign of masking" ] || fail "accused: $(doubts r)"
    says "(200 forwards an image are allowed)" "should it leave a tenth of all right images nevertheless:"
    truth r/selftest.json '.samples.survivors == 0 and .cost.forwards <= .cost.allowance and .cost.forwards > 0.1 * .cost.attack and .cost.excess == null and .cost.allowance == 4800'
}

# untested RUN TEXT: the last command's self-test says that nothing could be tested, and why; so does its JSON
untested() {
    says "self-test: nothing could be tested: $2"
    truth "$1/selftest.json" '.verdict == "not tested" and .checks_made == 0 and .images_looked_at == 0 and ([.checks[] | select(.made)] == [])'
    truth "$1/selftest.json" ".why_not_tested | startswith(\"$2\")"
    [[ $output != *"active test"* && $output != *"no sign of"* ]] || fail "$output"
}

@test "D6: with no right image, constant logits or accuracy of chance it says that nothing could be tested, and asks the model no further" {
    cat >constant.py <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, vitrine_oracle
vitrine_oracle.serve(lambda x, keep: np.tile(np.arange(10, dtype=np.float32), (len(x), 1)),
                     lambda dz: np.zeros((len(dz), 3, 32, 32), np.float32), classes=10, shape=(3, 32, 32))
END
    local constant="/usr/bin/python3 $PWD/constant.py $ROOT/python"
    good eval --oracle "$constant" --data "$D" --eps 4/255 --attack apgd-ce:steps=5 --out none
    untested none "no image is right"
    truth none/selftest.json '.cost.forwards == 0'
    good eval --oracle "$constant" --data "$SHAPES" --images 0:40 --eps 4/255 --attack apgd-ce:steps=5 --out constant
    truth constant/selftest.json '.correct > 0'
    untested constant "the logits are constant"
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 7 -o random.safetensors
    good selftest random.safetensors --data "$SHAPES" --images 0:200 --eps 2/255 --out random
    truth random/selftest.json '.correct > 0 and .cost.forwards < 10'
    untested random "$(jq .correct random/selftest.json) of 200 images right is no more than chance gives; read the model first (vitrine doctor)"
    # few images are enough where they are right
    good selftest "$W" --data "$D" --images 0:2 --eps 2/255 --attack pgd
    says "self-test: no sign of masking ("
}

@test "D13: before it begins it says what it may cost, and that of trying harder, with the option that leaves it out; no more is spent" {
    local child="/usr/bin/python3 $ROOT/tests/fixtures/oracle_child.py good"
    "$VITRINE" eval --oracle "$child" --data "$SHAPES" --images 0:40 --out label >/dev/null
    cp -r "$SHAPES" own && chmod -R u+w own
    tail -n +2 label/ledger.jsonl | jq -r '[.image, .pred] | @tsv' | while read -r image pred; do
        poke own/test_batch.bin $((image * 3073)) "$(byte "$pred")"
    done
    # said TEXT FIELD RUN: one line of standard error has the number that selftest.json keeps
    said() {
        [ "$(sed -n "s/^self-test: $1up to \([0-9]*\) forwards, .*/\1/p" <<<"$stderr")" = "$(jq ".cost.$2 | round" "$3/selftest.json")" ] || fail "$stderr"
    }
    good eval --oracle "$child" --data own --images 0:20 --eps 4/255 --attack apgd-ce:steps=5 --out small
    truth small/selftest.json '.cost.forwards > 2 * .cost.attack and .cost.forwards <= .cost.forecast and .escalation.made == false'
    said "" forecast small
    share=$(jq '100 * .cost.forecast / .cost.attack | round' small/selftest.json)
    [[ $stderr == *"forwards, $share % of the run, "*" s; skip: --no-selftest" ]] || fail "not $share %: $stderr"
    good eval "$MODEL" --data "$SHAPES" --images 0:12 --eps 1/255 --wrap quantise --attack apgd-ce:steps=5 --out doubt
    truth doubt/selftest.json '.escalation.made and .cost.forwards <= .cost.forecast and .cost.escalation <= .cost.escalation_forecast'
    said "" forecast doubt
    said "in doubt, $(jq .escalation.images doubt/selftest.json) survivors once more: " escalation_forecast doubt
    good selftest "$MODEL" --data "$SHAPES" --images 0:12 --eps 1/255 --attack apgd-ce:steps=5 --out alone
    truth alone/selftest.json '.cost.forwards <= .cost.forecast'
    said "" forecast alone
    [[ $stderr != *--no-selftest* ]] || fail "selftest has no such option: $stderr"
    good selftest "$MODEL" --data "$SHAPES" --images 0:12 --eps 1/255 --attack pgd --quiet
    [ -z "$stderr" ] || fail "$stderr"
    good eval --oracle "$child" --data own --images 0:20 --eps 4/255 --attack apgd-ce:steps=5 --no-selftest
    [ -z "$stderr" ] || fail "$stderr"
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
    says "self-test: no sign of masking (" "(measured)"
    schema a/selftest.json
    truth a/selftest.json '.cost.attack_measured'
    verdict=$(sed -n 's/^\(self-test: .*\)$/\1/p' <<<"$output")
    good show a --pictures 0
    grep -qF "<p class=\"selftest\">$verdict</p>" a/show.html
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
    says "self-test: " "; not tested: steps"
    truth p/selftest.json '.not_tested | index("active-test")'
    good curve "$W" --data "$D" --images 0:3 --attacks fmn:steps=5 --out c
    says "self-test: " "; not tested: steps"
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
