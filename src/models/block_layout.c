/* SPDX-License-Identifier: MIT */
#include "models/block_layout.h"

#include <stdio.h>

vt_block_layout vt_block_layout_of(vt_param_list *l, const vt_config *c) {
    const float layer_scale = c->factor_start > 0 ? (float)c->factor_start : 1e-5f;
    return (vt_block_layout){.l = l,
                             .c = c,
                             .dim = c->dim,
                             .heads = c->heads,
                             .hidden = c->hidden,
                             .factor_start = c->factor == VT_FACTOR_ALPHA ? 1 / (float)c->depth : layer_scale};
}

void vt_block_add(const vt_block_layout *b, int slot, bool matrix, vt_init init, const char *name, int64_t n,
                  int64_t k) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    vt_param *p = vt_param_add(b->l, b->layer, slot, matrix, init, full, (int64_t[4]){n, k});
    if (p && init == VT_INIT_VALUE) p->value = b->factor_start;
}

void vt_block_add_linear(const vt_block_layout *b, int slot, bool bias, const char *name, int64_t n, int64_t k) {
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    vt_block_add(b, slot, true, VT_INIT_LINEAR, full, n, k);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) vt_block_add(b, slot + 1, false, VT_INIT_ZERO, full, n, 0);
}

void vt_block_add_norm(const vt_block_layout *b, int slot, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", b->prefix, name);
    vt_param_add_norm(b->l, b->layer, slot, b->c->norm, full, b->dim);
}

static int attention_width(const vt_block_layout *b) { return b->c->attn_dim ? b->c->attn_dim : b->dim; }

void vt_mha_params(const vt_block_layout *b) {
    const int64_t d = attention_width(b), head = d / b->heads;
    vt_block_add_linear(b, VT_SLOT_QKV_W, b->c->qkv_bias, "attn.qkv", (b->c->tied_qk ? 2 : 3) * d, b->dim);
    if (!b->c->qk_norm) return;
    vt_block_add(b, VT_SLOT_Q_NORM_W, false, VT_INIT_ONE, "attn.q_norm.weight", head, 0);
    vt_block_add(b, VT_SLOT_Q_NORM_B, false, VT_INIT_ZERO, "attn.q_norm.bias", head, 0);
    vt_block_add(b, VT_SLOT_K_NORM_W, false, VT_INIT_ONE, "attn.k_norm.weight", head, 0);
    vt_block_add(b, VT_SLOT_K_NORM_B, false, VT_INIT_ZERO, "attn.k_norm.bias", head, 0);
}

void vt_mlp_params(const vt_block_layout *b) {
    vt_block_add_norm(b, VT_SLOT_NORM2, "norm2");
    vt_block_add_linear(b, VT_SLOT_FC1_W, true, "mlp.fc1", b->hidden, b->dim);
    vt_block_add_linear(b, VT_SLOT_FC2_W, true, "mlp.fc2", b->dim, b->hidden);
}

void vt_block_params(const vt_block_layout *b) {
    const vt_config *c = b->c;
    const bool alpha = c->factor == VT_FACTOR_ALPHA, bias = c->proj == VT_PROJ_BIAS;
    vt_block_add_norm(b, VT_SLOT_NORM1, "norm1");
    (b->mixer ? b->mixer : vt_mha_params)(b);
    if (c->proj != VT_PROJ_NONE) vt_block_add_linear(b, VT_SLOT_PROJ_W, bias, "attn.proj", b->dim, attention_width(b));
    vt_mlp_params(b);
    if (!c->factor) return;
    vt_block_add(b, VT_SLOT_FACTOR1, false, VT_INIT_VALUE, alpha ? "alpha1" : "ls1.gamma", b->dim, 0);
    vt_block_add(b, VT_SLOT_FACTOR2, false, VT_INIT_VALUE, alpha ? "alpha2" : "ls2.gamma", b->dim, 0);
}
