#!/bin/sh
# SPDX-License-Identifier: MIT
# The cases behind docs/selftest.md: networks of weights alone whose gradients mislead (tools/masked_networks.py), each of
# which the self-test must call masked; honest cases, none of which it may accuse; and known cheats.
# Usage: tools/selftest_cases.sh [SHARED] > tables   SHARED: a folder with datasets/cifar-10-batches-bin and
# weights/NAME (checkpoints that others trained); without it the checkpoints of this repository alone, on drawn images.
# One row a case: model, eps, verdict, right, left by part 3, medians of the values of part 2 and of head, survivors
# broken by waking what sleeps inside and from probes, cost in % of AutoAttack. A cheat: its doubts instead.
# The honest cases end with how many were accused and the exact bounds of that share. They include the
# networks of tools/honest_networks.py, which take about four minutes of one core to make.
cd "$(dirname "$0")/.." || exit 1
vitrine=${VITRINE:-build/vitrine}
shared=$1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# NAME WEIGHTS DATA IMAGES EPS [OPTION ...]
row() {
    name=$1 weights=$2 data=$3 images=$4 eps=$5
    shift 5
    "$vitrine" selftest "$weights" --data "$data" --images "$images" --eps "$eps" --out "$tmp/run" "$@" >/dev/null 2>"$tmp/err" || {
        echo "| $name | $eps $* | failed: $(tail -n 1 "$tmp/err") |"
        return
    }
    jq -r --arg name "$name" --arg eps "$eps $*" '
        def value(n): [.checks[] | select(.name == n and .made) | .median_value | if . == null then "inf" else (1000 * . | round / 1000) end] | if . == [] then "" else .[0] end;
        def hits(n): [.checks[] | select(.name == n and .made) | "\(.hits)/\(.trials)"] | if . == [] then "" else .[0] end;
        "| \($name) | \($eps) | \(.verdict) | \(.correct) | \(.samples.survivors)/\(.samples.attacks) | \(value("jump")) | \(value("path")) | \(value("scale")) | \(value("rough-gradient")) | \(value("backward")) | \(value("head")) | \(hits("wake-up")) | \(hits("probe")) | \(if .cost.attack > 0 then 1000 * .cost.forwards / .cost.attack | round / 10 else "" end) |"' "$tmp/run/selftest.json"
}

# rates VERDICT [FAMILIES | VERDICT]: of rows on standard input, how many have such a verdict, by family (a file of lines
# "NAME FAMILY") and of all, with the exact (Clopper-Pearson) two-sided 95 % interval and one-sided upper bound.
rates() {
    /usr/bin/python3 -c '
import math
import os
import sys


def tail(k, n, p):  # P(at least k of n)
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def bound(k, n, error):  # the largest share at which no more than k of n have that probability
    low, high = k / n, 1.0
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if 1 - tail(k + 1, n, p) > error else (low, p)
    return 100 * high if k < n else 100


verdicts, family = {sys.argv[1]}, {}
if os.path.exists(sys.argv[2]):
    family = dict(line.split()[:2] for line in open(sys.argv[2]))
else:
    verdicts.add(sys.argv[2])
count = {}
for line in sys.stdin:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) < 4:
        continue
    for key in {family.get(cells[1], "all"), "all"}:
        n, k = count.get(key, (0, 0))
        count[key] = n + 1, k + (cells[3] in verdicts)
for key in sorted(count, key=lambda f: (f == "all", f)):
    n, k = count[key]
    low, high = 100 - bound(n - k, n, 0.025), bound(k, n, 0.025)
    print(f"| {key} | {k} / {n} | {low:.1f} to {high:.1f} | at most {bound(k, n, 0.05):.1f} |")' "$@"
}

# NAME WEIGHTS DATA IMAGES EPS WRAP
cheat() {
    "$vitrine" selftest "$2" --data "$3" --images "$4" --eps "$5" --wrap "$6" --out "$tmp/run" >/dev/null 2>"$tmp/err" || {
        echo "| $1 | $5 | $6 | failed: $(tail -n 1 "$tmp/err") |"
        return
    }
    jq -r --arg name "$1" --arg eps "$5" --arg wrap "$6" '"| \($name) | \($eps) | \($wrap) | \(.correct) | \(.verdict) | \([.checks[] | select(.made and .p_holm <= 0.05) | "\(.name) \(.hits)/\(.trials)"] | join(", ")) | \(.escalation.further_broken) / \(.escalation.images) |"' "$tmp/run/selftest.json"
}

s=datasets/shapes10 c=$shared/datasets/cifar-10-batches-bin
echo "masked:"
tools/masked_networks.py --make all -o "$tmp/masked" >/dev/null || exit 1
for m in "$tmp"/masked/*/; do
    for eps in 2/255 4/255; do row "$(basename "$m")" "$m" $s 0:40 $eps; done
done | tee "$tmp/masked.rows"
[ -z "$shared" ] || for eps in 2/255 4/255; do row plateau-vit "$shared/weights/plateau-vit" $s 0:40 $eps; done

echo "keyholes:" # robust accuracy 0
tools/keyholes.py --make all -o "$tmp/keyholes" >/dev/null || exit 1
for m in "$tmp"/keyholes/*/; do
    for eps in 2/255 4/255; do row "$(basename "$m")" "$m" $s 0:40 $eps; done
