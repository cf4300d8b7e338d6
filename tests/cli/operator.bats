#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Adding an ONNX operator touches one file: a copy of the tree, with what is built of it, gets src/graph/op_X.c of an
# invented operator and no other change; make compiles what follows, and the program runs, attacks and checks a network
# of that operator.
load helpers

@test "an invented operator is one new file" {
    local out mode file=$ROOT/tests/fixtures/onnx/shapes10_inside.onnx ci
    out=$(library) && mode=$(basename "$out")
    [ "$out" = "$ROOT/build/$mode" ] && [ -f "$out/flags" ] || skip "the program was not built in build/"
    here make
    mkdir -p "tree/build/$mode"
    cp -a "$ROOT"/{Makefile,src,include,maps,tools} tree
    (cd "$out" && find . -mindepth 1 -maxdepth 1 ! -name tests ! -name tools -exec cp -a -t "$OLDPWD/tree/build/$mode" {} +)
    # as if Relu were an operator that is not there: the same numbers are to be computed under the new name
    sed 's/Relu/Wobl/g' "$file" >wobl.onnx
    bad 1 "Wobl" "is an operator that is not read" -- eval wobl.onnx --data "$ROOT/datasets/shapes10" --images 0:2
    cat >tree/src/graph/op_wobl.c <<'END'
/* SPDX-License-Identifier: MIT */
/* max(x, 0) under a name of its own. */
#include "graph/elementwise.h"

VT_UNARY(wobl, "Wobl", vt_import_unary, VT_KEEP_Y, v > 0 ? v : 0, (w > 0 ? (real)1 : 0))
END
    grep -q -- -Werror "$out/flags" && ci=CI=1
    make -C tree MODE="$mode" BUILD=build $ci "${VITRINE#"$ROOT"/}" >log 2>&1 || fail "$(tail -n 20 log)"
    # what was compiled is the new file, twice, and what includes the list of operators
    [ "$(grep -c ' CC ' log)" -le 5 ] && [ "$(grep -c 'CC .*op_wobl.c' log)" = 2 ] || fail "$(cat log)"
    local args="--data $ROOT/datasets/shapes10 --images 0:6 --eps 1/255 --attack pgd:steps=3 --threads 1 --no-selftest"
    good eval "$file" $args --out relu
    VITRINE=$PWD/tree/${VITRINE#"$ROOT"/}
    good eval wobl.onnx $args --out wobl
    diff <(said relu) <(said wobl) >&2
    good gradcheck wobl.onnx --images 1
    says "the input gradient is exact"
}
