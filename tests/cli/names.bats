#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Names of other libraries and home-made models: --names, maps, convert, info --explain.
load helpers

N=$ROOT/tests/fixtures/names
PIXELS="--mean 0.5 --std 0.25"

# row KEY VALUE SOURCE: a line of info.
row() { grep -qE "^  $1 +$2 +\($3\)$" <<<"$output" || fail "no line '$1 $2 ($3)' in: $output"; }
# logits OUT ARGS: of eight pixels in a row, and their gradient, by probe.
logits() {
    local out=$1
    shift
    vt probe "$@" --input x.safetensors --out "$out" --precision f64
    [ "$status" = 0 ] || fail "probe $*: $stderr" # which says what the bare fixtures leave to assume
}
# Three grey images of the fixtures' 8 x 8 pixels.
images() {
    local pixels=$((3 * 3 * 64 * 4))
    { repeat $((3 * 3 * 64)) '\x00\x00\x80\x3e' && repeat 24 '\x00'; } |
        st_make x.safetensors '{"x":{"dtype":"F32","shape":[3,3,8,8],"data_offsets":[0,'$pixels']},"labels":{"dtype":"I64","shape":[3],"data_offsets":['$pixels,$((pixels + 24))']}}'
}
same_logits() { cmp <(st_data "$1") <(st_data "$2"); }

@test "every library's names give the logits of timm's, bit for bit" {
    images
    o="--heads 3 --ln-eps 1e-6 $PIXELS"
    for file in vit_hf4 vit_hf5 vit_tv vit_tv_old deit_hf4 deit_hf5 register_hf4; do
        logits a.safetensors "$N/$file.safetensors" $o
        logits b.safetensors "$N/${file%%_*}.safetensors" $o
        same_logits a.safetensors b.safetensors || fail "$file differs"
    done
}

@test "a Hugging Face folder needs no option: config.json and preprocessor_config.json" {
    mkdir hf && cp "$N/vit_hf4.safetensors" hf/model.safetensors
    cat >hf/config.json <<<'{"model_type": "vit", "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2,
        "intermediate_size": 10, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "image_size": 8, "patch_size": 4,
        "id2label": {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e"}}'
    cat >hf/preprocessor_config.json <<<'{"do_normalize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.25, 0.5],
        "do_resize": true, "size": {"height": 8, "width": 8}, "resample": 2}'
    good info hf
    row heads '3 of width 4' config.json
    row 'LayerNorm eps' 1e-12 config.json
    row mean '0.5, 0.5, 0.5' preprocessor_config.json
    row std '0.5, 0.25, 0.5' preprocessor_config.json
    row preprocessing 'squash:8,bilinear' preprocessor_config.json
    sed -i 's/"hidden_size": 12/"hidden_size": 24/' hf/config.json
    bad 1 hf/config.json "hidden_size is 24" "say 12" -- info hf
    sed -i 's/"hidden_size": 24/"hidden_size": 12/; s/, "4": "e"//' hf/config.json
    bad 1 hf/config.json "id2label names 4" "has 5" -- info hf
    printf '{' >hf/preprocessor_config.json
    bad 1 hf/preprocessor_config.json "line 1" -- info hf
}

