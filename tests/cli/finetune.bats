#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What fine-tuning asks of training: frozen tensors, and learning rates that fall from the head down.
load helpers

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    "$DRAW" --out images --train 40 --test 10 --seed 1 >/dev/null
    cat >r.yaml <<END
epochs: 1
batch: 10
micro_batch: 5
objective: at
optimiser: sgd
lr: 0.1
clip: 0
weight_decay: 0
attack: {eps: 4/255, spec: "pgd:steps=1"}
sgd: {momentum: 0}
model: {dim: 16, depth: 3, heads: 2, hidden: 24, patch: 8}
augment: {mix_prob: 0, crop: 0, flip: 0}
schedule: {kind: constant}
probe: {images: 0}
END
}

# step OUT OPTIONS...: the first step of a training
step() {
    local out=$1
    shift
    vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out "$out" --max-steps 1 "$@"
    [ "$status" = 0 ] || fail "$stderr"
}

@test "freeze leaves layers and tensors to the bit; the others take the step that they take anyway; layer_decay scales it" {
    step all
    step low --set freeze=embed,blocks.0-1
    step head --set "freeze=embed, blocks, norm"
    step bias --set "freeze=blocks.1,*.bias"
    step decay --set layer_decay=0.5
    step first --set freeze=head
    /usr/bin/python3 - "$ROOT/tools" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from widened import load
def weights(out):
    return {k[7:]: v for k, v in load(out + "/state.safetensors")[0].items() if k.startswith("weight.")}
whole, low, head, bias, decay, first = map(weights, ("all", "low", "head", "bias", "decay", "first"))
start = {k: first[k] if k.startswith("head.") else head[k] for k in whole}
for k in whole:
    layer = 4 if k.startswith(("head.", "norm.")) else 1 + int(k.split(".")[1]) if k.startswith("blocks.") else 0
    assert (low[k] == (start if layer < 3 else whole)[k]).all(), k
    assert (bias[k] == (start if layer == 2 or k.endswith(".bias") else whole)[k]).all(), k
    # SGD's first step is lr times the gradient: 0.5 a layer below the head, to the rounding of float32
    step, scaled = whole[k] - start[k], decay[k] - start[k]
    error = abs(scaled - step * 0.5 ** (4 - layer)).max()
    assert error <= 2.0 ** -22 * (abs(start[k]).max() + abs(step).max()), (k, error)
assert any((whole[k] != start[k]).any() for k in whole if k.startswith("head."))
END
}

# Layers that want all of their gradients or none once gave a frozen tensor's to its neighbour, or crashed.
@test "whatever tensor is frozen, the others take the step that they take anyway: every architecture, every tensor" {
    tiny="--set dim=16 depth=2 heads=2 patch=8 image=32 classes=10"
    good new $tiny --set distilled=1 -o dist.safetensors
    good new $tiny --form norm_pre=1 --form registers=2 --form qk_norm=1 --form factor=layer_scale --form patch_norm=both -o registers.safetensors
    good new convit_tiny_cifar --set dim=16 depth=3 heads=4 patch=8 --form local_blocks=2 -o convit.safetensors
    good new swin_tiny_patch2_window4_32 --set dim=8 depth=2 heads=2 patch=4 --form stages=2 --form stage_depth=1,1 --form stage_heads=2,2 --form window=4 -o swin.safetensors
    good new xcit_small_12_cifar --set dim=16 depth=2 heads=2 --form class_blocks=1 -o xcit.safetensors
    good new $tiny --form pool=avg_token --form norm_first=1 -o avg_token.safetensors
    good new $tiny --form pool=tokens --form norm_first=1 --form head_layers=2 -o tokens.safetensors
    sed '/^model:/d' "$BATS_FILE_TMPDIR/r.yaml" >any.yaml
    /usr/bin/python3 - "$ROOT/tools" "$VITRINE" "$BATS_FILE_TMPDIR/images" <<'END'
import re, subprocess, sys
sys.path.insert(0, sys.argv[1])
from widened import load
def step(net, out, *words):
    subprocess.run([sys.argv[2], "train", "any.yaml", "--data", sys.argv[3], "--init", net + ".safetensors", "--out", out, "--max-steps", "1", "--threads", "1", "--set", "objective=ce", *words], check=False, stdout=subprocess.DEVNULL)
    return {k[7:]: v for k, v in load(out + "/state.safetensors")[0].items() if k.startswith("weight.")}
for net in ("dist", "registers", "convit", "swin", "xcit", "avg_token", "tokens"):
    start, whole = load(net + ".safetensors")[0], step(net, net)
    kinds = sorted({re.sub(r"\d+", "*", k) for k in whole})
    assert len(kinds) >= 14, kinds
    for n, kind in enumerate(kinds):
        fits = re.compile(kind.replace(".", "[.]").replace("*", "[0-9]+") + "$")
        frozen = step(net, f"{net}{n}", "--set", "freeze=" + kind)
        for k in whole:
            want = start[k].ravel() if fits.match(k) else whole[k]
            assert (frozen[k] == want).all(), (net, kind, k)
END
}

