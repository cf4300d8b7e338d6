# SPDX-License-Identifier: MIT
# Made once for all files: a tiny random model and twenty drawn images, with each image's label set to what the model
# says, so that a random model has a clean accuracy and something to lose.
setup_suite() {
    load helpers
    export BASE=$BATS_SUITE_TMPDIR/base
    mkdir -p "$BASE"
    "${CC:-gcc}" -std=c11 -O1 -shared -fPIC "$ROOT/tests/cli/gate.c" -o "$BASE/gate.so"
    W=$BASE/w.safetensors D=$BASE/data
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 0 -o "$W" >/dev/null
    "$DRAW" --out "$D" --train 10 --test 20 --seed 1 >/dev/null
    "$VITRINE" eval "$W" --data "$D" --out "$BASE/label" >/dev/null
    tail -n +2 "$BASE/label/ledger.jsonl" | jq -r '[.image, .pred] | @tsv' | while read -r image pred; do
        poke "$D/test_batch.bin" $((image * 3073)) "$(byte "$pred")"
    done
}

teardown_suite() { :; }
