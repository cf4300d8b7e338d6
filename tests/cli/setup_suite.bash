# SPDX-License-Identifier: MIT
# Made once for all files: a tiny random model and twenty drawn images, labelled by it.
setup_suite() {
    load helpers
    export BASE=$BATS_SUITE_TMPDIR/base
    mkdir -p "$BASE"
    "${CC:-gcc}" -std=c11 -O1 -shared -fPIC "$ROOT/tests/cli/gate.c" -o "$BASE/gate.so"
    W=$BASE/w.safetensors D=$BASE/data
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --seed 0 -o "$W" >/dev/null
    "$DRAW" --out "$D" --train 10 --test 20 --seed 1 >/dev/null
    relabel "$W" "$D" "$BASE/label"
}

teardown_suite() { :; }
