/* SPDX-License-Identifier: MIT */
/* Swin Transformer (Liu et al. 2021), timm's tensor names and conventions: patch embedding with a norm; up to four
 * stages of blocks that attend in windows, every second one in shifted windows; between stages 2 x 2 tokens are joined,
 * normalised and halved in width (layers.i.downsample, at the start of stage i); norm, mean over the tokens, head. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include "models/arch.h"
#include "models/detect.h"
#include "models/swin.h"
#include "nn/window.h"

vt_swin_stage vt_swin_stage_of(const vt_config *c, int s) {
    vt_swin_stage g = {.side = c->image / c->patch >> s,
                       .dim = c->dim << s,
                       .heads = c->stage_heads[s],
                       .hidden = c->hidden << s,
                       .window = c->window,
                       .depth = c->stage_depth[s],
                       .scale = c->attn_scale};
    for (int k = 0; k < s; k++) g.first += c->stage_depth[k];
    if (g.window > g.side) g.window = g.side;
    if (g.window < g.side && !c->no_shift) g.shift = g.window / 2;
    int across = vt_window_across(g.side, g.window);
    g.windows = across * across;
    /* attn_scale is for heads as wide as the first stage's */
    if (g.heads != c->heads << s) g.scale *= sqrt((double)g.heads * c->dim / ((double)c->heads * g.dim));
    return g;
}

/* ---- tensors ---- */

/* Adds the parameters of attention in windows: the bias table and those of multi-head attention. */
static void windowed_params(const vt_block_layout *b) {
    const int64_t side = 2 * (int64_t)b->window - 1;
    vt_param_add(b->l, VT_SLOT_BIAS_TABLE, false, VT_INIT_TRUNC02, "attn.relative_position_bias_table",
                 (int64_t[4]){side * side, b->heads});
    vt_mha_params(b);
}

/* Adds a Swin's parameters, layer by layer. */
static void params(vt_param_list *l, const vt_config *c) {
    vt_block_layout b = vt_block_layout_of(l, c);
    vt_rows_params(l, c);
    vt_param_add_norm(l, VT_ROWS_NORM_OUT, c->norm, "patch_embed.norm", c->dim);
    for (int s = 0; s < c->stages; s++) {
        const vt_swin_stage g = vt_swin_stage_of(c, s);
        if (s) {
            vt_param_place(l, vt_swin_merge_layer(&g, s), "layers.%d.downsample.", s);
            vt_param_add_norm(l, VT_SWIN_MERGE_NORM, c->norm, "norm", 2 * g.dim);
            vt_param_add_map(l, VT_SWIN_MERGE_W, true, VT_INIT_LINEAR, false, "reduction",
                             (int64_t[4]){g.dim, 2 * g.dim});
        }
        b.dim = g.dim, b.heads = g.heads, b.hidden = g.hidden, b.window = g.window, b.mixer = windowed_params;
        for (int i = 0; i < g.depth; i++) {
            vt_param_place(l, vt_swin_block_layer(&g, s, i), "layers.%d.blocks.%d.", s, i);
            vt_block_params(&b);
        }
    }
    vt_readout_params(l, c, vt_swin_head_layer(c), c->dim << (c->stages - 1), "head.fc");
}

/* ---- what it does not have ---- */

/* VT_E_RANGE or VT_E_SHAPE for stages whose depths, heads and widths do not fit each other. */
static vt_status check_stages(const vt_config *c, const char *p, vt_err *e) {
    int depth = 0;
    if (c->stages < 1 || c->stages > 4)
        return vt_fail(e, VT_E_RANGE, "%s: stages are %d, must be between 1 and 4", p, c->stages);
    for (int s = 0; s < c->stages; s++) {
        if (c->stage_depth[s] < 1 || c->stage_depth[s] > 512)
            return vt_fail(e, VT_E_RANGE, "%s: stage_depth of stage %d is %d, must be between 1 and 512", p, s,
                           c->stage_depth[s]);
        if (c->stage_heads[s] < 1 || (c->dim << s) % c->stage_heads[s])
            return vt_fail(e, VT_E_SHAPE, "%s: stage_heads of stage %d is %d, must divide the stage's width %d", p, s,
                           c->stage_heads[s], c->dim << s);
        depth += c->stage_depth[s];
    }
    for (int s = c->stages; s < 4; s++)
        if (c->stage_depth[s] || c->stage_heads[s])
            return vt_fail(e, VT_E_SHAPE, "%s: stage_depth or stage_heads names a stage %d, but stages are %d", p, s,
                           c->stages);
    if (depth != c->depth || c->stage_heads[0] != c->heads)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: depth %d and %d heads, but stage_depth adds up to %d and stage_heads begins with %d", p,
                       c->depth, c->heads, depth, c->stage_heads[0]);
    return VT_OK;
}

