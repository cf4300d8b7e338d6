#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine falsify: verdicts and witnesses, lists, a verifier's results held against them.
load helpers

V=tests/fixtures/vnnlib

setup() {
    mkdir "$BATS_TEST_TMPDIR/here"
    cd "$BATS_TEST_TMPDIR/here"
    ln -s "$ROOT/tests" tests
}

@test "sat comes with a witness in VNN-COMP's words, unknown with the least violations" {
    good falsify $V/linear.onnx $V/sat.vnnlib --out w
    [ "${lines[0]}" = sat ] || fail "$output"
    says "case 2 of 2 (line 13) is met by 0.75 in float32, 0.75 in double" "witness in w"
    [ "$(sed -n 1p w)" = sat ] || fail "$(cat w)"
    [ "$(sed -n 2p w)" = "((X_0 -0.39999997615814209)" ] || fail "$(cat w)"
    [ "$(sed -n '$p' w)" = " (Y_1 0.57499998807907104))" ] || fail "$(cat w)"
    good falsify $V/linear.onnx $V/unsat.vnnlib --restarts 2 --out w
    [ "${lines[0]}" = unknown ] || fail "$output"
    says "in 2 runs of at most 100, 2 rounds" "0.25"
    [ "$(cat w)" = unknown ] || fail "$(cat w)"
}

@test "a network of any sides, and an input without a float32" {
    good falsify $V/row.onnx $V/row.vnnlib --out w
    says "inputs without a float32 between their bounds: 1"
    grep -qx ' (X_1 0.10000000000000001)' w
}

@test "files packed by gzip, also where the list leaves .gz out" {
    gzip -c $V/linear.onnx >l.onnx.gz && gzip -c $V/sat.vnnlib >s.vnnlib.gz
    good falsify l.onnx.gz s.vnnlib.gz
    good falsify l.onnx s.vnnlib
    head -c 100 l.onnx.gz >cut.onnx.gz
    bad 2 "cut.onnx.gz: is cut" -- falsify cut.onnx.gz s.vnnlib
}

@test "a checkpoint takes pixels" {
    python3 - >p.vnnlib <<'P'
for i in range(3072): print(f"(declare-const X_{i} Real)(assert (>= X_{i} 0.4))(assert (<= X_{i} 0.6))")
for i in range(10): print(f"(declare-const Y_{i} Real)")
print("(assert (or (and (>= Y_0 Y_1)) (and (>= Y_1 Y_0))))")
P
    good falsify "$ROOT/weights/shapes10-plain" p.vnnlib
    [ "${lines[0]}" = sat ] || fail "$output"
    sed 's/X_0 0.6/X_0 1.6/' p.vnnlib >q.vnnlib
    bad 2 "q.vnnlib: X_0 lies in [0.4,1.6], but" -- falsify "$ROOT/weights/shapes10-plain" q.vnnlib
}

@test "what is wrong is named, with status 2" {
    bad 2 "declares 3 inputs and 2 outputs, tests/fixtures/vnnlib/row.onnx has 4 and 1" -- falsify $V/row.onnx $V/sat.vnnlib
    sed 's/100/1,5/' $V/sat.vnnlib >comma.vnnlib
    bad 2 "comma.vnnlib: line 13: '1,5' is no decimal number" -- falsify $V/linear.onnx comma.vnnlib
    cp comma.vnnlib comma.onnx
    bad 2 "is not a whole ONNX file" -- falsify comma.onnx $V/sat.vnnlib
    bad 2 "needs MODEL and SPEC" -- falsify $V/linear.onnx
    bad 2 "--seconds is '0'" -- falsify $V/linear.onnx $V/sat.vnnlib --seconds 0
    bad 2 "not both" -- falsify --instances a --referee b
    bad 2 "needs --out DIR" -- falsify --instances $V/instances.csv
    bad 2 "--heads is 0" -- falsify --instances $V/instances.csv --out none --heads 0
    bad 2 "--heads is 'x'" -- falsify --referee r.csv $V/instances.csv --heads x
    [ ! -e none ]
    bad 2 "goes with one operand" -- falsify --referee r.csv
}

# The columns of DIR/results.csv that do not vary.
verdicts() { cut -d, -f1-5 "$1/results.csv"; }

@test "a list: results, witnesses; killed and continued it is the same" {
    good falsify --instances $V/instances.csv --restarts 3 --out all
    says "3 instances: 2 sat, 1 unknown, 0 refused"
    [ "$(verdicts all | tr '\n' ' ')" = "vnnlib,linear.onnx,sat.vnnlib,0,sat vnnlib,linear.onnx,unsat.vnnlib,0,unknown vnnlib,row.onnx,row.vnnlib,0,sat " ] || fail "$(cat all/results.csv)"
    [ "$(head -c 5 all/row_row.counterexample)" = "((X_0" ]
    mkdir part
    cp all/settings.txt part && head -n 1 all/results.csv >part/results.csv && cp all/linear_sat.counterexample part
    good falsify --instances $V/instances.csv --restarts 3 --threads 2 --out part
    [ "$(verdicts part)" = "$(verdicts all)" ] || fail "$(cat part/results.csv)"
    [ "$(head -n 1 part/results.csv)" = "$(head -n 1 all/results.csv)" ]
    for f in linear_sat row_row; do cmp {all,part}/$f.counterexample; done
    bad 2 "all holds results of other options (steps 100, restarts 3" -- falsify --instances $V/instances.csv --restarts 4 --out all
    cp -r $V v && echo "linear.onnx,none.vnnlib,1" >>v/instances.csv
    vt falsify --instances v/instances.csv --restarts 1 --out some
    [ "$status" = 0 ] && grep -q "none.vnnlib: " <<<"$stderr" && grep -q "^v,linear.onnx,none.vnnlib,0,error," some/results.csv || fail "$stderr"
}

@test "the referee contradicts what is wrong, and nothing else" {
    good falsify --instances $V/instances.csv --restarts 3 --out all
    good falsify --referee all/results.csv $V/instances.csv --restarts 3
    says "witnesses that hold 2," "wrong 0, missing 0" "other or no verdict: 1"
    cat >lies.csv <<C
k,./x/linear.onnx,./y/sat.vnnlib,0.5,unsat,3
k,./x/linear.onnx,./y/unsat.vnnlib,0.5,holds,3
k,./x/row.onnx,./y/row.vnnlib,0.5,sat,3
C
    mkdir k
    sed 's/(X_3 [^)]*/(X_3 1.5/' all/row_row.counterexample | gzip >k/row_row.counterexample.gz
    vt falsify --referee lies.csv $V/instances.csv --restarts 3 --out found
    [ "$status" = 1 ] || fail "$status: $stderr"
    says "linear_sat" "sat: its witness lies in --out" "row_row" "its witness leaves the box by 0.5" "called unsat: 2, of which 1 have a witness" "wrong 1, missing 0"
    grep -q "lies.csv: 2 verdicts are contradicted" <<<"$stderr"
    [ -s found/linear_sat.counterexample ]
    rm k/*
    vt falsify --referee lies.csv $V/instances.csv --restarts 3
    says "gives no witness" "missing 1"
}