@test "convert: timm's names, no options any more, the same bits; not over a file" {
    images
    cat >my.map <<'END'
class_token -> cls_token
conv_proj.* -> patch_embed.proj.*
encoder.pos_embedding -> pos_embed
encoder.layers.encoder_layer_{i}.ln_{k}.* -> blocks.{i}.norm{k}.*
encoder.layers.encoder_layer_{i}.self_attention.in_proj_* -> blocks.{i}.attn.qkv.*
encoder.layers.encoder_layer_{i}.self_attention.out_proj.* -> blocks.{i}.attn.proj.*
encoder.layers.encoder_layer_{i}.mlp.0.* -> blocks.{i}.mlp.fc1.*
encoder.layers.encoder_layer_{i}.mlp.3.* -> blocks.{i}.mlp.fc2.*
encoder.ln.* -> norm.*
heads.head.* -> head.*
set heads 3
set act relu
set post_norm 0
set ln_eps 1e-6
set attn dot
set pool token
set positions learned
set class_last 0
set embed_scale 1
set bgr 0
set mean 0.5
set std 0.25
set attn_scale dim
set transform short:9,bicubic,crop:8
END
    good convert "$N/vit_tv.safetensors" out.safetensors --names my.map
    says "out.safetensors: " "timm's names" "map my.map"
    good info out.safetensors
    row heads '3 of width 4' 'safetensors metadata'
    row activation relu 'safetensors metadata'
    row preprocessing short:9,bicubic,crop:8 'safetensors metadata'
    says "names                timm"
    logits a.safetensors "$N/vit_tv.safetensors" --names my.map
    logits b.safetensors out.safetensors
    same_logits a.safetensors b.safetensors
    [ "$(st_header out.safetensors | jq -r .__metadata__.source)" = "vit_tv.safetensors, $(sha256sum <"$N/vit_tv.safetensors" | cut -d' ' -f1)" ]
    # once more: the same tensors
    good convert out.safetensors again.safetensors
    cmp <(st_data out.safetensors) <(st_data again.safetensors)
    sums . >before
    bad 2 "out.safetensors: is there already" --force -- convert "$N/vit_tv.safetensors" out.safetensors --names my.map
    bad 2 "must be called *.safetensors" -- convert "$N/vit_tv.safetensors" out.pth --names my.map
    bad 1 "no-such" -- convert no-such.pth new.safetensors
    [ "$(sums . | grep -v before)" = "$(grep -v before before)" ]
    good convert again.safetensors again.safetensors --force
    cmp <(st_data out.safetensors) <(st_data again.safetensors)
}

@test "convert keeps the recipe" {
    st_edit "$W" r.safetensors '.__metadata__.recipe = "epochs: 3\n"'
    good convert r.safetensors out.safetensors
    good info out.safetensors
    says "epochs: 3"
}

@test "info --explain: what every tensor became, and why not; also of a file that is not understood" {
    good info "$N/vit_hf4.safetensors" --heads 3 $PIXELS --explain
    says "42 tensors, names: huggingface" "-> blocks.1.attn.qkv.weight (part 3 of 3)" "ignored: the classifier does not use it"
    grep -qE '^  vit.embeddings.cls_token +F32 \[1,1,12\] +-> cls_token$' <<<"$output" || fail "$output"
    [ "$(grep -cE '^  (vit|classifier)\..* (->|ignored:) ' <<<"$output")" = 42 ]
    good info "$N/vit.safetensors" --heads 3 $PIXELS --explain
    says "-> head.weight"
    st_edit "$N/vit.safetensors" odd.safetensors 'with_entries(.key |= "my_" + .)'
    vt info odd.safetensors --explain
    [ "$status" = 1 ]
    says "names: not known" "my_head.weight"
    printf 'my_head.* -> head.*\n' >my.map
    vt info odd.safetensors --explain --names my.map
    [ "$status" = 1 ]
    says "names: map my.map" "ignored: NO LINE FITS IT" "-> head.bias"
}

