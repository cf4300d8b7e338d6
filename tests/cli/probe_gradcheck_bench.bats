#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# probe, gradcheck, bench: the model's numbers from outside.
load helpers

# batch FILE N PIXEL LABELS...: N images of one pixel value each, labels and targets as int64.
batch() {
    local out=$1 n=$2 pixel=$3 bytes=$((4 * 3072 * $2)) l
    shift 3
    {
        repeat $((n * 3072)) "$pixel"
        for l; do le8 "$l"; done
        for l; do le8 $(((l + 1) % 10)); done
    } | st_make "$out" "$(jq -nc --argjson n "$n" --argjson k $# --argjson b $bytes '
        {x: {dtype: "F32", shape: [$n, 3, 32, 32], data_offsets: [0, $b]},
         labels: {dtype: "I64", shape: [$k], data_offsets: [$b, $b + 8 * $k]},
         targets: {dtype: "I64", shape: [$k], data_offsets: [$b + 8 * $k, $b + 16 * $k]}}')"
}
probe() { good probe "$W" --out got.safetensors "$@"; }

@test "probe writes logits, loss and input gradient under the names of reference files" {
    batch b.safetensors 2 "$HALF" 3 7
    for loss in ce margin dlr dlr_t pm po; do
        probe --input b.safetensors --loss $loss
        st_header got.safetensors >h.json
        truth h.json '(del(.__metadata__) | keys) == (["dx_'$loss'", "logits", "loss_'$loss'"] | sort)'
        truth h.json '.logits == {dtype: "F32", shape: [2, 10], data_offsets: .logits.data_offsets}'
        truth h.json '.dx_'$loss'.shape == [2, 3, 32, 32] and .loss_'$loss'.shape == [2]'
    done
    probe --input b.safetensors --precision f64
    st_header got.safetensors >h.json
    truth h.json '[.logits, .loss_ce, .dx_ce] | all(.dtype == "F64")'
}

@test "probe: cross-entropy, margin and the gradient of the head's bias follow from the logits" {
    batch b.safetensors 2 "$HALF" 3 7
    probe --input b.safetensors --precision f64 --param-grads
    st_header got.safetensors >h.json
    st_header "$W" | jq '[del(.__metadata__) | keys[] | "grad." + .] | sort' >want.json
    jq '[keys[] | select(startswith("grad."))] | sort' h.json | diff - want.json
    # loss[i] = log sum exp z - z_label; grad.head.bias = mean over images of softmax - onehot
    st_floats got.safetensors logits f8 >z
    st_floats got.safetensors loss_ce f8 >loss
    st_floats got.safetensors grad.head.bias f8 >bias
    awk 'FILENAME == "z" {z[n++] = $1; next} FILENAME == "loss" {l[m++] = $1; next} {g[k++] = $1}
         function off(a, b) {return (a > b ? a - b : b - a) > 1e-12}
         END {label[0] = 3; label[1] = 7; if (n != 20 || m != 2 || k != 10) exit 1
              for (i = 0; i < 2; i++) {s = 0; for (j = 0; j < 10; j++) s += exp(z[10*i+j])
                  if (off(l[i], log(s) - z[10*i+label[i]])) {print "loss", i; bad = 1}
                  for (j = 0; j < 10; j++) want[j] += (exp(z[10*i+j]) / s - (j == label[i])) / 2}
              for (j = 0; j < 10; j++) if (off(g[j], want[j])) {print "bias", j, g[j], want[j]; bad = 1}
              exit bad}' z loss bias
    probe --input b.safetensors --precision f64 --loss margin
    st_floats got.safetensors loss_margin f8 >margin
    awk 'FILENAME == "z" {z[n++] = $1; next} {if ($1 != want(k++)) {print k, $1; exit 1}}
         function want(i,   j, y, top) {y = i ? 7 : 3; top = -1e300
             for (j = 0; j < 10; j++) if (j != y && z[10*i+j] > top) top = z[10*i+j]; return top - z[10*i+y]}' z margin
}

@test "probe: float agrees with double, and one image does not depend on its neighbour" {
    batch two.safetensors 2 "$HALF" 3 7
    batch one.safetensors 1 "$HALF" 7
    probe --input two.safetensors --precision f64
    st_floats got.safetensors dx_ce f8 >d
    probe --input two.safetensors
    st_floats got.safetensors dx_ce f4 >f
    paste d f | awk '{e = $1 - $2; if (e < 0) e = -e; if (e > worst) worst = e; a = $1 < 0 ? -$1 : $1; if (a > top) top = a}
                     END {exit !(NR == 6144 && top > 0 && worst <= 1e-4 * top)}'
    probe --input one.safetensors
    st_floats got.safetensors dx_ce f4 | cmp - <(tail -n 3072 f)
}