done | tee "$tmp/keyholes.rows"

echo "noticed, by family:"
{ tools/masked_networks.py --list && tools/keyholes.py --list | sed 's/:.*/ keyholes/'; } >"$tmp/families"
cat "$tmp/masked.rows" "$tmp/keyholes.rows" | rates "gradients are masked" "$tmp/families"

{
echo "honest:"
tools/honest_networks.py --make all -o "$tmp/honest" --vitrine "$vitrine" >/dev/null || exit 1
for m in "$tmp"/honest/*/; do
    data=$s
    [ ! -f "$m/data.npz" ] || data=$m/data.npz
    for eps in 1/255 2/255 4/255; do row "$(basename "$m")" "$m" "$data" 0:40 $eps; done
    row "$(basename "$m")" "$m" "$data" 0:40 0.25 --norm l2
done
for w in shapes10-plain shapes10-specformer shapes10-vit; do
    for eps in 1/255 2/255 4/255; do row $w weights/$w $s 0:40 $eps; done
    row $w weights/$w $s 0:40 0.25 --norm l2
done
row shapes10-specformer weights/shapes10-specformer $s 0:40 6 --norm l1
for scale in 1e-6 1e-3 1e3 1e6; do
    /usr/bin/python3 -c '
import sys
sys.path.insert(0, "tools")
from widened import load, save
w, meta = load("weights/shapes10-plain/model.safetensors")
for name in "head.weight", "head.bias": w[name] = w[name] * float(sys.argv[1])
save(sys.argv[2], w, {k: v for k, v in meta.items() if k not in ("tensors_sha256", "file_sha256")})' $scale "$tmp/scaled.safetensors" || exit 1
    row "shapes10-plain, head x $scale" "$tmp/scaled.safetensors" $s 0:40 2/255
done
i=0
while [ $i -lt 10 ]; do
    "$vitrine" new --set dim=$((16 + 8 * (i % 4))) depth=$((1 + i % 3)) heads=2 patch=$((4 + 4 * (i % 2))) image=32 classes=10 --seed $i -o "$tmp/random" >/dev/null
    row "random ViT, seed $i" "$tmp/random" $s 0:200 2/255
    i=$((i + 1))
done
# RANDOM NAME PRESET [K=V ...]: other architectures
other() {
    name=$1 preset=$2
    shift 2
    "$vitrine" new "$preset" ${1:+--set "$@"} --seed 1 -o "$tmp/random" >/dev/null
    row "random $name" "$tmp/random" $s 0:60 2/255
}
other DeiT vit_cifar_dim192_depth9 dim=48 depth=2 heads=3 distilled=1
other ConViT convit_tiny_cifar
other XCiT xcit_nano_12_p16_224 image=32 classes=10
other Swin swin_tiny_patch2_window4_32
if [ -n "$shared" ]; then
    for eps in 1/255 2/255 8/255; do row vnncomp-vit-pgd "$shared/weights/vnncomp-vit-pgd/model.safetensors" "$c" 0:40 $eps --names vit-vnncomp; done
    for eps in 0.5/255 1/255 2/255; do row vit-cifar10 "$shared/weights/vit-cifar10" "$c" 0:40 $eps; done
    row vit-cifar10 "$shared/weights/vit-cifar10" "$c" 0:40 0.1 --norm l2
    for eps in 4/255 8/255; do row vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$c" 0:24 $eps; done
    row vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$c" 0:24 0.5 --norm l2
    for eps in 0.5/255 2/255; do row vit-postnorm-cifar10 "$shared/weights/vit-postnorm-cifar10/model.safetensors" "$c" 0:24 $eps --names vit-encoderlayer; done
    for w in cifar10-standard cifar10-standard-msvp; do row $w weights/$w "$c" 0:24 1/255; done
    for w in cifar10-at cifar10-at-msvp; do row $w weights/$w "$c" 0:24 8/255; done
    for eps in 36/255 0.5; do row cifar10-lipschitz weights/cifar10-lipschitz "$c" 0:200 $eps --norm l2; done
    row cifar10-lipschitz weights/cifar10-lipschitz "$c" 0:200 2/255
fi
} | tee "$tmp/honest.rows"
echo "accused of all honest cases in which something could be tested:"
grep -v '| not tested |' "$tmp/honest.rows" | rates "gradients are masked" "doubtful"

echo "cheats:"
for w in logit-scale quantise quantise:gradient=through noise saturate; do cheat shapes10-vit weights/shapes10-vit $s 0:16 1/255 $w; done
[ -z "$shared" ] || for w in logit-scale quantise quantise:gradient=through noise saturate; do
    cheat vit-cifar10 "$shared/weights/vit-cifar10" "$c" 0:24 1/255 $w
    cheat vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$c" 0:24 8/255 $w
done
