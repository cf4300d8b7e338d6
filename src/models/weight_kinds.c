/* SPDX-License-Identifier: MIT */
#include "models/weight_kinds.h"

#include <stdio.h>
#include "models/arch.h"

const char *vt_weight_kind_name(vt_weight_kind r) {
    static const char *const names[VT_WEIGHT_KINDS] = {"W_Q", "W_K", "W_V", "W_O", "FC1", "FC2"};
    return names[r];
}

int vt_model_blocks(const vt_model *m) {
    const vt_arch *arch = vt_arch_find(m->config.arch);
    return arch && arch->blocks ? arch->blocks(&m->config) : m->config.depth;
}

/* Row block `part` of `parts` equal ones of a tensor. A tied tensor has no block of its own for W_K. */
static const struct {
    vt_weight_kind kind;
    const char *tensor;
    int part, parts;
} places[] = {{VT_WEIGHT_Q, "attn.qkv", 0, 3},  {VT_WEIGHT_K, "attn.qkv", 1, 3}, {VT_WEIGHT_V, "attn.qkv", 2, 3},
              {VT_WEIGHT_Q, "attn.qk", 0, 2},   {VT_WEIGHT_K, "attn.qk", 1, 2},  {VT_WEIGHT_Q, "attn.q", 0, 1},
              {VT_WEIGHT_K, "attn.k", 0, 1},    {VT_WEIGHT_V, "attn.v", 0, 1},   {VT_WEIGHT_O, "attn.proj", 0, 1},
              {VT_WEIGHT_FC1, "mlp.fc1", 0, 1}, {VT_WEIGHT_FC2, "mlp.fc2", 0, 1}};

bool vt_model_matrix(const vt_model *m, int block, vt_weight_kind kind, vt_matrix *out) {
    const vt_config *c = &m->config;
    const vt_arch *arch = vt_arch_find(c->arch);
    const bool tied = c->tied_qk && block >= (c->class_blocks ? c->depth : 0); /* XCA blocks never are */
    char prefix[48], name[96];
    int heads = c->heads;
    snprintf(prefix, sizeof prefix, "blocks.%d.", block);
    if (arch && arch->locate) heads = arch->locate(c, block, prefix, sizeof prefix);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].kind != (tied && kind == VT_WEIGHT_K ? VT_WEIGHT_Q : kind)) continue;
        snprintf(name, sizeof name, "%s%s.weight", prefix, places[i].tensor);
        const vt_param *p = vt_model_param(m, name);
        if (!p) continue;
        const bool fewer = tied && places[i].parts > 1;
        const int rows = (int)p->shape[0] / (places[i].parts - fewer),
                  part = places[i].part - (fewer && places[i].part);
        *out = (vt_matrix){.rows = rows, .cols = (int)(p->numel / (size_t)p->shape[0]), .heads = heads};
        out->offset = p->offset + (size_t)part * (size_t)rows * (size_t)out->cols;
        out->again = tied && kind == VT_WEIGHT_K;
        return true;
    }
    return false;
}