/* VT_E_SHAPE or VT_E_RANGE for an image side or window that the stages cannot have. */
static vt_status check_window(const vt_config *c, const char *p, vt_err *e) {
    int side = c->image / c->patch, across = 1 << (c->stages - 1);
    if (side % across) /* as timm does */
        return vt_fail(e, VT_E_SHAPE,
                       "%s: %d x %d tokens cannot be merged %d times by 2 x 2: the image's side must be a multiple of "
                       "%d",
                       p, side, side, c->stages - 1, across * c->patch);
    if (c->window < 1 || c->window > side)
        return vt_fail(e, VT_E_RANGE,
                       "%s: window is %d, must be between 1 and the %d tokens of the first stage's side (a larger one "
                       "would be the same network)",
                       p, c->window, side);
    for (int s = 0; s < c->stages; s++) {
        vt_swin_stage g = vt_swin_stage_of(c, s);
        double rows = (double)g.windows * g.window * g.window, wide = 4.0 * g.dim > g.hidden ? 4.0 * g.dim : g.hidden;
        if (rows * wide > INT_MAX)
            return vt_fail(e, VT_E_RANGE, "%s: stage %d has %.0f tokens, too many for a width of %d", p, s, rows,
                           g.dim);
    }
    return VT_OK;
}

/* VT_E_SHAPE or VT_E_RANGE for forms that a Swin does not have. */
static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const vt_unfit table[] =
        {{c->pool != VT_POOL_AVG || !c->norm_first || !c->no_cls,
          "its head reads the mean of the normalised tokens: pool=avg norm_first=1 no_cls=1"},
         {c->dist_token, "it has no distillation token"},
         {c->registers > 0 || c->no_embed_class, "it has no register tokens and no table of positions"},
         {c->patch_gate, "it has no factors of patches (patch_gate)"},
         {c->norm_pre || c->no_patch_bias, "its patch embedding has a bias and the blocks' norm"},
         {c->post_norm && c->norm == VT_NORM_NONE, "post_norm and blocks without a norm exclude each other"},
         {c->qk_norm && c->tied_qk, "q/k norm and W_Q = W_K exclude each other (two norms would untie them)"},
         {0}};
    VT_TRY(vt_refuse_unfit(table, p, "is a Swin, and", e));
    VT_TRY(check_stages(c, p, e));
    return check_window(c, p, e);
}

/* ---- matrices and products ---- */

/* Writes the prefix of a block's tensors. Returns its number of heads. */
static int locate(const vt_config *c, int block, char *prefix, size_t size) {
    int s = 0;
    for (; s < c->stages - 1 && block >= c->stage_depth[s]; s++) block -= c->stage_depth[s];
    snprintf(prefix, size, "layers.%d.blocks.%d.", s, block);
    return c->stage_heads[s];
}

/* Counts the matrix products of an image. q, k, v and attention run on padded windows, the rest on the tokens
 * themselves. Backward to the input repeats every product once, attention twice. */
static void count_flops(const vt_config *c, bool alone, double *forward, double *gradient) {
    (void)alone;
    double side = c->image / c->patch, linear = side * side * 3 * c->patch * c->patch * c->dim, mix = 0;
    for (int s = 0; s < c->stages; s++) {
        vt_swin_stage g = vt_swin_stage_of(c, s);
        double n = (double)g.side * g.side, t = (double)g.window * g.window, m = g.windows * t, d = g.dim;
        if (s) linear += n * 2 * d * d; /* [n, 4 d/2] to d */
        linear += g.depth * (m * (c->tied_qk ? 2 : 3) * d * d + n * (d * d + 2 * d * g.hidden));
        mix += g.depth * 2 * m * t * d;
    }
    *forward = 2 * (linear + mix);
    *gradient = 2 * (2 * linear + 3 * mix);
}

/* ---- detection ---- */

/* Is it a Swin, by a table of relative positions? */
static bool probe(const vt_tensors *st) {
    return vt_tensors_find(st, "patch_embed.proj.weight") &&
           vt_detect_any(st, "layers.0.blocks.", ".attn.relative_position_bias_table");
}

/* Sets heads and window of stage s by its first table [(2 w - 1)^2, heads]; VT_E_FORMAT: it is missing, VT_E_SHAPE: it
 * is none of a square window. */
