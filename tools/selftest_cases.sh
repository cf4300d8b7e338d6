#!/bin/sh
# Sound cases, none of which the self-test may accuse, and known cheats, each of which it must notice: the tables of
# docs/selftest.md.
# Usage: tools/selftest_cases.sh SHARED > table   SHARED: a folder with datasets/cifar-10-batches-bin and weights/NAME
# (checkpoints that others trained); without it the checkpoints of this repository alone, on drawn images.
# One row a sound case: model, eps, right, verdict, checks made, active test, cost in % of AutoAttack.
# One row a cheat: model, eps, wrap, right, verdict, checks that speak against it, more broken when tried harder.
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
    jq -r --arg name "$name" --arg eps "$eps $*" '"| \($name) | \($eps) | \(.correct) | \(.verdict) | \([.checks[] | select(.made)] | length) | \(.active.found) / \(.active.images - .active.setup_failed) (\([.active.random_surface, .active.random_corner] | max)) | \(if .cost.attack > 0 then "\(1000 * .cost.forwards / .cost.attack | round / 10)\(if .samples.survivors == 0 then "; \(1000 * .cost.forwards / .cost.attack_if_tenth_left | round / 10) should a tenth be left" else "" end)" else "" end) |"' "$tmp/run/selftest.json"
}

# NAME WEIGHTS DATA IMAGES EPS WRAP
cheat() {
    "$vitrine" selftest "$2" --data "$3" --images "$4" --eps "$5" --wrap "$6" --out "$tmp/run" >/dev/null 2>"$tmp/err" || {
        echo "| $1 | $5 | $6 | failed: $(tail -n 1 "$tmp/err") |"
        return
    }
    jq -r --arg name "$1" --arg eps "$5" --arg wrap "$6" '"| \($name) | \($eps) | \($wrap) | \(.correct) | \(.verdict) | \([.checks[] | select(.made and .p_holm <= 0.05) | "\(.name) \(.hits)/\(.trials)"] | join(", ")) | \(.escalation.further_broken) / \(.escalation.images) |"' "$tmp/run/selftest.json"
}

s=datasets/shapes10
wraps="logit-scale quantise quantise:gradient=through noise saturate"
for w in $wraps; do cheat shapes10-vit weights/shapes10-vit $s 0:16 1/255 $w; done
if [ -n "$shared" ]; then
    d=$shared/datasets/cifar-10-batches-bin
    for w in $wraps; do cheat vit-cifar10 "$shared/weights/vit-cifar10" "$d" 0:24 1/255 $w; done
    for w in $wraps; do cheat vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$d" 0:24 8/255 $w; done
fi
echo
for eps in 1/255 4/255; do row shapes10-specformer weights/shapes10-specformer $s 0:40 $eps; done
for eps in 0.5/255 2/255; do row shapes10-vit weights/shapes10-vit $s 0:40 $eps; done
row shapes10-vit weights/shapes10-vit $s 0:40 0.25 --norm l2
for eps in 1/255 4/255; do row shapes10-plain weights/shapes10-plain $s 0:40 $eps; done
"$vitrine" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 0 -o "$tmp/mini0" >/dev/null
"$vitrine" new --set dim=48 depth=2 heads=3 patch=8 image=32 classes=10 --seed 1 -o "$tmp/mini1" >/dev/null
"$vitrine" new --set dim=48 depth=2 heads=3 patch=4 image=32 classes=10 --seed 2 -o "$tmp/mini2" >/dev/null
row "random ViT, width 16" "$tmp/mini0" $s 0:300 1/255
for eps in 1/255 4/255; do row "random ViT, width 48" "$tmp/mini1" $s 0:300 $eps; done
for eps in 2/255 4/255; do row "random ViT, 64 patches" "$tmp/mini2" $s 0:300 $eps; done
[ -n "$shared" ] || exit 0
d=$shared/datasets/cifar-10-batches-bin
for eps in 1/255 2/255 8/255; do row vnncomp-vit-pgd "$shared/weights/vnncomp-vit-pgd/model.safetensors" "$d" 0:40 $eps; done
for eps in 0.5/255 1/255 2/255; do row vit-cifar10 "$shared/weights/vit-cifar10" "$d" 0:40 $eps; done
row vit-cifar10 "$shared/weights/vit-cifar10" "$d" 0:40 0.1 --norm l2
for eps in 4/255 8/255; do row vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$d" 0:24 $eps; done
row vit-cifar10-at8 "$shared/weights/vit-cifar10-at8" "$d" 0:24 0.5 --norm l2
for eps in 0.5/255 2/255; do row vit-postnorm-cifar10 "$shared/weights/vit-postnorm-cifar10/model.safetensors" "$d" 0:24 $eps; done
for w in cifar10-standard cifar10-standard-msvp; do row $w weights/$w "$d" 0:24 1/255; done
for w in cifar10-at cifar10-at-msvp; do row $w weights/$w "$d" 0:24 8/255; done
