/* SPDX-License-Identifier: MIT */
/* Vision Transformer and DeiT (Dosovitskiy et al. 2021; Touvron et al. 2021), timm's tensor names and conventions:
 * class token, optional distillation and register tokens, patches (or the pixels of a convolutional stem's last map);
 * learned positions of all tokens or of the patches alone; blocks of any form (net/block.h); and either norm -> head on
 * the class token (distilled: the mean of head and head_dist, as timm evaluates) or a mean over tokens, before the norm
 * (fc_norm, timm's global_pool='avg') or after it (norm). */
#include <string.h>
#include "models/arch.h"
#include "models/detect.h"
#include "models/vit.h"

static void params(vt_param_list *l, const vt_config *c) { vt_vit_params(l, c, NULL); }

/* ---- what it does not have ---- */

/* VT_E_SHAPE for computed positions that this width or other forms exclude. */
static vt_status sincos_check(const vt_config *c, const char *path, vt_err *e) {
    const bool computed = c->positions >= VT_POSITIONS_SINCOS;
    const int least = c->positions == VT_POSITIONS_SINCOS ? 8 : 4; /* its slowest wave divides by dim / 4 - 1 */
    const char *odd = c->no_embed_class ? "no_embed_class"
                      : c->no_embed_reg ? "no_embed_reg"
                      : c->pos_grid     ? "pos_grid"
                                        : NULL;
    if (c->positions && odd)
        return vt_fail(e, VT_E_SHAPE, "%s: %s is said of learned positions; these are of the patches alone", path, odd);
    if (computed && (c->dim % 4 || c->dim < least))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: width is %d, must be a multiple of 4, at least %d, for positions by sines and cosines",
                       path, c->dim, least);
    return VT_OK;
}

/* VT_E_SHAPE for readouts that exclude each other or need tokens that are not there. */
static vt_status readout_check(const vt_config *c, const char *p, vt_err *e) {
    bool wide = vt_readout_wide(c);
    if (c->no_cls && (c->dist_token || c->pool == VT_POOL_TOKEN || wide))
        return vt_fail(e, VT_E_SHAPE, "%s: without a class token there is no %s", p,
                       c->dist_token ? "distillation token" : "pooling by it: pool must be avg or all");
    if (wide && !c->norm_first)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: class token and mean are read behind the final norm: token_avg needs norm_first", p);
    if ((c->head_layers && (!wide || c->head_layers > c->depth)) || (c->pool == VT_POOL_TOKENS && c->head_layers < 2))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: head_layers is %d, must be 0, or with pool token_avg up to the depth, %d (tokens: at least "
                       "2)",
                       p, c->head_layers, c->depth);
    if (c->dist_token && c->pool != VT_POOL_TOKEN) /* timm's distilled models refuse it too */
        return vt_fail(e, VT_E_SHAPE, "%s: a distillation token and mean pooling (fc_norm) exclude each other", p);
    if (c->norm_first && (c->pool == VT_POOL_TOKEN || c->final_norm == VT_NORM_NONE))
        return vt_fail(e, VT_E_SHAPE, "%s: norm_first needs a mean over tokens and a final norm", p);
    return VT_OK;
}

