#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine eval --certify: certificates as a column of an evaluation (docs/certify.md); a tiny ViT, and ONNX files of it.
load helpers

# npy FILE SHAPE BYTES: bytes as a file of NumPy.
npy() {
    local h="{'descr': '|u1', 'fortran_order': False, 'shape': $2, }"
    printf -v h '%-117s\n' "$h"
    { printf '\x93NUMPY\1\0\166\0%s' "$h"; printf "$3"; } >"$1"
}

# twelve drawn images of 3 x 8 x 8, labelled as the network says
setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    npy x.npy '(12, 3, 8, 8)' "$(awk 'BEGIN { for (i = s = 1; i <= 2304; i++) { s = (s * 1103515245 + 12345) % 2147483648; printf "\\x%02x", int(s / 65536) % 256 } }')"
    "$VITRINE" new --set image=8 patch=4 dim=8 depth=1 heads=2 classes=3 --mean 0.5 --std 0.5 --seed 3 -o v.safetensors
    npy y.npy '(12,)' "$(printf '\\0%.0s' {1..12})"
    "$VITRINE" eval v.safetensors --data x.npy,y.npy --out label
    npy y.npy '(12,)' "$(tail -n +2 label/ledger.jsonl | jq -r '"\\\(.pred)"' | tr -d '\n')"
    "$VITRINE" convert v.safetensors v.onnx
    "$VITRINE" eval v.safetensors $(options) --threads 1 --out ref
}

options() { echo --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --eps 8/255 --certify linear --attack pgd:steps=20; }

# proofs RUN: its lines of certificates, without checksums, which hold the header's.
proofs() { jq -c 'select(.entry == 1001) | del(.check)' "$1/ledger.jsonl"; }

setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    V=$BATS_FILE_TMPDIR/v.safetensors N=$BATS_FILE_TMPDIR/v.onnx REF=$BATS_FILE_TMPDIR/ref
}

@test "some are certified; each report says so; threads, batch, kill and resume change no byte" {
    truth $REF/results.json '.certified | .certified == 3 and .undecided == 9 and .broken == 0 and .total == 12 and .first == false'
    truth $REF/results.json '.certified | .method == "linear:boxes=500,refine=0,intervals=0" and (.sentence | contains("plain classifier") and contains("linf eps 8/255") and contains("float32"))'
    [ "$(jq -r 'select(.entry == 1001) | .status' $REF/ledger.jsonl | sort | uniq -c | tr -s ' \n' ' ')" = " 3 certified 9 undecided " ]
    truth <(jq -s . $REF/ledger.jsonl) '[.[] | select(.status == "certified")] | all(.linf == 8 / 255 and .margin == null)'
    grep -q '^| certified (linear) | 3 / 12 | 25.00 |' $REF/table.md
    grep -q '^certified (linear) & 3 / 12 & ' $REF/table.tex
    grep -q '^certified (linear),0,3,12,25.0000,' $REF/table.csv
    good eval $V $(options) --threads 2 --batch 3 --out r
    says "certified (linear)  "
    cmp <(proofs $REF) <(proofs r)
    good eval $V $(options) --threads 2 --out two
    same_run $REF two
    hold ledger.jsonl 17 "$VITRINE" eval $V $(options) --threads 1 --out killed
    kill -KILL $pid
    wait $pid || true
    [ -n "$(proofs killed)" ]
    [ "$(proofs killed | wc -l)" -lt 12 ]
    good eval $V $(options) --threads 2 --out killed --resume
    same_run $REF killed
    bad 2 "made with another certify" -- eval $V $(options) --certify linear:boxes=9 --out killed --resume
    good show $REF --out page.html
    grep -q "Certified" page.html
}

@test "--certify-first attacks the others alone, with the same verdicts; verify proves and attacks again" {
    good eval $V $(options) --certify-first --attack fgsm --threads 2 --out first
    says "3 images, 6 attacks saved"
    truth first/results.json '.certified | .first and .attacks_saved == 6 and .certified == 3'
    truth first/results.json '.attacks | all(.robust == 12 and .stages[0].tried == 9)'
    good verify first
    says "certificates proved again       12"
    good verify first --attack-skipped
    says "certified images attacked      3"
    bad 2 "skipped no attack" -- verify $REF --attack-skipped
    good eval $V $(options) --dry-run
    says "certificates (linear:boxes=500,refine=0,intervals=0) are not counted"
    good compare $REF first --tex both.tex
    says "certified "
    grep -q "^ & clean & certified & pgd & fgsm" both.tex
    [ "$(grep -c ' & 100.00 \[.*\] & 25.00 \[' both.tex)" = 2 ]
    good eval $V $(options) --threads 2 --images 0:5 --out a
    good eval $V $(options) --threads 2 --images 5:12 --out b
    good merge a b --out merged
    same_run $REF merged
    good eval $V $(options) --eps 60/255 --threads 2 --out broken
    truth broken/results.json '.certified | .broken > 0 and .certified + .undecided + .broken == 12 and (has("contradictions") | not)'
}

