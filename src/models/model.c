/* SPDX-License-Identifier: MIT */
#include "models/model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "linalg/products.h"
#include "graph/network.h"
#include "models/arch.h"

#define VT_KIND vt_arch
#define VT_KIND_NAME(x) vt_arch_##x
#define VT_KIND_LIST "archs.inc"
#include "base/registry.inc"

const vt_arch *const *vt_archs(int *n) {
    *n = COUNT;
    return defs;
}

const vt_arch *vt_arch_find(const char *name) { return named(name); }

/* Fails for want of memory for the parameters. */
static vt_status no_room(const vt_model *m, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "no memory for %zu parameters (%.0f MB)", m->params.total,
                   (double)m->params.total * 4e-6);
}

vt_status vt_model_take(vt_model *m, vt_err *e) {
    m->w = vt_alloc(m->params.total * sizeof(float));
    return m->w ? VT_OK : no_room(m, e);
}

vt_status vt_model_table(vt_model **out, const vt_config *config, vt_err *e) {
    *out = NULL;
    const vt_arch *arch = vt_arch_find(config->arch);
    if (!arch) return vt_fail(e, VT_E_UNKNOWN, "unknown architecture '%s'", config->arch);
    VT_TRY(vt_config_check(config, NULL, e));
    vt_model *m = calloc(1, sizeof *m);
    if (!m) return vt_fail(e, VT_E_MEMORY, "no memory for a model");
    m->config = *config;
    arch->params(&m->params, config);
    if (m->params.failed) {
        no_room(m, e);
        vt_model_close(m);
        return VT_E_MEMORY;
    }
    *out = m;
    return VT_OK;
}

vt_status vt_model_new(vt_model **out, const vt_config *config, vt_err *e) {
    VT_TRY(vt_model_table(out, config, e));
    vt_status s = vt_model_take(*out, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}

void vt_model_close(vt_model *m) {
    if (!m) return;
    vt_param_list_free(&m->params);
    vt_network_close((vt_network *)(uintptr_t)m->config.network);
    free(m->w);
    free(m->wt);
    free(m->path);
    free(m->part), free(m->parts);
    free(m->recipe), free(m->labels);
    free(m);
}

const vt_param *vt_model_param_at(const vt_model *m, size_t offset) {
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (offset >= p->offset && offset < p->offset + p->numel) return p;
    }
    return NULL;
}

const vt_param *vt_model_param(const vt_model *m, const char *name) {
    for (int i = 0; i < m->params.count; i++)
        if (!strcmp(m->params.items[i].name, name)) return &m->params.items[i];
    return NULL;
}

size_t vt_model_param_count(const vt_model *m) {
    size_t n = 0;
    for (int i = 0; i < m->params.count; i++) n += m->params.items[i].buffer ? 0 : m->params.items[i].numel;
    return n;
}

int vt_model_tokens(const vt_model *m) {
    const vt_arch *arch = vt_arch_find(m->config.arch);
    return arch && arch->tokens ? arch->tokens(&m->config) : vt_config_tokens(&m->config);
}

void vt_model_refresh_param(vt_model *m, int i) {
    const vt_param *p = &m->params.items[i];
    if (!m->wt || p->t_offset == SIZE_MAX) return;
    size_t rows = (size_t)p->shape[0], cols = p->numel / rows;
    const float *w = m->w + p->offset;
    float *t = m->wt + p->t_offset;
    for (size_t r0 = 0; r0 < rows; r0 += 16) /* tiles, so that both sides stay in cache */
        for (size_t c = 0; c < cols; c++)
            for (size_t r = r0; r < rows && r < r0 + 16; r++) t[c * rows + r] = w[r * cols + c];
}

void vt_model_refresh(vt_model *m) {
    for (int i = 0; i < m->params.count; i++) vt_model_refresh_param(m, i);
}

vt_status vt_model_prepare(vt_model *m, vt_err *e) {
    if (m->wt) return VT_OK;
    if (!(m->wt = vt_alloc(m->params.t_total * sizeof(float))))
        return vt_fail(e, VT_E_MEMORY, "no memory for the transposed copies of the weights (%.0f MB)",
                       (double)m->params.t_total * 4e-6);
    vt_model_refresh(m);
    return VT_OK;
}

/* list [2 params.count]: each matrix as both products use it; returns how many. w [n, k] is multiplied by from the
 * right as w^T in forwards (its transposed copy, if there is one) and as it is in backwards. */
static int list_all(vt_packed_from *list, const vt_model *m) {
    int count = 0;
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (p->t_offset == SIZE_MAX) continue;
        int n = (int)p->shape[0], k = (int)(p->numel / (size_t)n);
        const float *w = m->w + p->offset, *wt = m->wt ? m->wt + p->t_offset : NULL;
        list[count++] = (vt_packed_from){.b = wt ? wt : w, .k = k, .n = n, .ld = wt ? n : k, .transposed = !wt};
        list[count++] = (vt_packed_from){.b = w, .k = n, .n = k, .ld = k};
    }
    return count;
}

vt_status vt_model_pack(vt_packed **out, const vt_model *m, vt_err *e) {
    vt_packed_from *list = calloc(2 * (size_t)m->params.count, sizeof *list);
    *out = NULL;
    if (!list) return vt_fail(e, VT_E_MEMORY, "no memory for the weights in bfloat16");
    vt_status s = vt_packed_make(out, list, list_all(list, m), vt_model_tokens(m), e);
    free(list);
    return s;
}

size_t vt_model_packed_bytes(const vt_model *m) {
    vt_packed_from *list = vt_bf16_hardware() ? calloc(2 * (size_t)m->params.count, sizeof *list) : NULL;
    size_t bytes = list ? vt_packed_bytes(list, list_all(list, m), vt_model_tokens(m)) : 0;
    free(list);
    return bytes;
}

/* ---- matrices ---- */

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