@test "a map's lines with and without the prefix that all names of the file have" {
    st_edit "$N/vit_tv.safetensors" odd.safetensors 'with_entries(if .key == "__metadata__" then . else .key |= "net." + . end)'
    good info odd.safetensors --names torchvision --heads 3 $PIXELS
    for p in net. ''; do
        printf '%s -> %s\n' "${p}class_token" cls_token "${p}encoder.pos_embedding" pos_embed "${p}conv_proj.*" 'patch_embed.proj.*' \
            "${p}encoder.ln.*" 'norm.*' "${p}heads.head.*" 'head.*' \
            "net.encoder.layers.encoder_layer_{i}.self_attention.in_proj_*" 'blocks.{i}.attn.qkv.*' \
            "${p}encoder.layers.encoder_layer_{i}.self_attention.out_proj.*" 'blocks.{i}.attn.proj.*' \
            "encoder.layers.encoder_layer_{i}.ln_{j}.*" 'blocks.{i}.norm{j}.*' \
            "${p}encoder.layers.encoder_layer_{i}.mlp.0.*" 'blocks.{i}.mlp.fc1.*' \
            "${p}encoder.layers.encoder_layer_{i}.mlp.3.*" 'blocks.{i}.mlp.fc2.*' >my.map
        assumes convert odd.safetensors "with$p.safetensors" --names my.map --heads 3 $PIXELS
    done
    cmp <(st_data withnet..safetensors) <(st_data with.safetensors)
    printf 'head.* -> head.*\n' >one.map
    bad 1 "tensor net." "no line of one.map fits" -- info odd.safetensors --names one.map
}

@test "maps that are wrong: file, line, what and why" {
    f=$N/vit_tv.safetensors
    bad 2 "neither a file" "No such file" -- info "$f" --names no-such.map
    bad 2 "did you mean 'torchvision'" -- info "$f" --names torchvison
    printf 'set head 3\n' >m.map
    bad 2 "m.map: line 1" "'head' is no key" "did you mean 'heads'" -- info "$f" --names m.map
    printf '# only the head\nheads.head.* -> head.*\n' >m.map
    bad 1 vit_tv.safetensors "and 29 more: no line of m.map fits" -- info "$f" --names m.map
    printf 'head.* -> head.*\n* -> *\n' >m.map
    bad 1 "m.map: line 1: no tensor" "fits 'head.*'" -- info "$f" --names m.map
    printf 'encoder.layers.encoder_layer_{i}.ln_*.weight -> n.{i}\n* -> *\n' >m.map
    bad 1 "both become n.0" "m.map: lines 1 and 1" -- info "$f" --names m.map
    printf 'class_token + dist_token -> cls_token\n* -> *\n' >m.map
    bad 1 "tensor dist_token is missing" "m.map: line 1" -- info "$f" --names m.map
    printf 'a -> b -> c\n' >m.map
    bad 1 "m.map: line 1" "joined by +" -- info "$f" --names m.map
    printf 'a -> b\0' >m.map
    bad 1 m.map "NUL at byte 6" -- info "$f" --names m.map
    mkdir d.map
    bad 1 d.map "cannot be read" -- info "$f" --names d.map
}

@test "list formats shows schemes and maps; --names takes either" {
    good list formats
    says huggingface torchvision timm swin-old xcit-official "map: ViT of nn.TransformerEncoderLayer"
    good info "$N/vit_tv.safetensors" --names torchvision --heads 3 $PIXELS
    says "names                torchvision"
    row 'LayerNorm eps' 1e-06 'the names of torchvision'
}

@test "a map's word on pixels and heads yields to options alone" {
    st_edit "$N/vit.safetensors" m.safetensors '.__metadata__ = {num_heads: "6", mean: "0.1"}'
    printf '* -> *\nset heads 2\nset mean 0.2\nset std 0.3\n' >m.map
    good info m.safetensors --names m.map
    row heads '2 of width 6' 'map m.map'
    row mean '0.2, 0.2, 0.2' 'map m.map'
    good info m.safetensors --names m.map --heads 4 --mean 0.4
    row heads '4 of width 3' --heads
    row mean '0.4, 0.4, 0.4' --mean
}

# Names of nobody's: jq over the header of a fixture.
home_made() { # OUT
    st_edit "$N/vit.safetensors" "$1" 'with_entries(.key |=
        (sub("^blocks\\."; "stack.") | sub("\\.norm(?<n>[12])\\."; ".ln\(.n).") | sub("attn\\.qkv"; "mix.in") | sub("attn\\.proj"; "mix.out")
        | sub("mlp\\.fc1"; "ff.0") | sub("mlp\\.fc2"; "ff.3") | sub("^cls_token"; "cls") | sub("^pos_embed"; "where")
        | sub("^patch_embed\\.proj"; "cut") | sub("^norm\\."; "last.") | sub("^head\\."; "answer.")))'
}

