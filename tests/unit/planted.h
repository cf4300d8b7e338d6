/* SPDX-License-Identifier: MIT */
/* Toy classifiers behind the vt_classifier interface, so that attacks can be tested without a network: closed
 * forms are known, every call is counted, and faults (NaN, an interrupt) are planted at a chosen call. All
 * arithmetic is double; the float logits are the rounded double ones. */
#ifndef VT_TESTS_PLANTED_H
#define VT_TESTS_PLANTED_H

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/ball.h"
#include "base/rand.h"
#include "inference/classifier.h"

enum { PLANTED_MOST = 16 }; /* classes */

typedef struct planted planted;
struct planted {
    vt_classifier c; /* what the oracle gets; c.self = this */
    int classes;
    vt_shape shape;
    size_t n;
    /* z [classes] of x [n]; dx [n] of dz [classes] */
    void (*logits)(planted *p, const float *x, double *z);
    void (*inject)(planted *p, const float *x, const float *dz, float *dx);
    double *w, *b;    /* linear: [classes, n], [classes]; mlp: [hidden, n], [hidden]; ridge: [n] */
    double *a;        /* mlp: [classes, hidden] */
    double s0, scale; /* ridge: s = scale (w.x - s0) */
    void (*profile)(double s, double *z, double *slope);
    float *kept; /* [n] */
    bool has_backward;
    /* counters: calls of logits, those with keep, those kept that a backward followed, backwards, logits64 */
    int64_t forwards, keeps, groups, backwards, forwards64;
    /* faults: after this many forwards (0: never) a logit is `poison`, or *flag is set */
    int64_t poison_after, flag_after;
    /* the model itself fails: logits after this many (0: never), logits64, backward */
    int64_t fail_after;
    bool fail64, fail_backward;
    float poison;
    volatile sig_atomic_t flag;
    /* called with every queried point, and with every gradient's value and dx, which it may overwrite */
    void (*watch)(void *arg, const float *x, int64_t call, float *z);
    void (*watch_gradient)(void *arg, int64_t call, float *value, float *dx);
    void *arg;
};

enum { PLANTED_HIDDEN = 6 };

static inline vt_status planted_failure(planted *p, int64_t calls, vt_err *e) {
    if (!p->fail_after || calls <= p->fail_after) return VT_OK;
    return vt_fail(e, VT_E_MODEL, "call %lld is one too many", (long long)calls);
}

static inline vt_status planted_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    planted *p = self;
    double d[PLANTED_MOST];
    VT_TRY(planted_failure(p, p->forwards + 1, e));
    p->logits(p, x, d);
    for (int k = 0; k < p->classes; k++) z[k] = (float)d[k];
    p->forwards++, p->keeps += keep, p->has_backward = false;
    if (keep) memcpy(p->kept, x, p->n * sizeof(float));
    if (p->watch) p->watch(p->arg, x, p->forwards - 1, z);
    if (p->poison_after && p->forwards > p->poison_after) z[p->classes - 1] = p->poison;
    if (p->flag_after && p->forwards >= p->flag_after) p->flag = 1;
    return VT_OK;
}

static inline vt_status planted_logits64(void *self, const float *x, double *z, vt_err *e) {
    planted *p = self;
    p->forwards64++;
    if (p->fail64) return vt_fail(e, VT_E_MODEL, "no double here");
    p->logits(p, x, z);
    return VT_OK;
}

/* Attention of 2 x 2 tokens (1 x 1 in an image of one line), planted: a token is looked at as much as its pixels are
 * bright. */
static inline int planted_token(const planted *p, size_t i) {
    int side = p->c.tokens.side, at = (int)(i % vt_shape_plane(p->shape)), y = at / p->shape.width,
        x = at % p->shape.width;
    return y * side / p->shape.height * side + x * side / p->shape.width;
}

static inline void planted_mean(void *self, int layer, float *out) {
    planted *p = self;
    int tokens = p->c.tokens.side * p->c.tokens.side;
    for (int k = 0; k < tokens; k++) out[k] = 0;
    for (size_t i = 0; i < p->n; i++) out[planted_token(p, i)] += p->kept[i] * (float)(layer + 1);
}

static inline float planted_attention_loss(void *self, const vt_attn_loss *a) {
    planted *p = self;
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        if (planted_token(p, i) == a->patch) sum += (double)p->kept[i];
    return (float)(a->weight * sum / (double)p->n);
}

