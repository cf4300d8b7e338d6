/* SPDX-License-Identifier: MIT */
#include "models/vit.h"

/* ---- tensors of a block ---- */

vt_block_layout vt_block_layout_of(vt_param_list *l, const vt_config *c) {
    const float layer_scale = c->factor_start > 0 ? (float)c->factor_start : 1e-5f;
    l->value = c->factor == VT_FACTOR_ALPHA ? 1 / (float)c->depth : layer_scale;
    return (vt_block_layout){.l = l, .c = c, .dim = c->dim, .heads = c->heads, .hidden = c->hidden};
}

/* Returns the width of q, k and v together over all heads. */
static int attention_width(const vt_block_layout *b) { return b->c->attn_dim ? b->c->attn_dim : b->dim; }

void vt_mha_params(const vt_block_layout *b) {
    const int64_t d = attention_width(b), head[4] = {d / b->heads};
    vt_param_add_map(b->l, VT_SLOT_QKV_W, true, VT_INIT_LINEAR, b->c->qkv_bias, "attn.qkv",
                     (int64_t[4]){(b->c->tied_qk ? 2 : 3) * d, b->dim});
    if (!b->c->qk_norm) return;
    vt_param_add(b->l, VT_SLOT_Q_NORM_W, false, VT_INIT_ONE, "attn.q_norm.weight", head);
    vt_param_add(b->l, VT_SLOT_Q_NORM_B, false, VT_INIT_ZERO, "attn.q_norm.bias", head);
    vt_param_add(b->l, VT_SLOT_K_NORM_W, false, VT_INIT_ONE, "attn.k_norm.weight", head);
    vt_param_add(b->l, VT_SLOT_K_NORM_B, false, VT_INIT_ZERO, "attn.k_norm.bias", head);
}

void vt_mlp_params(const vt_block_layout *b) {
    vt_param_add_norm(b->l, VT_SLOT_NORM2, b->c->norm, "norm2", b->dim);
    vt_param_add_map(b->l, VT_SLOT_FC1_W, true, VT_INIT_LINEAR, true, "mlp.fc1", (int64_t[4]){b->hidden, b->dim});
    vt_param_add_map(b->l, VT_SLOT_FC2_W, true, VT_INIT_LINEAR, true, "mlp.fc2", (int64_t[4]){b->dim, b->hidden});
}

void vt_block_params(const vt_block_layout *b) {
    const vt_config *c = b->c;
    const bool alpha = c->factor == VT_FACTOR_ALPHA;
    const int64_t d = b->dim;
    vt_param_add_norm(b->l, VT_SLOT_NORM1, c->norm, "norm1", b->dim);
    (b->mixer ? b->mixer : vt_mha_params)(b);
    if (c->proj != VT_PROJ_NONE)
        vt_param_add_map(b->l, VT_SLOT_PROJ_W, true, VT_INIT_LINEAR, c->proj == VT_PROJ_BIAS, "attn.proj",
                         (int64_t[4]){d, attention_width(b)});
    vt_mlp_params(b);
    if (!c->factor) return;
    vt_param_add(b->l, VT_SLOT_FACTOR1, false, VT_INIT_VALUE, alpha ? "alpha1" : "ls1.gamma", (int64_t[4]){d});
    vt_param_add(b->l, VT_SLOT_FACTOR2, false, VT_INIT_VALUE, alpha ? "alpha2" : "ls2.gamma", (int64_t[4]){d});
}

int vt_rows_width(const vt_config *c) {
    if (!c->conv_stem) return 3 * c->patch * c->patch;
    const vt_stem stem = vt_conv_stem_of(c);
    return stem.widths[stem.convs];
}

/* ---- other tensors ---- */

void vt_rows_params(vt_param_list *l, const vt_config *c) {
    const int64_t patch[4] = {c->dim, 3, c->patch, c->patch};
    if (c->conv_stem)
        vt_conv_stem_params(l, c, VT_ROWS_W);
    else
        vt_param_add_map(l, VT_ROWS_W, true, VT_INIT_CONV, !c->no_patch_bias, "patch_embed.proj", patch);
    if (c->patch_gate) vt_param_add(l, VT_ROWS_GATE, false, VT_INIT_ONE, "patch_gate", (int64_t[4]){vt_rows_count(c)});
    if (c->patch_norm & VT_PATCH_NORM_IN)
        vt_param_add_norm(l, VT_ROWS_NORM_IN, VT_NORM_LAYER, "patch_embed.norm_in", vt_rows_width(c));
    if (c->patch_norm & VT_PATCH_NORM_OUT)
        vt_param_add_norm(l, VT_ROWS_NORM_OUT, VT_NORM_LAYER, "patch_embed.norm", c->dim);
}

