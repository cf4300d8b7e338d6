#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tools/masked_networks.py: networks whose gradients mislead. One of each family loads without options, answers as its
# source, and is broken by the source's gradients where its own leave it standing.
load helpers

SHAPES=$ROOT/datasets/shapes10 P=$ROOT/weights/shapes10-plain
MASKED=$ROOT/tools/masked_networks.py

FAMILIES="plateau staircase shatter routing underflow rounding mirror moat saw"

setup_file() {
    # shellcheck disable=SC2086
    "$ROOT/tools/masked_networks.py" --make $FAMILIES --images 60 -o "$BATS_FILE_TMPDIR/nets" >/dev/null
}

preds() { jq -c 'select(.entry == 0) | [.image, .pred]' "$1/ledger.jsonl"; }
robust() { jq '.attacks[0].robust' "$1/results.json"; }

@test "one of each family: loads, agrees with its source, misleads its own gradients and not the source's" {
    ln -s "$BATS_FILE_TMPDIR/nets" nets
    for n in $FAMILIES; do
        local images=0:12
        [[ $n != shatter && $n != rounding ]] || images=0:40 # how much rounding misleads depends on the kernels: a dozen images may tie
        good eval "$P" --data "$SHAPES" --images $images --eps 2/255 --attack pgd --out "source-$n"
        good info "nets/$n"
        says "architecture         vit" "(all finite)"
        good eval "nets/$n" --data "$SHAPES" --images $images --eps 2/255 --attack pgd --out "$n"
        good eval "nets/$n" --data "$SHAPES" --images $images --eps 2/255 --surrogate "$P" --attack transfer --out "$n.true"
        same=$(diff <(preds "source-$n") <(preds "$n") | grep -c '^>' || true)
        [ "$same" -le 1 ] || fail "$n answers otherwise than its source on $same images"
        [ "$(robust "$n.true")" -lt "$(robust "$n")" ] || fail "$n: $(robust "$n") by its own gradients, $(robust "$n.true") in truth"
        [ "$(robust "$n.true")" -le $(($(robust "source-$n") + 1)) ] || fail "$n is more robust than its source"
    done
}

@test "each of them (without CI=true four) is called masked by the self-test, and by an evaluation with Auto-PGD; a scaled head is not" {
    ln -s "$BATS_FILE_TMPDIR/nets" nets
    for n in $FAMILIES; do
        local images=0:12
        [[ $n != mirror ]] || continue # below
        [ -n "$CI" ] || [[ " plateau routing rounding saw " == *" $n "* ]] || continue # the others take a minute: CI's
        [[ $n != moat ]] || images=0:40    # smooth, and honest near the boundary: a dozen images say too little
        good selftest "nets/$n" --data "$SHAPES" --images $images --eps 2/255 --out "$n"
        [ "$(jq -r .verdict "$n/selftest.json")" = "gradients are masked" ] || fail "$n: $output"
    done
    good eval nets/staircase --data "$SHAPES" --images 0:12 --eps 2/255 --attack pgd+apgd-ce --out e
    says "self-test: gradients are masked"
    for scale in 1e-6 1e6; do
        /usr/bin/python3 - "$ROOT/tools" "$P/model.safetensors" "h$scale.safetensors" "$scale" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load(sys.argv[2])
for name in "head.weight", "head.bias":
    w[name] = w[name] * float(sys.argv[4])
save(sys.argv[3], w, {k: v for k, v in meta.items() if k not in ("tensors_sha256", "file_sha256")})
END
        good selftest "h$scale.safetensors" --data "$SHAPES" --images 0:16 --eps 2/255 --out "h$scale"
        [ "$(jq -r .verdict "h$scale/selftest.json")" = "no sign of masking" ] || fail "head x $scale: $output"
    done
}

@test "a mirror is called masked by the self-test" {
    [ -n "$CI" ] || skip "takes half a minute, as long as all others: CI=true make test runs it"
    good selftest "$BATS_FILE_TMPDIR/nets/mirror" --data "$SHAPES" --images 0:40 --eps 2/255 --out mirror
    [ "$(jq -r .verdict mirror/selftest.json)" = "gradients are masked" ] || fail "$output"
}

@test "what is made is the same to the byte; names that are none are refused" {
    "$MASKED" --make shatter --images 60 -o a
    "$MASKED" --make shatter --images 60 -o b
    cmp a/shatter/model.safetensors b/shatter/model.safetensors
    run "$MASKED" --make nosuch -o c
    [ "$status" = 2 ] && [[ $output == *nosuch* ]] && [ ! -e c ]
}
