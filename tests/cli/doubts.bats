#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Names are evidence, not proof: what tensors' names do not tell of a network is asked for or said, and with the option
# that tells it the logits are those of the network (tests/fixtures/odd_vit.py, in numpy and double).
load helpers

TOLD="--heads 2 --mean 0.5 --std 0.5"

odd() { /usr/bin/python3 "$ROOT/tests/fixtures/odd_vit.py" "$1" "$1"; }
# probe KIND OPTIONS...: its logits, to out.safetensors.
probe() {
    local kind=$1
    shift
    vt probe "$kind.safetensors" --input x.safetensors --out out.safetensors --precision f64 $TOLD "$@"
}
# gives KIND OPTIONS...: they are those of the network.
gives() {
    probe "$@"
    [ "$status" = 0 ] || fail "$stderr" || return 1
    /usr/bin/python3 - "$1.json" <<'END' || fail "other logits: probe $*; $stderr"
import json, struct, sys
d = open("out.safetensors", "rb").read()
n = struct.unpack("<Q", d[:8])[0]
a, b = json.loads(d[8:8 + n])["logits"]["data_offsets"]
got = struct.unpack("<%dd" % ((b - a) // 8), d[8 + n + a:8 + n + b])
sys.exit(max(abs(g - w) for g, w in zip(got, sum(json.load(open(sys.argv[1])), []))) > 1e-6)
END
}
# other KIND OPTIONS...: they are not, and the line of assumptions says TEXT.
other() {
    local text=$1
    shift
    never gives "$@"
    [[ $stderr == *"assumed, not in the file: "*"$text"* ]] || fail "'$text' is not in: $stderr"
}

@test "a head of several widths: which tokens it reads is asked for, and what is not computed is said" {
    for kind in tokens avg_token interleaved; do
        odd $kind
        probe $kind
        judge 2 "pool (token_avg, avg_token or tokens; a maximum, other tokens or interleaved parts are not computed)" "--form pool=POOL"
    done
    gives tokens --form pool=tokens
    gives avg_token --form pool=avg_token
    never gives avg_token --form pool=token_avg
    assumes convert tokens.safetensors copy.safetensors $TOLD --form pool=tokens
    cp tokens.json copy.json
    gives copy
    echo '{"architecture": "vit_small_patch16_224"}' >config.json # timm's class has no such head
    probe tokens
    judge 2 "pool (token_avg"
}

@test "no class token: a mean over patches is assumed, and said" {
    odd max
    other "pool mean of the patch tokens" max
}

@test "rows of qkv, a class token behind the patches, a scaled embedding: said, and told by --form" {
    for kind in heads dims; do
        odd $kind
        other "rows of qkv q then k then v" $kind
        gives $kind --form qkv_rows=$kind
        [[ $stderr != *"rows of qkv"* ]]
    done
    for kind in class_last class_last+torch; do
        odd $kind
        other "class token first" $kind --form "pool=token act=gelu post_norm=0"
        gives $kind --form "pool=token act=gelu post_norm=0 class_last=1"
    done
    odd scaled+torch
    other "embedding not scaled, attention within an image (batch_first)" scaled+torch --form "pool=token act=gelu post_norm=0"
    gives scaled+torch --form "pool=token act=gelu post_norm=0 embed_scale=4"
    assumes convert heads.safetensors copy.safetensors $TOLD --form qkv_rows=heads # written in timm's order
    cp heads.json copy.json
    gives copy
    bad 2 "qkv_rows says how a checkpoint is read" -- new --form qkv_rows=heads -o new.safetensors
    odd max
    bad 1 "class_last is said of" -- info max.safetensors $TOLD --form class_last=1
}

@test "a mean and a norm: their order is asked for in a home-made model, and said under timm's names" {
    odd mean_norm+torch
    probe mean_norm+torch --form "act=gelu post_norm=0"
    judge 2 "norm before the mean (0 or 1)" "--form norm_first=NORM_FIRST"
    gives mean_norm+torch --form "act=gelu post_norm=0 norm_first=0"
    never gives mean_norm+torch --form "act=gelu post_norm=0 norm_first=1"
    odd mean_norm
    other "norm before the mean" mean_norm
    gives mean_norm --form norm_first=0
    [[ $stderr != *"the mean"* ]]
}

@test "two thirds of the rows of qkv: W_Q = W_K only if the user says so, or vitrine's own metadata" {
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=16 classes=3 --form tied_qk=1 -o tied.safetensors
    good gradcheck tied.safetensors
    st_edit tied.safetensors bare.safetensors 'del(.__metadata__)'
    bad 2 "W_Q = W_K (1; grouped-query attention has the same rows and is not computed)" "--form tied_qk=TIED_QK" -- gradcheck bare.safetensors $TOLD
    assumes gradcheck bare.safetensors $TOLD --form tied_qk=1
    bad 2 "tied_qk=0 contradicts the tensors" -- info bare.safetensors $TOLD --form tied_qk=0
}

@test "a configuration with a key that is not understood describes nothing as a whole" {
    odd plain
    timm() { echo "{\"architecture\": \"vit_small_patch16_224\", \"model_args\": {\"num_heads\": 2${1:+, $1}}, \"pretrained_cfg\": {\"mean\": [0.5,0.5,0.5], \"std\": [0.5,0.5,0.5]}}" >config.json; }
    timm
    good gradcheck plain.safetensors
    timm '"drop_path_rate": 0.1, "norm_layer": null, "dynamic_img_pad": false'
    good gradcheck plain.safetensors
    timm '"sparse_tokens": 3, "router": "x"'
    assumes gradcheck plain.safetensors
    [[ $stderr == *"activation gelu"*"positions by the table alone"*"sparse_tokens, router not read"* ]] || fail "$stderr"
    assumes convert plain.safetensors copy.safetensors
    rm config.json
    assumes gradcheck copy.safetensors
    [[ $stderr == *"activation gelu"*"sparse_tokens, router not read"* ]] || fail "$stderr"
    for pair in 'block_fn": "ResPostBlock' 'norm_layer": "rmsnorm' 'attn_type": "rope'; do
        timm "\"$pair\""
        bad 1 "its configuration says ${pair/\": \"/=}, which vitrine does not compute" "--oracle" -- info plain.safetensors
    done
    timm '"scale_attn_norm": true'
    bad 1 "scale_attn_norm=1" -- info plain.safetensors
    echo '{"model_type": "vit", "num_attention_heads": 2, "mean": [0.5,0.5,0.5], "std": [0.5,0.5,0.5]}' >config.json
    good gradcheck plain.safetensors
    echo '{"model_type": "vit", "num_attention_heads": 2, "mean": [0.5,0.5,0.5], "std": [0.5,0.5,0.5], "layer_skip": 2}' >config.json
    assumes gradcheck plain.safetensors
    [[ $stderr == *"layer_skip not read"* ]] || fail "$stderr"
    echo '{"model_type": "vit", "num_attention_heads": 2, "rope_theta": 100.0}' >config.json
    bad 1 "rope_theta" -- info plain.safetensors
}

@test "an architecture that is no preset is refused by a word of its name, or gives its activation" {
    odd plain
    while read -r name word; do
        echo "{\"architecture\": \"$name\"}" >config.json
        bad 1 "its architecture is ${name%%.*} (architecture in config.json): '$word' names what vitrine does not compute" -- info plain.safetensors $TOLD
    done <<'END'
vit_small_patch16_rope_ape_224.naver_in1k rope
eva02_tiny_patch14_336 eva
vit_base_patch16_siglip_224.webli siglip
vit_so150m_patch16_reg4_map_256 map
vit_small_patch16_parallel_224 parallel
END
    while read -r name act; do
        echo "{\"architecture\": \"$name\"}" >config.json
        good info plain.safetensors $TOLD
        grep -qE "^  activation +$act +\(" <<<"$output" || fail "$name: $output"
    done <<'END'
vit_base_patch16_siglip_gap_224.webli gelu
vit_so400m_patch14_siglip_gap_224 gelu
vit_so400m_patch16_siglip_gap_256 gelu_tanh
vit_base_patch32_siglip_gap_256 gelu_tanh
vit_large_patch16_siglip_gap_512 gelu_tanh
vit_giantopt_patch16_siglip_gap_384 gelu_tanh
vit_base_patch32_clip_quickgelu_224.openai quick_gelu
vit_small_patch14_reg4_dinov2 gelu
vit_medium_evaluated_postal gelu
END
}

@test "timm's pool_include_prefix is the mean of all tokens" {
    odd plain
    echo '{"architecture": "vit_small_patch16_224", "global_pool": "avg", "model_args": {"num_heads": 2, "pool_include_prefix": true}}' >config.json
    good info plain.safetensors $TOLD
    grep -qE "^  pool +mean of all tokens +\(config.json\)" <<<"$output" || fail "$output"
}

@test "a mean or std that is not of pixels 0 to 1 is refused with the line to type" {
    odd plain
    normal() { # MEAN STD: three numbers each, little-endian floats
        /usr/bin/python3 - "$@" <<'END'
import json, struct, sys
d = open("plain.safetensors", "rb").read()
n = struct.unpack("<Q", d[:8])[0]
h, at = json.loads(d[8:8 + n]), len(d) - 8 - n
for name, text in zip(("pixel_mean", "pixel_std"), sys.argv[1:]):
    h[name] = {"dtype": "F32", "shape": [3], "data_offsets": [at, at + 12]}
    d, at = d + struct.pack("<3f", *map(float, text.split(","))), at + 12
h = {k if k.startswith("pixel") else "model." + k: v for k, v in h.items()}
t = json.dumps(h).encode()
open("layer.safetensors", "wb").write(struct.pack("<Q", len(t)) + t + d[8 + n:])
END
    }
    normal 123.675,116.28,103.53 58.395,57.12,57.375
    bad 2 "mean (the file says 123.675,116.28,103.53: of pixels 0 to 255? hint: 0.485,0.456,0.406)" \
        "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225" -- gradcheck layer.safetensors --heads 2
    vt gradcheck layer.safetensors --heads 2
    run bash -c "${stderr##*as in }" # as it stands
    [ "$status" = 0 ] || fail "$output"
    good info layer.safetensors
    normal 0.485,0.456,0.406 4.366,4.464,4.444
    bad 2 "a factor? hint: 0.229043,0.224014,0.225023" -- gradcheck layer.safetensors --heads 2
    normal 0,0,0 0.003922,0.003922,0.003922
    bad 2 "as it is? hint: 0.003922" -- gradcheck layer.safetensors --heads 2
    assumes gradcheck layer.safetensors --heads 2 --mean 0 --std 0.003922
    assumes convert layer.safetensors copy.safetensors --heads 2 --mean 0 --std 0.003922 # the user's word
    assumes gradcheck copy.safetensors
    normal 0.485,0.456,0.406 0.229,0.224,0.225
    assumes gradcheck layer.safetensors --heads 2
    echo '{"num_heads": 2, "mean": [123.675,116.28,103.53], "std": [58.395,57.12,57.375]}' >config.json
    bad 2 "of pixels 0 to 255?" -- gradcheck plain.safetensors
}

@test "several state dicts in one file: every command says which one it read" {
    odd plain
    /usr/bin/python3 "$ROOT/tests/fixtures/timm_pth.py" plain.safetensors last.pth.tar zip namespace num_classes=5 'input_size=[3,8,8]' ema=True
    said="state_dict was read, one of its parts state_dict, state_dict_ema (the plain weights; timm's loader takes their average, the EMA); --part NAME reads another"
    for command in "gradcheck last.pth.tar" "convert last.pth.tar copy.safetensors" "probe last.pth.tar --input x.safetensors --out o.safetensors" \
        "spectrum last.pth.tar --csv o.csv"; do
        vt $command
        [[ $status = 0 && $stderr == *"vitrine: last.pth.tar: $said"* ]] || fail "$command: $stderr"
    done
    assumes gradcheck last.pth.tar --part state_dict_ema
}

@test "a pooler that the names leave out is said, unless config.json names a class that has none" {
    cp "$ROOT/tests/fixtures/names/vit_hf4.safetensors" model.safetensors
    st_header model.safetensors | grep -q pooler || skip "the fixture has no pooler"
    assumes gradcheck model.safetensors --heads 3 --mean 0.5 --std 0.5
    [[ $stderr == *"tensors vit.pooler not read"* ]] || fail "$stderr"
    echo '{"model_type": "vit", "num_attention_heads": 3, "architectures": ["ViTForImageClassification"]}' >config.json
    good gradcheck model.safetensors --mean 0.5 --std 0.5
    echo '{"model_type": "vit", "num_attention_heads": 3, "architectures": ["ViTWithPooler"]}' >config.json
    assumes gradcheck model.safetensors --mean 0.5 --std 0.5
    [[ $stderr == *"architectures, tensors vit.pooler not read"* ]] || fail "$stderr"
}

@test "Python: an evaluation and a training say what was assumed, a model holds it" {
    st_edit "$W" bare.safetensors 'del(.__metadata__)'
    ln -s "$ROOT/recipes" .
    cat >say.py <<'END'
import vitrine
told = dict(heads=2, mean="0.5", std="0.5")
want = "assumed, not in the file: pool class token, "
said = []
vitrine.evaluate("bare.safetensors", data=DATA, images="0:4", say=said.append, **told)
assert any(want in s and s.startswith("bare.safetensors: ") for s in said), said
m = vitrine.load("bare.safetensors", **told)
assert "positions by the table alone" in m.assumed and "class token first" in m.assumed, m.assumed
said.clear()
try:
    vitrine.train("recipes/shapes10_plain.yaml", init="bare.safetensors", data=DATA, out="o", say=said.append, max_steps=1, **told)
except Exception as e:
    print(e)
assert any(want in s for s in said), said
END
    sed -i "s|DATA|'$D'|" say.py
    PYTHONPATH=$ROOT/python VITRINE_LIBRARY=$(library)/libvitrine.so.0 /usr/bin/python3 say.py
}

@test "logits that were saved prove which of these readings is the network's" {
    while read -r kind options; do
        odd "$kind"
        vt doctor "$kind.safetensors" --logits "$kind.npz" --heads 2
        [ "$status" = 0 ] || fail "$kind: $stderr"
        says "with --mean 0.5 --std 0.5${options:+ }$options: equal within"
        use=$(sed -n 's/^use: //p' <<<"$output")
        eval "gives $kind $use"
    done <<'END'
plain
heads --form qkv_rows=heads
dims --form qkv_rows=dims
class_last --form class_last=1
scaled+torch --form embed_scale=4
tokens --form pool=tokens
avg_token --form pool=avg_token
mean_norm+torch --form norm_first=0
END
}
