#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Networks of ONNX files, wherever a checkpoint may stand; what is refused, and by which sentence. The shapes10_* files
# are one trained network, exported in several forms (tests/fixtures/gen_onnx.py).
load helpers

N=tests/fixtures/onnx S=datasets/shapes10

setup() {
    W=$BASE/w.safetensors D=$BASE/data
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    ln -s "$ROOT/tests" "$ROOT/datasets" .
}

# row NAME: the row of the last table that begins with it, without its costs
row() { sed -n "s/^$1 \+\([0-9]* \/ [0-9]*\).*/\1/p" <<<"$output"; }

@test "probe and gradcheck read ONNX files" {
    for n in conv attention moves resample newer; do
        good probe $N/$n.onnx --input $N/$n.safetensors --loss linear --precision f64 --out $n.safetensors
        good gradcheck $N/$n.onnx --images 1
        says "the input gradient is exact"
    done
    bad 1 "has shape [2,3,16,16], the model wants [N,3,12,12]" -- probe $N/moves.onnx --input $N/conv.safetensors --out o
    bad 1 "--loss linear needs tensor dz [2,5]" -- probe $N/conv.onnx --input $N/attention.safetensors --loss linear --out o
}

@test "one network in several forms of export: the same verdicts; what was done to input and output is said" {
    local like
    for form in inside softmax nhwc bytes "two --output logits" "bare --mean 0.5 --std 0.25"; do
        good eval $N/shapes10_${form%% *}.onnx ${form#"${form%% *}"} --data $S --images 0:40 --eps 1/255 --attack pgd:steps=5 --out r_${form%% *}
        like=${like:-$(row clean), $(row pgd)}
        [ "$(row clean), $(row pgd)" = "$like" ] || fail "$form: $(row clean), $(row pgd), not $like"
    done
    truth r_inside/results.json '.model | .mean.value == [0,0,0] and .std.value == [1,1,1] and .architecture.value == "onnx" and .image.value == 32'
    truth r_bare/results.json '.model | .mean.value == [0.5,0.5,0.5] and .std.value == [0.25,0.25,0.25]'
    truth r_bytes/results.json '.model.std.value[0] * 255 - 1 | fabs < 1e-12'
    grep -q "Softmax is left out" r_softmax/table.md
    grep -q "first nodes expect pixels of" r_bytes/table.md
}

@test "what a file leaves open is asked for, and what contradicts it refused" {
    bad 2 "mean" "std" "vitrine doctor" -- eval $N/shapes10_bare.onnx --data $S --eps 1/255 --attack pgd --out r
    bad 2 "both --mean and --std" -- eval $N/shapes10_bare.onnx --mean 0.5 --data $S --eps 1/255 --attack pgd --out r
    bad 1 "has 2 outputs: give --output NAME, one of logits, best" -- eval $N/shapes10_two.onnx --data $S --out r
    bad 1 "--output is 'worst', must be one of logits, best" -- eval $N/shapes10_two.onnx --output worst --data $S --out r
    bad 1 "has 10 classes, but the model" -- eval $N/shapes10_binary.onnx --data $S --out r
    bad 1 "which images of 3,16,16 contradict" -- eval $N/shapes10_inside.onnx --image-shape 3,16,16 --data $S --out r
    bad 2 "--image-shape is '3x32', must be channels, height and width" -- eval $N/shapes10_inside.onnx --image-shape 3x32 --data $S --out r
    bad 2 "--layout is 'nwhc', must be nchw or nhwc" -- eval $N/shapes10_nhwc.onnx --layout nwhc --data $S --out r
    bad 2 "--heads is of a checkpoint" -- eval $N/shapes10_inside.onnx --heads 3 --data $S --out r
    bad 2 "is no ONNX file: --output goes with one" -- eval "$W" --output z --data "$D" --out r
    bad 2 "--attack-at must be model" -- eval $N/shapes10_inside.onnx --attack-at native --data $S --out r
    bad 2 "aligned=1 needs tokens" -- eval $N/shapes10_inside.onnx --data $S --threat patch:size=4,aligned=1 --attack pgd --out r
    bad 2 "an ONNX file's graph forms its own" -- eval $N/shapes10_inside.onnx --data $S --eps 1/255 --attack pgd --search bf16-emulated --out r
    [ ! -e r ]
}

@test "commands that need a checkpoint's tensors refuse an ONNX file" {
    printf 'epochs: 1\n' >r.yaml
    bad 1 "works on the tensors of a checkpoint" -- convert $N/shapes10_inside.onnx x.safetensors
    bad 1 "works on the tensors of a checkpoint" -- analyze spectrum $N/shapes10_inside.onnx
    bad 1 "works on the tensors of a checkpoint" -- train r.yaml --init $N/shapes10_inside.onnx --data $S --out t
    bad 2 "no attention of all tokens" -- analyze attention $N/shapes10_inside.onnx --data $S --images 0:2
    [ ! -e t ] && [ ! -e x.safetensors ]
}

@test "info tells what the file is and what became of it" {
    good info $N/shapes10_softmax.onnx
    says "pytorch 1.13.0, opset 13" "3 x 32 x 32" "left out             Softmax" "9824 in 19 tensors" "Conv 8" "in the graph" "Gemm 1" "MatMul 1"
    bad 1 "output best has sides [1], must be [1,classes]" -- info $N/shapes10_two.onnx --output best
    good info $N/shapes10_inside.onnx --json
    jq -e '.onnx.input == {"name": "pixels", "sides": ["?",3,32,32], "layout": "nchw"} and .onnx.operators.Conv == 8' <<<"$output"
}

@test "threads, batches, kill and resume give the same bytes; verify judges again; the self-test tries all its checks" {
    local run=($N/shapes10_inside.onnx --data $S --images 0:12 --eps 1/255 --attack apgd-ce:steps=5 --attack square:queries=50 --attack transfer)
    good eval "${run[@]}" --threads 1 --out a
    good eval "${run[@]}" --threads 2 --out b
    same_run a b
    hold ledger.jsonl 9 "$VITRINE" eval "${run[@]}" --threads 1 --out c
    kill -KILL "$pid" && wait "$pid" || true
    good eval "${run[@]}" --threads 1 --resume --out c
    same_run a c
    good verify a
    says "to the last bit"
    good selftest $N/shapes10_inside.onnx --data $S --images 0:60 --eps 1/255
    says "no sign of masking (2" "active test: found"
}

@test "eval --dry-run: the memory of a network of 40 MB, within a tenth" {
    ! nm "$VITRINE" 2>/dev/null | grep -q __asan_init || skip "an address sanitizer takes memory of its own"
    good new --set dim=320 depth=8 patch=8 image=32 classes=10 -o w.safetensors
    good convert w.safetensors w.onnx
    for threads in 1 2; do
        A="w.onnx --data $S --images spread:40 --eps 0.5 --attack pgd:steps=3 --threads $threads"
        good eval $A --dry-run
        [[ $output =~ 'memory: '([0-9]+)' MB peak with '$threads ]] || fail "no memory: $output"
        stated=${BASH_REMATCH[1]}
        good eval $A --out r$threads
        truth r$threads/results.json '.attacks[0].broken > 0'
        truth r$threads/run.json "(.peak_resident_kb / 1024) as \$m | $stated - \$m | fabs <= 0.1 * \$m"
    done
}

@test "a wrap that masks gradients is found around an ONNX network, too" {
    vt selftest $N/shapes10_inside.onnx --wrap quantise:levels=8 --data $S --images 0:60 --eps 1/255
    [[ $output != *"no sign of masking"* ]] || fail "not found: $output"
}

@test "a quantised graph: its straight-through gradients are named in info, report and self-test, and not believed" {
    good info $N/shapes10_quantised.onnx
    says "straight through roundings: 1" "BPDA"
    good eval $N/shapes10_quantised.onnx --data $S --images 0:8 --eps 1/255 --attack fgsm --out q
    says "gradients pass straight through the graph's roundings, 1 of them (BPDA"
    grep -q BPDA q/table.md
    vt selftest $N/shapes10_quantised.onnx --data $S --images 0:40 --eps 1/255
    [[ $output == *"warning: gradients pass straight through"* && $output != *"no sign of masking"* ]] || fail "$output"
}

@test "served to another process, as a surrogate, by curve and bench" {
    good eval $N/shapes10_inside.onnx --data $S --images 0:12 --eps 1/255 --attack fgsm --out here
    good eval --oracle "$VITRINE serve $N/shapes10_inside.onnx" --data $S --images 0:12 --eps 1/255 --attack fgsm --out there
    cmp <(tail -n +2 here/ledger.jsonl | jq -c '[.image,.status]') <(tail -n +2 there/ledger.jsonl | jq -c '[.image,.status]')
    bad 2 "--surrogate-oracle \"vitrine serve" -- eval "$ROOT/weights/shapes10-vit" --surrogate $N/shapes10_bare.onnx --data $S --images 0:5 --eps 1/255 --attack transfer
    good eval "$ROOT/weights/shapes10-vit" --surrogate $N/shapes10_inside.onnx --data $S --images 0:5 --eps 1/255 --attack transfer
    good curve $N/shapes10_inside.onnx --attacks ddn:steps=5 --norm l2 --data $S --images 0:4 --out cv
    good bench $N/shapes10_inside.onnx
    says "gradient step"
}

@test "doctor finds the normalisation by labelled images" {
    good doctor $N/shapes10_bare.onnx --data $S --images 0:100
    says "no node scales the input" "clearly better: CIFAR-10"
}

@test "a file that is cut or no ONNX is refused" {
    head -c 900 $N/conv.onnx >cut.onnx
    bad 1 "cut.onnx: is not a whole ONNX file" -- gradcheck cut.onnx
    : >empty.onnx
    bad 1 "empty.onnx: is empty, not an ONNX file" -- gradcheck empty.onnx
}

@test "docs/models.md lists the operators that are read" {
    "$ROOT/tools/onnx_operators.py" "$(dirname "$VITRINE")/tools/onnx_case" --check
}
