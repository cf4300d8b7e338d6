/* SPDX-License-Identifier: MIT */
/* Tensors whose rows stand in another order in the file than in timm's. */
#include "checkpoint/names.h"

#include <stdlib.h>
#include <string.h>

/* Returns where row `r` of timm's q, k, v (`parts` matrices of `width` rows) stands in the file. */
static size_t find_row(size_t r, size_t parts, size_t width, const vt_config *c) {
    const size_t part = r / width, d = width / (size_t)c->heads, head = r % width / d, j = r % d;
    return c->qkv_rows == VT_QKV_HEADS ? (head * parts + part) * d + j : (head * d + j) * parts + part;
}

/* Copies the rows of qkv from the file's order to q, k, v. */
static void reorder_qkv_rows(float *to, const float *from, const vt_param *p, const vt_config *c) {
    const size_t width = (size_t)vt_config_attn_dim(c), rows = (size_t)p->shape[0], columns = p->numel / rows;
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * columns, from + find_row(r, rows / width, width, c) * columns, columns * sizeof *to);
}

/* Moves the position of the class token from the end to the front. */
static void move_class_token_first(float *to, const float *from, const vt_param *p, const vt_config *c) {
    const size_t d = (size_t)c->dim, n = p->numel;
    memcpy(to, from + n - d, d * sizeof *to);
    memcpy(to + d, from, (n - d) * sizeof *to);
}

vt_status vt_model_reorder(vt_model *m, vt_err *e) {
    const vt_config *c = &m->config;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        float *w = m->w + p->offset;
        const bool rows = c->qkv_rows != VT_QKV_ROWS && strstr(p->name, ".attn.qkv.");
        for (size_t k = 0; c->embed_scale > 0 && !strncmp(p->name, "patch_embed.proj.", 17) && k < p->numel; k++)
            w[k] = (float)(w[k] * c->embed_scale);
        if (!rows && !(c->class_last && !strcmp(p->name, "pos_embed"))) continue;
        float *was = malloc(p->numel * sizeof *was);
        if (!was) return vt_fail(e, VT_E_MEMORY, "%s: no memory to reorder %s", m->path, p->name);
        memcpy(was, w, p->numel * sizeof *was);
        (rows ? reorder_qkv_rows : move_class_token_first)(w, was, p, c);
        free(was);
    }
    return VT_OK;
}
