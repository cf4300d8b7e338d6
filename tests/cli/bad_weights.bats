#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Damaged and unfit checkpoints: refused by info as well as by eval, with file, tensor, value and limit.
load helpers

# damaged TEXT...: info and eval refuse w.safetensors, which holds every TEXT, and eval leaves nothing behind.
damaged() {
    bad 1 w.safetensors "$@" -- info w.safetensors || return 1
    bad 1 w.safetensors "$@" -- eval w.safetensors --data "$D" --out r || return 1
    [ ! -e r ] || fail "the refused run left something behind"
}

@test "no file, a folder, an empty file, a pipe" {
    damaged "No such file"
    mkdir w.safetensors # a folder stands for the weights in it
    damaged "a folder without weights" "model.safetensors" "*.pth"
    mkdir w.safetensors/model.safetensors
    damaged "not a regular file"
    rm -r w.safetensors
    : >w.safetensors
    damaged "8 bytes or more, not 0"
    rm w.safetensors
    mkfifo w.safetensors
    damaged "not a regular file"
}

@test "truncated: within the length, within the header, by one byte" {
    head -c 5 "$W" >w.safetensors
    damaged "8 bytes or more, not 5"
    head -c 300 "$W" >w.safetensors
    damaged "claims a header of $(st_length "$W") bytes" "only 292 bytes follow"
    head -c -1 "$W" >w.safetensors
    n=$(st_data "$W" | wc -c)
    damaged "ends at byte $n" "$((n - 1)) bytes long"
}

@test "over-long, overlapping and with a hole" {
    n=$(st_data "$W" | wc -c)
    { cat "$W" && printf x; } >w.safetensors
    damaged "end at byte $n" "$((n + 1)) bytes long"
    # norm.bias and norm.weight have the same size: both on the bytes of one
    st_edit "$W" w.safetensors '.["norm.bias"].data_offsets = .["norm.weight"].data_offsets'
    damaged "belong to no tensor"
    st_edit "$W" w.safetensors '.["cls_token"].data_offsets |= map(. - 4)'
    damaged cls_token "begins at byte" "ends at"
    header=$(st_header "$W" | jq -c 'map_values(if .dtype then .data_offsets |= map(. + 8) else . end)')
    { printf 12345678 && st_data "$W"; } | st_make w.safetensors "$header"
    damaged "bytes 0 to 8" "belong to no tensor"
}

@test "a header that claims 4 GB, or more than the file, or is no JSON" {
    { le8 4294967296 && tail -c +9 "$W"; } >w.safetensors
    damaged "header of 4294967296 bytes" "the limit is 100000000"
    { repeat 8 '\xff' && tail -c +9 "$W"; } >w.safetensors
    damaged "header of 18446744073709551615 bytes"
    { le8 99999999 && tail -c +9 "$W"; } >w.safetensors
    damaged "claims a header of 99999999 bytes"
    st_make w.safetensors '{"cls_token": }' </dev/null
    damaged "JSON is not valid near byte"
    st_make w.safetensors 'cls_token' </dev/null
    damaged "does not begin with {"
    st_make w.safetensors '{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}' < <(repeat 4 '\x00')
    damaged "JSON is not valid"
}

@test "shapes whose product overflows, negative and non-integer sides, offsets that do not fit" {
    st_edit "$W" w.safetensors '.cls_token.shape = [4294967296, 4294967296, 4294967296]'
    damaged cls_token "[4294967296,4294967296,4294967296]" "too large"
    st_edit "$W" w.safetensors '.cls_token.shape = [4611686018427387904, 4]'
    damaged cls_token "too large"
    st_edit "$W" w.safetensors '.cls_token.shape = [1, -1, 16]'
    damaged cls_token "dimension 1"
    st_edit "$W" w.safetensors '.cls_token.shape = [1, 1.5, 16]'
    damaged cls_token "dimension 1"
    st_edit "$W" w.safetensors '.cls_token.shape = [range(40) | 1]'
    damaged cls_token "40 dimensions" "the limit is"
    st_edit "$W" w.safetensors '.cls_token.shape = [1, 1, 17]'
    damaged cls_token "spans 64 bytes but F32 [1,1,17] takes 68"
    st_edit "$W" w.safetensors '.cls_token.data_offsets |= reverse'
    damaged "data_offsets of tensor cls_token"
    st_edit "$W" w.safetensors '.cls_token.data_offsets = [9000000000, 9000000064]'
    damaged cls_token "ends at byte 9000000064"
}

@test "an unknown dtype, and one that is no number of a model" {
    st_edit "$W" w.safetensors '.cls_token.dtype = "F31"'
    damaged cls_token "dtype F31" "F32, F64"
    st_edit "$W" w.safetensors '.cls_token.dtype = "I32"'
    damaged cls_token "is I32" "floating-point"
    st_edit "$W" w.safetensors 'del(.cls_token.dtype)'
    damaged cls_token "dtype"
}

