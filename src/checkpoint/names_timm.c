/* SPDX-License-Identifier: MIT */
/* timm's names, the canonical ones (those of its vision_transformer.py, deit.py, convit.py, xcit.py,
 * swin_transformer.py): ViT, DeiT, ConViT, XCiT and, since 0.9, Swin. */
#include "checkpoint/names.h"

static bool probe(const vt_tensors *st) {
    bool embedded = vt_tensors_find(st, "patch_embed.proj.weight") ||
                    vt_tensors_find(st, "patch_embed.proj.0.0.weight") ||
                    vt_tensors_find(st, "patch_embed.proj.stem.0.weight");
    return embedded && !vt_names_old_swin(st) && !vt_tensors_find(st, "pos_embeder.token_projection.weight");
}

static const char *map(const vt_tensors *st) {
    (void)st;
    return "register_tokens -> reg_token\n"
           "blocks.{i}.gamma_1 -> blocks.{i}.ls1.gamma\n" /* DeiT III by its authors, iBOT */
           "blocks.{i}.gamma_2 -> blocks.{i}.ls2.gamma\n"
           "blocks.{i}.attn.q_bias + 0 + blocks.{i}.attn.v_bias -> blocks.{i}.attn.qkv.bias\n"
           "drop mask_token  for masked pre-training\n"
           "* -> *\n";
}

const vt_names_def vt_names_def_timm = {
    .name = "timm",
    .summary = "timm: ViT, DeiT, ConViT, XCiT, Swin since 0.9 (patch_embed.proj, blocks.i.attn.qkv, head)",
    .recognises = probe,
    .head = "head.*",
    .map = map,
};
