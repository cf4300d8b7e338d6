/* SPDX-License-Identifier: MIT */
/* XCiT (El-Nouby et al. 2021), timm's tensor names and conventions: a stem of convolutions, blocks that attend between
 * channels and talk to neighbours, then class-attention blocks, norm -> head on the class token. Attention variants act
 * where tokens are scored: in the class attention alone. */
#include <stdio.h>
#include "models/arch.h"
#include "models/attn.h"
#include "models/detect.h"
#include "models/xcit.h"

vt_stem vt_stem_of(const vt_config *c) {
    const int convs = c->patch == 8 ? 3 : 4;
    const bool leaderboard = convs == 4 && c->image == 32; /* RobustBench's CIFAR models */
    int widths[VT_STEM_CONVS], strides[VT_STEM_CONVS];
    for (int k = 0; k < convs; k++) {
        widths[k] = c->dim >> (convs - 1 - k); /* D/8, D/4, D/2, D */
        strides[k] = c->stem_stride[0] ? c->stem_stride[k] : leaderboard && k < 2 ? 1 : 2;
    }
    vt_stem s = vt_stem_shape(c, convs, widths, strides);
    s.norm = VT_NORM_BATCH, s.eps = VT_XCIT_BN_EPS, s.act = c->act, s.acts = convs - 1;
    return s;
}

/* ---- tensors ---- */

/* Adds class token, stem of convolutions and (if they are learned) positions. */
static void stem_params(vt_param_list *l, const vt_config *c) {
    vt_stem stem = vt_stem_of(c);
    vt_param_add(l, VT_STEM_CLS, false, VT_INIT_TRUNC02, "cls_token", (int64_t[4]){1, 1, c->dim});
    for (int k = 0; k < stem.convs; k++) {
        vt_param_place(l, 0, "patch_embed.proj.%d.", 2 * k);
        vt_param_add_map(l, k * VT_STEM_SLOTS + VT_STEM_W, true, VT_INIT_CONV, false, "0",
                         (int64_t[4]){stem.widths[k + 1], stem.widths[k], 3, 3});
        vt_param_add_norm(l, k * VT_STEM_SLOTS + VT_STEM_NORM, VT_NORM_BATCH, "1", stem.widths[k + 1]);
    }
    if (c->positions) return;
    vt_param_place(l, 0, "pos_embed.");
    vt_param_add_map(l, VT_STEM_POS_W, true, VT_INIT_CONV, true, "token_projection",
                     (int64_t[4]){c->dim, VT_XCIT_PLACE, 1, 1});
}

/* Adds a Linear [rows, dim] to a block. */
static void add_linear(const vt_block_layout *b, int slot, bool bias, const char *name, int64_t rows) {
    vt_param_add_map(b->l, slot, true, VT_INIT_LINEAR, bias, name, (int64_t[4]){rows, b->dim});
}

/* Adds a factor of each channel to a block. */
static void add_factor(const vt_block_layout *b, int slot, const char *name) {
    vt_param_add(b->l, slot, false, VT_INIT_VALUE, name, (int64_t[4]){b->dim});
}

/* Adds the parameters of a block that attends between channels. */
static void xca_params(const vt_block_layout *b) {
    const int64_t kernels[4] = {b->dim, 1, 3, 3};
    add_factor(b, VT_SLOT_FACTOR1, "gamma1"), add_factor(b, VT_LPI_FACTOR, "gamma3");
    add_factor(b, VT_SLOT_FACTOR2, "gamma2");
    vt_param_add_norm(b->l, VT_SLOT_NORM1, b->c->norm, "norm1", b->dim);
    vt_param_add(b->l, VT_XCA_TAU, false, VT_INIT_ONE, "attn.temperature", (int64_t[4]){b->heads, 1, 1});
    add_linear(b, VT_SLOT_QKV_W, b->c->qkv_bias, "attn.qkv", 3 * b->dim);
    add_linear(b, VT_SLOT_PROJ_W, true, "attn.proj", b->dim);
    vt_param_add_norm(b->l, VT_LPI_NORM, b->c->norm, "norm3", b->dim);
    vt_param_add_map(b->l, VT_LPI_CONV1_W, false, VT_INIT_CONV, true, "local_mp.conv1", kernels);
    vt_param_add_norm(b->l, VT_LPI_BN, VT_NORM_BATCH, "local_mp.bn", b->dim);
    vt_param_add_map(b->l, VT_LPI_CONV2_W, false, VT_INIT_CONV, true, "local_mp.conv2", kernels);
    vt_mlp_params(b);
}

