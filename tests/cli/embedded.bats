#!/usr/bin/env bats
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
    for name in standard standard_msvp at at_msvp; do
        w=$ROOT/weights/cifar10-${name/_/-}/model.safetensors
        good train --from "$w" --data "$SHAPES" --dry-run
        from=$(grep -v '^#' <<<"$output")
        good train "$ROOT/recipes/cifar10_$name.yaml" --data "$SHAPES" --dry-run
        [ "$(grep -v '^#' <<<"$output")" = "$from" ] || fail "recipes/cifar10_$name.yaml is not what made $w"
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

@test "embedded: the input gradient is exact on this very checkpoint" {
    good gradcheck "$MODEL" --images 1 --directions 2
    says "the input gradient is exact"
}