static inline vt_status planted_backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    planted *p = self;
    if (p->fail_backward) return vt_fail(e, VT_E_MODEL, "no gradient here");
    double d[PLANTED_MOST];
    float z[PLANTED_MOST], dz[PLANTED_MOST];
    p->logits(p, p->kept, d);
    for (int k = 0; k < p->classes; k++) z[k] = (float)d[k];
    *value = vt_loss_eval_f32(dz, loss, z, p->classes);
    const vt_attn_loss *a = loss->attention;
    if (a && a->alone) memset(dz, 0, sizeof dz), *value = 0;
    p->inject(p, p->kept, dz, dx);
    if (a) *value += planted_attention_loss(p, a);
    for (size_t i = 0; a && i < p->n; i++)
        if (planted_token(p, i) == a->patch) dx[i] += (float)(a->weight / (double)p->n);
    p->groups += !p->has_backward, p->has_backward = true, p->backwards++;
    if (p->watch_gradient) p->watch_gradient(p->arg, p->backwards - 1, value, dx);
    return VT_OK;
}

/* What only networks of ours have, a normalisation and tokens, is there with three channels alone. */
static inline bool planted_init_of(planted *p, int classes, vt_shape s) {
    *p = (planted){.classes = classes, .shape = s, .n = vt_shape_values(s)};
    p->c = (vt_classifier){.classes = classes, .pixels = p->n, .self = p, .logits = planted_logits};
    p->c.logits64 = planted_logits64, p->c.backward = planted_backward;
    p->kept = calloc(p->n, sizeof(float));
    if (s.channels != 3) return p->kept != NULL;
    for (int k = 0; k < 3; k++) p->c.mean[k] = 0.4 + 0.05 * k, p->c.std[k] = 0.25;
    p->c.tokens = (vt_tokens){.layers = 3,
                              .side = s.height > 1 && s.width > 1 ? 2 : 1,
                              .prefix = 1,
                              .self = p,
                              .mean = planted_mean,
                              .loss = planted_attention_loss};
    return p->kept != NULL;
}

static inline bool planted_init(planted *p, int classes, int height, int width) {
    return planted_init_of(p, classes, (vt_shape){3, height, width});
}

static inline void planted_free(planted *p) { free(p->w), free(p->b), free(p->a), free(p->kept); }

/* Weights from the house's generator, so that every machine plants the same. */
static inline double *planted_normals(uint64_t seed, uint32_t image, size_t n, double scale) {
    float *f = calloc(n, sizeof *f);
    double *d = calloc(n, sizeof *d);
    vt_rng_normals(&(vt_rng){.seed = seed, .purpose = vt_rng_purpose("planted"), .image = image}, f, n);
    for (size_t i = 0; i < n; i++) d[i] = scale * (double)f[i];
    free(f);
    return d;
}

/* ---- linear: z = W x + b ---- */

static inline void linear_logits(planted *p, const float *x, double *z) {
    for (int k = 0; k < p->classes; k++) {
        z[k] = p->b[k];
        for (size_t i = 0; i < p->n; i++) z[k] += p->w[(size_t)k * p->n + i] * (double)x[i];
    }
}

static inline void linear_pull(planted *p, const float *x, const float *dz, float *dx) {
    (void)x;
    for (size_t i = 0; i < p->n; i++) {
        double s = 0;
        for (int k = 0; k < p->classes; k++) s += (double)dz[k] * p->w[(size_t)k * p->n + i];
        dx[i] = (float)s;
    }
}

static inline bool planted_linear_of(planted *p, int classes, vt_shape shape, uint64_t seed) {
    if (!planted_init_of(p, classes, shape)) return false;
    p->w = planted_normals(seed, 0, (size_t)classes * p->n, 1);
    p->b = planted_normals(seed, 1, (size_t)classes, 0.1);
    p->logits = linear_logits, p->inject = linear_pull;
    return true;
}

static inline bool planted_linear(planted *p, int classes, int height, int width, uint64_t seed) {
    return planted_linear_of(p, classes, (vt_shape){3, height, width}, seed);
}

/* ---- mlp: z = A tanh(W x + b), smooth and not convex ---- */

