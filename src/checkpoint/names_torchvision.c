/* SPDX-License-Identifier: MIT */
/* torchvision's vit_b_16 and so on, and swin_t, swin_s, swin_b. */
#include "checkpoint/unsupported.h"
#include "checkpoint/names.h"

static bool is_swin(const vt_tensors *st) { return vt_tensors_find(st, "features.0.0.weight") != NULL; }

static bool probe(const vt_tensors *st) {
    return vt_tensors_find(st, "conv_proj.weight") || vt_tensors_find(st, "conv_proj.conv_1.weight") ||
           (is_swin(st) && vt_tensors_find(st, "features.1.0.attn.qkv.weight"));
}

/* The layers of an MLP: 0 and 3 of an nn.Sequential since 0.13, linear_1 and linear_2 before. */
static const char vit[] = "class_token -> cls_token\n"
                          "conv_proj.* -> patch_embed.proj.*\n"
                          "encoder.pos_embedding -> pos_embed\n"
                          "encoder.layers.encoder_layer_{i}.ln_1.* -> blocks.{i}.norm1.*\n"
                          "encoder.layers.encoder_layer_{i}.self_attention.in_proj_* -> blocks.{i}.attn.qkv.*\n"
                          "encoder.layers.encoder_layer_{i}.self_attention.out_proj.* -> blocks.{i}.attn.proj.*\n"
                          "encoder.layers.encoder_layer_{i}.ln_2.* -> blocks.{i}.norm2.*\n"
                          "encoder.layers.encoder_layer_{i}.mlp.0.* -> blocks.{i}.mlp.fc1.*\n"
                          "encoder.layers.encoder_layer_{i}.mlp.3.* -> blocks.{i}.mlp.fc2.*\n"
                          "encoder.layers.encoder_layer_{i}.mlp.linear_1.* -> blocks.{i}.mlp.fc1.*\n"
                          "encoder.layers.encoder_layer_{i}.mlp.linear_2.* -> blocks.{i}.mlp.fc2.*\n"
                          "encoder.ln.* -> norm.*\n"
                          "heads.head.* -> head.*\n"
                          "heads.* -> head.*\n" /* another classifier in its place */
                          "set ln_eps 1e-6\n";

/* features: embedding, then stages and mergings in turn. */
static const char swin[] = "features.0.0.* -> patch_embed.proj.*\n"
                           "features.0.2.* -> patch_embed.norm.*\n"
                           "features.{2s+1}.{b}.norm1.* -> layers.{s}.blocks.{b}.norm1.*\n"
                           "features.{2s+1}.{b}.attn.* -> layers.{s}.blocks.{b}.attn.*\n"
                           "features.{2s+1}.{b}.norm2.* -> layers.{s}.blocks.{b}.norm2.*\n"
                           "features.{2s+1}.{b}.mlp.0.* -> layers.{s}.blocks.{b}.mlp.fc1.*\n"
                           "features.{2s+1}.{b}.mlp.3.* -> layers.{s}.blocks.{b}.mlp.fc2.*\n"
                           "features.{2s}.norm.* -> layers.{s}.downsample.norm.*\n"
                           "features.{2s}.reduction.* -> layers.{s}.downsample.reduction.*\n"
                           "norm.* -> norm.*\n"
                           "head.* -> head.fc.*\n"
                           "set ln_eps 1e-5\n";

static const char *map(const vt_tensors *st) { return is_swin(st) ? swin : vit; }

static vt_status check(const vt_tensors *st, vt_err *e) {
    const char *path = vt_tensors_path(st);
    if (vt_tensors_find(st, "conv_proj.conv_1.weight"))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: is torchvision's ViT with a convolutional stem, which vitrine does not compute; " VT_WAY,
                       path);
    if (vt_tensors_find(st, "heads.pre_logits.weight"))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has a representation layer (heads.pre_logits), which vitrine does not compute; " VT_WAY,
                       path);
    return VT_OK;
}

const vt_names_def vt_names_def_torchvision = {
    .name = "torchvision",
    .summary = "torchvision: vit_* (conv_proj, encoder_layer_i), swin_t, swin_s, swin_b (features.i)",
    .recognises = probe,
    .head = "head*",
    .map = map,
    .check = check,
    .check_config = vt_names_check_padding,
};
