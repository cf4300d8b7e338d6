#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine analyze: every kind on the embedded checkpoints, what it writes, what it refuses.
load helpers

PLAIN=$ROOT/weights/shapes10-plain SPEC=$ROOT/weights/shapes10-specformer IMAGES=$ROOT/datasets/shapes10

@test "analyze: lipschitz measures what bounds hold, and says nothing of Theorem 4.2 that is not so" {
    good analyze lipschitz "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:3 --eps 8/255 --out a
    says "A  $PLAIN" "B  $SPEC" "attacked by pgd, linf eps 8/255" "violations at 3 images x 4 layers: pointwise and closed form 0, Theorem 4.2 0"
    truth a/analysis.json '.analysis == "lipschitz" and .attack.eps == "8/255" and (.weights | length) == 2
        and ([.results.A, .results.B] | all(.images | length == 3)) and (.weights[0].sha256 | length) == 64'
    # the order that is proved; delta0 is what the attack did, and the map moved no faster than the closed form
    truth a/analysis.json '[.results[].images[].layers[]] | length == 24 and all(.converged and .guaranteed
        and .true <= .pointwise * 1.000001 and .true_attacked <= .pointwise_attacked * 1.000001
        and .pointwise <= .closed and .closed < .specformer and .delta0 > 0 and .moved <= .closed)'
}

@test "analyze: lipschitz takes delta0 as it is given, and flags where Theorem 4.2 guarantees nothing" {
    good analyze lipschitz "$PLAIN" --data "$IMAGES" --images 0:1 --delta0 0.25 --out a
    truth a/analysis.json '[.results.A.images[].layers[]] | all(.delta0 == 0.25 and .true_attacked == null and .guaranteed)'
    # queries, keys and values of tiny inputs: LayerNorm scaled to nearly nothing
    good new --set dim=12 depth=1 heads=1 patch=16 image=32 classes=10 --seed 1 -o w.safetensors
    st_edit w.safetensors x.safetensors .
    local at
    at=$(st_at x.safetensors blocks.0.norm1.weight)
    for k in $(seq 0 11); do poke x.safetensors $((at + 4 * k)) '\x0a\xd7\x23\x3b'; done # 0.0025
    good analyze lipschitz x.safetensors --data "$IMAGES" --images 0:2 --delta0 0.01 --out b
    says "not guaranteed: |X|_F + delta0 < 1 at 2 images"
    truth b/analysis.json '[.results.A.images[].layers[]] | all(.guaranteed == false and .true <= .closed)'
}

@test "analyze: jacobian beside DDN's distance" {
    good analyze jacobian "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:4 --eps 4/255 --points 2 --out a
    says "sigma_max" "DDN l2" "rank correlation with DDN's distance"
    truth a/analysis.json '[.results[].images[]] | length == 8 and all(.converged and .sigma_max > 0
        and .sigma_max_ball >= .sigma_max and .ratio_small <= .sigma_max * 1.01 and .d_l2 > 0)'
    truth a/analysis.json '[.results[].images[] | select(.predicted != .label)] | all(.ddn == 0 and .first_order == 0)'
    # the distances are those of an evaluation by the same attack
    good curve "$PLAIN" --data "$IMAGES" --images 0:4 --norm l2 --attacks ddn:steps=100 --out c
    jq -r 'select(.entry == 1 and .status == "broken") | [.image, .l2] | @tsv' c/ledger.jsonl >c.txt
    jq -r '.results.A.images[] | select(.ddn > 0) | [.image, .ddn] | @tsv' a/analysis.json >a.txt
    [ -s a.txt ] && paste a.txt c.txt | awk '{d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-12) exit 1}' || fail "not curve's distances"
    good analyze jacobian "$PLAIN" --data "$IMAGES" --images 0:2 --ddn-steps 0 --out b
    truth b/analysis.json '[.results.A.images[]] | all(.ddn == null and .ratio == null and .sigma_max_ball == .sigma_max)'
}

@test "analyze: affinity keeps Theorem 2.1 and its tight forms" {
    good analyze affinity "$PLAIN" --data "$IMAGES" --images 0:3 --eps 8/255 --out a
    truth a/analysis.json '[.results.A.layers[]] | length == 4 and all(.rows == 3 * 2 * 65 and .ratio_paper <= 0.25
        and .ratio_half <= .ratio_centred * 1.000001 and .ratio_centred <= 1 and .ratio_l1 <= 1 and .ratio_extended <= 1
        and .fixed_mean > 0 and .bound_centred_mean < .bound_paper_mean)'
    [ "$(awk '{if (length > m) m = length} END {print m}' <<<"$output")" -le 130 ]
}

