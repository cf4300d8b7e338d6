#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every command that works with threads, with four of them, for the thread sanitizer (make tsan) to watch.
set -e
V=$(realpath "${VITRINE:-build/vitrine}") ROOT=$PWD T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export VITRINE_RESTARTED=1 OPENBLAS_NUM_THREADS=1 # the program as it is, not started again
cd "$T"
printf 'epochs: 2\nbatch: 8\nmicro_batch: 2\nobjective: at\nattack: {eps: 2/255, spec: "pgd:steps=1"}\nema: 0.9\nlr: 1e-3\n%s\n%s\n' \
    'model: {dim: 16, depth: 1, heads: 2, hidden: 16, patch: 16}' 'probe: {images: 4}' >t.yaml
v() {
    echo "vitrine $*"
    "$V" "$@" >/dev/null
}
"$(dirname "$V")/tools/draw" --out data --train 16 --test 16 --seed 1
cp "$ROOT/weights/shapes10-plain/model.safetensors" w.safetensors
on=(w.safetensors --data "$ROOT/datasets/shapes10" --threads 4)
v eval "${on[@]}" --images 0:8 --eps 8/255 --attack apgd-ce:steps=5 --attack fab-t:steps=3 --attack square:queries=50 --attack transfer:steps=3 --no-selftest --out r
v eval "${on[@]}" --images 0:12 --eps 8/255 --attack pgd:steps=2 --eight-bit --wrap noise --out s
v eval "${on[@]}" --images 0:16 --eps 8/255 --attack pgd:steps=2 --eight-bit --wrap noise --out s --resume
v verify r --threads 4
v curve "${on[@]}" --images 0:8 --attacks fmn:steps=3,deepfool --confirm 1/255 --confirm-with fgsm --out c
v selftest "${on[@]}" --images 0:8 --eps 8/255 --attack fgsm
v doctor "${on[@]}"
v spectrum w.safetensors --threads 4
for kind in affinity attention features jacobian lipschitz; do
    case $kind in affinity | lipschitz) more=(--eps 2/255) ;; features) more=(--perplexity 2 --steps 20) ;; *) more=() ;; esac
    v analyze $kind "${on[@]}" --images 0:8 "${more[@]}" --out a_$kind
done
v new --set dim=8 depth=1 heads=2 hidden=8 patch=16 image=32 classes=10 -o tiny.safetensors
v analyze flatness tiny.safetensors --data data --images 0:4 --threads 4 --out a_flatness
v analyze orthogonality w.safetensors --threads 4
v train t.yaml --data data --threads 4 --out t --max-steps 2
v train t.yaml --data data --threads 4 --out t --resume
v lab regions --most 20 --draws 2 --threads 4
v bench w.safetensors --threads 4 --ms 20 --train
