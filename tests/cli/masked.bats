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

# honest KIND OUT: shapes10-plain in another form, the same function: with 32 channels that hold nothing (empty; without:
# whose norms have weight 0), or with every channel twice (twice)
honest() {
    /usr/bin/python3 - "$ROOT/tools" "$P/model.safetensors" "$1" "$2" <<'END'
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load(sys.argv[2])
kind, twice, n = sys.argv[3], sys.argv[3] == "twice", 64 if sys.argv[3] == "twice" else 32
k = 1 if twice else 64 / (64 + n)  # empty channels make a LayerNorm's variance smaller
def wider(v, axis, by=0.0):
    more = v if by is None else np.full_like(np.take(v, range(n), axis), by)
    return np.concatenate([v, more], axis)
for name, v in list(w.items()):
    if ".norm" in name or name.startswith("norm."):
        if name.endswith("weight"):
            v = v * k ** 0.5
        w[name] = wider(v, 0, None if twice else float(kind == "empty" and name.endswith("weight")))
        continue
    axis = v.ndim - 1 if name.startswith(("cls", "pos")) else 0
    if name.startswith(("cls", "pos")) or "proj" in name or "fc2" in name:  # writes: of mean 0, for LayerNorm
        v = wider(v - v.mean(axis, keepdims=True), axis, None if twice else 0.0)
    if v.ndim == 2 and ("qkv" in name or "fc1" in name or "head" in name):  # reads
        v = wider(v / 2 if twice else v, 1, None if twice else 0.0)
    if "qkv" in name:  # more heads of 32, of which nothing is read
        v = np.concatenate([wider(part, 0) for part in np.split(v, 3)])
    if name.endswith("attn.proj.weight"):
        v = wider(v, 1)
    w[name] = v
meta = {a: b for a, b in meta.items() if a != "tensors_sha256"}
meta |= {"ln_eps": repr(float(meta["ln_eps"]) * k), "num_heads": str((64 + n) // 32), "attn_scale": repr(32 ** -0.5)}
save(sys.argv[4], w, meta)
END
}

@test "channels that hold nothing, or another's values, are no evidence: the same function is not accused" {
    good eval "$P" --data "$SHAPES" --images 0:40 --eps 2/255 --attack fgsm --out source
    for kind in empty without twice; do
        honest "$kind" "$kind.safetensors"
        good eval "$kind.safetensors" --data "$SHAPES" --images 0:40 --eps 2/255 --attack fgsm --out "of-$kind"
        diff <(preds source) <(preds "of-$kind")
        good selftest "$kind.safetensors" --data "$SHAPES" --images 0:40 --eps 2/255 --out "$kind"
        truth "$kind/selftest.json" '[.checks[] | select(.made and .p_holm <= 0.05)] == []'
        truth "$kind/selftest.json" '.active | .images > 0 and .setup_failed == 0'
    done
}

@test "a class that is never given, its logit far below all others, does not make the others look still" {
    /usr/bin/python3 - "$ROOT/tools" "$P/model.safetensors" never.safetensors <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load(sys.argv[2])
w["head.bias"][3] -= 1000
save(sys.argv[3], w, meta)
END
    good selftest never.safetensors --data "$SHAPES" --images 0:40 --eps 1/255 --out never
    truth never/selftest.json '[.checks[] | select(.name == "head" and .made)][0] | .trials >= 4 and .hits == 0'
}

@test "small constants, directions that are ignored and gradients that stay are no evidence" {
    good new shift_cifar_dim144_depth6 --set dim=32 hidden=32 heads=1 depth=2 patch=4 --seed 1 -o random.safetensors
    for kind in bent linear; do
        /usr/bin/python3 - "$ROOT/tools" random.safetensors $kind.safetensors <<'END'
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from widened import load, save
w, meta = load(sys.argv[2])
patch, k = w["patch_embed.proj.weight"], 24  # channels: the first see a patch's mean, the others what it leaves
mean = patch.mean((2, 3), keepdims=True)
patch[:k], patch[k:] = mean[:k], (patch - mean)[k:]
w["head.weight"][:, k:] = 0
for name in "blocks.0.mix.weight", "blocks.1.mix.weight":
    w[name][:k, k:] = w[name][k:, :k] = 0
    if sys.argv[3].startswith("linear"):
        w[name] = np.eye(32, dtype=np.float32)  # few channels change their signs within a grey level
save(sys.argv[3], w, {a: b for a, b in meta.items() if a != "tensors_sha256"})
END
        cp -r "$D" $kind.data
        relabel $kind.safetensors $kind.data $kind.labels
        good selftest $kind.safetensors --data $kind.data --norm l2 --eps 0.1 --out $kind
        truth $kind/selftest.json '[.checks[] | select(.made and .p_holm <= 0.05)] == []'
        truth $kind/selftest.json '[.checks[] | select(.name == "head")][0] | .trials >= 4 and .hits == 0'
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
