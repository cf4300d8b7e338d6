#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine lab: the four of "Understanding Attention Mechanisms", each in its smallest setting.
load helpers

SAMPLES="--sizes 200+400 --steps 200 --test 100 --attack-points 20 --attack-steps 3"
DIGITS="--steps 20 --train 60 --test 40 --side 16 --hidden 8 --s 5 --fig7 20"
FLAT="--steps 200 --runs 1 --k 5 --train 200 --samples 100 --self-steps 50 --self-points 40 --probes 3"

# twice NAME OPTIONS: the same bytes for one seed and any threads, others for another seed; lab.json is whole.
twice() {
    local name=$1
    shift
    good lab "$name" --seed 5 --threads 1 --out a "$@"
    good lab "$name" --seed 5 --threads 3 --out b "$@"
    cmp a/lab.json b/lab.json
    cmp a/tables.txt b/tables.txt
    good lab "$name" --seed 6 --threads 2 --out c "$@"
    says "seed 6" "what was found here, claim by claim" "verdict: of "
    [[ ${lines[-2]} =~ ^[0-9.]+\ s,\ 2\ threads$ ]] || fail "no time: ${lines[-2]}"
    truth c/lab.json ".lab == \"$name\" and .seed == 6 and (.claims | length) >= 1 and
        all(.claims[]; .finding as \$f | [\"supports\", \"weakens\", \"contradicts\", \"does not test\"] | index(\$f))"
}

# differ A B
differ() { if cmp -s "$1" "$2"; then fail "$1 and $2 are the same"; fi; }

@test "lab sample-complexity: the tables of Table 1 and of the robust twin, repeatable to the byte" {
    twice sample-complexity $SAMPLES
    differ a/lab.json c/lab.json
    says "parameters: 34186 baseline, 34442 with attention" "|W1|_F" "|w2|" "sum-to-one" "attention L2" "robust twin" \
        "share of that perturbation's energy on inputs that do not count" "test error when PGD may move those inputs alone"
    truth a/lab.json '.results.runs | length == 9'                       # 3 variants at both sizes, 3 more at the first
    truth a/lab.json 'all(.results.runs[]; .robust >= .test * 0.2 and .irrelevant_share > 0 and .irrelevant_share < 1)'
    truth a/lab.json '.claims[0].finding == "supports"'                  # the parameter counts
    truth a/lab.json '[.results.runs[] | select(.variant == "baseline")] | all(.mask_on == 1 and .mask_off == 1)'
    truth a/lab.json '.results.runs[0].test_curve | length == 20 and .[0] > .[19]' # it learns
}

@test "lab sample-complexity --full is the paper's plan; sizes, steps and runs still may be told" {
    good lab sample-complexity --full --sizes 100+200 --steps 50 --runs 2 --test 50 --attack-points 10 --attack-steps 2 --out o
    truth o/lab.json '.results.runs | length == 24 and ([.[] | .run] | unique) == [0, 1]' # 6 variants, 2 sizes, 2 runs
    truth o/lab.json '[.results.runs[] | select(.variant == "baseline" and .n == 100) | .test] | .[0] != .[1]'
}

@test "lab sample-complexity --model self: eq. 3's teacher, baseline against self-attention" {
    twice sample-complexity --model self $SAMPLES
    says "teacher of eq. 3: 8 tokens of 8 numbers, d_q = d_v = 8" "parameters: 9610 baseline, 9802 with attention"
    truth a/lab.json '[.results.runs[].variant] | unique == ["baseline", "self-attention"]'
}

# finding FILE CLAIM: what was found of the claim that begins so.
finding() { jq -r --arg c "$2" '[.claims[] | select(.claim | startswith($c)) | .finding] | join(",")' "$1"; }

@test "lab sample-complexity: no verdict about samples while a network still learns, one when it has learnt" {
    good lab sample-complexity $SAMPLES --out early
    for claim in "Theorem 1: attention needs" "Corollary 1" "Proposition 1"; do
        [ "$(finding early/lab.json "$claim")" = "does not test" ] || fail "$claim: $(finding early/lab.json "$claim")"
    done
    says "baseline at n = 400: training error" "above half of test error"
    [ "$(finding early/lab.json "Table 1: attention's test error is below")" != "does not test" ] # a table's order is as it is
    truth early/lab.json '[.results.runs[] | select(.variant == "baseline" and .n == 400) | .train > .test / 2] | all'
    good lab sample-complexity --sizes 20+40 --steps 3000 --test 100 --attack-points 5 --attack-steps 2 --out late
    truth late/lab.json '[.results.runs[] | select(.variant == "baseline" or .variant == "known mask") | .train < .test / 2] | all'
    for claim in "Theorem 1: attention needs" "Corollary 1" "Proposition 1"; do
        [[ $(finding late/lab.json "$claim") =~ ^(supports|weakens|contradicts)$ ]] || fail "$claim: $(finding late/lab.json "$claim")"
    done
    truth late/lab.json '[.results.runs[] | select(.variant == "known mask") | .mask_on == 1 and .mask_off == 0] | all' # held
    says "baseline and attention L1 keep to the same weight bounds"
}

@test "lab sample-complexity --relevant A+B: a sweep over s0, a teacher for each, and Theorem 1's claim about it" {
    good lab sample-complexity --relevant 4+64 --sizes 20+40 --steps 3000 --test 100 --attack-points 5 --attack-steps 2 --out o
    says "teacher: 4 of 256 inputs count" "teacher: 64 of 256 inputs count" "test error over mean |y|^2" "as s0^"
    truth o/lab.json '[.results.runs[] | .relevant] | unique == [4, 64]'
    truth o/lab.json '.results.runs | length == 18 and (.[0:9] | all(.relevant == 4))'
    truth o/lab.json '.results.power | length == 2 and .[0] < .[1]' # y's power is that of the inputs that count
    [[ $(finding o/lab.json "Theorem 1: with attention the error") =~ ^(supports|weakens|contradicts)$ ]]
    good lab sample-complexity --relevant 4 --sizes 20+40 --steps 3000 --test 100 --attack-points 5 --attack-steps 2 --out alone
    cmp <(jq '[.results.runs[] | select(.relevant == 4)]' o/lab.json) <(jq .results.runs alone/lab.json) # the same students
    good lab sample-complexity --relevant 4+64 $SAMPLES --out early
    [ "$(finding early/lab.json "Theorem 1: with attention")" = "does not test" ]
    [ "$(finding early/lab.json "Theorem 1: without attention")" = "does not test" ]
}

@test "lab sample-complexity: lambda and decay act" {
    good lab sample-complexity $SAMPLES --lambda 0 --out none
    good lab sample-complexity $SAMPLES --lambda 2 --out strong
    one='[.results.runs[] | select(.variant == "attention L1" and .n == 200)][0].mask_on'
    awk -v a="$(jq "$one" none/lab.json)" -v b="$(jq "$one" strong/lab.json)" 'BEGIN {exit !(b < a / 2)}'
    plain='[.results.runs[] | select(.variant == "attention" and .n == 200)][0].test'
    [ "$(jq "$plain" none/lab.json)" = "$(jq "$plain" strong/lab.json)" ] # lambda is of the penalised ones alone
    [ "$(jq "$plain" none/lab.json)" = "$(jq '[.results.runs[] | select(.variant == "attention L1" and .n == 200)][0].test' none/lab.json)" ]
    good lab sample-complexity $SAMPLES --decay 1 --out decay
    awk -v a="$(jq '.results.runs[0].W1' none/lab.json)" -v b="$(jq '.results.runs[0].W1' decay/lab.json)" 'BEGIN {exit !(b < a)}'
}

@test "lab noisy-digits: curves for each rate, both networks, and Fig. 7" {
    twice noisy-digits $DIGITS
    differ a/lab.json c/lab.json
    says "digit of 5 x 5 in 16 x 16" "Fig. 7" "share of the first layer's energy on the digit (evenly 9.8 %)"
    truth a/lab.json '.results.runs | length == 4 and ([.[] | .rate] | unique) == [0.001, 0.005]'
    truth a/lab.json '.results.fig7 | keys == ["attention", "attention L1", "baseline"]'
    good lab noisy-digits --steps 5 --train 20 --test 10 --side 16 --hidden 4 --fig7 -1 --rate 0.01 --out three
    truth three/lab.json '[.results.runs[].s] == [5, 5, 8, 8, 15, 15] and .results.fig7 == {}'
}

# idx FOLDER SPLIT N: pictures of 28 x 28 whose label is their number modulo 10 and whose ink is a bar at that place.
idx() {
    mkdir -p "$1"
    /usr/bin/python3 - "$@" <<'END'
import struct, sys
folder, split, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
def picture(label):
    return b"".join(bytes([255 if c // 2 == label + 2 else 0 for c in range(28)]) for r in range(28))
open("%s/%s-images-idx3-ubyte" % (folder, split), "wb").write(
    struct.pack(">4I", 0x803, n, 28, 28) + b"".join(picture(i % 10) for i in range(n)))
open("%s/%s-labels-idx1-ubyte" % (folder, split), "wb").write(struct.pack(">2I", 0x801, n) + bytes(i % 10 for i in range(n)))
END
}

@test "lab noisy-digits --digits: MNIST's idx files instead of digits drawn here" {
    idx mnist train 60 && idx mnist t10k 40
    good lab noisy-digits $DIGITS --s 14 --digits mnist --out read
    good lab noisy-digits $DIGITS --s 14 --digits mnist --threads 2 --out again
    cmp <(jq .results read/lab.json) <(jq .results again/lab.json)
    good lab noisy-digits $DIGITS --s 14 --out drawn
    differ read/lab.json drawn/lab.json
    [ "$(jq -r '.results.digits_sha256[1]' read/lab.json)" = \
        "$(cat mnist/t10k-images-idx3-ubyte mnist/t10k-labels-idx1-ubyte | sha256sum | cut -d ' ' -f 1)" ]
    # bars of full ink at ten places are learned at once; the strokes drawn here are not
    good lab noisy-digits --steps 600 --train 60 --test 40 --side 16 --hidden 16 --s 14 --fig7 -1 --rate 0.05 --digits mnist --out learned
    truth learned/lab.json '[.results.runs[].test_error[-1]] | max < 0.2'
    bad 2 "mnist: 61 train images are asked for, it has 60" -- lab noisy-digits $DIGITS --train 61 --digits mnist
    bad 1 "nowhere" -- lab noisy-digits $DIGITS --digits nowhere
    bad 2 "one channel" -- lab noisy-digits --train 2 --test 2 --steps 1 --fig7 -1 --digits "$ROOT/datasets/shapes10"
    truncate -s 1000 mnist/t10k-images-idx3-ubyte
    bad 2 "t10k-images-idx3-ubyte: is cut short: 40 images of 28 x 28" -- lab noisy-digits $DIGITS --digits mnist --out none
    [ -z "$(find none -type f)" ]
    printf '\0\0\010\001' | dd of=mnist/t10k-images-idx3-ubyte conv=notrunc status=none
    bad 2 "magic number 0x00000801" "0x00000803" -- lab noisy-digits $DIGITS --digits mnist --out none
    idx mnist t10k 40
    bad 1 "1 x 28 x 28" "3 x 32 x 32" -- eval "$ROOT/weights/cifar10-at" --data mnist --eps 8/255
}

@test "lab flatness: eigenvalues, and a rescaling that moves them but not the outputs nor the relative ones" {
    twice flatness $FLAT
    differ a/lab.json c/lab.json
    says "576-16-10" "9402 baseline, 9978 with attention" "Theorem 4 for self-attention"
    truth a/lab.json '.results.spectra.attention | length == 5 and . == (sort | reverse)'
    truth a/lab.json '.results | all(.mask_rescaled[], .self_rescaled[]; .moved < 1e-9)'
    truth a/lab.json '.results.mask_rescaled as $m | all($m[]; (.relative / $m[0].relative - 1) | fabs < 1e-6)
        and ([$m[].largest] | max > 2 * min)'
    truth a/lab.json '[.claims[1, 2].finding] == ["supports", "supports"]'
    truth a/lab.json '.results.runs[0].largest == .results.spectra.baseline[0] or
        ((.results.runs[0].largest / .results.spectra.baseline[0] - 1) | fabs < 1e-6)' # two runs of Lanczos agree
}

@test "lab regions: Fig. 1's formulas, the condition, the counts" {
    twice regions --draws 3
    cmp <(jq .results a/lab.json) <(jq .results c/lab.json) # general position: every seed counts the same
    says "= 129.2, begins to hold" "polygons and recursion agree"
    truth a/lab.json '[.results.counts[].plane] == [2, 4, 7, 11, 16, 22] and [.results.counts[].masked] == [2, 4, 7, 11, 16, 22]
        and [.results.counts[].four] == [2, 4, 8, 16, 31, 57]'
    truth a/lab.json '.results.bounds_ordered_from == 200'
}

@test "labs: bad options are refused, with what may be given" {
    bad 2 "sizes" "rise" -- lab sample-complexity --sizes 400+200
    bad 2 "sizes" "10000+20000" -- lab sample-complexity --sizes 10,20
    bad 2 "sizes" -- lab sample-complexity --sizes 0+5
    bad 2 "model" "mask" "self" -- lab sample-complexity --model other
    bad 2 "relevant" "256" -- lab sample-complexity --relevant 257
    bad 2 "relevant" "rise" -- lab sample-complexity --relevant 32+8
    bad 2 "relevant" "8+16+32" "'8,16'" -- lab sample-complexity --relevant 8,16
    bad 2 "steps" -- lab sample-complexity --steps ten
    bad 2 "attack_norm" "l2" -- lab sample-complexity --attack-norm l1
    bad 2 "'s0'" -- lab regions --s1 3
    bad 2 "s0 = 100" "below p = 100" -- lab regions --s0 100
    bad 2 "k" "400" -- lab flatness --k 401
    bad 2 "s" "24" -- lab flatness --s 25
    bad 1 "20 x 20" "1 to 16" -- lab noisy-digits --side 16 --s 20
    bad 1 "learning rate of 10" -- lab noisy-digits $DIGITS --rate 10 --steps 2000
}

@test "labs: what the machine cannot hold is refused before it starts" {
    bad 1 "training and test points would need" "GiB of memory, this machine has" -- lab sample-complexity --sizes 1000000000
    bad 1 "pictures" "GiB of memory, this machine has" -- lab noisy-digits --train 1000000 --test 1000000 --side 256
    bad 1 "Hessian" "GiB of memory, this machine has" -- lab flatness --train 1000000 --samples 1000000 --threads 1024
}
