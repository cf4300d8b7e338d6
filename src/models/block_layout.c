/* SPDX-License-Identifier: MIT */
#include "models/block_layout.h"

vt_block_layout vt_block_layout_of(vt_param_list *l, const vt_config *c) {
    const float layer_scale = c->factor_start > 0 ? (float)c->factor_start : 1e-5f;
    l->value = c->factor == VT_FACTOR_ALPHA ? 1 / (float)c->depth : layer_scale;
    return (vt_block_layout){.l = l, .c = c, .dim = c->dim, .heads = c->heads, .hidden = c->hidden};
}

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