/* Adds the parameters of a class-attention block. */
static void class_params(const vt_block_layout *b) {
    add_factor(b, VT_SLOT_FACTOR1, "gamma1"), add_factor(b, VT_SLOT_FACTOR2, "gamma2");
    vt_param_add_norm(b->l, VT_SLOT_NORM1, b->c->norm, "norm1", b->dim);
    add_linear(b, VT_CLASS_Q_W, b->c->qkv_bias, "attn.q", b->dim);
    if (!b->c->tied_qk) add_linear(b, VT_CLASS_K_W, b->c->qkv_bias, "attn.k", b->dim);
    add_linear(b, VT_CLASS_V_W, b->c->qkv_bias, "attn.v", b->dim);
    add_linear(b, VT_SLOT_PROJ_W, true, "attn.proj", b->dim);
    vt_mlp_params(b);
}

/* Writes the prefix of a block's tensors. Returns its number of heads. */
static int locate(const vt_config *c, int block, char *prefix, size_t size) {
    const bool late = block >= c->depth;
    snprintf(prefix, size, "%sblocks.%d.", late ? "cls_attn_" : "", late ? block - c->depth : block);
    return c->heads;
}

/* Adds an XCiT's parameters, layer by layer. */
static void params(vt_param_list *l, const vt_config *c) {
    const vt_block_layout b = vt_block_layout_of(l, c);
    l->value = c->eta > 0 ? (float)c->eta : 1;
    stem_params(l, c);
    for (int i = 0; i < c->depth + c->class_blocks; i++) {
        char prefix[48];
        locate(c, i, prefix, sizeof prefix);
        vt_param_place(l, 1 + i, "%s", prefix);
        (i < c->depth ? xca_params : class_params)(&b);
    }
    vt_readout_params(l, c, vt_xcit_last_layer(c), c->dim, "head");
}

/* Counts the matrix products that are really executed, and the depthwise convolutions. Backward to the input repeats
 * every product once, those of an attention twice. */
static void count_flops(const vt_config *c, bool alone, double *forward, double *gradient) {
    (void)alone;
    const vt_stem stem = vt_stem_of(c);
    double n = vt_stem_tokens(&stem), d = c->dim, h = c->hidden, mix = 0,
           once = c->positions ? 0 : n * VT_XCIT_PLACE * d;
    double linear = vt_stem_products(&stem);
    linear += c->depth * (n * (4 * d * d + 2 * d * h) + 2 * 9 * n * d);
    mix += c->depth * 2 * n * d * d / c->heads;
    linear += c->class_blocks * (2 * (n + 1) * d * d + (c->tied_qk ? 0 : d * d) + d * d + 2 * d * h);
    mix += c->class_blocks * 2 * (n + 1) * d;
    *forward = 2 * (once + linear + mix);
    *gradient = 2 * (once + 2 * linear + 3 * mix);
}

/* Returns the pixels of the stem's last map (vt_arch.tokens). */
static int count_tokens(const vt_config *c) {
    const vt_stem stem = vt_stem_of(c);
    return vt_stem_tokens(&stem);
}

static int count_blocks(const vt_config *c) { return c->depth + c->class_blocks; }

/* ---- what files tell ---- */

/* VT_E_SHAPE or VT_E_RANGE for forms that XCiT does not have. */
static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const vt_unfit none[] = {{c->dist_token, "distillation token"},
                             {c->registers > 0, "register tokens"},
                             {c->no_cls, "form without a class token"},
                             {c->pool != VT_POOL_TOKEN, "pooling but by the class token"},
                             {c->post_norm, "post-norm form"},
                             {c->norm_pre, "norm before the blocks"},
                             {c->norm == VT_NORM_BATCH || c->norm == VT_NORM_NONE,
                              "blocks but with norm layer or center"},
                             {c->qk_norm, "q/k norm (its q and k are normalised already)"},
                             {c->factor != VT_FACTOR_NONE, "factors but gamma1, gamma2, gamma3, which it always has"},
                             {c->patch_gate, "patch gate"},
                             {c->no_patch_bias || c->no_embed_class, "position or bias to leave out"},
                             {0}};
    VT_TRY(vt_refuse_unfit(none, p, "XCiT has no", e));
    if (c->patch != 16 && c->patch != 8)
        return vt_fail(e, VT_E_RANGE, "%s: XCiT's patch is %d, must be 16 or 8 (a stem of four or three convolutions)",
                       p, c->patch);
    const int convs = c->patch == 8 ? 3 : 4, share = 1 << (convs - 1);
    if (c->dim % share)
        return vt_fail(e, VT_E_SHAPE, "%s: width %d is not a multiple of %d, the share of the stem's first convolution",
                       p, c->dim, share);
    if (c->class_blocks < 1 || c->class_blocks > 64)
        return vt_fail(e, VT_E_RANGE, "%s: class-attention blocks are %d, must be between 1 and 64", p,
                       c->class_blocks);
    for (int k = 0; k < 4 && c->stem_stride[0]; k++)
        if (k < convs ? c->stem_stride[k] < 1 || c->stem_stride[k] > 2 : c->stem_stride[k] != 0)
            return vt_fail(e, VT_E_RANGE, "%s: stem_stride is %d,%d,%d,%d, must be %d strides of 1 or 2", p,
                           c->stem_stride[0], c->stem_stride[1], c->stem_stride[2], c->stem_stride[3], convs);
    if (!c->stem_stride[0] && (c->stem_stride[1] || c->stem_stride[2] || c->stem_stride[3]))
        return vt_fail(e, VT_E_RANGE, "%s: stem_stride begins with 0 and goes on", p);
    vt_attn_spec spec;
    VT_TRY(vt_attn_parse(&spec, c->attn, e));
    if (spec.needs & VT_ATTN_FULL && !c->tied_qk)
        return vt_fail(e, VT_E_SHAPE, "%s: attention %s in XCiT needs W_Q = W_K (@form tied_qk=1)", p, c->attn);
    return VT_OK;
}

