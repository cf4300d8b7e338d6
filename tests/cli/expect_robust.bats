#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval --expect-robust: images whose robustness is proven, which no attack may break.
load helpers

# A network whose robust radius is known in closed form. All weights of the patches are 1/2 (-1/2 for the second of two
# features), the attention and MLP branches are zero, the mean over the patches is read: the features are u and -u with
# u = 96 (m - 1/2), m the mean of all pixels. LayerNorm of (u, -u) is s = u / sqrt(u^2 + eps) and -s, the logits of the
# first two classes; the other eight stay at -10. The class turns where m = 1/2, and m moves by at most the linf radius:
# a picture of grey level g is robust for eps < |g - 127.5| / 255 and for no larger eps (its pixels are far from 0 and 1).
planted() {
    "$VITRINE" new --set dim=2 depth=1 heads=1 patch=8 image=32 classes=10 pool=avg -o new.safetensors >/dev/null
    local header
    header=$(st_header new.safetensors | jq -c '.__metadata__ += {mean: "0,0,0", std: "1,1,1", ln_eps: "1"}')
    head -c "$(st_data new.safetensors | wc -c)" /dev/zero | st_make planted.safetensors "$header"
    local at
    at=$(st_at planted.safetensors patch_embed.proj.weight)
    poke planted.safetensors "$at" "$(repeat_text 192 "$HALF")$(repeat_text 192 '\x00\x00\x00\xbf')"
    poke planted.safetensors "$(st_at planted.safetensors patch_embed.proj.bias)" '\x00\x00\x40\xc2\x00\x00\x40\x42' # -48, 48
    poke planted.safetensors "$(st_at planted.safetensors fc_norm.weight)" "$ONE$ONE"
    poke planted.safetensors "$(st_at planted.safetensors head.weight)" "$ONE$ZERO$ZERO$ONE"
    poke planted.safetensors "$(st_at planted.safetensors head.bias)" "$ZERO$ZERO$(repeat_text 8 '\x00\x00\x20\xc1')"
}
repeat_text() { local s && printf -v s "%${1}s" '' && printf %s "${s// /$2}"; }

# grey levels 140, 150, 100, 131: radii 12.5, 22.5, 27.5 and 3.5 of 255; class 0 is bright, class 1 dark
greys() {
    mkdir d
    for g in 140 150 100 131; do
        printf "\\x0$((g < 128))"
        repeat 3072 "$(byte $g)"
    done >d/test_batch.bin
    cp d/test_batch.bin d/data_batch_1.bin
}

@test "below the radius no attack succeeds, above it every image is named" {
    planted && greys
    printf '0\n1\n2\n' >certified
    all=(--attack fgsm --attack pgd:steps=10 --attack autoattack)
    good eval planted.safetensors --data d --images certified --eps 12/255 "${all[@]}" --expect-robust --out r
    truth r/results.json '.clean.correct == 3 and .worst_case.robust == 3'
    bad 1 "image 0 is not robust" "class 1 instead of 0" -- eval planted.safetensors --data d --images certified --eps 13/255 "${all[@]}" --expect-robust --out s
    [[ $stderr != *"nor are"* ]]
    truth s/results.json '.worst_case.robust == 2 and ([.attacks[].robust] == [2,2,2])'
    good verify s
    bad 1 "image 3 is not robust: fgsm" -- eval planted.safetensors --data d --eps 4/255 --attack fgsm --expect-robust
    bad 1 "image 0 is not robust" "nor are images 1 3" -- eval planted.safetensors --data d --eps 23/255 --attack fgsm --expect-robust
}

@test "the distance that is found is the radius" {
    planted && greys
    for k in 125 126; do # 12.5/255 exactly is the boundary; a hundredth above it every attack must succeed
        run -0 --separate-stderr "$VITRINE" eval planted.safetensors --data d --images 0:1 --eps "$(awk "BEGIN{print $k/10}")/255" --attack pgd --out r$k
    done
    truth r126/results.json '.worst_case.robust == 0'
    jq -e 'select(.status == "broken") | .linf > 12.5/255 and .linf <= 12.6/255' r126/ledger.jsonl
}

@test "an image that is wrong already is not robust; the option needs an attack" {
    planted && greys
    poke d/test_batch.bin 3073 '\x05'
    bad 1 "image 1 is not robust: without perturbation class 5 is taken for 0" -- eval planted.safetensors --data d --images 0:2 --eps 1/255 --attack fgsm --expect-robust
    bad 2 "--expect-robust needs at least one --attack" -- eval planted.safetensors --data d --expect-robust
}
