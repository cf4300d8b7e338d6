/* SPDX-License-Identifier: MIT */
/* A ViT without attention for certified l2 radii, after LipShiFT (Menon et al. 2025): patches are embedded and get
 * learned positions; in each block tokens exchange channels by shifts, then y = fold(W shift(x) + b), where fold takes
 * |v| of every second channel; mean over the tokens, head. Shifts are permutations and fold keeps lengths, so that a
 * block moves no further than W allows: with orthogonal W (recipe: muon.orthogonal) the whole network's Lipschitz
 * constant is known and reached. Ours: all channels of a token shift, by the nine steps to itself and its neighbours,
 * around the grid's edges. */
#include <string.h>
#include "models/arch.h"
#include "models/detect.h"
#include "models/shift.h"

/* Adds positions and patch embedding, a matrix with bias for each block, and the head. */
static void params(vt_param_list *l, const vt_config *c) {
    const int64_t d = c->dim;
    vt_param_add(l, VT_VIT_POS, false, VT_INIT_TRUNC02, "pos_embed", (int64_t[4]){1, vt_rows_count(c), d});
    vt_rows_params(l, c);
    for (int i = 0; i < c->depth; i++) {
        vt_param_place(l, 1 + i, "blocks.%d.", i);
        vt_param_add_map(l, VT_SHIFT_W, true, VT_INIT_LINEAR, true, "mix", (int64_t[4]){d, d});
    }
    vt_readout_params(l, c, 1 + c->depth, c->dim, "head");
}

/* VT_E_SHAPE for forms that this architecture does not have. */
static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const vt_unfit never[] =
        {{c->pool != VT_POOL_AVG || !c->no_cls, "its head reads the mean of the patches: pool=avg no_cls=1"},
         {c->norm != VT_NORM_NONE || c->final_norm != VT_NORM_NONE, "it has no norm: norm=none final_norm=none"},
         {c->heads != 1 || c->hidden != c->dim, "a block is one matrix: heads 1, hidden as dim"},
         {strcmp(c->attn, "dot") || c->tied_qk || c->qk_norm || !c->qkv_bias, "it has no attention, of any form"},
         {c->dist_token || c->registers, "it has no tokens but the patches"},
         {c->patch_gate || c->conv_stem || c->no_patch_bias, "its patch embedding is a plain convolution with a bias"},
         {c->norm_first || c->norm_pre || c->post_norm || c->factor, "its blocks have neither norm nor factor"},
         {c->no_embed_class || c->pos_grid, "its positions are those of its patches"},
         {c->act, "its activation is its own"},
         {0}};
    return vt_refuse_unfit(never, p, "is a shift network, and", e);
}

/* Is it a shift network, by the matrix of its first block? */
static bool probe(const vt_tensors *st) { return vt_tensors_find(st, "blocks.0.mix.weight") != NULL; }

/* Sets c, and in src what is known, by its tensors. VT_E_FORMAT: one is missing; VT_E_SHAPE: positions are no square.
 */
static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *pos, *head;
    VT_TRY(vt_detect_patches(st, c, e));
    VT_TRY(vt_detect_need(st, "pos_embed", 3, &pos, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    const int64_t side = vt_detect_side(pos->shape[1]);
    if (!side)
        return vt_fail(e, VT_E_SHAPE, "%s: pos_embed has %lld positions, which is no square of patches",
                       vt_tensors_path(st), (long long)pos->shape[1]);
    VT_TRY(vt_detect_grid(st, c, side, e));
    c->depth = vt_detect_blocks(st, "blocks.", 1), c->classes = (int)head->shape[0];
    c->heads = 1, c->hidden = c->dim, c->qkv_bias = true;
    c->pool = VT_POOL_AVG, c->no_cls = true, c->norm = c->final_norm = VT_NORM_NONE;
    VT_DETECT_KNOWN(src, VT_FIELD_ARCH, VT_FIELD_IMAGE, VT_FIELD_PATCH, VT_FIELD_DIM, VT_FIELD_DEPTH, VT_FIELD_HEADS,
                    VT_FIELD_HIDDEN, VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS, VT_FIELD_POOL, VT_FIELD_NO_CLS, VT_FIELD_NORM,
                    VT_FIELD_FINAL_NORM, VT_FIELD_SCALE);
    return VT_OK;
}

/* It has no attention block. */
static int count_blocks(const vt_config *c) {
    (void)c;
    return 0;
}

static void count_flops(const vt_config *c, bool alone, double *forward, double *gradient) {
    (void)alone;
    *forward = 2.0 * vt_rows_count(c) * c->dim * (vt_rows_width(c) + (double)c->depth * c->dim);
    *gradient = 2 * *forward;
}

const vt_arch vt_arch_shift = {
    .name = "shift",
    .summary = "ViT without attention for certified l2 radii (after LipShiFT): shifts, one matrix a block, |x|",
    .recognises = probe,
    .detect = detect,
    .check = check,
    .params = params,
    .blocks = count_blocks,
    .flops = count_flops,
    .no_token_maps = true,
};
