/* SPDX-License-Identifier: MIT */
#include "models/surgery.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "graph/parts.h"

/* ---- of an ONNX file ---- */

/* vt_model_prepare of a model that its caller gives away: closed, *m NULL, on failure. */
static vt_status prepare_or_close(vt_model **m, vt_err *e) {
    vt_status s = vt_model_prepare(*m, e);
    if (s != VT_OK) vt_model_close(*m), *m = NULL;
    return s;
}

/* Makes a prepared model of a network that was made from m's; takes n, also after a failure. VT_E_MEMORY. */
static vt_status wrap_network(vt_model **out, const vt_model *m, vt_network *n, vt_err *e) {
    vt_model *w = *out = calloc(1, sizeof *w);
    if (w) w->config = m->config, w->config.network = n, w->config.classes = n->classes;
    if (w && m->path) w->path = strdup(m->path);
    if (w && (w->path || !m->path)) return prepare_or_close(out, e);
    if (!w) vt_network_close(n);
    vt_model_close(w), *out = NULL;
    return vt_fail(e, VT_E_MEMORY, "no memory for a copy of the model");
}

/* Copies m's ONNX network up to cut `cut` with a head of `classes` outputs, all zero; *out NULL, VT_OK: it has no such
 * cut. */
static vt_status cut_onnx(vt_model **out, const vt_model *m, int cut, int classes, vt_err *e) {
    vt_network *n;
    *out = NULL;
    if (cut < 0 || cut >= m->config.network->n_cuts) return VT_OK;
    VT_TRY(vt_network_cut(&n, m->config.network, cut, classes, e));
    return wrap_network(out, m, n, e);
}

/* ---- heads ---- */

static bool is_head(const vt_param *p) { return !strncmp(p->name, "head", 4); }

size_t vt_feature_count(const vt_model *m) {
    const vt_network *net = m->config.network;
    size_t n = 0;
    if (net) return net->head ? net->head->features : net->n_cuts ? vt_network_features(net, net->n_cuts - 1) : 0;
    for (int i = 0; i < m->params.count; i++)
        if (is_head(&m->params.items[i]) && m->params.items[i].ndim == 2) n += (size_t)m->params.items[i].shape[1];
    return n;
}

/* Every other tensor keeps name, order and size. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e) {
    vt_config c = m->config;
    if (c.network) return cut_onnx(out, m, c.network->n_cuts - 1, classes, e);
    c.classes = classes;
    VT_TRY(vt_model_new(out, &c, e));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *from = &m->params.items[i], *to = &(*out)->params.items[i];
        if (!is_head(from)) memcpy((*out)->w + to->offset, m->w + from->offset, from->numel * sizeof(float));
    }
    return prepare_or_close(out, e);
}

/* A head's features stand behind those of the heads before it; the share of each head in the logits is part of its
 * features, since they are what a unit row makes visible. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi) {
    size_t at = 0;
    if (m->config.network) vt_network_set_head((vt_network *)(uintptr_t)m->config.network, w, b, rows);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (!is_head(p)) continue;
        float *to = m->w + p->offset;
        if (p->ndim == 1) {
            for (int r = 0; r < rows; r++) to[r] = b ? (float)b[r] : 0;
            continue;
        }
        size_t d = (size_t)p->shape[1];
        for (int r = 0; r < rows; r++)
            for (size_t k = 0; k < d; k++)
                to[(size_t)r * d + k] = w ? (float)w[(size_t)r * phi + at + k] : (size_t)r == at + k;
        at += d;
        vt_model_refresh_param(m, i);
    }
}

/* Copies out's tensors but its heads from m's of the same names; the norm before the head from m's that is called
 * `norm` (NULL: its own), which was trained on this very stream. false: one is not there, or of another size. */
static bool copy_tensors(vt_model *out, const vt_model *m, const char *norm) {
    for (int i = 0; i < out->params.count; i++) {
        const vt_param *to = &out->params.items[i], *from = NULL;
        const char *part = strchr(to->name, '.');
        char name[96];
        if (is_head(to)) continue;
        snprintf(name, sizeof name, "%s%s", norm ? norm : "", part ? part : "");
        if (norm && (!strncmp(to->name, "norm.", 5) || !strncmp(to->name, "fc_norm.", 8)))
            from = vt_model_param(m, name);
        if (!from || from->numel != to->numel) from = vt_model_param(m, to->name);
        if (!from || from->numel != to->numel) return false;
        memcpy(out->w + to->offset, m->w + from->offset, to->numel * sizeof(float));
    }
    return true;
}

/* Makes a network of m's tensors, with zero heads, ready for computations; *out NULL, VT_OK: there is no such network,
 * or m lacks a tensor of it. VT_E_MEMORY. */
