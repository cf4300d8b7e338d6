#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The embedded checkpoint on the embedded images: what the README promises of them, not particular numbers.
load helpers

MODEL=$ROOT/weights/shapes10-vit/model.safetensors
SHAPES=$ROOT/datasets/shapes10
EPS=$(sed -n 's/^DEMO ?=.*--eps \([^ ]*\).*/\1/p' "$ROOT/Makefile") # what `make demo` uses

@test "embedded: images and weights are what their checksums say, together under 3 MB" {
    (cd "$SHAPES" && sha256sum --quiet -c SHA256SUMS)
    good info "$MODEL"
    says "3 x 32 x 32" "all finite"
    [ "$(cat "$ROOT"/weights/shapes10-vit/* "$SHAPES"/* | wc -c)" -lt 3000000 ]
}

@test "embedded: every checkpoint in weights is what SHA256SUMS says, and needs no option; together under 20 MB" {
    (cd "$ROOT/weights" && sha256sum --quiet -c SHA256SUMS)
    [ "$(ls "$ROOT"/weights/*/model.safetensors | wc -l)" = "$(wc -l <"$ROOT/weights/SHA256SUMS")" ]
    for w in "$ROOT"/weights/*/model.safetensors; do good info "$w"; done
    [ "$(cat "$ROOT"/weights/*/model.safetensors | wc -c)" -lt 20000000 ]
}

@test "embedded: a trained checkpoint tells its recipe, which is the one in recipes" {
    for name in cifar10_standard cifar10_standard_msvp cifar10_at cifar10_at_msvp shapes10_plain shapes10_specformer \
        lipschitz_cifar10:cifar10-lipschitz ibp_cifar10:cifar10-ibp gaussian_cifar10:cifar10-gaussian; do
        w=${name#*:} name=${name%:*}
        w=$ROOT/weights/${w//_/-}/model.safetensors
        # it watched test images (weights/README.md); there are 90 images
        good train --from "$w" --set probe.split=train --set batch=64 --data "$SHAPES" --dry-run
        from=$(grep -v '^#' <<<"$output")
        good train "$ROOT/recipes/$name.yaml" --set batch=64 --data "$SHAPES" --dry-run
        [ "$(grep -v '^#' <<<"$output")" = "$from" ] || fail "recipes/$name.yaml is not what made $w"
    done
    init=$ROOT/weights/cifar10-standard
    for name in finetune_at:cifar10-finetuned cifar10_at_long:cifar10-at-long; do
        good train --from "$ROOT/weights/${name#*:}/model.safetensors" --init "$init" --data "$SHAPES" --dry-run
        from=$(grep -v '^#' <<<"$output")
        good train "$ROOT/recipes/${name%:*}.yaml" --init "$init" --data "$SHAPES" --dry-run
        [ "$(grep -v '^#' <<<"$output")" = "$from" ] || fail "recipes/${name%:*}.yaml is not what made ${name#*:}"
    done
}

@test "embedded: clean accuracy is at least 90 %" {
    good eval "$MODEL" --data "$SHAPES" --out r
    truth r/results.json '.clean.total >= 100 and .clean.percent >= 90'
}

@test "embedded: AutoAttack leaves at most half of clean, at the eps of make demo" {
    [ -n "$EPS" ]
    good eval "$MODEL" --data "$SHAPES" --images 0:12 --eps "$EPS" --attack fgsm --attack autoattack --out r
    truth r/results.json '.clean.correct > 0 and .attacks[1].robust * 2 <= .clean.correct and .attacks[1].robust <= .attacks[0].robust'
}

@test "embedded: of the pair of make demo, the hardened one keeps at least three times as many images, at some cost in clean accuracy" {
    good eval "$ROOT/weights/shapes10-plain" --data "$SHAPES" --images 0:60 --eps "$EPS" --attack pgd --out a
    good eval "$ROOT/weights/shapes10-specformer" --data "$SHAPES" --images 0:60 --eps "$EPS" --attack pgd --out b
    good compare a b
    says held
    truth a/results.json '.clean.percent >= 85'
    truth b/results.json '.clean.percent >= 70 and .attacks[0].percent >= 30'
    [ "$(jq .attacks[0].robust b/results.json)" -ge $((3 * $(jq .attacks[0].robust a/results.json))) ]
}

@test "embedded: the input gradient is exact on this very checkpoint" {
    good gradcheck "$MODEL" --images 1 --directions 2
    says "the input gradient is exact"
}