void vt_readout_params(vt_param_list *l, const vt_config *c, int layer, int d, const char *head) {
    const int64_t wide = c->dist_token ? d : vt_readout_rows(c) * d, own[4] = {c->classes, d};
    const bool after = c->pool != VT_POOL_TOKEN && !c->norm_first;
    vt_param_place(l, layer, "%s", "");
    vt_param_add_norm(l, VT_READOUT_NORM, c->final_norm, after ? "fc_norm" : "norm", d);
    vt_param_add_map(l, VT_READOUT_HEAD_W, false, VT_INIT_LINEAR, true, head, (int64_t[4]){c->classes, wide});
    if (c->dist_token) vt_param_add_map(l, VT_READOUT_HEAD_DIST_W, false, VT_INIT_LINEAR, true, "head_dist", own);
}

void vt_vit_params(vt_param_list *l, const vt_config *c, void (*local)(const vt_block_layout *b)) {
    int64_t d = c->dim, grid = vt_config_grid(c), placed = grid * grid + vt_config_placed(c);
    const vt_init of_class = local ? VT_INIT_TRUNC02 : VT_INIT_TINY;
    if (!c->no_cls) vt_param_add(l, VT_VIT_CLS, false, of_class, "cls_token", (int64_t[4]){1, 1, d});
    if (c->dist_token) vt_param_add(l, VT_VIT_DIST, false, VT_INIT_TRUNC02, "dist_token", (int64_t[4]){1, 1, d});
    if (c->registers) vt_param_add(l, VT_VIT_REG, false, VT_INIT_TINY, "reg_token", (int64_t[4]){1, c->registers, d});
    if (c->positions == VT_POSITIONS_LEARNED)
        vt_param_add(l, VT_VIT_POS, false, VT_INIT_TRUNC02, "pos_embed", (int64_t[4]){1, placed, d});
    vt_rows_params(l, c);
    if (c->norm_pre) vt_param_add_norm(l, VT_VIT_NORM_PRE, c->norm, "norm_pre", c->dim);
    vt_block_layout b = vt_block_layout_of(l, c);
    for (int i = 0; i < c->depth; i++) {
        vt_param_place(l, 1 + i, "blocks.%d.", i);
        b.mixer = i < c->local_blocks ? local : NULL;
        vt_block_params(&b);
    }
    vt_readout_params(l, c, 1 + c->depth, c->dim, "head");
}

/* ---- products ---- */

/* Returns the multiply-adds of the patch embedding of an image. */
static double rows_products(const vt_config *c) {
    const vt_stem stem = vt_conv_stem_of(c);
    return (double)vt_rows_count(c) * vt_rows_width(c) * c->dim + (c->conv_stem ? vt_stem_products(&stem) : 0);
}

/* Matrix products that are really executed: the last block's output projection and MLP are those of the tokens alone
 * that the head reads, and so is its attention where these are few (net/mha.c). Backward to the input repeats
 * every product once, attention twice. */
void vt_vit_flops(const vt_config *c, bool alone, double *forward, double *gradient) {
    double d = c->dim, a = vt_config_attn_dim(c), proj = c->proj == VT_PROJ_NONE ? 0 : a * d;
    double embed = rows_products(c), n_read = vt_readout_tokens(c), linear = 0, mix = 0;
    for (int i = 0; i < c->depth; i++) {
        bool last = i == c->depth - 1,
             few = alone && last && vt_attn_may_be_few(c, vt_readout_tokens(c), vt_config_tokens(c));
        double t = i < c->local_blocks ? vt_rows_count(c) : vt_config_tokens(c), rows = last && n_read > 0 ? n_read : t;
        linear += few ? 3 * n_read * d * d : t * (c->tied_qk ? 2 : 3) * a * d;
        linear += rows * (proj + 2 * d * c->hidden);
        mix += 2 * t * (few ? c->heads * n_read * d : t * a);
    }
    *forward = 2 * (embed + linear + mix);
    *gradient = 2 * (2 * embed + 2 * linear + 3 * mix);
}
