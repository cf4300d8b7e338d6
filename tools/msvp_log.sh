#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Is one power iteration a step enough? The penalty that training logged in its last step, by its kept vectors, beside the
# exact lambda sum sigma_max^2 of the weights it ended with, by LAPACK (`vitrine analyze spectrum`).
#     tools/msvp_log.sh CHECKPOINT...     folders with model.safetensors and log.jsonl.gz, trained with msvp.split: rows
# Prints for each: the logged penalty, the exact one, by how many percent the first is lower. Needs jq; VITRINE names the program.
set -euo pipefail
VITRINE=${VITRINE:-$(dirname "$0")/../build/vitrine}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder; do
    said=$("$VITRINE" info "$folder")
    grep -q '^ *split: rows$' <<<"$said" || { echo "$folder: was not trained with msvp.split: rows" >&2 && exit 1; }
    lambda=$(sed -n 's/^ *lambda: \([^,]*,[^,]*,[^,]*\)$/\1/p' <<<"$said" | head -n 1)
    logged=$(zcat "$folder/log.jsonl.gz" | jq -s 'map(select(.step and .penalty_msvp)) | last.penalty_msvp')
    rm -rf "$work/o"
    "$VITRINE" analyze spectrum "$folder" --out "$work/o" >/dev/null
    jq -r --argjson l "[$lambda]" --argjson logged "$logged" --arg name "$folder" '
        {W_Q: $l[0], W_K: $l[1], W_V: $l[2]} as $of
        | [.results.A.matrices[] | select($of[.matrix]) | $of[.matrix] * (.heads[][0] | . * .)] | add as $exact
        | "\($name) logged \($logged) exact \($exact * 1e8 | round / 1e8) lower by \((1 - $logged / $exact) * 1e4 | round / 100) %"' \
        "$work/o/analysis.json"
done
