/* SPDX-License-Identifier: MIT */
#include "models/surgery.h"

#include <stdio.h>
#include <string.h>

static bool is_head(const vt_param *p) { return !strncmp(p->name, "head", 4); }

size_t vt_feature_count(const vt_model *m) {
    size_t n = 0;
    for (int i = 0; i < m->params.count; i++)
        if (is_head(&m->params.items[i]) && m->params.items[i].ndim == 2) n += (size_t)m->params.items[i].shape[1];
    return n;
}

/* Every other tensor keeps name, order and size. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e) {
    vt_config c = m->config;
    c.classes = classes;
    VT_TRY(vt_model_new(out, &c, e));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *from = &m->params.items[i], *to = &(*out)->params.items[i];
        if (!is_head(from)) memcpy((*out)->w + to->offset, m->w + from->offset, from->numel * sizeof(float));
    }
    return vt_model_prepare(*out, e);
}

/* A head's features stand behind those of the heads before it; the share of each head in the logits is part of its
 * features, since they are what a unit row makes visible. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi) {
    size_t at = 0;
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

/* The norm before the head, behind block `depth` of a network that goes on: that of the next block, which was trained
 * on this very stream. NULL: the network's own. */
static const vt_param *norm_of_next(const vt_model *m, const vt_param *to, int depth) {
    char name[64];
    const char *part = strncmp(to->name, "norm.", 5) ? to->name + strlen("fc_norm.") : to->name + strlen("norm.");
    if (strncmp(to->name, "norm.", 5) && strncmp(to->name, "fc_norm.", 8)) return NULL;
    snprintf(name, sizeof name, "blocks.%d.norm1.%s", depth, part);
    const vt_param *from = m->config.post_norm ? NULL : vt_model_param(m, name);
    return from && from->numel == to->numel ? from : NULL;
}

/* Tensors of the first blocks under their own names; false: one is not there. */
static bool copy_first(vt_model *out, const vt_model *m, int depth) {
    for (int i = 0; i < out->params.count; i++) {
        const vt_param *to = &out->params.items[i], *from = norm_of_next(m, to, depth);
        if (is_head(to)) continue;
        if (!from || depth == m->config.depth) from = vt_model_param(m, to->name);
        if (!from || from->numel != to->numel) return false;
        memcpy(out->w + to->offset, m->w + from->offset, to->numel * sizeof(float));
    }
    return true;
}

vt_status vt_cut_behind(vt_model **out, const vt_model *m, int depth, int classes, vt_err *e) {
    vt_config c = m->config;
    vt_err why = {0};
    *out = NULL;
    if (depth < 1 || depth > c.depth || (depth < c.depth && (c.stages || depth <= c.local_blocks))) return VT_OK;
    c.depth = depth, c.classes = classes;
    if (vt_config_check(&c, NULL, &why) != VT_OK) return VT_OK;
    VT_TRY(vt_model_new(out, &c, e));
    vt_status s = VT_OK;
    if (!copy_first(*out, m, depth))
        vt_model_close(*out), *out = NULL;
    else
        s = vt_model_prepare(*out, e);
    return s;
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

/* From now on the branch adds nothing to the stream. */
static void zero_branch_weights(vt_model *m, int block, const char *branch) {
    static const char *const of[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.%s.%s", block, branch, of[i]);
        const vt_param *p = vt_model_param(m, name);
        if (p) memset(m->w + p->offset, 0, p->numel * sizeof(float));
    }
}

/* Tensors under their own names; the norm before the head is that which stands at the point. */
static bool copy_until(vt_model *out, const vt_model *m, int point) {
    for (int i = 0; i < out->params.count; i++) {
        const vt_param *to = &out->params.items[i];
        char name[64];
        if (is_head(to)) continue;
        const char *norm = strncmp(to->name, "norm.", 5) ? NULL : to->name + 5;
        if (norm && point < 2 * m->config.depth)
            snprintf(name, sizeof name, "blocks.%d.norm%d.%s", point / 2, 1 + point % 2, norm);
        else
            snprintf(name, sizeof name, "%s", to->name);
        const vt_param *from = vt_model_param(m, name);
        if (!from || from->numel != to->numel) return false;
        memcpy(out->w + to->offset, m->w + from->offset, to->numel * sizeof(float));
    }
    return true;
}

vt_status vt_cut_inside(vt_model **out, const vt_model *m, int point, int classes, vt_err *e) {
    vt_config c = m->config;
    vt_err why = {0};
    *out = NULL;
    c.depth = point ? (point + 1) / 2 : 1, c.classes = classes, c.head_layers = 0;
    c.pool = c.no_cls ? VT_POOL_AVG : VT_POOL_TOKEN_AVG, c.norm_first = true;
    if (point < 2 * m->config.depth) c.final_norm = c.norm;
    if (point >= vt_points_inside(m) || vt_config_check(&c, NULL, &why) != VT_OK) return VT_OK;
    VT_TRY(vt_model_new(out, &c, e));
    if (!copy_until(*out, m, point)) {
        vt_model_close(*out), *out = NULL;
        return VT_OK;
    }
    if (!point) zero_branch_weights(*out, 0, "attn.proj");
    if (!point || point % 2) zero_branch_weights(*out, c.depth - 1, "mlp.fc2");
    vt_status s = vt_model_prepare(*out, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}
