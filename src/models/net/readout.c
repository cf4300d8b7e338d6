/* SPDX-License-Identifier: MIT */
/* A ViT's end. Pooled is the class token (and the distillation token, with a head of its own), a mean over tokens, or
 * several side by side: DINOv2's linear classifiers (dinov2/hub/classifiers.py there) read, after the final norm, the
 * class tokens of one or of the four last blocks, oldest first, then the mean over the patches; DINO's (eval_linear.py)
 * the class tokens alone; others the mean first. */
#include "models/net/readout.h"

#include <string.h>
#include "nn/nn.h"

/* Heads that read rows of their own; one reads all rows. */
static int heads_apart(const vt_config *c) { return 1 + c->dist_token; }

/* First token of a mean. */
static int mean_from(const vt_config *c) { return c->pool == VT_POOL_ALL ? 0 : vt_config_prefix(c); }

/* A distilled model's logits see both rows, or one of them alone. */
static void plan_features(VT_R(vt_session) *s, const VT_R(vt_readout) *r) {
    const vt_config *c = &s->model->config;
    int rows = vt_readout_rows(c);
    bool second = c->dist_token && c->dist_head == VT_DIST_DIST, both = rows > 1 && c->dist_head == VT_DIST_MEAN;
    s->feature_stride = rows * c->dim, s->feature_len = both ? rows * c->dim : c->dim;
    s->features = r->read && second ? r->read + c->dim : r->read;
}

void VT_R(vt_readout_plan)(VT_R(vt_session) *s, VT_R(vt_readout) *r, vt_arena *a) {
    const vt_config *c = &s->model->config;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, rows = b * (size_t)vt_readout_rows(c);
    size_t all = b * (size_t)(vt_config_tokens(c) + vt_readout_early(c)), of_norm = c->norm_first ? all : rows;
    r->last = vt_arena_take(a, all * d, sizeof(real));
    r->pooled = c->norm_first ? r->last : vt_arena_take(a, rows * d, sizeof(real));
    r->normed = vt_arena_take(a, of_norm * d, sizeof(real));
    r->dnormed = vt_arena_take(a, of_norm * d, sizeof(real));
    r->stat = vt_arena_take(a, 2 * of_norm, sizeof(real));
    r->read = c->norm_first ? vt_arena_take(a, rows * d, sizeof(real)) : r->normed;
    r->dread = c->norm_first ? vt_arena_take(a, rows * d, sizeof(real)) : r->dnormed;
    plan_features(s, r);
    r->aux = vt_arena_take(a, b * (size_t)c->classes, sizeof(real));
}

/* out [b, D], rows `stride` numbers apart, = means of tokens [b*T, D] */
static void mean_forward(real *out, int stride, const real *tokens, const vt_config *c, int b) {
    int d = c->dim, t = vt_config_tokens(c), first = mean_from(c);
    for (int i = 0; i < b; i++, out += stride) {
        memset(out, 0, (size_t)d * sizeof(real));
        for (int k = first; k < t; k++) VT_R(vt_add_to)(out, tokens + (size_t)(i * t + k) * (size_t)d, (size_t)d);
        for (int j = 0; j < d; j++) out[j] /= (real)(t - first);
    }
}

static void mean_backward(real *dtokens, const real *dout, int stride, const vt_config *c, int b) {
    int d = c->dim, t = vt_config_tokens(c), first = mean_from(c);
    memset(dtokens, 0, (size_t)(b * t * d) * sizeof(real));
    for (int i = 0; i < b; i++)
        for (int k = first; k < t; k++)
            for (int j = 0; j < d; j++)
                dtokens[(size_t)(i * t + k) * (size_t)d + (size_t)j] = dout[i * stride + j] / (real)(t - first);
}

/* The row of r->last, r->normed and their gradients with image i's l-th class token of those that are read: of an
 * early block behind all tokens of the batch, of the last among them. */
static size_t class_row(const vt_config *c, int b, int i, int l) {
    int t = vt_config_tokens(c), n = vt_readout_early(c);
    return (size_t)(l < n ? b * t + i * n + l : i * t) * (size_t)c->dim;
}

void VT_R(vt_readout_keep)(const VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *tokens, int i, int b) {
    const vt_config *c = &s->model->config;
    int l = i - (c->depth - 1 - vt_readout_early(c));
    size_t d = (size_t)c->dim, t = (size_t)vt_config_tokens(c);
    for (int k = 0; k < b && l >= 0 && l < vt_readout_early(c); k++)
        memcpy(r->last + class_row(c, b, k, l), tokens + (size_t)k * t * d, d * sizeof(real));
}

/* The norm left their gradient in r->dnormed. */
void VT_R(vt_readout_add)(const VT_R(vt_session) *s, const VT_R(vt_readout) *r, real *dtokens, int i) {
    const vt_config *c = &s->model->config;
    int l = i - (c->depth - 1 - vt_readout_early(c));
    size_t d = (size_t)c->dim, t = (size_t)vt_config_tokens(c);
    for (int k = 0; k < s->batch && l >= 0 && l < vt_readout_early(c); k++)
        VT_R(vt_add_to)(dtokens + (size_t)k * t * d, r->dnormed + class_row(c, s->batch, k, l), d);
}