@test "NaN and Inf weights are refused by info too, wherever they stand" {
    last=$(st_header "$W" | jq -r 'del(.__metadata__) | to_entries | max_by(.value.data_offsets[1]) | .key')
    for where in cls_token:0 blocks.0.mlp.fc1.weight:513 head.bias:9 "$last:0"; do
        tensor=${where%:*} element=${where##*:}
        for value in "$NAN" "$INF" '\x01\x00\x80\xff'; do
            cp "$W" w.safetensors
            poke w.safetensors $(($(st_at w.safetensors "$tensor") + 4 * element)) "$value"
            bad 1 w.safetensors "tensor $tensor holds" "element $element" finite -- info w.safetensors
        done
    done
    damaged "finite"
    cp "$W" w.safetensors
    poke w.safetensors $(($(st_at w.safetensors head.bias) + 36)) '\xff\xff\x7f\x7f' # the largest float is a number
    good info w.safetensors
}

@test "weights so large that logits overflow: a sentence, no table of nonsense" {
    cp "$W" w.safetensors
    for i in $(seq 0 15); do poke w.safetensors $(($(st_at w.safetensors head.weight) + 4 * i)) '\xff\xff\x7f\x7f'; done
    bad 1 "image 0" "logits are not finite" -- eval w.safetensors --data "$D" --threads 1 --out r
    [ ! -e r/results.json ]
}

@test "missing tensors are named, with the nearest name that the file has" {
    st_edit "$W" w.safetensors '.["blocks.0.attn.proj.bais"] = .["blocks.0.attn.proj.bias"] | del(.["blocks.0.attn.proj.bias"])'
    damaged "tensor blocks.0.attn.proj.bias is missing" "blocks.0.attn.proj.bais"
    st_edit "$W" w.safetensors '.["norm_bias"] = .["norm.bias"] | del(.["norm.bias"])'
    damaged "tensor norm.bias is missing" "norm_bias"
    st_edit "$W" w.safetensors '.["classifier.weight"] = .["head.weight"] | del(.["head.weight"])'
    damaged "tensor head.weight is missing"
    st_edit "$W" w.safetensors 'with_entries(if .key == "__metadata__" then . else .key |= "trunk_" + . end)'
    damaged "no known naming scheme fits" "trunk_blocks.0.attn.proj.bias" "--names MAP"
}

@test "extra tensors are named, with the nearest name that the model has" {
    n=$(st_data "$W" | wc -c)
    header=$(st_header "$W" | jq -c --argjson n $n '.["head.biass"] = {dtype: "F32", shape: [1], data_offsets: [$n, $n + 4]}')
    { st_data "$W" && repeat 1 "$ONE"; } | st_make w.safetensors "$header"
    damaged "tensor head.biass does not belong" "nearest known name: head.bias"
    header=$(st_header "$W" | jq -c --argjson n $n '.["blocks.1.attn.qkv.weight"] = {dtype: "F32", shape: [1], data_offsets: [$n, $n + 4]}')
    { st_data "$W" && repeat 1 "$ONE"; } | st_make w.safetensors "$header"
    damaged "tensor blocks.1.attn.qkv.weight does not belong" "blocks.0.attn.qkv.weight"
}

@test "tensors of a wrong shape are named, with both shapes" {
    st_edit "$W" w.safetensors '.["head.weight"].shape = [16, 10]'
    damaged "tensor head.weight has shape [16,10], must be [16,16]"
    st_edit "$W" w.safetensors '.["head.bias"].shape = [5, 2]'
    damaged "tensor head.bias has shape [5,2], must be [10]"
    st_edit "$W" w.safetensors '.["norm.weight"].shape = [4, 4]'
    damaged "tensor norm.weight has shape [4,4], must be [16]"
    st_edit "$W" w.safetensors '.pos_embed.shape = [1, 16, 17]'
    damaged "tensor pos_embed has shape [1,16,17], must be [1,16,16]" # positions of patches alone
    st_edit "$W" w.safetensors '.pos_embed.shape = [1, 34, 8]'
    damaged pos_embed "34 positions" "not a square"
    st_edit "$W" w.safetensors '.["patch_embed.proj.weight"].shape = [16, 12, 4, 4]'
    damaged "patch_embed.proj.weight has shape [16,12,4,4]" "[dim,3,patch,patch]"
}

@test "metadata that cannot be right is refused" {
    st_edit "$W" w.safetensors '.__metadata__.num_heads = "3"'
    damaged "width 16 is not a multiple of 3 heads"
    st_edit "$W" w.safetensors '.__metadata__.num_heads = "0"'
    damaged "0 heads"
    st_edit "$W" w.safetensors '.__metadata__.num_heads = 2'
    damaged "metadata num_heads is not a text"
    st_edit "$W" w.safetensors '.__metadata__.std = "0.5,0.5,0"'
    damaged "std is 0"
    st_edit "$W" w.safetensors '.__metadata__.ln_eps = "-1"'
    damaged "LayerNorm eps is -1"
    st_edit "$W" w.safetensors '.__metadata__.attn = "softmix"'
    bad 2 w.safetensors "unknown attention variant 'softmix'" -- info w.safetensors
}

@test "what torch.save wrote and vitrine does not take: named, with the byte" {
    local pth=$ROOT/tests/fuzz/corpus/pth
    bad 1 bad_zip_system "data.pkl, byte" "names posix system" "nothing of it was run" "torch.save(model.state_dict()" -- info "$pth/bad_zip_system"
    bad 1 "names posix system" -- info "$pth/bad_legacy_system"
    bad 1 "a whole model as Python code" "torch.save(model.state_dict()" -- info "$pth/bad_legacy_module"
    bad 1 "TorchScript" -- info "$pth/bad_zip_script"
    bad 1 "tar archive" -- info "$pth/bad_tar"
    bad 1 "536870912 items are claimed" -- info "$pth/bad_zip_claim"
    bad 1 "claims to inflate to 33554432 bytes" -- info "$pth/bad_zip_bomb"
    bad 1 "leaves storage 0" -- info "$pth/bad_zip_stride"
    bad 1 "overlaps itself" -- info "$pth/bad_zip_expanded"
    bad 1 "overlaps itself" "save it with .contiguous()" -- info "$pth/bad_zip_overlap"
    bad 1 "no known naming scheme fits" -- info "$pth/good_zip_plain"
}

@test "--part takes one state dict of several; info, ledger and recipe say which" {
    local pth=$ROOT/tests/fixtures/pth o="--heads 2 --mean 0.5 --std 0.5"
    good info "$pth/parts_ema.pth" $o
    says "part                 model " "(one of model, ema: --part tells)"
    good info "$pth/parts_ema.pth" $o --part ema --explain
    says "part                 ema.module " "ema: as asked for"
    good info "$W"
    [[ $output != *"  part "* ]]
    bad 1 "holds two networks, first.* and second.*" "--part NAME reads one of its parts: first, second" -- info "$pth/parts_open.pth" $o
    bad 2 "has no entry 'teacher' with tensors; there are: model, ema" -- eval "$pth/parts_ema.pth" $o --part teacher --data "$D"
    bad 2 "has no entry 'ema'" "tensors alone" -- info "$W" --part ema
    bad 2 "--part says how a checkpoint is read" -- new --part ema -o n.safetensors
    assumes convert "$pth/parts_ema.pth" a.safetensors $o
    assumes convert "$pth/parts_ema.pth" b.safetensors $o --part ema
    says "part ema.module"
    assumes convert "$pth/parts_open.pth" first.safetensors $o --part first
    assumes convert "$pth/parts_open.pth" second.safetensors $o --part second
    cmp <(st_data a.safetensors) <(st_data first.safetensors)
    cmp <(st_data b.safetensors) <(st_data second.safetensors)
    ! cmp -s <(st_data a.safetensors) <(st_data b.safetensors) || fail "both parts are one"
    [[ $(st_header b.safetensors | jq -r .__metadata__.source) == "parts_ema.pth (ema.module), "* ]]
    # the same file, another network: no run goes on with it
    assumes eval "$pth/parts_ema.pth" $o --data "$D" --images 0:4 --out r
    truth r/results.json '.model.part == "model"'
    vt eval "$pth/parts_ema.pth" $o --data "$D" --images 0:4 --out r --resume --part ema
    [ "$status" != 0 ] && [[ $stderr == *model* ]] || fail "resumed with another part: $stderr"
    for c in spectrum gradcheck "doctor --data $D --images 0:20"; do
        vt $c "$pth/parts_open.pth" $o --part second
        [ "$status" = 0 ] || fail "$c: $stderr"
    done
}

@test "folders, shards and prefixes" {
    mkdir hub
    st_edit "$W" hub/model.safetensors 'with_entries(if .key == "__metadata__" then . else .key |= "module.model." + . end)'
    good info hub
    mv hub/model.safetensors hub/part.safetensors
    good info hub
    st_header hub/part.safetensors | jq '{weight_map: (del(.__metadata__) | map_values("part.safetensors"))}' >hub/model.safetensors.index.json
    good info hub
    good eval hub --data "$D" --out r
    rm hub/part.safetensors
    bad 1 "hub/part.safetensors" "No such file" -- info hub
    rm hub/model.safetensors.index.json
    cp "$W" hub/a.pt
    cp "$W" hub/b.pth
    bad 2 "2 files of weights" a.pt b.pth -- info hub
}

@test "gradcheck, bench and probe refuse what info refuses" {
    head -c -1 "$W" >w.safetensors
    for c in gradcheck bench "probe --input $W --out x"; do bad 1 w.safetensors "bytes long" -- $c w.safetensors; done
}

@test "an archive whose data.pkl has too long a name is refused as that" {
    /usr/bin/python3 -c "import zipfile; zipfile.ZipFile('long.pth', 'w').writestr('a' * 200 + '/data.pkl', 'x')"
    bad 1 "long.pth: the name of aaaaaaaa" "... in the archive has 209 letters, may have 199" -- info long.pth
}