@test "a changed certificate is found" {
    cp -r $REF r
    sed -i '0,/"status":"undecided"/s//"status":"certified"/' r/ledger.jsonl
    bad 1 "ledger.jsonl is changed" -- verify r
    says "is undecided, the ledger says certified"
    cp -r $REF claim # a forger who read the source claims more than was proved
    sed -i 's/within linf eps /within linf eps 9/' claim/*.*
    seal claim
    bad 1 "its certificates are said to mean" "within linf eps " -- verify claim
}

@test "the ONNX file of the network, the same certificates" {
    good eval $N $(options) --threads 2 --out r
    cmp <(proofs $REF | jq -c '[.image, .status]') <(proofs r | jq -c '[.image, .status]')
    truth r/results.json '.certified.sentence | contains("vitrine convert") | not'
}

@test "certify reads native checkpoints" {
    local head='{"x":{"dtype":"F32","shape":[3,3,8,8],"data_offsets":[0,2304]},"labels":{"dtype":"I64","shape":[3],"data_offsets":[2304,2328]}}'
    { printf "\\x$(printf %02x ${#head})\\0\\0\\0\\0\\0\\0\\0%s" "$head"; printf '\0%.0s' {1..2304}; printf '%b\0\0\0\0\0\0\0' '\0' '\01' '\02'; } >c.safetensors
    good certify $V --points c.safetensors --out r.json --radius 1/1000
    says "at 1 of 3 points" # one class is right
    good certify $N --points c.safetensors --out n.json --radius 1/1000
    [ "$(jq -c '[.points[].radius]' r.json)" = "$(jq -c '[.points[].radius]' n.json)" ]
    bad 1 "the network's input has 192" -- certify $V --points $ROOT/tests/fixtures/onnx/conv.safetensors --out r.json
    good list certificates
    says "linear "
}

# halt ARGS: eval's certificate of one image, which would take minutes, is interrupted once it has begun; nothing of it is
# written. (timeout without --foreground would signal twice, and the second signal ends the program at once.)
halt() {
    timeout --foreground -k 1 100 "$VITRINE" eval "$@" --threads 1 --no-selftest --out slow >said 2>&1 3>&- &
    local job=$! status=0
    until [ "$(cat slow/ledger.jsonl 2>/dev/null | wc -l)" -gt 1 ]; do kill -0 $job 2>/dev/null && sleep 0.05 || fail "$(cat said)" || return; done
    kill -INT $job
    wait $job || status=$?
    [ $status = 1 ] || fail "$status: $(cat said)" || return
    [ -z "$(proofs slow)" ] && rm -r slow
}

@test "a certificate is interrupted within an image" {
    halt $ROOT/weights/shapes10-vit --data $ROOT/datasets/shapes10 --images 1:2 --eps 8/255 --certify linear:refine=1
    halt $V --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --norm l2 --eps 0.1 --wrap smooth:n=10000000 --certify smooth --images 0:1
}

@test "a column of a table" {
    good eval $V $(options) --images 0:6 --out r
    good export r --out all.npz
    cp $V w.safetensors
    local manifest="name: t
data:
  D: {path: all.npz}
attacks:
  clean: {}
  proven: {certify: linear, eps: 8/255}
rows:
  A: {checkpoint: w.safetensors}"
    echo "$manifest" >t.yaml
    good table t.yaml --out out
    truth out/t.json "[.. | objects | select(has(\"attack\")) | .attack] | contains([\"proven\"])"
    [ "$(jq .certified.certified out/cells/*/run/results.json | grep -v null)" = "$(jq .certified.certified r/results.json)" ]
    grep -q "images that linear proves robust at linf eps 8/255" out/t.md
    echo "${manifest/certify: linear/certify: linaer}" >bad.yaml
    bad 2 "unknown certificate 'linaer'" -- table bad.yaml --out o
    echo "${manifest/certify: linear/certify: linear, spec: fgsm}" >bad.yaml
    bad 2 "attack proven is a certificate" -- table bad.yaml --out o
    echo "${manifest/w.safetensors/w.safetensors, options: [certify=linear]}" >bad.yaml
    bad 2 "the option 'certify=linear' is refused" -- table bad.yaml --out o
}

@test "what is refused, before a run exists" {
    bad 2 "--certify linear knows linf alone, the threat is l2" -- eval $V $(options) --norm l2 --out r
    bad 2 "the threat is a patch" -- eval $V --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --threat patch:size=2 --certify linear --out r
    bad 2 "it knows no wrap noise" -- eval $V $(options) --wrap noise --out r
    bad 2 "unknown certificate 'linaer'; did you mean 'linear'?" -- eval $V $(options) --certify linaer --out r
    bad 2 "certificate linear: option boxes is 1, must be between 2 and" -- eval $V $(options) --certify linear:boxes=1 --out r
    bad 2 "--certify-first needs --certify METHOD" -- eval $V --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --certify-first --out r
    bad 2 "--certify needs --eps" -- eval $V --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --certify linear --out r
    bad 2 "no option '--certify'" -- curve $V --data "$BATS_FILE_TMPDIR/x.npy,$BATS_FILE_TMPDIR/y.npy" --certify linear
    npy m.npy '(1, 3, 12, 12)' "$(printf '\\0%.0s' {1..432})"
    npy l.npy '(1,)' '\0'
    bad 2 "no bounds are known for operator Reduce" -- eval $ROOT/tests/fixtures/onnx/moves.onnx --data m.npy,l.npy --mean 0.5 --std 0.5 --eps 1/255 --certify linear --out r
    [ ! -e r ]
}