/* Sets tokens_norm, which neither tensors nor the user tell: timm's norm over all tokens (nano's files say so by
 * width). */
static void defaults(vt_config *c) { c->tokens_norm = true; }

/* Is it an XCiT, by its stem and class-attention blocks? */
static bool probe(const vt_tensors *st) {
    return vt_tensors_find(st, "patch_embed.proj.0.0.weight") && vt_detect_any(st, "cls_attn_blocks.", ".gamma1");
}

/* Sets patch and dim by the stem's convolutions; VT_E_SHAPE unless there are three or four. */
static vt_status detect_stem(const vt_tensors *st, vt_config *c, vt_err *e) {
    int convs = 0;
    const vt_tensor *w = NULL;
    for (char name[64]; convs < VT_STEM_CONVS; convs++) {
        snprintf(name, sizeof name, "patch_embed.proj.%d.0.weight", 2 * convs);
        if (!vt_tensors_find(st, name)) break;
        VT_TRY(vt_detect_need(st, name, 4, &w, e));
    }
    if (convs < 3)
        return vt_fail(e, VT_E_SHAPE, "%s: the stem has %d convolutions, XCiT's have 3 (patch 8) or 4 (patch 16)",
                       vt_tensors_path(st), convs);
    c->patch = convs == 3 ? 8 : 16, c->dim = (int)w->shape[0];
    return VT_OK;
}

/* Sets c, and in src what is known, by an XCiT's tensors. VT_E_FORMAT: one is missing; VT_E_SHAPE: it is none of
 * XCiT's. */
static vt_status detect(const vt_tensors *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *head = NULL, *fc1 = NULL, *tau = NULL;
    VT_TRY(detect_stem(st, c, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.temperature", 3, &tau, e));
    c->depth = vt_detect_blocks(st, "blocks.", 20);                 /* of 25 tensors at least */
    c->class_blocks = vt_detect_blocks(st, "cls_attn_blocks.", 12); /* of 14 */
    c->heads = (int)tau->shape[0], c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_tensors_find(st, "blocks.0.attn.qkv.bias") != NULL;
    c->tied_qk = !vt_tensors_find(st, "cls_attn_blocks.0.attn.k.weight");
    if (!vt_detect_any(st, "pos_embed.", "")) c->positions = VT_POSITIONS_NONE; /* timm's use_pos_embed=False */
    c->image = 224;                                                             /* a guess, which resolve mends */
    c->ln_eps = 1e-6;
    VT_DETECT_KNOWN(src, VT_FIELD_ARCH, VT_FIELD_PATCH, VT_FIELD_DIM, VT_FIELD_DEPTH, VT_FIELD_HEADS, VT_FIELD_HIDDEN,
                    VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS, VT_FIELD_TIED_QK, VT_FIELD_CLASS_BLOCKS, VT_FIELD_POSITIONS);
    defaults(c);
    if (c->dim == 128) c->tokens_norm = false; /* timm's nano alone */
    snprintf(src[VT_FIELD_STEM_STRIDE], sizeof src[0], "default: 1,1,2,2 at 32 pixels (CIFAR), else 2");
    snprintf(src[VT_FIELD_TOKENS_NORM], sizeof src[0], "default: %s",
             c->dim == 128 ? "timm's nano has none" : "timm's");
    return VT_OK;
}

const vt_arch vt_arch_xcit = {
    .name = "xcit",
    .summary = "XCiT: attention between channels, local patch interaction, class attention",
    .recognises = probe,
    .detect = detect,
    .defaults = defaults,
    .check = check,
    .params = params,
    .tokens = count_tokens,
    .blocks = count_blocks,
    .locate = locate,
    .flops = count_flops,
    .no_token_maps = true,
    .any_image = true,
};