@test "analyze: attention; a choice changes only outside its radius" {
    good analyze attention "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:4 --eps 1/255 --k 3 --out a
    says "top 3" "certified" "impossible"
    truth a/analysis.json '[.results[].layers[]] | length == 8 and all(.impossible_flips == 0 and .flips <= 1 - .certified_share
        and .entropy > 0 and .effective_tokens <= 65 and .norm >= 0.9999999 and .norm * .norm <= 1 + .orthogonality_gap
        and .margin > 0 and .radius > 0 and .moved > 0 and .optimal_share >= 0)'
    truth a/analysis.json '[.results[].layers[]] | (map(.certified_share) | add) > 0 and (map(.flips) | add) > 0'
    good analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --out b
    truth b/analysis.json '[.results.A.layers[]] | all(.flips == null and .moved == null and .margin > 0)'
}

# A.npy OFFSET COUNT: numbers of a matrix of doubles, one a line
doubles() { od -An -v -tf8 -w8 -j $((128 + 8 * $2)) -N $((8 * $3)) "$1" | tr -d ' '; }

@test "analyze: attention maps over the image, clean beside attacked, for chosen blocks and heads" {
    good analyze attention "$PLAIN" --data "$IMAGES" --images 0:3 --eps 8/255 --maps 2 --map-blocks 1,rollout --map-heads mean,0,1 --out a
    says "maps.svg" "maps.npy"
    truth a/analysis.json '.results.A.maps | .query == "class token" and .grid == 8 and (.images | length) == 2
        and .maps == ["block 1, mean of 2 heads", "block 1, head 0", "block 1, head 1", "rollout"]'
    # the classes are those that eval sees, by name
    good eval "$PLAIN" --data "$IMAGES" --images 0:2 --out e
    [ "$(jq -r '.results.A.maps.images[] | [.image, .label, .predicted] | @tsv' a/analysis.json)" = \
        "$(jq -r 'select(.entry == 0) | [.image, .label, .pred] | @tsv' e/ledger.jsonl)" ]
    names=$(jq -r '.results.A.maps.images[0] | [.label_name, .attacked_predicted_name] | @tsv' a/analysis.json)
    [ "$names" = "$(jq -r '.results.A.maps.images[0] | [.label, .attacked_predicted] | .[]' a/analysis.json | while read -r k; do
        sed -n $((k + 1))p "$IMAGES/batches.meta.txt"; done | paste -s)" ]
    # 2 images, 2 passes, 4 maps of 64 patches: shares, the mean is the heads' mean, and an attack moves them
    [ "$(stat -c %s a/maps.npy)" = $((128 + 2 * 2 * 4 * 64 * 8)) ]
    for row in 0 4 8 12; do
        paste <(doubles a/maps.npy $((64 * row)) 64) <(doubles a/maps.npy $((64 * row + 64)) 64) <(doubles a/maps.npy $((64 * row + 128)) 64) |
            awk '{d = $1 - ($2 + $3) / 2; s += $1; if ($1 < 0 || d > 1e-15 || d < -1e-15) bad = 1} END {exit bad || !(s > 0.5 && s <= 1)}' ||
            fail "row $row"
    done
    never cmp -s <(doubles a/maps.npy 0 256) <(doubles a/maps.npy 256 256)
    # a row of the image and its four maps, each under its own heat: 2 x 2 x (1 + 2 x 4) pictures, and nothing from elsewhere
    xmllint --noout a/maps.svg
    [ "$(grep -c '<image ' a/maps.svg)" = 36 ]
    [ "$(grep -o 'href="data:image/png;base64,' a/maps.svg | wc -l)" = 36 ]
    [ "$(grep -o 'https\?://[^"]*' a/maps.svg | sort -u)" = http://www.w3.org/2000/svg ]
    grep -qF ">Attention on clean and attacked images (pgd, linf eps 8/255): " a/maps.svg
    grep -q ">attacked</text>" a/maps.svg
    good analyze attention "$PLAIN" --data "$IMAGES" --images 0:3 --eps 8/255 --maps 2 --map-blocks 1,rollout --map-heads mean,0,1 --threads 3 --out b
    for f in analysis.json maps.svg maps.npy; do cmp "a/$f" "b/$f"; done
    # not attacked: one row an image; none wanted: none drawn; two checkpoints: a sheet for each
    good analyze attention "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:1 --out c
    [ "$(stat -c %s c/maps_A.npy)" = $((128 + 4 * 64 * 8)) ]
    never grep -q ">attacked</text>" c/maps_B.svg
    good analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --maps 0 --out d
    [ ! -e d/maps.svg ]
    truth d/analysis.json '.results.A | has("maps") | not'
    bad 2 "--map-blocks 4: '4' must be all, rollout or a number from 0 to 3" -- analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --map-blocks 4 --out f
    bad 2 "--map-heads 0,x: 'x' must be all, mean or a number from 0 to 1" -- analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --map-heads 0,x --out f
    bad 2 "maps" "32" -- analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --maps 99 --out f
    # without a class token the patches' mean row, with ConViT's late one the token's; windows are refused
    good new --set dim=16 depth=2 heads=2 patch=8 image=32 classes=10 pool=avg --form no_cls=1 --seed 1 -o avg.safetensors
    good analyze attention avg.safetensors --data "$IMAGES" --images 0:1 --out g
    truth g/analysis.json '.results.A.maps.query == "mean over patches"'
    good new convit_tiny --set dim=16 depth=3 heads=2 patch=8 image=32 classes=10 --form local_blocks=2 --seed 1 -o convit.safetensors
    good analyze attention convit.safetensors --data "$IMAGES" --images 0:1 --map-blocks all,rollout --out h
    [ "$(stat -c %s h/maps.npy)" = $((128 + 4 * 16 * 8)) ]
}

@test "analyze: spectrum agrees with vitrine spectrum, value for value" {
    good spectrum "$PLAIN" --all --csv s.csv
    good analyze spectrum "$PLAIN" --out a
    says "stable rank" "power iteration: within"
    jq -r '.results.A.matrices[] | [.layer, .matrix, .values[0]] | @tsv' a/analysis.json | sort >a.txt
    awk -F, '$4 == "whole" {printf "%s\t%s\t%s\n", $2, $3, $5}' s.csv | sort >b.txt
    [ "$(wc -l <a.txt)" = 24 ]
    paste a.txt b.txt | awk '{d = $3 - $6; if (d < 0) d = -d; if ($1 != $4 || $2 != $5 || d > 1e-12 * $3) exit 1}' || fail "they differ"
    # LAPACK's values and the matrix have one Frobenius norm; the power iteration is within 1e-6
    truth a/analysis.json '[.results.A.matrices[]] | all(.converged and ((.values | map(. * .) | add) / (.frobenius * .frobenius) - 1 | fabs) < 1e-12
        and (.sigma_power / .values[0] - 1 | fabs) < 1e-6 and .values == (.values | sort | reverse))'
    truth a/analysis.json '[.results.A.matrices[] | select(.matrix == "W_V")] | all((.heads | length) == 2
        and ((.heads | flatten | map(. * .) | add) / (.frobenius * .frobenius) - 1 | fabs) < 1e-12)'
}