/* Where the rows of an image stand in r->read: class tokens from the row `first`, the mean in the row `mean` (-1: there
 * is none). */
typedef struct places {
    int classes, first, mean, stride;
} places;

static places places_of(const vt_config *c) {
    const int rows = vt_readout_rows(c), mean = c->pool != VT_POOL_TOKENS;
    const bool before = c->pool == VT_POOL_AVG_TOKEN;
    return (places){rows - mean, before, !mean ? -1 : before ? 0 : rows - 1, rows * c->dim};
}

/* r->normed -> r->read: class tokens, oldest first, and the mean; one of both alone */
static void read_normed(const VT_R(vt_readout) *r, const vt_config *c, int b) {
    const places p = places_of(c);
    int d = c->dim;
    for (int i = 0; i < b; i++)
        for (int l = 0; l < p.classes; l++)
            memcpy(r->read + i * p.stride + (p.first + l) * d, r->normed + class_row(c, b, i, l),
                   (size_t)d * sizeof(real));
    if (p.mean >= 0) mean_forward(r->read + p.mean * d, p.stride, r->normed, c, b);
}

static void read_normed_backward(const VT_R(vt_readout) *r, const vt_config *c, int b) {
    const places p = places_of(c);
    int d = c->dim;
    if (p.mean >= 0)
        mean_backward(r->dnormed, r->dread + p.mean * d, p.stride, c, b);
    else
        memset(r->dnormed, 0, (size_t)(b * vt_config_tokens(c) * d) * sizeof(real));
    for (int i = 0; i < b; i++) /* a class token is no part of the mean */
        for (int l = 0; l < p.classes; l++)
            memcpy(r->dnormed + class_row(c, b, i, l), r->dread + i * p.stride + (p.first + l) * d,
                   (size_t)d * sizeof(real));
}

/* r->last -> r->read, through pooling and the final norm in the configured order */
static void pool_forward(VT_R(vt_session) *s, VT_R(vt_readout) *r, int b) {
    const vt_config *c = &s->model->config;
    int d = c->dim, rows = c->norm_first ? b * (vt_config_tokens(c) + vt_readout_early(c)) : b * vt_readout_rows(c);
    if (c->pool == VT_POOL_TOKEN)
        memcpy(r->pooled, r->last, (size_t)(rows * d) * sizeof(real));
    else if (!c->norm_first)
        mean_forward(r->pooled, d, r->last, c, b);
    VT_R(vt_session_bind)(s, 1 + c->depth);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_READOUT_NORM, c->final_norm, c->ln_eps);
    VT_R(vt_norm_forward)(r->normed, r->stat, r->pooled, norm, rows, d);
    if (c->norm_first) read_normed(r, c, b);
}

/* r->dread -> the gradient of r->last [b*R, D], which it returns */
static real *pool_backward(VT_R(vt_session) *s, VT_R(vt_readout) *r, int b) {
    const vt_config *c = &s->model->config;
    int d = c->dim, rows = c->norm_first ? b * (vt_config_tokens(c) + vt_readout_early(c)) : b * vt_readout_rows(c);
    bool token = c->pool == VT_POOL_TOKEN;
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_READOUT_NORM, c->final_norm, c->ln_eps);
    real *dpooled = token ? r->last : r->dnormed;
    if (c->norm_first) read_normed_backward(r, c, b);
    VT_R(vt_norm_backward)(dpooled, NULL, r->dnormed, r->pooled, r->stat, norm, rows, d);
    if (token || c->norm_first) return dpooled;
    mean_backward(r->last, dpooled, d, c, b);
    return r->last;
}

void VT_R(vt_readout_forward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, int b) {
    const vt_config *c = &s->model->config;
    pool_forward(s, r, b);
    int p = heads_apart(c);
    VT_R(vt_head_forward)(s->logits, r->read, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_W), b, p);
    if (!c->dist_token || c->dist_head == VT_DIST_CLASS) return;
    VT_R(vt_head_forward)(r->aux, r->read + c->dim, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_DIST_W), b, p);
    bool alone = c->dist_head == VT_DIST_DIST;
    for (int i = 0; i < b * c->classes; i++) s->logits[i] = alone ? r->aux[i] : (s->logits[i] + r->aux[i]) / 2;
}

real *VT_R(vt_readout_backward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *dlogits) {
    const vt_config *c = &s->model->config;
    int b = s->batch, p = heads_apart(c);
    VT_R(vt_session_bind)(s, 1 + c->depth);
    static const real shares[] = {[VT_DIST_MEAN] = (real)0.5, [VT_DIST_CLASS] = 1, [VT_DIST_DIST] = 0};
    real share = c->dist_token ? shares[c->dist_head] : 1;
    VT_R(vt_head_backward)(r->dread, dlogits, r->read, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_W), share, b, p);
    if (c->dist_token) VT_R(vt_head_backward)
    (r->dread + c->dim, dlogits, r->read + c->dim, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_DIST_W), 1 - share, b, p);
    return pool_backward(s, r, b);
}
