#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs/picture.png, the picture of README.md: the page of `vitrine show` for the hardened checkpoint of the demo beside the
# plain one, as headless Chromium shows it. Usage: tools/picture.sh [OUT.png]   (a minute or two; needs what tools/deps.sh
# --install browser installs)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/picture.png}
python3 tools/browser.py --found >/dev/null
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
measure() { # CHECKPOINT FOLDER ARGS
    build/vitrine eval "weights/$1" --data datasets/shapes10 --images 0:100 --no-selftest --out "$dir/$2" "${@:3}" >/dev/null
}
measure shapes10-specformer shapes10-specformer --eps 4/255 --attack fgsm --attack pgd --attack autoattack
measure shapes10-plain shapes10-plain --eps 4/255 --attack autoattack
for k in 1 2 3 6 8; do
    measure shapes10-specformer "specformer-$k" --eps $k/255 --attack pgd
    measure shapes10-plain "plain-$k" --eps $k/255 --attack pgd
done
cd "$dir" # the page names the runs as they are given
"$OLDPWD/build/vitrine" show shapes10-specformer shapes10-plain specformer-? plain-? --pictures 3 \
    --weights "$OLDPWD/weights/shapes10-specformer" --data "$OLDPWD/datasets/shapes10" --out page.html >/dev/null
cd "$OLDPWD"
python3 tools/browser.py --small --screenshot "$out" --scale 0.9 --width 1160 --height 1535 "$dir/page.html"
ls -l "$out"