@test "analyze: orthogonality keeps the floors of wide matrices apart" {
    good analyze orthogonality "$PLAIN" "$SPEC" --out a
    truth a/analysis.json '[.results[].blocks[]] | length == 8 and all(.FC2.floor == 64 and .wide.floor == 192 and .stack.floor == 0
        and ([.W_Q, .W_O, .FC1, .FC2, .stack, .wide] | all(.gap > 0 and (.loss - .floor - .gap | fabs) < 1e-9)))'
}

@test "analyze: features of clean and attacked images, in the plane and told apart" {
    good analyze features "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:20 --eps 8/255 --perplexity 5 --steps 300 --out a
    says "A-distance" "t-SNE KL" "64 numbers that the head reads, of 40 points"
    truth a/analysis.json '.results | length == 2 and all(.width == 64 and .points == 40 and (.images | length) == 20
        and .a_distance.value == 2 * (1 - 2 * .a_distance.error) and (.a_distance.folds | length) == 5
        and .a_distance.gradient_left <= 1e-10 and .moved_mean > 0.1 and .attacked_accuracy < .clean_accuracy
        and .tsne.kl > 0 and .tsne.without_perplexity == 0 and (.variance_shares | length) == 10 and .variance_shares == (.variance_shares | sort))'
    # accuracies are those of the images; the first coordinate holds the first component's share, as the second does its own
    truth a/analysis.json '.results | all(. as $r | ([.images[] | select(.label == .predicted)] | length) * 5 == .clean_accuracy
        and ([.images[] | select(.label == .attacked_predicted)] | length) * 5 == .attacked_accuracy
        and (([0, 1] | map(. as $k | [$r.images[] | .pca[$k], .attacked_pca[$k]] | map(. * .) | add) | .[0] / (.[0] + .[1]))
            - .variance_shares[0] / .variance_shares[1] | fabs) < 1e-12)'
    [ "$(stat -c %s a/features_A.npy)" = $((128 + 40 * 64 * 8)) ]
    [ -f a/features_B.npy ]
    grep -q '<title>t-SNE of features, A-distance .*: B .*shapes10-specformer</title>' a/tsne_B.svg
    grep -q '>horizontal stripes<' a/tsne_A.svg
    grep -q 'of the variance' a/pca_A.svg
    good analyze features "$PLAIN" "$SPEC" --data "$IMAGES" --images 0:20 --eps 8/255 --perplexity 5 --steps 300 --threads 3 --out b
    for f in analysis.json tables.txt features_A.npy features_B.npy; do cmp "a/$f" "b/$f"; done
}

