/* SPDX-License-Identifier: MIT */
#include "models/roles.h"

#include <stdio.h>
#include "models/arch.h"

const char *vt_role_name(vt_role r) {
    static const char *const names[VT_ROLE_COUNT] = {"W_Q", "W_K", "W_V", "W_O", "FC1", "FC2"};
    return names[r];
}

int vt_model_blocks(const vt_model *m) {
    const vt_arch *arch = vt_arch_find(m->config.arch);
    return arch && arch->blocks ? arch->blocks(&m->config) : m->config.depth;
}

bool vt_matrix_part(const vt_model *m, const char *tensor, int part, int parts, int heads, vt_matrix *out) {
    const vt_param *p = vt_model_param(m, tensor);
    if (!p) return false;
    int rows = (int)p->shape[0] / parts, cols = (int)(p->numel / (size_t)p->shape[0]);
    *out = (vt_matrix){.offset = p->offset + (size_t)part * (size_t)rows * (size_t)cols,
                       .rows = rows,
                       .cols = cols,
                       .heads = heads};
    return true;
}

bool vt_matrix_packed(const vt_model *m, const char *prefix, int heads, vt_role role, vt_matrix *out) {
    static const struct {
        const char *tensor;
        int part, parts, tied_part; /* row block `part` of `parts` equal ones: q | k | v in qkv.weight, tied: q | v */
    } where[VT_ROLE_COUNT] = {
        [VT_ROLE_Q] = {"attn.qkv.weight", 0, 3, 0},  [VT_ROLE_K] = {"attn.qkv.weight", 1, 3, 0},
        [VT_ROLE_V] = {"attn.qkv.weight", 2, 3, 1},  [VT_ROLE_O] = {"attn.proj.weight", 0, 1, 0},
        [VT_ROLE_FC1] = {"mlp.fc1.weight", 0, 1, 0}, [VT_ROLE_FC2] = {"mlp.fc2.weight", 0, 1, 0},
    };
    char name[96];
    snprintf(name, sizeof name, "%s%s", prefix, where[role].tensor);
    const vt_param *p = vt_model_param(m, name);
    bool tied = p && where[role].parts == 3 && m->config.tied_qk;
    if (!vt_matrix_part(m, name, tied ? where[role].tied_part : where[role].part, tied ? 2 : where[role].parts, heads,
                        out))
        return false;
    out->again = tied && role == VT_ROLE_K;
    return true;
}

bool vt_model_matrix(const vt_model *m, int block, vt_role role, vt_matrix *out) {
    const vt_arch *arch = vt_arch_find(m->config.arch);
    if (arch && arch->matrix) return arch->matrix(m, block, role, out);
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blocks.%d.", block);
    return vt_matrix_packed(m, prefix, m->config.heads, role, out);
}
