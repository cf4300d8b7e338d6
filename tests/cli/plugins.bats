#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What docs/ARCHITECTURE.md says a change costs: in a copy of the tree an attack, an attention variant, a penalty, an
# architecture and a key of a run's header are added by the files of that table and no other, and the program has them.
load helpers

# as OLD NEW WORD NAME: src/OLD as src/NEW, in which the plug-in WORD is called NAME
as() {
    sed -E "s/(vt_attack_def_|vt_attn_is_|vt_attn_ops_|vt_penalty_def_|vt_arch_ops_|vt_arch_)$3\b/\1$4/g; s/\.name = \"$3\"/.name = \"$4\"/" "src/$1" >"src/$2"
    never cmp -s "src/$1" "src/$2"
}

@test "an attack, an attention variant, a penalty, an architecture, a header key: their own files, and nothing else" {
    [ -f "$ROOT/build/release/libvitrine.a" ] || skip "no release build to start from"
    (cd "$ROOT" && tar -cf - Makefile include src tools datasets weights maps recipes docs build/release) | tar -xf -
    as attacks/attack_fgsm.c attacks/attack_mine.c fgsm mine
    as models/net/attn_dot.c models/net/attn_mine.c dot mine
    as train/penalty_gate.c train/penalty_mine.c gate mine
    as models/arch_vit.c models/arch_other.c vit other
    as models/net/net_vit.c models/net/net_other.c vit other
    sed -i -E 's/^    X\(const char \*, search, .*/& \\\n    X(int, kept, v->threads + 6, INT, "kept", .least = 1, .most = 9)/' src/eval/header.h
    make -j2 CI=true build/vitrine >log 2>&1 || fail "$(tail -n 5 log)"
    VITRINE=$PWD/build/vitrine
    good list attacks
    grep -q "^mine " <<<"$output"
    # the new architecture takes the file, as it comes before vit: the same network, and nothing that vit alone is asked for
    assumes eval "$W" --data "$D" --eps 4/255 --attack mine --attack fgsm --out r
    head -n 1 r/ledger.jsonl >header && grep -q '"kept":[7-9]' header
    good show r
    truth r/results.json '.model.architecture.value == "other" and .clean.correct == 20'
    truth r/results.json '[.attacks[] | .name] == ["mine", "fgsm"] and .attacks[0].broken == .attacks[1].broken'
    good list models
    says "mine" "other"
    good new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=10 --attn mine --seed 0 -o mine.safetensors
    assumes eval mine.safetensors --data "$D" --out attn
    truth attn/results.json '.model.attention.value == "mine" and .clean.correct == 20'
    good help recipe
    says "mine:"
}
