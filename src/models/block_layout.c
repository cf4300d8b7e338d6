/* SPDX-License-Identifier: MIT */
#include "models/block_layout.h"

#include <stdio.h>

vt_block_layout vt_block_layout_of(const vt_config *c) {
    const vt_attn *is = vt_attn_find(c->attn); /* checked by vt_config_check */
    return (vt_block_layout){.dim = c->dim,
                             .inner = c->attn_dim,
                             .heads = c->heads,
                             .hidden = c->hidden,
                             .norm = c->norm,
                             .proj = c->proj,
                             .factor = c->factor,
                             .factor_start = c->factor == VT_FACTOR_ALPHA ? 1 / (float)c->depth
                                             : c->factor_start > 0        ? (float)c->factor_start
                                                                          : 1e-5f,
                             .qkv_bias = c->qkv_bias,
                             .tied_qk = c->tied_qk,
                             .qk_norm = c->qk_norm,
                             .own = is ? is->params : NULL,
                             .n_own = is ? is->n_params : 0};
}

void vt_block_add(vt_param_list *l, const vt_block_layout *b, int slot, bool matrix, vt_init init, const char *prefix,
                  const char *name, int64_t n, int64_t k) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    vt_param *p = vt_param_add(l, b->layer, slot, matrix, init, full, (int64_t[4]){n, k});
    if (p && init == VT_INIT_VALUE) p->value = b->factor_start;
}

void vt_block_add_linear(vt_param_list *l, const vt_block_layout *b, int slot, bool bias, const char *prefix,
                         const char *name, int64_t n, int64_t k) {
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    vt_block_add(l, b, slot, true, VT_INIT_LINEAR, prefix, full, n, k);
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) vt_block_add(l, b, slot + 1, false, VT_INIT_ZERO, prefix, full, n, 0);
}

void vt_block_add_norm(vt_param_list *l, const vt_block_layout *b, int slot, const char *prefix, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    vt_param_add_norm(l, b->layer, slot, b->norm, full, b->dim);
}

void vt_block_add_own(vt_param_list *l, const vt_block_layout *b, const char *prefix) {
    for (int k = 0; k < b->n_own; k++)
        vt_block_add(l, b, VT_SLOT_ATTN + k, false, b->own[k].init, prefix, b->own[k].name,
                     b->own[k].per_head ? b->heads : 1, 0);
}

void vt_mha_params(vt_param_list *l, const vt_block_layout *b, const char *prefix) {
    const int64_t d = b->inner ? b->inner : b->dim, head = d / b->heads;
    vt_block_add_linear(l, b, VT_SLOT_QKV_W, b->qkv_bias, prefix, "attn.qkv", (b->tied_qk ? 2 : 3) * d, b->dim);
    if (!b->qk_norm) return;
    vt_block_add(l, b, VT_SLOT_Q_NORM_W, false, VT_INIT_ONE, prefix, "attn.q_norm.weight", head, 0);
    vt_block_add(l, b, VT_SLOT_Q_NORM_B, false, VT_INIT_ZERO, prefix, "attn.q_norm.bias", head, 0);
    vt_block_add(l, b, VT_SLOT_K_NORM_W, false, VT_INIT_ONE, prefix, "attn.k_norm.weight", head, 0);
    vt_block_add(l, b, VT_SLOT_K_NORM_B, false, VT_INIT_ZERO, prefix, "attn.k_norm.bias", head, 0);
}

void vt_block_params(vt_param_list *l, const vt_block_layout *b, const char *prefix) {
    const int d = b->dim, a = b->inner ? b->inner : b->dim;
    const bool alpha = b->factor == VT_FACTOR_ALPHA;
    vt_block_add_norm(l, b, VT_SLOT_NORM1, prefix, "norm1");
    (b->mixer ? b->mixer : vt_mha_params)(l, b, prefix);
    if (b->proj != VT_PROJ_NONE)
        vt_block_add_linear(l, b, VT_SLOT_PROJ_W, b->proj == VT_PROJ_BIAS, prefix, "attn.proj", d, a);
    vt_block_add_norm(l, b, VT_SLOT_NORM2, prefix, "norm2");
    vt_block_add_linear(l, b, VT_SLOT_FC1_W, true, prefix, "mlp.fc1", b->hidden, d);
    vt_block_add_linear(l, b, VT_SLOT_FC2_W, true, prefix, "mlp.fc2", d, b->hidden);
    if (b->factor) {
        vt_block_add(l, b, VT_SLOT_FACTOR1, false, VT_INIT_VALUE, prefix, alpha ? "alpha1" : "ls1.gamma", d, 0);
        vt_block_add(l, b, VT_SLOT_FACTOR2, false, VT_INIT_VALUE, prefix, alpha ? "alpha2" : "ls2.gamma", d, 0);
    }
    vt_block_add_own(l, b, prefix);
}
