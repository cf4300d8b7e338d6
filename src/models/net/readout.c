/* SPDX-License-Identifier: MIT */
/* Pooled is the class token (and the distillation token, with a head of its own), a mean over tokens, or
 * several side by side: DINOv2's linear classifiers (dinov2/hub/classifiers.py there) read, after the final norm, the
 * class tokens of one or of the four last blocks, oldest first, then the mean over the patches; DINO's (eval_linear.py)
 * the class tokens alone; others the mean first. */
#include "models/net/readout.h"

#include <string.h>
#include "nn/nn.h"

/* Returns how many rows of an image lie between two that one head reads: 2 of a distilled model, else 1. */
static int heads_apart(const vt_config *c) { return 1 + c->dist_token; }

/* The final norm runs over all tokens (a class token alone has nothing to come before). */
static bool is_norm_first(const vt_config *c) { return c->norm_first && c->pool != VT_POOL_TOKEN; }

/* First token of a mean. */
static int mean_from(const vt_config *c) { return c->pool == VT_POOL_ALL ? 0 : vt_config_prefix(c); }

/* Says where the session's features lie: sets s's features, feature_len and feature_stride. A distilled model's logits
 * see both rows, or one of them alone. */
static void plan_features(VT_R(vt_session) *s, const VT_R(vt_readout) *r) {
    const vt_config *c = &s->model->config;
    int rows = vt_readout_rows(c);
    bool second = c->dist_token && c->dist_head == VT_DIST_DIST, both = rows > 1 && c->dist_head == VT_DIST_MEAN;
    s->feature_stride = rows * r->d, s->feature_len = both ? rows * r->d : r->d;
    s->features = r->read && second ? r->read + r->d : r->read;
}

/* Rows that the final norm sees. */
static int normed_rows(const VT_R(vt_readout) *r, const vt_config *c, int b) {
    return b * (is_norm_first(c) ? r->t + vt_readout_early(c) : vt_readout_rows(c));
}

void VT_R(vt_readout_plan)(VT_R(vt_session) *s, VT_R(vt_readout) *r, int layer, int t, int d, vt_arena *a) {
    const vt_config *c = &s->model->config;
    const bool token = c->pool == VT_POOL_TOKEN;
    r->layer = layer, r->t = t, r->d = d;
    size_t b = (size_t)s->capacity, width = (size_t)d, rows = b * (size_t)vt_readout_rows(c) * width;
    size_t all = b * (size_t)(t + vt_readout_early(c)) * width, of_norm = (size_t)normed_rows(r, c, s->capacity);
    r->last = VT_R(vt_reals)(a, token ? rows : all);
    r->pooled = token || is_norm_first(c) ? r->last : VT_R(vt_reals)(a, rows);
    r->normed = VT_R(vt_reals)(a, of_norm * width);
    r->dnormed = VT_R(vt_reals)(a, of_norm * width);
    r->stat = VT_R(vt_reals)(a, 2 * of_norm);
    r->read = is_norm_first(c) ? VT_R(vt_reals)(a, rows) : r->normed;
    r->dread = is_norm_first(c) ? VT_R(vt_reals)(a, rows) : r->dnormed;
    plan_features(s, r);
    r->aux = VT_R(vt_reals)(a, b * (size_t)c->classes);
}

/* out [b, D], rows `stride` numbers apart, = means of tokens [b*T, D] */
static void mean_forward(real *out, int stride, const real *tokens, const VT_R(vt_readout) *r, const vt_config *c,
                         int b) {
    int d = r->d, t = r->t, first = mean_from(c);
    for (int i = 0; i < b; i++, out += stride) {
        memset(out, 0, (size_t)d * sizeof(real));
        for (int k = first; k < t; k++) VT_R(vt_add_to)(out, tokens + (size_t)(i * t + k) * (size_t)d, (size_t)d);
        for (int j = 0; j < d; j++) out[j] /= (real)(t - first);
    }
}

/* Spreads dout, the gradient of each image's mean, over its tokens; other tokens get 0. */
static void mean_backward(real *dtokens, const real *dout, int stride, const VT_R(vt_readout) *r, const vt_config *c,
                          int b) {
    int d = r->d, t = r->t, first = mean_from(c);
    memset(dtokens, 0, (size_t)(b * t * d) * sizeof(real));
    for (int i = 0; i < b; i++)
        for (int k = first; k < t; k++)
            for (int j = 0; j < d; j++)
                dtokens[(size_t)(i * t + k) * (size_t)d + (size_t)j] = dout[i * stride + j] / (real)(t - first);
}

/* The row of r->last, r->normed and their gradients with image i's l-th class token of those that are read: of an
 * early block behind all tokens of the batch, of the last among them. */
static size_t class_row(const VT_R(vt_readout) *r, const vt_config *c, int b, int i, int l) {
    int n = vt_readout_early(c);
    return (size_t)(l < n ? b * r->t + i * n + l : i * r->t) * (size_t)r->d;
}

/* Which of the early class tokens is block i's; another number: none. */
static int early_index(const vt_config *c, int i) { return i - (c->depth - 1 - vt_readout_early(c)); }