/* VT_E_SHAPE or VT_E_RANGE for forms that a ViT does not have, or that exclude each other. */
static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    VT_TRY(sincos_check(c, p, e));
    VT_TRY(readout_check(c, p, e));
    if (c->no_embed_reg && (c->no_embed_class || !c->registers))
        return vt_fail(e, VT_E_SHAPE, "%s: no_embed_reg is said of a model %s", p,
                       c->registers ? "without positions but the patches'" : "without register tokens");
    if (c->dist_token && c->registers)
        return vt_fail(e, VT_E_SHAPE, "%s: a distillation token and register tokens exclude each other", p);
    if (c->class_last && (c->no_cls || vt_config_placed(c) != 1))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: class_last is said of a class token with a position and no other before the patches", p);
    if (c->registers < 0 || c->registers > 1024)
        return vt_fail(e, VT_E_RANGE, "%s: register tokens are %d, must be between 0 and 1024", p, c->registers);
    if (c->norm_pre && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: norm_pre and blocks without a norm exclude each other", p);
    if (c->post_norm && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: post_norm and blocks without a norm exclude each other", p);
    if (c->qk_norm && c->tied_qk)
        return vt_fail(e, VT_E_SHAPE, "%s: q/k norm and W_Q = W_K exclude each other (two norms would untie them)", p);
    return c->conv_stem ? vt_conv_stem_check(c, p, e) : VT_OK;
}

/* ---- detection ---- */

/* Is it a ViT? ConViT has the same embedding; its gate tells. Without stored positions it is a ViT if blocks have no
 * other kind of them (BEiT's tables). */
static bool probe(const vt_tensors *st) {
    if (!vt_tensors_find(st, "patch_embed.proj.weight") && !vt_conv_stem_probe(st)) return false;
    if (vt_detect_any(st, "blocks.", ".attn.gating_param")) return false;
    return vt_tensors_find(st, "pos_embed") ||
           (vt_tensors_find(st, "blocks.0.attn.qkv.weight") && !vt_detect_any(st, "", "relative_position_bias_table"));
}

/* Sets c's registers and dist_token by the tensors of the tokens before the patches. */
static vt_status detect_prefix(const vt_tensors *st, vt_config *c, vt_err *e) {
    const vt_tensor *reg = NULL;
    if (vt_tensors_find(st, "reg_token")) VT_TRY(vt_detect_need(st, "reg_token", 3, &reg, e));
    c->registers = reg ? (int)reg->shape[1] : 0;
    c->dist_token = vt_tensors_find(st, "dist_token") != NULL;
    return VT_OK;
}

/* Sets no_cls, no_embed_class, no_embed_reg and image: rows of pos_embed less the tokens before the patches make a
 * square, or with register tokens (DINOv2), or rows themselves do (timm's no_embed_class). Where two hold (5 of 9), the
 * file's metadata say. VT_E_SHAPE: none does. */
static vt_status detect_tokens(const vt_tensors *st, vt_config *c, const vt_tensor *pos, vt_err *e) {
    c->no_cls = !vt_tensors_find(st, "cls_token") && !c->dist_token &&
                (vt_detect_side(pos->shape[1] - c->registers) > 0 || vt_detect_side(pos->shape[1]) > 0);
    int64_t all = vt_detect_side(pos->shape[1]), less = vt_detect_side(pos->shape[1] - vt_config_prefix(c));
    const char *says = vt_tensors_meta(st, "no_embed_class");
    int64_t bare = c->registers && !c->no_cls ? vt_detect_side(pos->shape[1] - vt_config_prefix(c) + c->registers) : 0;
    c->no_embed_class =
        vt_config_prefix(c) > 0 && all > 0 && ((less == 0 && bare == 0) || (says && !strcmp(says, "1")));
    says = vt_tensors_meta(st, "no_embed_reg");
    c->no_embed_reg = !c->no_embed_class && bare > 0 && (less == 0 || (says && !strcmp(says, "1")));
    int64_t side = c->no_embed_class ? all : c->no_embed_reg ? bare : less;
    if (side < 1)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: pos_embed has %lld positions: less %d for the class%s that is not a square of patches",
                       vt_tensors_path(st), (long long)pos->shape[1], vt_config_prefix(c),
                       c->dist_token  ? " and distillation tokens"
                       : c->registers ? " and register tokens"
                                      : " token");
    return vt_detect_grid(st, c, side, e);
}

/* Sets c's norms, pool, factor and forms of patches and q/k; marks in src what tensors tell. That a mean is over all
 * tokens, or that a final norm before the head comes before one, none tells: checkpoint/resolve may change the pool. */
static void detect_forms(const vt_tensors *st, vt_config *c, vt_source src) {
    bool after = vt_detect_norm(st, "fc_norm", "") != VT_NORM_NONE;
    c->norm = vt_detect_norm(st, "blocks.", ".norm1");
    c->final_norm = vt_detect_norm(st, after ? "fc_norm" : "norm", "");
    c->pool = after || c->no_cls ? VT_POOL_AVG : VT_POOL_TOKEN;
    c->norm_first = !after && c->final_norm != VT_NORM_NONE;
    c->norm_pre = vt_detect_any(st, "norm_pre.", "");
    c->patch_norm = (vt_detect_any(st, "patch_embed.norm_in.", "") ? VT_PATCH_NORM_IN : 0) |
                    (vt_detect_any(st, "patch_embed.norm.", "") ? VT_PATCH_NORM_OUT : 0);
    c->no_patch_bias = vt_tensors_find(st, "patch_embed.proj.weight") && !vt_tensors_find(st, "patch_embed.proj.bias");
    c->qk_norm = vt_detect_any(st, "blocks.", ".attn.q_norm.weight");
    c->factor = vt_detect_factor(st, "blocks.");
    VT_DETECT_KNOWN(src, VT_FIELD_ARCH, VT_FIELD_IMAGE, VT_FIELD_PATCH, VT_FIELD_DIM, VT_FIELD_DEPTH, VT_FIELD_HIDDEN,
                    VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS, VT_FIELD_DIST, VT_FIELD_POOL, VT_FIELD_NO_CLS,
                    VT_FIELD_NORM_PRE, VT_FIELD_NO_PATCH_BIAS, VT_FIELD_FACTOR, VT_FIELD_NO_EMBED_CLASS,
                    VT_FIELD_TIED_QK, VT_FIELD_QK_NORM, VT_FIELD_NORM_FIRST, VT_FIELD_REGISTERS, VT_FIELD_CONV_STEM,
                    VT_FIELD_NO_EMBED_REG, VT_FIELD_HEAD_LAYERS, VT_FIELD_PATCH_NORM, VT_FIELD_ATTN_DIM, VT_FIELD_PROJ);
    vt_detect_known_norms(src, c);
}