static inline void hidden(planted *p, const float *x, double *h) {
    for (int j = 0; j < PLANTED_HIDDEN; j++) {
        h[j] = p->b[j];
        for (size_t i = 0; i < p->n; i++) h[j] += p->w[(size_t)j * p->n + i] * ((double)x[i] - 0.5);
        h[j] = tanh(h[j]);
    }
}

static inline void mlp_logits(planted *p, const float *x, double *z) {
    double h[PLANTED_HIDDEN];
    hidden(p, x, h);
    for (int k = 0; k < p->classes; k++) {
        z[k] = 0;
        for (int j = 0; j < PLANTED_HIDDEN; j++) z[k] += p->a[k * PLANTED_HIDDEN + j] * h[j];
    }
}

static inline void mlp_pull(planted *p, const float *x, const float *dz, float *dx) {
    double h[PLANTED_HIDDEN], dh[PLANTED_HIDDEN] = {0};
    hidden(p, x, h);
    for (int j = 0; j < PLANTED_HIDDEN; j++) {
        for (int k = 0; k < p->classes; k++) dh[j] += (double)dz[k] * p->a[k * PLANTED_HIDDEN + j];
        dh[j] *= 1 - h[j] * h[j];
    }
    for (size_t i = 0; i < p->n; i++) {
        double s = 0;
        for (int j = 0; j < PLANTED_HIDDEN; j++) s += dh[j] * p->w[(size_t)j * p->n + i];
        dx[i] = (float)s;
    }
}

static inline bool planted_mlp_of(planted *p, int classes, vt_shape shape, uint64_t seed) {
    if (!planted_init_of(p, classes, shape)) return false;
    p->w = planted_normals(seed, 2, PLANTED_HIDDEN * p->n, 1 / sqrt((double)p->n));
    p->b = planted_normals(seed, 3, PLANTED_HIDDEN, 0.3);
    p->a = planted_normals(seed, 4, (size_t)classes * PLANTED_HIDDEN, 1);
    p->logits = mlp_logits, p->inject = mlp_pull;
    return true;
}

static inline bool planted_mlp(planted *p, int classes, int height, int width, uint64_t seed) {
    return planted_mlp_of(p, classes, (vt_shape){3, height, width}, seed);
}

/* ---- ridge: every logit is a function of s = scale (w.x - s0) alone; slopes are what backward claims ----
 */

static inline void ridge_logits(planted *p, const float *x, double *z) {
    double s = 0, slope[PLANTED_MOST];
    for (size_t i = 0; i < p->n; i++) s += p->w[i] * (double)x[i];
    p->profile(p->scale * (s - p->s0), z, slope);
}

static inline void ridge_pull(planted *p, const float *x, const float *dz, float *dx) {
    double s = 0, z[PLANTED_MOST], slope[PLANTED_MOST], d = 0;
    for (size_t i = 0; i < p->n; i++) s += p->w[i] * (double)x[i];
    p->profile(p->scale * (s - p->s0), z, slope);
    for (int k = 0; k < p->classes; k++) d += (double)dz[k] * slope[k];
    for (size_t i = 0; i < p->n; i++) dx[i] = (float)(d * p->scale * p->w[i]);
}

/* s = 0 at the ball's centre and 1 at the ball's best point, where the box does not bind. Weights of last row
 * and column are zero: Square's windows never reach them. */
static inline bool planted_ridge(planted *p, int classes, int height, int width, uint64_t seed,
                                 void (*profile)(double, double *, double *), const vt_ball *ball) {
    if (!planted_init(p, classes, height, width)) return false;
    p->w = planted_normals(seed, 5, p->n, 1);
    p->logits = ridge_logits, p->inject = ridge_pull, p->profile = profile;
    double length = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t row = i / (size_t)width % (size_t)height, column = i % (size_t)width;
        if (row == (size_t)height - 1 || column == (size_t)width - 1) p->w[i] = 0;
        if (ball->norm == VT_L1)
            length = fmax(length, fabs(p->w[i]));
        else
            length += ball->norm == VT_LINF ? fabs(p->w[i]) : p->w[i] * p->w[i];
        p->s0 += p->w[i] * (double)ball->x[i];
    }
    p->scale = 1 / (ball->eps * (ball->norm == VT_L2 ? sqrt(length) : length));
    return true;
}

#endif
