#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Checkpoints as other projects save them (tests/fixtures/strangers.py): each is read to the logits of its own formula, or
# refused by a sentence with the reason and a way, or the value in doubt is said. None is misread without a word.
load helpers

FIXTURE=$ROOT/tests/fixtures/strangers.py
PLAIN="--heads 2 --mean 0.5 --std 0.5"

setup_file() { /usr/bin/python3 "$FIXTURE" "$BATS_FILE_TMPDIR"; }

# model NAME: a case's file, or its folder where it has a config.json.
model() {
    local dir=$BATS_FILE_TMPDIR/$1
    if [ -e "$dir/config.json" ]; then echo "$dir"; else echo "$dir/model.safetensors"; fi
}
# reads NAME OPTIONS...: vitrine's logits of its images beside it; what it assumes is in $stderr.
reads() {
    local dir=$BATS_FILE_TMPDIR/$1
    vt probe "$(model "$1")" --input "$dir/x.safetensors" --out "$dir/o.safetensors" --precision f64 "${@:2}"
}
# right NAME OPTIONS...: read to the logits of its own formula.
right() {
    reads "$@"
    [ "$status" = 0 ] || fail "status $status of $*: $stderr" || return 1
    run /usr/bin/python3 "$FIXTURE" --same "$BATS_FILE_TMPDIR/$1"
    [ "$status" = 0 ] || fail "$output with $*"
}
# refused NAME TEXT... [-- OPTIONS...]: the sentence holds every TEXT.
refused() {
    local name=$1 texts=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do texts+=("$1") && shift; done
    [ $# = 0 ] || shift
    reads "$name" "$@"
    [[ $status = [12] ]] || fail "status $status of $name, said: $stderr" || return 1
    judge "$status" "${texts[@]}" || fail "of $name"
}

@test "a plain ViT, and a timm folder without an option" {
    right control $PLAIN
    right hub
    [ -z "$stderr" ] || fail "$stderr"
}

@test "a classifier of the user's own, and a wrapper's prefix or infix" {
    for name in head_in_sequential head_beside wrapped; do right $name $PLAIN; done
}

@test "names of other projects for what vitrine computes" {
    for name in gamma two_biases registers_alone weight_norm head_without_bias; do right $name $PLAIN; done
    right query_norm --mean 0.5 --std 0.5
}

@test "which tokens a head of two widths reads is asked for" {
    for name in token_and_mean mean_and_token two_last_tokens; do
        refused $name pool token_avg avg_token tokens -- $PLAIN
    done
    right token_and_mean $PLAIN --form pool=token_avg
    right mean_and_token $PLAIN --form pool=avg_token
    right two_last_tokens $PLAIN --form pool=tokens
}

@test "2 D rows of qkv: one matrix for q and k, or grouped queries" {
    refused one_matrix_for_q_and_k "grouped-query" tied_qk -- $PLAIN
    right one_matrix_for_q_and_k $PLAIN --form tied_qk=1
}

@test "a normaliser of grey levels is not applied to pixels of 0 to 1" {
    refused grey_levels 123.675 "--mean 0.485" "--std 0.229" -- --heads 2
}

@test "keys of a timm config: computed, or named" {
    right hub_mean_of_all
    refused hub_unknown_key block_fn
    refused hub_rope rope --oracle
}

@test "two networks in a file, LoRA beside the weights: what to save" {
    refused two_networks first second "state_dict" -- $PLAIN
    refused lora LoRA merge -- $PLAIN
}

@test "a network that vitrine does not compute is named, with the way that works" {
    refused beit BEiT --oracle -- $PLAIN
    refused swiglu SwiGLU --oracle -- $PLAIN
}

@test "of several parts, which one is read is said by every command that computes" {
    local file=$ROOT/tests/fixtures/pth/parts_ema.pth
    for part in model ema; do
        vt eval "$file" --heads 2 $( [ $part = model ] || echo --part ema) --mean 0.5 --std 0.5 --data "$D" --out "r$part"
        [ "$status" = 0 ] || fail "$stderr" || return 1
        [[ $part = ema || $stderr == *"model was read, one of its parts model, ema"* ]] || fail "$stderr" || return 1
    done
}

@test "a BatchNorm on the input, a temperature, a head of two matrices: the logits of the network that they were made of" {
    /usr/bin/python3 - "$ROOT" <<'END'
import sys
sys.path.insert(0, sys.argv[1] + "/tools")
import numpy as np
from widened import load, save
w, meta = load(sys.argv[1] + "/weights/shapes10-plain/model.safetensors")
r = np.random.default_rng(0)
save("own.safetensors", w, meta)
import json, struct
x, labels = r.random((6, 3, 32, 32)).astype("<f4").tobytes(), np.zeros(6, "<i8").tobytes()
head = json.dumps({"x": {"dtype": "F32", "shape": [6, 3, 32, 32], "data_offsets": [0, len(x)]},
                   "labels": {"dtype": "I64", "shape": [6], "data_offsets": [len(x), len(x) + len(labels)]}}).encode()
head += b" " * (-len(head) % 8)
open("x.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + x + labels)
bare = {k: v for k, v in meta.items() if k not in ("mean", "std", "architecture")}
mean, std = (np.array([float(x) for x in meta[k].split(",")]) for k in ("mean", "std"))
gain, bias = np.array([.5, 2., 1.5]), np.array([.3, -.2, .1])  # (x - m) / s = gain (x - mu) / sqrt(var + eps) + bias
bn = {"bn.weight": gain, "bn.bias": bias, "bn.running_mean": mean + bias * std, "bn.running_var": (gain * std) ** 2 - 1e-5}
save("bn.safetensors", {"model." + k: v for k, v in w.items()} | bn, bare)
save("t.safetensors", {"model." + k: v for k, v in w.items()} | {"temperature": np.array([2.5])},
     {k: v for k, v in meta.items() if k != "architecture"})
a = np.eye(w["head.weight"].shape[1]) + .1 * r.standard_normal((w["head.weight"].shape[1],) * 2)
two = {k: v for k, v in w.items() if not k.startswith("head.")}
shift = r.standard_normal(len(a))
two |= {"head.0.weight": a, "head.0.bias": shift, "head.1.weight": w["head.weight"] @ np.linalg.inv(a),
        "head.1.bias": w["head.bias"] - w["head.weight"] @ np.linalg.inv(a) @ shift}
save("two.safetensors", two, meta)
END
    for f in own bn t two; do
        vt probe $f.safetensors --input x.safetensors --precision f64 --out $f.out
        [ "$status" = 0 ] || fail "$f: $stderr"
    done
    vt info bn.safetensors
    says "assumed: the file's BatchNorm, eps 1e-5"
    vt probe t.safetensors --input x.safetensors --out t2.out
    [[ $stderr == *"logits divided by its temperature"* ]] || fail "$stderr"
    /usr/bin/python3 - "$ROOT" <<'END'
import sys
sys.path.insert(0, sys.argv[1] + "/tools")
import json, struct
import numpy as np
def logits(path):
    data = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    v = json.loads(data[8:end])["logits"]
    a, b = v["data_offsets"]
    return np.frombuffer(data[end + a:end + b], {"F64": "<f8", "F32": "<f4"}[v["dtype"]]).reshape(v["shape"])
own = logits("own.out")
# tensors of the other files were rounded to float once more: 2^-24 of each, some dozens of which add up
for name, scale in ("bn", 1), ("two", 1), ("t", 2.5):
    error = abs(logits(name + ".out") * scale - own).max() / abs(own).max()
    assert error <= 2e-5, (name, error)
END
}