static vt_status cut_network(vt_model **out, const vt_model *m, const vt_config *c, const char *norm, vt_err *e) {
    vt_err why = {0};
    *out = NULL;
    if (vt_config_check(c, NULL, &why) != VT_OK) return VT_OK;
    VT_TRY(vt_model_new(out, c, e));
    const bool copied = copy_tensors(*out, m, norm);
    vt_status s = copied ? vt_model_prepare(*out, e) : VT_OK;
    if (!copied || s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}

vt_status vt_cut_behind(vt_model **out, const vt_model *m, int depth, int classes, vt_err *e) {
    vt_config c = m->config;
    char norm[32];
    if (c.network) return cut_onnx(out, m, depth - 1, classes, e);
    *out = NULL;
    if (depth < 1 || depth > c.depth || (depth < c.depth && (c.stages || depth <= c.local_blocks))) return VT_OK;
    snprintf(norm, sizeof norm, "blocks.%d.norm1", depth);
    c.depth = depth, c.classes = classes;
    return cut_network(out, m, &c, depth < m->config.depth && !c.post_norm ? norm : NULL, e);
}

/* ---- points inside ---- */

static const vt_param *last_norm(const vt_model *m) { return vt_model_param(m, "norm.weight"); }

int vt_points_inside(const vt_model *m) {
    const vt_config *c = &m->config;
    bool plain = !strcmp(c->arch, "vit") && !c->post_norm && !c->dist_token && c->norm != VT_NORM_NONE;
    if (!plain || c->proj == VT_PROJ_NONE || !vt_model_param(m, "blocks.0.mlp.fc2.weight")) return 0;
    return 2 * c->depth + (c->final_norm != VT_NORM_NONE && last_norm(m) != NULL);
}

double vt_point_share(const vt_model *m, int point) {
    double all = 2.0 * m->config.depth; /* the embedding counts as half a half */
    return (point ? point : 0.5) / all;
}

/* Sets weight and bias of a block's branch ("mlp.fc2"), if they are there, to 0: it then adds nothing to the stream. */
static void zero_branch_weights(vt_model *m, int block, const char *branch) {
    static const char *const of[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.%s.%s", block, branch, of[i]);
        const vt_param *p = vt_model_param(m, name);
        if (p) memset(m->w + p->offset, 0, p->numel * sizeof(float));
    }
}

vt_status vt_cut_inside(vt_model **out, const vt_model *m, int point, int classes, vt_err *e) {
    const bool inside = point < 2 * m->config.depth;
    vt_config c = m->config;
    char norm[32];
    *out = NULL;
    c.depth = point ? (point + 1) / 2 : 1, c.classes = classes, c.head_layers = 0;
    c.pool = c.no_cls ? VT_POOL_AVG : VT_POOL_TOKEN_AVG, c.norm_first = true;
    if (inside) c.final_norm = c.norm;
    snprintf(norm, sizeof norm, "blocks.%d.norm%d", point / 2, 1 + point % 2);
    if (point >= vt_points_inside(m)) return VT_OK;
    VT_TRY(cut_network(out, m, &c, inside ? norm : NULL, e));
    if (*out && !point) zero_branch_weights(*out, 0, "attn.proj");
    if (*out && (!point || point % 2)) zero_branch_weights(*out, c.depth - 1, "mlp.fc2");
    if (*out) vt_model_refresh(*out);
    return VT_OK;
}

/* ---- a twin ---- */

/* Returns the rows of a tensor: outputs of a matrix or a convolution are its first side; tokens and positions, [1, n,
 * d], are rows of d. */
static size_t count_rows(const vt_param *p) {
    return (size_t)(p->shape[0] > 1 ? p->shape[0] : p->shape[0] * p->shape[p->ndim > 1 ? 1 : 0]);
}

/* Copies m's weights to out, moves every matrix by noise (seed), and prepares out; VT_E_MEMORY. */
static vt_status copy_with_noise(vt_model *out, const vt_model *m, uint64_t seed, vt_err *e) {
    memcpy(out->w, m->w, m->params.total * sizeof(float));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        /* the self-test's name for it, older than this file: its draws stay what they were */
        const vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("selftest twin"), .image = (uint32_t)i};
        if (p->ndim >= 2 && !p->buffer &&
            !vt_rng_move_rows(&r, out->w + p->offset, p->numel, count_rows(p), VT_TWIN_SHARE))
            return vt_fail(e, VT_E_MEMORY, "no memory for a twin of the model");
    }
    return vt_model_prepare(out, e);
}

vt_status vt_model_twin(vt_model **out, const vt_model *m, uint64_t seed, vt_err *e) {
    vt_config c = m->config;
    vt_network *moved;
    if (c.network) {
        VT_TRY(vt_network_move_weights(&moved, c.network, VT_TWIN_SHARE, seed, e));
        return wrap_network(out, m, moved, e);
    }
    double usual = 1 / sqrt((double)vt_config_attn_dim(&c) / c.heads);
    if (c.attn_scale > 4 * usual) c.attn_scale = usual;
    VT_TRY(vt_model_new(out, &c, e));
    vt_status s = copy_with_noise(*out, m, seed, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}