static vt_status detect_table(const vt_tensors *st, int s, int *heads, int *window, vt_err *e) {
    char name[80];
    const vt_tensor *t = NULL;
    snprintf(name, sizeof name, "layers.%d.blocks.0.attn.relative_position_bias_table", s);
    VT_TRY(vt_detect_need(st, name, 2, &t, e));
    int64_t side = vt_detect_side(t->shape[0]);
    if (side % 2 == 0)
        return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has %lld rows, must be (2 w - 1)^2 for a window of w x w tokens",
                       vt_tensors_path(st), name, (long long)t->shape[0]);
    *heads = (int)t->shape[1], *window = (int)(side + 1) / 2;
    return VT_OK;
}

/* Sets c's stages with depths and heads, depth, heads, window and image. A window smaller than the first stage's is the
 * whole stage, and then proves the side of the image: *sized (false before). VT_E_FORMAT, VT_E_SHAPE, VT_E_RANGE. */
static vt_status detect_stages(const vt_tensors *st, vt_config *c, bool *sized, vt_err *e) {
    for (int s = 0; s < 4; s++) {
        char prefix[48];
        int window = 0;
        snprintf(prefix, sizeof prefix, "layers.%d.blocks.", s);
        int depth = vt_detect_blocks(st, prefix, 6); /* of 8 tensors at least */
        if (!depth) break;
        c->stages = s + 1, c->stage_depth[s] = depth, c->depth += depth;
        VT_TRY(detect_table(st, s, &c->stage_heads[s], &window, e));
        if (s == 0) c->window = window;
        int64_t image = (int64_t)c->patch * window << s;
        if (image > 4096)
            return vt_fail(e, VT_E_RANGE,
                           "%s: stage %d has windows of %d tokens a side, too many for images of 4096 pixels",
                           vt_tensors_path(st), s, window);
        /* no told side: the smallest image whose last stage holds a whole window, 224 for windows of 7 */
        if (!*sized) c->image = (int)image;
        *sized = *sized || window < c->window;
    }
    c->heads = c->stage_heads[0];
    return VT_OK;
}

/* Sets c, and in src what is known, by a Swin's tensors. VT_E_FORMAT: one is missing; VT_E_SHAPE, VT_E_RANGE: it is
 * none of Swin's. */
static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *head = NULL, *fc1 = NULL;
    VT_TRY(vt_detect_patches(st, c, e));
    VT_TRY(vt_detect_need(st, "head.fc.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "layers.0.blocks.0.mlp.fc1.weight", 2, &fc1, e));
    c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->ln_eps = 1e-5;
    bool sized = false;
    VT_TRY(detect_stages(st, c, &sized, e));
    c->pool = VT_POOL_AVG, c->norm_first = c->no_cls = true;
    c->qkv_bias = vt_detect_any(st, "layers.0.blocks.0.attn.qkv.bias", "");
    const vt_tensor *qkv = vt_tensors_find(st, "layers.0.blocks.0.attn.qkv.weight");
    c->tied_qk = qkv && qkv->ndim == 2 && qkv->shape[0] == 2 * (int64_t)c->dim;
    c->qk_norm = vt_detect_any(st, "layers.", ".attn.q_norm.weight");
    c->factor = vt_detect_factor(st, "layers.");
    c->norm = vt_detect_norm(st, "layers.", ".norm1");
    c->final_norm = vt_detect_norm(st, "norm", "");
    VT_DETECT_KNOWN(src, VT_FIELD_ARCH, VT_FIELD_PATCH, VT_FIELD_DIM, VT_FIELD_DEPTH, VT_FIELD_HEADS, VT_FIELD_HIDDEN,
                    VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS, VT_FIELD_DIST, VT_FIELD_POOL, VT_FIELD_NORM_FIRST,
                    VT_FIELD_NO_CLS, VT_FIELD_REGISTERS, VT_FIELD_NORM_PRE, VT_FIELD_QK_NORM, VT_FIELD_TIED_QK,
                    VT_FIELD_NO_PATCH_BIAS, VT_FIELD_NO_EMBED_CLASS, VT_FIELD_FACTOR, VT_FIELD_STAGES,
                    VT_FIELD_STAGE_DEPTH, VT_FIELD_STAGE_HEADS, VT_FIELD_WINDOW);
    if (sized) VT_DETECT_KNOWN(src, VT_FIELD_IMAGE);
    vt_detect_known_norms(src, c);
    return VT_OK;
}

const vt_arch vt_arch_swin = {
    .name = "swin",
    .summary = "Swin: windows, shifted windows, relative position bias, merging of patches",
    .recognises = probe,
    .detect = detect,
    .check = check,
    .any_image = true,
    .params = params,
    .tokens = vt_rows_count,
    .locate = locate,
    .flops = count_flops,
};