@test "a frozen training goes on to the same bytes, and its state holds nothing of what is frozen" {
    cd "$BATS_TEST_TMPDIR/here"
    o="--set freeze=embed,blocks.0 --set optimiser=adamw --set lr=1e-3 --set layer_decay=0.7 --set ema=0.9 --set clip=1"
    vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out whole $o
    [ "$status" = 0 ] || fail "$stderr"
    step parts $o
    vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out parts $o --resume
    [ "$status" = 0 ] || fail "$stderr"
    cmp whole/model.safetensors parts/model.safetensors
    cmp whole/state.safetensors parts/state.safetensors
    ! grep -qa '"optim.blocks.0' whole/state.safetensors || fail "an optimiser's state of a frozen block"
    grep -qa '"optim.blocks.1' whole/state.safetensors
}

@test "a frozen layer that is not there, nothing left to train, a factor out of range: one sentence, nothing written" {
    no() { # TEXT OPTIONS...
        local text=$1
        shift
        bad 2 "$text" -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o "$@"
        [ ! -e o ] || fail "something was written"
    }
    no "freeze: 'blocks.0-3' is no layer and fits no tensor of this model" --set freeze=blocks.0-3
    no "freeze: 'neck' is no layer" --set freeze=embed,neck
    no "freeze: '*.gain' is no layer" --set "freeze=*.gain"
    no "freeze: 'blocks.2-1' is no layer" --set freeze=blocks.2-1
    no "leaves nothing to train" --set freeze=embed,blocks,norm,head
    no "layer_decay is 1.5" --set layer_decay=1.5
}

# parts OPTIONS...: whole and in two parts, by one thread and by three: the same bytes; and others than without OPTIONS
parts() {
    local train="$VITRINE train $BATS_FILE_TMPDIR/r.yaml --data $BATS_FILE_TMPDIR/images"
    rm -rf whole parts plain
    $train --out whole --threads 3 "$@" >/dev/null
    $train --out parts --threads 1 --max-steps 3 "$@" >/dev/null
    $train --out parts --threads 1 --resume "$@" >/dev/null
    cmp whole/model.safetensors parts/model.safetensors
    cmp whole/state.safetensors parts/state.safetensors
    $train --out plain >/dev/null
    ! cmp -s whole/model.safetensors plain/model.safetensors || fail "$* changed nothing"
}