void VT_R(vt_readout_keep)(const VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *tokens, int i, int b) {
    const vt_config *c = &s->model->config;
    int l = early_index(c, i);
    for (int k = 0; k < b && l >= 0 && l < vt_readout_early(c); k++)
        memcpy(r->last + class_row(r, c, b, k, l), tokens + k * r->t * r->d, (size_t)r->d * sizeof(real));
}

/* The norm left their gradient in r->dnormed. */
void VT_R(vt_readout_add)(const VT_R(vt_session) *s, const VT_R(vt_readout) *r, real *dtokens, int i) {
    const vt_config *c = &s->model->config;
    int l = early_index(c, i);
    for (int k = 0; k < s->batch && l >= 0 && l < vt_readout_early(c); k++)
        VT_R(vt_add_to)(dtokens + k * r->t * r->d, r->dnormed + class_row(r, c, s->batch, k, l), (size_t)r->d);
}

/* Where the rows of an image stand in r->read: class tokens from the row `first`, the mean in the row `mean` (-1: there
 * is none). */
typedef struct places {
    int classes, first, mean, stride;
} places;

/* Returns which rows of the head's input are class tokens and which is the mean. */
static places places_of(const VT_R(vt_readout) *r, const vt_config *c) {
    const int rows = vt_readout_rows(c), mean = c->pool != VT_POOL_TOKENS;
    const bool before = c->pool == VT_POOL_AVG_TOKEN;
    return (places){rows - mean, before, !mean ? -1 : before ? 0 : rows - 1, rows * r->d};
}

/* r->normed -> r->read: class tokens, oldest first, and the mean; or one of both alone */
static void read_normed(const VT_R(vt_readout) *r, const vt_config *c, int b) {
    const places p = places_of(r, c);
    int d = r->d;
    for (int i = 0; i < b; i++)
        for (int l = 0; l < p.classes; l++)
            memcpy(r->read + i * p.stride + (p.first + l) * d, r->normed + class_row(r, c, b, i, l),
                   (size_t)d * sizeof(real));
    if (p.mean >= 0) mean_forward(r->read + p.mean * d, p.stride, r->normed, r, c, b);
}

/* Sets r->dnormed, the gradient of the normalised tokens, from r->dread, that of the head's input; tokens that are not
 * read get 0. */
static void read_normed_backward(const VT_R(vt_readout) *r, const vt_config *c, int b) {
    const places p = places_of(r, c);
    int d = r->d;
    if (p.mean >= 0)
        mean_backward(r->dnormed, r->dread + p.mean * d, p.stride, r, c, b);
    else
        memset(r->dnormed, 0, (size_t)(b * r->t * d) * sizeof(real));
    for (int i = 0; i < b; i++) /* a class token is no part of the mean */
        for (int l = 0; l < p.classes; l++)
            memcpy(r->dnormed + class_row(r, c, b, i, l), r->dread + i * p.stride + (p.first + l) * d,
                   (size_t)d * sizeof(real));
}

void VT_R(vt_readout_forward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, int b) {
    const vt_config *c = &s->model->config;
    const int p = heads_apart(c);
    VT_R(vt_session_bind)(s, r->layer);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_READOUT_NORM, c->final_norm, c->ln_eps);
    if (r->pooled != r->last) mean_forward(r->pooled, r->d, r->last, r, c, b);
    VT_R(vt_norm_forward)(r->normed, r->stat, r->pooled, norm, normed_rows(r, c, b), r->d);
    if (is_norm_first(c)) read_normed(r, c, b);
    VT_R(vt_head_forward)(s->logits, r->read, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_W), b, p);
    if (!c->dist_token || c->dist_head == VT_DIST_CLASS) return;
    VT_R(vt_head_forward)(r->aux, r->read + r->d, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_DIST_W), b, p);
    bool alone = c->dist_head == VT_DIST_DIST;
    for (int i = 0; i < b * c->classes; i++) s->logits[i] = alone ? r->aux[i] : (s->logits[i] + r->aux[i]) / 2;
}

real *VT_R(vt_readout_backward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *dlogits) {
    const vt_config *c = &s->model->config;
    const int b = s->batch, p = heads_apart(c);
    VT_R(vt_session_bind)(s, r->layer);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_READOUT_NORM, c->final_norm, c->ln_eps);
    static const real shares[] = {[VT_DIST_MEAN] = (real)0.5, [VT_DIST_CLASS] = 1, [VT_DIST_DIST] = 0};
    real share = c->dist_token ? shares[c->dist_head] : 1;
    VT_R(vt_head_backward)(r->dread, dlogits, r->read, VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_W), share, b, p);
    if (c->dist_token)
        VT_R(vt_head_backward)(r->dread + r->d, dlogits, r->read + r->d,
                               VT_R(vt_linear_bound)(s, VT_READOUT_HEAD_DIST_W), 1 - share, b, p);
    if (is_norm_first(c)) read_normed_backward(r, c, b);
    VT_R(vt_norm_backward)(r->dnormed, NULL, r->dnormed, r->pooled, r->stat, norm, normed_rows(r, c, b), r->d);
    if (r->pooled == r->last) return r->dnormed;
    mean_backward(r->last, r->dnormed, r->d, r, c, b);
    return r->last;
}