@test "analyze: features of clean images alone, and of an attack that does nothing" {
    good analyze features "$PLAIN" --data "$IMAGES" --images 0:20 --perplexity 5 --steps 20 --out a
    truth a/analysis.json '.results.A | .points == 20 and .a_distance == null and .attacked_accuracy == null
        and (.images | all(has("attacked_tsne") | not))'
    [ "$(stat -c %s a/features.npy)" = $((128 + 20 * 64 * 8)) ]
    good analyze features "$PLAIN" --data "$IMAGES" --images 0:20 --perplexity 5 --steps 20 --eps 1e-12 --out b
    truth b/analysis.json '.results.A | .points == 40 and .a_distance.value == 0 and .a_distance.spread == 0
        and .moved_mean < 1e-9 and .attacked_accuracy == .clean_accuracy'
}

@test "analyze: features of architectures that show no attention" {
    good new swin_tiny_patch2_window4_32 --set dim=8 depth=2 heads=2 patch=4 --form stages=2 --form stage_depth=1,1 \
        --form stage_heads=2,2 --seed 1 -o s.safetensors
    good analyze features s.safetensors --data "$IMAGES" --images 0:4 --eps 8/255 --perplexity 2 --steps 10 --folds 2 --out a
    truth a/analysis.json '.results.A | .width == 16 and .points == 8'
}

@test "analyze: features are refused where they say nothing" {
    bad 2 "perplexity 30 needs more than 31 points" "there are 6 (3 images, clean and attacked)" -- \
        analyze features "$PLAIN" --data "$IMAGES" --images 0:3 --eps 8/255
    bad 2 "perplexity 5 needs more than 6 points, there are 4 (4 images)" -- \
        analyze features "$PLAIN" --data "$IMAGES" --images 0:4 --perplexity 5
    bad 2 "5 folds of 4 images" -- analyze features "$PLAIN" --data "$IMAGES" --images 0:4 --eps 8/255 --perplexity 3
    bad 2 "option perplexity is 1, must be between 2 and" -- analyze features "$PLAIN" --data "$IMAGES" --perplexity 1
    bad 2 "has no option 'perplex'" "did you mean 'perplexity'?" -- analyze features "$PLAIN" --data "$IMAGES" --perplex 5
    bad 2 "--data" -- analyze features "$PLAIN"
}

# tests/fixtures/analyze.json is PyTorch's, by autograd (tools/gen_analyze_fixture.py). 1e-6 for what is iterated, 1e-9 for
# the rest: both sides compute in double.
@test "analyze: what PyTorch says of the same network at the same image" {
    local theirs=$ROOT/tests/fixtures/analyze.json
    good analyze jacobian "$PLAIN" --data "$IMAGES" --images 0:1 --ddn-steps 0 --out j
    good analyze lipschitz "$PLAIN" --data "$IMAGES" --images 0:1 --delta0 1 --out l
    good analyze attention "$PLAIN" --data "$IMAGES" --images 0:1 --out a
    jq -s '{j: .[0].results.A.images[0], l: .[1].results.A.images[0].layers, a: .[2].results.A.layers, t: .[3]}' \
        j/analysis.json l/analysis.json a/analysis.json "$theirs" >all.json
    truth all.json 'def near(b; tol): (. / b - 1 | fabs) <= tol; . as $x | (.j.sigma_max | near($x.t.sigma_max; 1e-6))
        and (.t.layers | length) == 4 and all(range(4); . as $k | $x.t.layers[$k] as $t
            | ($x.l[$k].true | near($t.true; 1e-6)) and ($x.l[$k].frobenius | near($t.frobenius; 1e-9))
            and ($x.a[$k].entropy | near($t.entropy; 1e-9)) and ($x.a[$k].norm | near($t.norm; 1e-9))
            and ($x.a[$k].orthogonality_gap | near($t.orthogonality_gap; 1e-9)))'
}