@test "stochastic depth goes on to the same bytes; evaluation leaves out nothing" {
    cd "$BATS_TEST_TMPDIR/here"
    parts --set model.drop_path=0.5
    grep -qa 'drop_path: 0.5' whole/model.safetensors
    ! grep -qa 'drop_path' plain/model.safetensors || fail "a key that nobody gave"
    vt eval whole --data "$BATS_FILE_TMPDIR/images" --attack fgsm --eps 1/255 --out a --threads 1
    vt eval whole --data "$BATS_FILE_TMPDIR/images" --attack fgsm --eps 1/255 --out b --threads 3
    cmp a/ledger.jsonl b/ledger.jsonl
    bad 2 "model.drop_path is 1," -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --set model.drop_path=1
    [ ! -e o ]
}

@test "adversarial weight perturbation goes on to the same bytes; its second gradient is in the forecast" {
    cd "$BATS_TEST_TMPDIR/here"
    parts --set awp.gamma=0.01
    parts --set awp.gamma=0.01 --set awp.warmup=0.5
    flops() { # OPTIONS...: GFLOP of a step
        vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --dry-run "$@"
        awk '/^# work:/ { print $3 }' <<<"$output"
    }
    # PGD-1 and the gradient of the weights cost 1 + 1 + 1 of 6 forwards more
    awk -v a="$(flops)" -v b="$(flops --set awp.gamma=0.01)" 'BEGIN { exit !(b / a > 1.3 && b / a < 1.8) }'
    bad 2 "awp.gamma is 2," -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --set awp.gamma=2
    [ ! -e o ]
}

@test "Muon goes on to the same bytes; biases, embeddings and the head are AdamW's; the forecast holds its scratch" {
    cd "$BATS_TEST_TMPDIR/here"
    parts --set optimiser=muon --set muon.steps=3
    grep -qa '"optim.blocks.0.mlp.fc1.weight.momentum_buffer"' whole/state.safetensors
    for t in blocks.0.mlp.fc1.bias patch_embed.proj.weight head.weight pos_embed blocks.1.norm1.weight; do
        grep -qa "\"optim.$t.exp_avg\"" whole/state.safetensors || fail "$t"
    done
    grep -qa 'muon:.*adamw:\|adamw:.*muon:' whole/model.safetensors # both stand in the recipe
    megabytes() { # OPTIMISER THREADS
        vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --dry-run --threads "$2" \
            --set optimiser="$1" --set batch=40 --set model.dim=256 --set model.hidden=1024
        sed -n 's/.*(\(.*\) MB of weights.*/\1/p' <<<"$output"
    }
    # two matrices of 256 x 1024 and two of 256 x 256 for each thread: 2.6 MB
    awk -v one="$(megabytes muon 1)" -v two="$(megabytes muon 2)" -v a1="$(megabytes adamw 1)" -v a2="$(megabytes adamw 2)" \
        'BEGIN { d = (two - one) - (a2 - a1); exit !(d > 2.4 && d < 2.8) }'
    bad 2 "muon.steps is 0," -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --set muon.steps=0
    [ ! -e o ]
}

@test "Gaussian augmentation goes on to the same bytes, and stands in no recipe without it" {
    cd "$BATS_TEST_TMPDIR/here"
    parts --set objective=ce --set augment.gaussian=0.25
    "$VITRINE" train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out bare --set objective=ce >/dev/null
    ! cmp -s whole/model.safetensors bare/model.safetensors || fail "the noise changed nothing"
    grep -qa 'gaussian: 0.25' whole/model.safetensors
    ! grep -qa gaussian bare/model.safetensors || fail "a key that nobody gave"
}

@test "RandAugment and random erasing go on to the same bytes" {
    cd "$BATS_TEST_TMPDIR/here"
    parts --set augment.randaugment=2 --set augment.erase=0.5
    parts --set augment.randaugment=1 --set augment.magnitude=15
    for k in randaugment=9 magnitude=31 erase=1.5; do
        bad 2 "augment.${k%=*} is ${k#*=}," -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --set "augment.$k"
    done
    [ ! -e o ]
}