@test "vitrine map: a map of unknown names to fill in; filled, it gives the logits of timm's, bit for bit" {
    images
    home_made mine.safetensors
    bad 1 "no known naming scheme fits" "vitrine map FILE > my.map" -- info mine.safetensors
    says "names: not known" "stack.0.mix.in.weight" "F32 [36,12]" # what is there
    good map mine.safetensors
    says "stack.{i}.ln1.* " "-> ?   # [12]" "blocks.{i}.attn.qkv.* [3D,D]" "set heads        ?" "set mean         ?"
    printf '%s\n' "$output" >my.map
    bad 2 "my.map: line " "is left blank (?): write timm's name" -- info mine.safetensors --names my.map
    while read -r theirs ours; do
        t=${theirs//./\\.} t=${t//\*/\\*}
        sed -i "s/^$t  *-> ?/$theirs -> $ours/" my.map
    done <<'END'
cls cls_token
where pos_embed
cut.* patch_embed.proj.*
stack.{i}.ln1.* blocks.{i}.norm1.*
stack.{i}.mix.in.* blocks.{i}.attn.qkv.*
stack.{i}.mix.out.* blocks.{i}.attn.proj.*
stack.{i}.ln2.* blocks.{i}.norm2.*
stack.{i}.ff.0.* blocks.{i}.mlp.fc1.*
stack.{i}.ff.3.* blocks.{i}.mlp.fc2.*
last.* norm.*
answer.* head.*
END
    bad 2 "my.map: line " "'heads' is left blank (?): write a value" -- eval mine.safetensors --names my.map --data "$D" --out r
    [ ! -e r ]
    sed -i 's/^set heads .*/set heads 3/; s/^set mean .*/set mean 0.5/; s/^set std .*/set std 0.25/; s/^set ln_eps .*/set ln_eps 1e-6/
        s/^set post_norm .*/set post_norm 0/; s/^set act .*/set act gelu/; s/^set attn_scale .*/set attn_scale head/' my.map
    sed -i 's/^set qkv_rows .*/set qkv_rows qkv/; s/^set patch_order .*/set patch_order conv/' my.map
    bad 2 "my.map: line " "'pool' is left blank (?)" -- eval mine.safetensors --names my.map --data "$D"
    sed -i 's/^set pool .*/set pool token/' my.map
    logits a.safetensors mine.safetensors --names my.map
    logits b.safetensors "$N/vit.safetensors" --heads 3 --ln-eps 1e-6 $PIXELS
    same_logits a.safetensors b.safetensors
    bad 1 "vit_tv.safetensors: its names are known (torchvision), so no map is needed" -- map "$N/vit_tv.safetensors"
    bad 1 nowhere.pth "No such file" -- map nowhere.pth
    bad 2 "needs WEIGHTS" -- map
}

@test "what is no Vision Transformer is named: ONNX, ResNet" {
    printf '\x08\x07\x12\x07pytorch\x1a\x051.13.1:' >model.onnx
    bad 1 "model.onnx: is not a whole ONNX file" -- eval model.onnx --data "$D" --out r
    head -c 12 /dev/zero | st_make resnet.safetensors '{"conv1.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
        "layer1.0.conv1.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"layer1.0.bn1.weight":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}'
    for command in info map "convert --force"; do
        local out=
        [ "$command" = "convert --force" ] && out=o.safetensors
        bad 1 "resnet.safetensors: is a ResNet; vitrine reads ViT, DeiT, ConViT, Swin and XCiT" -- $command resnet.safetensors $out
    done
    [ ! -e r ]
    [ ! -e o.safetensors ]
}
