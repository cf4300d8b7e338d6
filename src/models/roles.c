#include "models/roles.h"

#include <stdio.h>

const char *vt_role_name(vt_role r) {
    static const char *const names[VT_ROLE_COUNT] = {"W_Q", "W_K", "W_V", "W_O", "FC1", "FC2"};
    return names[r];
}

bool vt_model_matrix(const vt_model *m, int block, vt_role role, vt_matrix *out) {
    static const struct {
        const char *tensor;
        int part, parts; /* row block `part` of `parts` equal ones: q | k | v in qkv.weight */
    } where[VT_ROLE_COUNT] = {
        [VT_ROLE_Q] = {"attn.qkv.weight", 0, 3},  [VT_ROLE_K] = {"attn.qkv.weight", 1, 3},
        [VT_ROLE_V] = {"attn.qkv.weight", 2, 3},  [VT_ROLE_O] = {"attn.proj.weight", 0, 1},
        [VT_ROLE_FC1] = {"mlp.fc1.weight", 0, 1}, [VT_ROLE_FC2] = {"mlp.fc2.weight", 0, 1},
    };
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.%s", block, where[role].tensor);
    const vt_param *p = vt_model_param(m, name);
    if (!p) return false;
    int rows = (int)p->shape[0] / where[role].parts, cols = (int)(p->numel / (size_t)p->shape[0]);
    *out = (vt_matrix){.offset = p->offset + (size_t)where[role].part * (size_t)rows * (size_t)cols,
                       .rows = rows,
                       .cols = cols,
                       .heads = m->config.heads};
    return true;
}