/* Returns the form of attention's projection by all blocks and any name after it, so that one tensor that is missing or
 * misspelt is missed by name. */
static vt_proj detect_proj(const vt_tensors *st) {
    bool weight = false, other = false;
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const char *at = strstr(vt_tensors_at(st, i)->name, ".attn.proj.");
        if (!at || strncmp(vt_tensors_at(st, i)->name, "blocks.", 7)) continue;
        *(strcmp(at, ".attn.proj.weight") ? &other : &weight) = true;
    }
    return other ? VT_PROJ_BIAS : weight ? VT_PROJ_PLAIN : VT_PROJ_NONE;
}

/* Sets attn_dim by what the projection `proj` reads (NULL: 0, the model's width), tied_qk and proj. */
static void detect_attention(const vt_tensors *st, vt_config *c, const vt_tensor *proj) {
    const vt_tensor *qkv = vt_tensors_find(st, "blocks.0.attn.qkv.weight");
    int64_t width = proj && proj->ndim == 2 && proj->shape[1] > 0 && proj->shape[1] <= 65536 ? proj->shape[1] : c->dim;
    c->attn_dim = width == c->dim ? 0 : (int)width;
    c->tied_qk = qkv && qkv->ndim == 2 && qkv->shape[0] == 2 * width;
    c->proj = detect_proj(st);
}

/* Sets heads, and marks them known, by a q/k norm, which is as wide as a head; else they stay. As wide as attention
 * itself it may be that of one head, or a norm before heads are parted, which no form has. */
static void detect_heads(const vt_tensors *st, vt_config *c, vt_source src) {
    const vt_tensor *q = vt_tensors_find(st, "blocks.0.attn.q_norm.weight");
    const int width = vt_config_attn_dim(c);
    if (!q || q->ndim != 1 || q->shape[0] < 1 || q->shape[0] >= width || width % q->shape[0]) return;
    c->heads = width / (int)q->shape[0];
    VT_DETECT_KNOWN(src, VT_FIELD_HEADS);
}

/* Sets pool and head_layers if the head's width shows that it reads several rows, after the rest of detection; else
 * they stay. */
static void readout_detect(vt_config *c, int64_t width) {
    int64_t rows = width / c->dim;
    if (rows < 2 || width != rows * c->dim || rows > c->depth + 1) return;
    c->pool = VT_POOL_TOKEN_AVG;
    c->head_layers = rows > 2 ? (int)rows - 1 : 0;
}

/* Sets c, and in src what is known, by a ViT's tensors. VT_E_FORMAT: one is missing, or is of a network that is not
 * computed; VT_E_SHAPE, VT_E_RANGE: it is none of a ViT's. */
static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *pos = NULL, *head = NULL, *fc1 = NULL;
    VT_TRY(vt_conv_stem_probe(st) ? vt_conv_stem_detect(st, c, e) : vt_detect_patches(st, c, e));
    if (vt_tensors_find(st, "pos_embed")) VT_TRY(vt_detect_need(st, "pos_embed", 3, &pos, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    if (vt_detect_any(st, "pre_logits.", ""))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has a representation layer (pre_logits, of in21k heads), which vitrine does not compute: "
                       "timm drops it when the classes change; " VT_WAY,
                       vt_tensors_path(st));
    const vt_tensor *proj = vt_tensors_find(st, "blocks.0.attn.proj.weight");
    c->depth = vt_detect_blocks(st, "blocks.", proj ? 6 : 4); /* of 7 tensors at least, without a projection 5 */
    c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_tensors_find(st, "blocks.0.attn.qkv.bias") != NULL;
    c->patch_gate = vt_tensors_find(st, "patch_gate") != NULL;
    detect_attention(st, c, proj);
    VT_TRY(detect_prefix(st, c, e));
    if (pos)
        VT_TRY(detect_tokens(st, c, pos, e));
    else
        c->no_cls = !vt_tensors_find(st, "cls_token") && !c->dist_token;
    detect_forms(st, c, src);
    detect_heads(st, c, src);
    readout_detect(c, head->shape[1]);
    if (pos)
        VT_DETECT_KNOWN(src, VT_FIELD_POSITIONS);
    else
        *src[VT_FIELD_IMAGE] = 0; /* checkpoint/resolve finds it, or asks */
    return VT_OK;
}

const vt_arch vt_arch_vit = {
    .name = "vit",
    .summary = "Vision Transformer and DeiT: plain or distilled, pre- or post-norm, class token or mean",
    .recognises = probe,
    .detect = detect,
    .check = check,
    .params = params,
    .flops = vt_vit_flops,
    .shows_attention = true,
};