@test "further images have their share of each batch, go on to the same bytes, and are held by their hash" {
    cd "$BATS_TEST_TMPDIR/here"
    /usr/bin/python3 - <<'END'
import numpy as np
rng = np.random.default_rng(1)
np.savez("generated.npz", images=rng.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8), labels=np.arange(30) % 10)
np.savez("small.npz", images=np.zeros((10, 28, 28, 3), np.uint8), labels=np.arange(10))
np.savez("eleven.npz", images=np.zeros((11, 32, 32, 3), np.uint8), labels=np.arange(11))
END
    parts --extra generated.npz --set extra=0.7
    parts --extra generated.npz --extra "$ROOT/datasets/shapes10" --set extra=0.3,0.2 --set augment.flip=0.5
    no() { # TEXT OPTIONS...
        local text=$1
        shift
        bad "${code:-2}" "$text" -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o "$@"
        [ ! -e o ] || fail "something was written"
    }
    no "key extra has 0 shares ('') for 1 further data set" --extra generated.npz
    no "key extra has 1 share ('0.5') for 0 further data sets" --set extra=0.5
    no "extra is '1.2', must be numbers between 0 and 1" --extra generated.npz --set extra=1.2
    code=1 no "eleven.npz has 11 classes, but" --extra eleven.npz --set extra=0.5
    code=1 no "nowhere.npz" --extra nowhere.npz --set extra=0.5
    code=1 no "small.npz: image 0 is 28 x 28 pixels, the model wants 32 x 32" --extra small.npz --set extra=0.5
    code=1 no "small.npz: image 0 is 28 x 28 pixels, the model wants 32 x 32" --extra small.npz --set extra=0.5 --dry-run
    no "generated.npz has 30 images, fewer than the 35" --extra generated.npz --set extra=0.88 --set batch=40
    bad 2 "was made with other images" -- train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out whole --resume \
        --extra "$ROOT/datasets/shapes10" --extra generated.npz --set extra=0.3,0.2 --set augment.flip=0.5
    vt train "$BATS_FILE_TMPDIR/r.yaml" --data "$BATS_FILE_TMPDIR/images" --out o --dry-run --extra generated.npz --set extra=0.7
    [[ $output == *"3 of each step's 10 from"*"7 from generated.npz"* ]] || fail "$output"
}

@test "forms of a checkpoint go through a training, and --from takes its options with them" {
    tiny="--set dim=16 depth=2 heads=2 patch=8 image=32 classes=10"
    sed '/^model:/d' "$BATS_FILE_TMPDIR/r.yaml" >any.yaml
    data="--data $BATS_FILE_TMPDIR/images"
    any() { # OUT OPTIONS...: a whole training
        local out=$1
        shift
        vt train any.yaml $data --out "$out" --init w.safetensors --set objective=ce "$@"
        [ "$status" = 0 ] || fail "$stderr"
    }
    # a patch embedding without bias gets none
    good new $tiny --form no_patch_bias=1 -o w.safetensors
    any bare
    any said --set model.forms=no_patch_bias=1
    for f in bare said; do
        good info $f/model.safetensors
        row "no patch bias" yes
    done
    # 5 x 5 positions: those of 40 pixels, not of patches that overlap in the 32 that it resizes
    good new $tiny -o w.safetensors
    any native --set model.image=40 --set model.native=32
    vt eval native/model.safetensors $data --out r
    [ "$status" = 0 ] || fail "$stderr"
    # options that read the first checkpoint otherwise
    any other --form post_norm=1 --form act=relu --ln-eps 1e-3
    for f in model state; do
        bad 2 "other/$f.safetensors was trained with other options: ln-eps (0.001 -> " "act=relu post_norm=1 -> none" -- \
            train --from other/$f.safetensors --init w.safetensors $data --out no
        [ ! -e no ]
        vt train --from other/$f.safetensors --init w.safetensors $data --out again$f --form post_norm=1 --form act=relu --ln-eps 1e-3
        cmp other/model.safetensors again$f/model.safetensors
    done
}