# 1e-7 for the largest: what is left out of a difference of gradients is 2e-8 of it (src/research/analysis/hessian.c).
@test "analyze: flatness, and what PyTorch's double backward says of the same Hessian" {
    good analyze flatness "$PLAIN" --data "$IMAGES" --images 0:4 --k 1 --most 20 --tol 1e-12 --probes 2 --out a
    says "142026 parameters" "eigenvalue 1" "lowest Ritz value" "asymmetry"
    [[ $output != *"not smooth"* ]]
    jq -s '{h: .[0].results.A.clean, t: .[1].hessian}' a/analysis.json "$ROOT/tests/fixtures/analyze.json" >all.json
    truth all.json 'def near(b; tol): (. / b - 1 | fabs) <= tol; . as $x | (.h.loss | near($x.t.loss; 1e-9))
        and all("raw", "relative"; . as $k | ($x.h[$k].eigenvalues[0] | near($x.t[$k][0]; 1e-7))
            and ($x.h[$k].lowest | near($x.t[$k][1]; 1e-7)) and $x.h[$k].products == 20 and $x.h[$k].trace_error > 0)'
    truth all.json '.h.asymmetry <= 1e-6 and .h.halved <= 1e-6 and .h.gradients == 4 * 2 * (20 + 20 + 2 + 2 + 4)'
}

@test "analyze: flatness; a change of scale moves raw eigenvalues alone, an attack that moves nothing neither, threads no bit" {
    good analyze flatness "$PLAIN" --data "$IMAGES" --images 0:2 --k 2 --most 10 --probes 2 --rescale 10 --eps 4/255 --threads 1 --out a
    good analyze flatness "$PLAIN" --data "$IMAGES" --images 0:2 --k 2 --most 10 --probes 2 --rescale 10 --eps 4/255 --threads 2 --out b
    says "W_V times 10, W_O over it"
    [[ $output != *"another function"* ]]
    cmp a/analysis.json b/analysis.json
    cmp a/tables.txt b/tables.txt
    xmllint --noout a/flatness.svg a/flatness_relative.svg
    truth a/analysis.json '.results.A | (.logits_moved <= 1e-12) and (.rescaled.raw.eigenvalues[0] > 5 * .clean.raw.eigenvalues[0])
        and ((.rescaled.relative.eigenvalues[0] / .clean.relative.eigenvalues[0] - 1 | fabs) <= 1e-6)
        and ((.rescaled.relative.trace / .clean.relative.trace - 1 | fabs) <= 1e-6) and .attacked.loss > 2 * .clean.loss
        and all(.clean, .attacked, .rescaled; .asymmetry <= 1e-6 and .raw.eigenvalues[0] >= .raw.eigenvalues[1])'
    good analyze flatness "$PLAIN" --data "$IMAGES" --images 0:1 --k 1 --most 3 --probes 2 --eps 1e-12 --out c
    truth c/analysis.json '.results.A | .clean == .attacked and .rescaled == null'
}

@test "analyze: flatness doubts numbers taken across the kinks of ReLU" {
    good new --set dim=64 depth=4 heads=2 patch=4 image=32 classes=10 --form act=relu --seed 1 -o relu.safetensors
    good analyze flatness relu.safetensors --data "$IMAGES" --images 0:8 --k 1 --most 12 --probes 2
    says "clean: the products are not those of one symmetric matrix"
    good new --set dim=8 depth=1 heads=2 patch=8 image=32 classes=10 --attn lipnorm --seed 1 -o l.safetensors
    good analyze flatness l.safetensors --data "$IMAGES" --images 0:1 --k 1 --most 4 --probes 2 --rescale 10
    says "that is another function"
}

