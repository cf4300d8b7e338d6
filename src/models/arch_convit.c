/* SPDX-License-Identifier: MIT */
/* ConViT (d'Ascoli et al. 2021), timm's tensor names and conventions: patches with learned positions go through
 * `local_blocks` blocks of gated positional attention (net/net_vit.c); then the class token, which has no position,
 * joins in front, and the rest are blocks of a ViT; norm -> head on the class token. */
#include <math.h>
#include <stdio.h>
#include "models/arch.h"
#include "models/detect.h"
#include "models/vit.h"

/* Adds the parameters of gated positional attention to a block. */
static void gpsa_params(const vt_block_layout *b) {
    const int64_t d = b->dim, qk = b->c->tied_qk ? d : 2 * d, heads = b->heads;
    vt_param_add(b->l, VT_SLOT_GATING, false, VT_INIT_ONE, "attn.gating_param", (int64_t[4]){heads});
    vt_param_add_map(b->l, VT_SLOT_QK_W, true, VT_INIT_LINEAR, b->c->qkv_bias, "attn.qk", (int64_t[4]){qk, d});
    vt_param_add_map(b->l, VT_SLOT_V_W, true, VT_INIT_LINEAR, b->c->qkv_bias, "attn.v", (int64_t[4]){d, d});
    vt_param_add(b->l, VT_SLOT_POS_W, false, VT_INIT_TRUNC02, "attn.pos_proj.weight", (int64_t[4]){heads, 3});
    vt_param_add(b->l, VT_SLOT_POS_B, false, VT_INIT_ZERO, "attn.pos_proj.bias", (int64_t[4]){heads});
}

static void params(vt_param_list *l, const vt_config *c) { vt_vit_params(l, c, gpsa_params); }

/* timm's local_init with locality strength 1, in place of some values drawn before: values are the tokens, and heads of
 * the largest square look around their query, each at another offset. Heads beyond the square stay random. */
static void init(vt_model *m, uint64_t seed) {
    (void)seed;
    const vt_config *c = &m->config;
    int kernel = (int)sqrt((double)c->heads);
    float centre = (float)(kernel - 1) / 2;
    if (kernel % 2) centre = (float)(kernel / 2);
    for (int i = 0; i < c->local_blocks; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.v.weight", i);
        float *v = m->w + vt_model_param(m, name)->offset;
        for (int r = 0; r < c->dim; r++)
            for (int k = 0; k < c->dim; k++) v[r * c->dim + k] = r == k;
        snprintf(name, sizeof name, "blocks.%d.attn.pos_proj.weight", i);
        float *w = m->w + vt_model_param(m, name)->offset;
        for (int y = 0; y < kernel; y++)
            for (int x = 0; x < kernel; x++) {
                float *head = w + 3 * (y + kernel * x);
                head[0] = 2 * ((float)x - centre), head[1] = 2 * ((float)y - centre), head[2] = -1;
            }
    }
}

/* VT_E_SHAPE or VT_E_RANGE for forms that ConViT does not have. */
static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const vt_unfit never[] = {{c->dist_token, "distillation token"},
                              {c->registers, "register tokens"},
                              {c->no_cls, "form without class token"},
                              {c->pool != VT_POOL_TOKEN, "pooling but by the class token"},
                              {c->patch_gate, "patch gate"},
                              {c->norm_pre, "norm before the first block"},
                              {c->no_patch_bias, "patch embedding without bias"},
                              {c->qk_norm, "q/k norm"},
                              {0}};
    VT_TRY(vt_refuse_unfit(never, p, "ConViT has no", e));
    if (c->local_blocks < 1 || c->local_blocks >= c->depth)
        return vt_fail(e, VT_E_RANGE,
                       "%s: local_blocks is %d, must be between 1 and %d: the class token joins before the last of %d "
                       "blocks at the latest",
                       p, c->local_blocks, c->depth - 1, c->depth);
    if (c->post_norm && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: post_norm and blocks without a norm exclude each other", p);
    return VT_OK;
}

/* ---- detection ---- */

/* Is it a ConViT, by a gate in its blocks? */
static bool probe(const vt_tensors *st) {
    return vt_tensors_find(st, "patch_embed.proj.weight") && vt_detect_any(st, "blocks.", ".attn.gating_param");
}

/* Returns the number of blocks with positional attention. timm's stand in front; others are missed by name when tensors
 * are read. */
static int count_local(const vt_tensors *st, int depth) {
    int n = 0;
    for (int i = 0; i < depth; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.pos_proj.weight", i);
        n += vt_tensors_find(st, name) != NULL;
    }
    return n;
}

/* Sets c, and in src what is known, by a ConViT's tensors. VT_E_FORMAT: one is missing; VT_E_SHAPE, VT_E_RANGE: it is
 * none of ConViT's. */
static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *head = NULL, *fc1 = NULL, *gate = NULL, *qk = NULL, *pos = NULL;
    VT_TRY(vt_detect_patches(st, c, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.gating_param", 1, &gate, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.qk.weight", 2, &qk, e));
    if (vt_tensors_find(st, "pos_embed")) VT_TRY(vt_detect_need(st, "pos_embed", 3, &pos, e));
    if (pos && !vt_detect_side(pos->shape[1]))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: pos_embed has %lld positions, which is no square of patches (ConViT's class token has "
                       "none)",
                       vt_tensors_path(st), (long long)pos->shape[1]);
    if (pos) VT_TRY(vt_detect_grid(st, c, vt_detect_side(pos->shape[1]), e));
    c->positions = pos ? VT_POSITIONS_LEARNED : VT_POSITIONS_NONE; /* timm's use_pos_embed=False */
    c->depth = vt_detect_blocks(st, "blocks.", 6);
    c->local_blocks = count_local(st, c->depth);
    c->heads = (int)gate->shape[0], c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_tensors_find(st, "blocks.0.attn.qk.bias") != NULL;
    c->tied_qk = qk->shape[0] == c->dim;
    c->norm = vt_detect_norm(st, "blocks.", ".norm1");
    c->final_norm = vt_detect_norm(st, "norm", "");
    c->factor = vt_detect_factor(st, "blocks.");
    c->ln_eps = 1e-6;
    VT_DETECT_KNOWN(src, VT_FIELD_ARCH, VT_FIELD_POSITIONS, VT_FIELD_PATCH, VT_FIELD_DIM, VT_FIELD_DEPTH,
                    VT_FIELD_LOCAL_BLOCKS, VT_FIELD_HEADS, VT_FIELD_HIDDEN, VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS,
                    VT_FIELD_TIED_QK, VT_FIELD_FACTOR);
    if (pos) VT_DETECT_KNOWN(src, VT_FIELD_IMAGE);
    vt_detect_known_norms(src, c);
    return VT_OK;
}

const vt_arch vt_arch_convit = {
    .name = "convit",
    .summary = "ConViT: gated positional attention, class token joining late",
    .recognises = probe,
    .detect = detect,
    .check = check,
    .params = params,
    .init = init,
    .tokens = vt_rows_count,
    .flops = vt_vit_flops,
    .shows_attention = true,
};