@test "probe: bad batches are refused, with tensor, value and limit, and write nothing" {
    echo kept >got.safetensors
    probe_bad() { bad 1 "$@" -- probe "$W" --input b.safetensors --out got.safetensors; }
    batch ok.safetensors 2 "$HALF" 3 7
    st_edit ok.safetensors b.safetensors '.y = .x | del(.x)'
    probe_bad b.safetensors "tensor x [N,C,H,W] is missing"
    st_edit ok.safetensors b.safetensors '.x.shape = [2, 32, 32, 3]'
    probe_bad b.safetensors "tensor x has shape [2,32,32,3]" "[N,3,32,32]"
    st_edit ok.safetensors b.safetensors '.x.shape = [6144]'
    probe_bad "tensor x has shape [6144]"
    st_edit ok.safetensors b.safetensors '.x.dtype = "I32"'
    probe_bad b.safetensors "tensor x is I32"
    st_edit ok.safetensors b.safetensors '.lab = .labels | del(.labels)'
    probe_bad b.safetensors "tensor labels [N] (int64) is missing"
    st_edit ok.safetensors b.safetensors '.labels.dtype = "F64"'
    probe_bad "tensor labels is F64" "integers"
    batch b.safetensors 2 "$HALF" 3
    probe_bad "tensor labels has 1 values" "x has 2 images"
    batch b.safetensors 2 "$HALF" 3 10
    probe_bad "label 10 of image 1" "10 classes"
    for pixel in "$TWO:holds 2 at element 3077" "$NAN:nan" "$INF:inf" '\x00\x00\x80\xbf:holds -1'; do
        cp ok.safetensors b.safetensors
        poke b.safetensors $(($(st_at b.safetensors x) + 4 * 3077)) "${pixel%%:*}"
        probe_bad b.safetensors "tensor x" "${pixel#*:}" "[0,1]"
    done
    head -c 1000 ok.safetensors >b.safetensors
    probe_bad b.safetensors
    rm b.safetensors
    probe_bad b.safetensors "cannot be opened"
    cp ok.safetensors b.safetensors
    bad 2 "unknown loss 'dlrt'" "ce, margin, dlr, dlr_t, pm, po or linear" "did you mean 'dlr'?" -- probe "$W" --input b.safetensors --out got.safetensors --loss dlrt
    bad 2 "--precision is 'f16'" "f32 or f64" -- probe "$W" --input b.safetensors --out got.safetensors --precision f16
    st_edit ok.safetensors b.safetensors '.t = .targets | del(.targets)'
    bad 1 "tensor targets" -- probe "$W" --input b.safetensors --out got.safetensors --loss dlr_t
    [ "$(cat got.safetensors)" = kept ]
    bad 1 got.safetensors/x -- probe "$W" --input ok.safetensors --out got.safetensors/x
    [ "$(ls -A | xargs)" = "b.safetensors got.safetensors ok.safetensors" ] || fail "left behind: $(ls -A)"
}

@test "gradcheck passes on the tiny model and on the other shapes" {
    good gradcheck "$W" --images 1 --directions 3
    says "random image 0, 3 random directions" ce margin dlr_t "the input gradient is exact"
    [ "$(grep -c ' ok$' <<<"$output")" = 3 ]
    good new --set dim=16 depth=2 heads=4 patch=8 image=16 classes=4 qkv_bias=0 pool=avg -o avg.safetensors
    good gradcheck avg.safetensors --images 1 --directions 2 --seed 3
    good new --set dim=16 depth=1 heads=2 patch=8 image=16 classes=3 distilled=1 --attn-scale dim -o dist.safetensors
    good gradcheck dist.safetensors --images 1 --directions 2
    bad 2 "--images is 0" "between 1 and 1000" -- gradcheck "$W" --images 0
    bad 2 "--directions is -3" -- gradcheck "$W" --directions -3
}

@test "bench shows images/s, GFLOP/s and the ceiling" {
    good bench "$W" --threads 1 --ms 10
    says "1 thread" "images/s" "GFLOP/s" "% ceiling" sgemm forward "gradient step"
    bad 2 "--threads is 0" "between 1 and 1024" -- bench "$W" --threads 0
    bad 2 "--ms is 5" "between 10 and 60000" -- bench "$W" --ms 5
}
