#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# No checkpoint is read on a guess without a word: what is open is asked for, all at once; what is assumed is said.
load helpers

PIXELS="--mean 0.5 --std 0.5"

vits() { ls "$ROOT"/weights/*/model.safetensors | grep -v -e cifar10-lipschitz -e cifar10-ibp; }
bare() { st_edit "$1" "${2:-bare.safetensors}" 'del(.__metadata__)'; }
# The names that nn.TransformerEncoder gives, which maps/vit-encoderlayer.map knows.
torch() {
    st_edit "$W" "${1:-torch.safetensors}" 'del(.__metadata__) | with_entries(.key |= (
        sub("^norm\\."; "mlp_head.0.") | sub("^head\\."; "mlp_head.1.") | sub("^blocks\\."; "transformer.layers.")
        | sub("attn\\.qkv\\."; "self_attn.in_proj_") | sub("attn\\.proj\\."; "self_attn.out_proj.")
        | sub("mlp\\.fc1\\."; "linear1.") | sub("mlp\\.fc2\\."; "linear2.")))'
}
# A patch embedding that is a Linear.
linear() { st_edit "$W" linear.safetensors 'del(.__metadata__) | ."patch_embed.proj.weight".shape = [16, 192]'; }
# examined: the doctor's command in the last refusal, run as a shell runs it; what it says to use is in $use.
examined() {
    local line=${stderr#*on labelled images \`}
    run bash -c "${line%%\`*}"
    [ "$status" = 0 ] || fail "status $status of: $line" "$output" || return 1
    use=$(sed -n 's/^use: //p' <<<"$output")
}
# pasted REFUSAL OPTIONS: the command at its end with these options in the place of those without values, run as a shell
# runs it; one line on stderr, as `assumes` wants it.
pasted() {
    local line=${1##*as in } first
    first=$(grep -oE -- ' --(form )?[a-z_]+[ =][A-Z_]+' <<<"$line" | head -1)
    [ -n "$first" ] || fail "it names no option without a value: $line" || return 1
    line=$(sed -E 's/ --(form )?[a-z_]+[ =][A-Z_]+//g' <<<"${line/"$first"/ $2}")
    run --separate-stderr bash -c "$line"
    [ "$status" = 0 ] || fail "status $status of: $line" "stderr: $stderr" || return 1
    [ "$(grep -c 'assumed, not in the file' <<<"$stderr")" = 1 ] || fail "not one line of assumptions: $stderr"
}
# unsaid TEXT...: the last line of assumptions holds none of them.
unsaid() {
    local text
    for text; do [[ $stderr != *"$text"* ]] || fail "'$text' is in: $stderr" || return 1; done
}

@test "every shipped checkpoint, stripped: one sentence asks for all that is missing, and ends in a line that works" {
    for w in $(vits); do
        good eval "${w%/*}" --data "$ROOT/datasets/shapes10" --images 0:1 # with what stands beside it: no question
        bare "$w"
        bad 2 bare.safetensors "heads (" "mean (" "CIFAR-10" "std (" "eval bare.safetensors" "--heads" \
            -- eval bare.safetensors --data "$ROOT/datasets/shapes10" --images 0:1
        [ "$(wc -l <<<"$stderr")" = 1 ]
        grep -qE 'heads \(1, 2, 4(, 8)? or' <<<"$stderr" || fail "not in order: $stderr"
        [[ $stderr != *"--heads "[0-9]* && $stderr == *"doctor bare.safetensors --data $ROOT/datasets/shapes10"*"tries them; or give"* ]]
        told=$stderr
        examined # of a network for other images it says that it does not know these
        pasted "$told" "${use:---heads 2 $PIXELS}"
        [[ $stderr == *"activation gelu, pre-norm"* ]]
    done
    bare "$ROOT/weights/cifar10-lipschitz/model.safetensors" # whose tensors tell all but these
    bad 2 "mean (" "std (" -- eval bare.safetensors --data "$ROOT/datasets/shapes10" --images 0:1
    unsaid "heads (" "LayerNorm"
}

@test "no number of heads, norm order or activation of a stripped checkpoint is silent" {
    for w in $(vits); do
        bare "$w"
        dim=$(st_header "$w" | jq '.cls_token.shape[2]')
        for heads in 1 2 4 8; do
            assumes eval bare.safetensors --data "$ROOT/datasets/shapes10" --images 0:1 $PIXELS --heads $heads
            [[ $stderr == *"class token"*"LayerNorm eps 1e-06, activation gelu, pre-norm"* ]]
            [ $((dim % heads)) = 0 ]
        done
        for act in gelu gelu_tanh relu; do
            assumes eval bare.safetensors --data "$ROOT/datasets/shapes10" --images 0:1 $PIXELS --heads 2 --form act=$act
            [[ $stderr == *", pre-norm, "* ]]
            unsaid activation
        done
        for order in 0 1; do
            assumes eval bare.safetensors --data "$ROOT/datasets/shapes10" --images 0:1 $PIXELS --heads 2 --form post_norm=$order
            [[ $stderr == *", activation gelu, "* ]]
            unsaid pre-norm post-norm
        done
    done
}

@test "a user who tells everything hears nothing" {
    bare "$W"
    quick_told="$PIXELS --heads 2 --ln-eps 1e-6 --attn dot --attn-scale head --form pool=token --form act=gelu --form post_norm=0 --form bgr=0"
    quick_told+=" --form positions=learned --form qkv_rows=qkv --form class_last=0"
    good eval bare.safetensors --data "$D" $quick_told --out told
    quick --out plain
    diff <(said told) <(said plain)
}

@test "every command that computes with a checkpoint asks, and none writes anything" {
    bare "$W"
    n=$((3 * 32 * 32 * 4))
    { head -c $n /dev/zero && le8 1; } | st_make in.safetensors \
        "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,3,32,32],\"data_offsets\":[0,$n]},\"labels\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[$n,$((n + 8))]}}"
    quick --images 0:2 --eps 8/255 --attack fgsm --save-adv --out r
    sums . >before
    while read -r command; do
        bad 2 bare.safetensors "neither its tensors nor anything beside them tell heads (1 or another divisor of 16)" \
            "as in $VITRINE $command --heads HEADS --mean MEAN --std STD" -- $command
    done <<END
eval bare.safetensors --data $D --out o
curve bare.safetensors --data $D --out o
selftest bare.safetensors --data $D --eps 1/255
train $ROOT/recipes/shapes10_plain.yaml --init bare.safetensors --data $D --out o
train $ROOT/recipes/shapes10_plain.yaml --init bare.safetensors --data $D --dry-run
analyze attention bare.safetensors --data $D --out o
analyze orthogonality bare.safetensors --out o
spectrum bare.safetensors --csv o
convert bare.safetensors o.safetensors
probe bare.safetensors --input in.safetensors --out o
gradcheck bare.safetensors
bench bare.safetensors
verify --adv r/adv.safetensors --weights bare.safetensors --data $D --eps 8/255
END
    bad 2 "--surrogate: " bare.safetensors "heads (1 or" "\`vitrine doctor bare.safetensors --data" \
        "as in vitrine convert bare.safetensors COPY.safetensors --heads HEADS" \
        -- eval "$W" --data "$D" --images 0:2 --eps 8/255 --surrogate bare.safetensors
    [ "$(sums . | grep -v before)" = "$(grep -v before before)" ]
    good info bare.safetensors
    vt doctor bare.safetensors --data "$D"
    [ "$status" = 0 ] || fail "doctor must open it: $stderr"
}

@test "a map that applies by itself tells neither heads nor norm order nor activation; asked for, it does" {
    torch
    bad 2 torch.safetensors "heads (1 or another divisor of 16)" "activation (gelu, gelu_tanh, relu" "post-norm (0 or 1)" \
        "(--names vit-encoderlayer takes that map's word)" "--heads HEADS --form act=ACT --form post_norm=POST_NORM" \
        -- eval torch.safetensors --data "$D"
    unsaid "mean ("
    pasted "$stderr" "--heads 8 --form act=relu --form post_norm=1"
    [[ $stderr == *"LayerNorm eps 1e-05, mean 0.4914, 0.4822, 0.4465, std 0.2023, 0.1994, 0.201, channels RGB, positions by the table alone, class token first, embedding not scaled"* ]]
    assumes eval torch.safetensors --data "$D" --names vit-encoderlayer --out asked
    truth asked/results.json '.model.heads == {value: 8, source: "map vit-encoderlayer", assumed: false}'
    for wrong in "--heads 2" "--form act=gelu" "--form post_norm=0" "--heads 2 --form act=relu" "--heads 2 --form post_norm=1"; do
        bad 2 torch.safetensors "tell " -- eval torch.safetensors --data "$D" $wrong
    done
}

@test "a Linear patch embedding: its order is asked for together with all else, and told by --form" {
    linear
    bad 2 "heads (1 or another divisor of 16), mean (" "patch order (chw or hwc)" "--form patch_order=PATCH_ORDER" -- eval linear.safetensors --data "$D"
    for order in chw hwc; do
        assumes eval linear.safetensors --data "$D" --heads 2 $PIXELS --form patch_order=$order --out $order
        truth $order/results.json ".model.patch_order == {value: \"$order\", source: \"--form\", assumed: false}"
    done
    quick --out plain
    diff <(said chw) <(said plain) # timm's is channels first
    ! diff <(said chw) <(said hwc) >/dev/null || fail "the order changes nothing"
    assumes convert linear.safetensors conv.safetensors --heads 2 $PIXELS --form patch_order=chw
    cmp <(st_data conv.safetensors) <(st_data "$W")
    bad 2 "--form patch_order=hwc contradicts the tensors, which say conv" -- info "$W" --form patch_order=hwc
    bad 2 "patch_order" "conv|chw|hwc" -- info linear.safetensors --form patch_order=cwh
}

@test "the line to paste survives a shell: blanks and quotes, and a -- before the operands" {
    bare "$W" "it's bare.safetensors"
    bad 2 "'it'\\''s bare.safetensors'" -- eval "it's bare.safetensors" --data "$D" --form act=gelu
    told=$stderr
    [[ $told == *"doctor 'it'\\''s bare.safetensors' --data $D --form act=gelu"* ]] || fail "$told"
    examined
    pasted "$told" "--heads 2 $PIXELS"
    bad 2 "--heads HEADS --mean" -- eval --data "$D" -- "it's bare.safetensors"
    pasted "$stderr" "--heads 2 $PIXELS"
    bad 2 "--heads HEADS --mean" -- eval "it's bare.safetensors" --data "$D"
    run bash -c "${stderr##*as in }" # as it stands: refused with the option's name
    [[ $status != 0 && $output == *"--heads is 'HEADS'"* ]] || fail "$output"
}

@test "results.json: every value with its source; a run goes on and is verified whoever told them" {
    bare "$W"
    assumes eval bare.safetensors --data "$D" --heads 2 $PIXELS --images 0:10 --out r
    truth r/results.json '[.model | to_entries[] | select(.key != "input" and .key != "notes") | .value | keys == ["assumed", "source", "value"]] | all'
    truth r/results.json '.model.heads == {value: 2, source: "--heads", assumed: false}'
    truth r/results.json '.model.dim == {value: 16, source: "tensors", assumed: false}'
    truth r/results.json '.model.act == {value: "gelu", source: "default", assumed: true}'
    truth r/results.json '.model.post_norm == {value: false, source: "default", assumed: true}'
    truth r/results.json '.model.ln_eps.assumed and .model.pool.assumed and .model.attn_scale.assumed'
    assumes eval bare.safetensors --data "$D" --heads 2 $PIXELS --form act=gelu --out r --resume
    good verify r
    assumes eval bare.safetensors --data "$D" --heads 2 $PIXELS --form act=gelu --out s
    good compare r s
}

@test "convert makes no fact of an assumption" {
    bare "$W"
    assumes convert bare.safetensors copy.safetensors --heads 2 $PIXELS --form act=gelu
    [ "$(st_header copy.safetensors | jq -r .__metadata__.assumed)" = pool,attention,attn_scale,ln_eps,post_norm,bgr,positions,qkv_rows,class_last ]
    assumes eval copy.safetensors --data "$D"
    [[ $stderr == *"pre-norm"* ]]
    unsaid activation heads
    good eval copy.safetensors --data "$D" --ln-eps 1e-6 --attn dot --attn-scale head --form pool=token --form post_norm=0 --form bgr=0 --form "positions=learned qkv_rows=qkv class_last=0"
}

# last FORM KIND [KEY=VALUE...]: what timm's train.py leaves, with these arguments
last() { /usr/bin/python3 "$ROOT/tests/fixtures/timm_pth.py" "$W" last.pth.tar "$@"; }

@test "timm's training arguments in last.pth.tar tell heads, mean and std, in either format, Namespace or dict" {
    quick --out plain
    for form in zip legacy; do
        for kind in namespace dict; do
            last $form $kind
            good info last.pth.tar
            grep -qE "^ *heads +2 of width 8 +\(timm's training arguments in last.pth.tar\)" <<<"$output" || fail "$output"
            [ "$(grep -c "(timm's training arguments in last.pth.tar)" <<<"$output")" = 3 ] || fail "$output"
            good info last.pth.tar --explain
            says "args.opt"
            assumes eval last.pth.tar --data "$D" --out $form-$kind
            diff <(said $form-$kind) <(said plain)
            truth $form-$kind/results.json '.model.heads == {value: 2, source: "timm'"'"'s training arguments in last.pth.tar", assumed: false}'
        done
    done
    assumes eval last.pth.tar --data "$D" --heads 4 --mean 0 --std 1 --out own # an option goes before
    truth own/results.json '.model.heads == {value: 4, source: "--heads", assumed: false}'
    assumes convert last.pth.tar copy.safetensors
    [ "$(st_header copy.safetensors | jq -r .__metadata__.num_heads)" = 2 ]
}

@test "what timm's arguments leave open is asked for; arguments of another script tell nothing" {
    last zip namespace mean=None
    bad 2 "last.pth.tar: neither its tensors nor anything beside them tell mean (" -- eval last.pth.tar --data "$D"
    unsaid "heads (" "std ("
    last zip namespace 'model_kwargs={}' # no preset of this name, so no number of heads
    bad 2 "tell heads (" -- eval last.pth.tar --data "$D"
    last zip namespace 'model_kwargs={}' 'model="vit_tiny_patch16_224"' # timm's class, with heads of its own
    bad 1 "width 16 is not a multiple of 3 heads (timm's training arguments in last.pth.tar)" -- info last.pth.tar
    last zip namespace img_size=-
    bad 2 "tell heads (" "mean (" "std (" -- eval last.pth.tar --data "$D"
    last zip dict "model_kwargs={'num_heads': 2, 'a': [$(seq -s, 600)]}" # more than is looked at
    bad 2 "tell heads (" "mean (" "std (" -- eval last.pth.tar --data "$D"
    last zip dict 'mean=[[[[[[0.5]]]]]]' 'std=[0.5, None, 0.5, 0.5]'
    bad 2 "tell mean (" "std (" -- eval last.pth.tar --data "$D"
    last zip dict 'gp="avg"' 'crop_pct=0.9' 'interpolation="bicubic"'
    good info last.pth.tar
    grep -qE "preprocessing +short:35,bicubic,crop:32 +\(timm's" <<<"$output" || fail "$output"
}

@test "timm's arguments against tensors and against a file beside them: refused, with who says what" {
    last zip namespace num_classes=100
    bad 1 "timm's training arguments in last.pth.tar: num_classes is 100" "say 10" -- info last.pth.tar
    last legacy dict 'model_kwargs={"num_heads": 2, "embed_dim": 32}'
    bad 1 "embed_dim is 32" "say 16" -- info last.pth.tar
    last zip namespace
    echo '{"num_heads": 4, "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}' >config.json
    bad 2 "heads is 4 (config.json), but timm's training arguments in last.pth.tar says 2" "with --heads" -- info last.pth.tar
    assumes eval last.pth.tar --data "$D" --heads 2
    echo '{"num_heads": 2, "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 0.5]}}' >config.json
    bad 2 "std is 0.25,0.5,0.5 (config.json), but" "says 0.5,0.5,0.5" "with --std" -- eval last.pth.tar --data "$D"
    echo '{"num_heads": 2, "act_layer": "relu"}' >config.json
    last zip namespace 'model_kwargs={"num_heads": 2, "act_layer": "gelu"}'
    bad 2 "activation is relu (config.json), but" "says gelu" -- info last.pth.tar
    echo '{"num_heads": 2}' >config.json
    good info last.pth.tar
}