@test "analyze: threads change nothing, and the figures are drawn" {
    local kind
    for kind in lipschitz jacobian affinity attention; do
        good analyze "$kind" "$SPEC" --data "$IMAGES" --images 2:5 --eps 4/255 --threads 1 --out "$kind-1"
        good analyze "$kind" "$SPEC" --data "$IMAGES" --images 2:5 --eps 4/255 --threads 3 --out "$kind-3"
        cmp "$kind-1/analysis.json" "$kind-3/analysis.json"
        cmp "$kind-1/tables.txt" "$kind-3/tables.txt"
        grep -q '</svg>' "$kind-1/$kind.svg" || fail "no figure of $kind"
    done
}

@test "analyze: ConViT and a variant of attention: measured, and no bound that is not theirs" {
    good new convit_tiny_cifar --set dim=16 depth=3 heads=4 patch=8 --form local_blocks=2 --seed 1 -o c.safetensors
    good analyze lipschitz c.safetensors --data "$IMAGES" --images 0:1 --eps 8/255 --out a
    truth a/analysis.json '[.results.A.images[].layers[]] | length == 3 and all(.true > 0 and .converged)
        and .[0].closed == null and .[1].specformer == null and .[2].closed > .[2].true'
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --attn l2 --seed 1 -o l.safetensors
    good analyze attention l.safetensors --data "$IMAGES" --images 0:1 --eps 8/255 --out b
    truth b/analysis.json '.results.A.layers[0] | .entropy > 0 and .margin == null and .certified_share == null and .flips >= 0'
}

@test "analyze: what cannot be is refused in one sentence" {
    bad 2 "unknown analysis 'lipshitz'" "did you mean 'lipschitz'?" -- analyze lipshitz "$W"
    bad 2 "there are: affinity, attention, features, flatness" -- analyze zzzzzzzzz "$W"
    bad 2 "--eps" -- analyze affinity "$W" --data "$D"
    bad 2 "--eps" "--delta0" -- analyze lipschitz "$W" --data "$D"
    bad 2 "--data" -- analyze attention "$W"
    bad 2 "looks at weights alone" "--data" -- analyze spectrum "$W" --data "$D"
    bad 2 "attacks nothing" "--eps" -- analyze orthogonality "$W" --eps 8/255
    bad 2 "has no option 'delta1'" "did you mean 'delta0'?" -- analyze lipschitz "$W" --data "$D" --delta1 1
    bad 2 "name the kind before its options" -- analyze --delta0 1 lipschitz "$W"
    bad 2 "option k is 0, must be between 1 and" -- analyze attention "$W" --data "$D" --k 0
    bad 2 "--most 3 products cannot tell --k 4 eigenvalues" -- analyze flatness "$W" --data "$D" --images 0:1 --k 4 --most 3
    bad 2 "option rescale is 0, must be between 0.001 and 1000" -- analyze flatness "$W" --data "$D" --rescale 0
    bad 2 "--data" -- analyze flatness "$W"
    for what in spectrum orthogonality; do
        bad 1 "a shift model has no attention to look at" -- analyze $what "$ROOT/weights/cifar10-lipschitz"
    done
    bad 2 "unexpected operand" -- analyze spectrum "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W" "$W"
    bad 1 "nowhere.safetensors" -- analyze spectrum "$W" nowhere.safetensors
    mkdir there && touch there/analysis.json
    bad 2 "not an empty folder" "nothing is overwritten" -- analyze spectrum "$W" --out there
    [ ! -s there/analysis.json ]
    [ "$(ls there)" = analysis.json ]
    good new swin_tiny_patch2_window4_32 --set dim=8 depth=2 heads=2 patch=4 --form stages=2 --form stage_depth=1,1 \
        --form stage_heads=2,2 --seed 1 -o s.safetensors
    bad 2 "architecture swin has no attention of all tokens to all" "convit, vit" -- analyze attention s.safetensors --data "$D"
}

@test "analyze: what the machine's memory cannot hold is said before it starts" {
    good new --set dim=8 depth=1 heads=1 patch=4 image=2048 classes=10 --seed 1 -o huge.safetensors
    bad 1 "analysis flatness would need" "GiB of memory" -- analyze flatness "$PLAIN" --data "$IMAGES" --images 0:1 --most 100000
    bad 1 "would need" "GiB of memory" "this machine has" -- analyze lipschitz huge.safetensors --data "$D" --attack-at model --delta0 1 --images 0:1
}

@test "analyze: list analyses names every kind with its options" {
    good list analyses
    says "affinity" "attention" "features" "flatness" "jacobian" "lipschitz" "orthogonality" "spectrum" "delta0" "ddn_steps" "looks at weights and images"
    vt list nothing
    judge 2 "labs, analyses"
}
