/* SPDX-License-Identifier: MIT */
/* src/models: whole-model gradients in double, float against double, independence of images, repeatability,
 * laws. */
#include "ask.h"
#include "base/real.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "models/attn.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "inference/classifier.h"
#include "models/net/batch_gradients.h"

enum { MAX_CLASSES = 64 };

/* Runs check on a toy of every attention variant with each pool, distillation token and qkv bias that may go
 * together. */
static void each_toy(void (*check)(vt_model *m, const char *name)) {
    int n;
    const vt_attn *const *defs = vt_attns(&n);
    assert_true(n > 0);
    static const struct {
        vt_pool pool;
        bool dist, bias;
    } forms[] = {{VT_POOL_TOKEN, false, true},  {VT_POOL_AVG, false, true},  {VT_POOL_TOKEN, true, true},
                 {VT_POOL_TOKEN, false, false}, {VT_POOL_AVG, false, false}, {VT_POOL_TOKEN, true, false}};
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < T_COUNT(forms); k++) {
            vt_config c = toy_config(defs[i]->name, forms[k].pool, forms[k].dist, forms[k].bias);
            vt_model *m = toy_model(&c, 1 + k);
            char name[96];
            snprintf(name, sizeof name, "%s %s%s%s", c.attn, c.pool == VT_POOL_AVG ? "avg" : "token",
                     c.dist_token ? " dist" : "", c.qkv_bias ? "" : " no-bias");
            check(m, name);
            vt_model_close(m);
        }
}

static vt_session_f64 *open64(const vt_model *m, int capacity, vt_grad_mode mode) {
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, capacity, mode, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

static vt_session_f32 *open32(const vt_model *m, int capacity, vt_grad_mode mode) {
    vt_session_f32 *s;
    vt_err e = {0};
    if (vt_session_open_f32(&s, m, capacity, mode, &e) != VT_OK) fail_msg("%s", e.text);
    return s;
}

static float *floats(const double *x, size_t n) {
    float *f = malloc(n * sizeof *f);
    for (size_t i = 0; i < n; i++) f[i] = (float)x[i];
    return f;
}

/* ---- gradients: the tolerance of t.h, T_GRAD_TOL; batch of two, so that weight gradients add up over images
 * ---- */

enum { B = 2 };

typedef struct whole {
    vt_session_f64 *s;
    double *x, cot[B * MAX_CLASSES];
    size_t outputs;
} whole;

static double whole_scalar(void *ctx) {
    whole *w = ctx;
    return t_dot(vt_session_forward_f64(w->s, w->x, B, false), w->cot, w->outputs);
}

/* The slope of S along d, zeros and signs, from S(w + k h d), k = -2, -1, 1, 2: exact steps, for the weights lie on the
 * grid; the grid's step is long for the sharper variants along hundreds of signs, so the error is to be O(h^4). */
static double directional(whole *w, float *at, const signed char *d, size_t n) {
    const double h = TOY_GRID;
    static const int moves[5] = {-2, 1, 2, 1, -2};
    double s[4];
    for (int k = 0; k < 5; k++) {
        for (size_t i = 0; i < n; i++) at[i] += (float)(moves[k] * h) * (float)d[i];
        if (k < 4) s[k] = whole_scalar(w);
    }
    return (8 * (s[2] - s[1]) - (s[3] - s[0])) / (12 * h);
}

/* Small tensors entry by entry; larger ones along 24 random sign vectors, which every entry's error enters,
 * and at 16 single entries. */
static void check_param(whole *w, vt_model *m, const vt_param *p, const double *grad, const char *name) {
    enum { ALL = 40, SIGNS = 24, SINGLE = 16 };
    size_t n = p->numel;
    int tries = n <= ALL ? (int)n : SIGNS + SINGLE;
    double num[ALL > SIGNS + SINGLE ? ALL : SIGNS + SINGLE], ana[T_COUNT(num)];
    signed char *d = malloc(n);
    vt_rng r = {.seed = 77, .purpose = vt_rng_purpose(p->name)};
    for (int k = 0; k < tries; k++) {
        memset(d, 0, n);
        if (n <= ALL)
            d[k] = 1;
        else if (k >= SIGNS)
            d[vt_rng_bits(&r, (uint64_t)k) % n] = 1;
        r.step = (uint32_t)k;
        for (size_t i = 0; i < n && n > ALL && k < SIGNS; i++) d[i] = vt_rng_bits(&r, i) & 1 ? 1 : -1;
        num[k] = directional(w, m->w + p->offset, d, n);
        ana[k] = 0;
        for (size_t i = 0; i < n; i++) ana[k] += (double)d[i] * grad[p->offset + i];
    }
    free(d);
    if (!(t_norm(num, (size_t)tries) > 0)) fail_msg("%s: %s has a zero numeric gradient", name, p->name);
    t_le(t_rel(ana, num, (size_t)tries), T_GRAD_TOL, "%s: gradient of %s", name, p->name);
}

static void check_gradients(vt_model *m, const char *name) {
    size_t total = m->params.total, len = B * toy_pixels(m);
    double *grad = calloc(total, sizeof *grad), *dx = malloc(len * sizeof *dx);
    whole w = {.s = open64(m, B, VT_GRAD_PARAMS), .x = toy_images(m, B, 3), .outputs = B * (size_t)m->config.classes};
    t_normals(w.cot, w.outputs, 4, 1);
    vt_session_forward_f64(w.s, w.x, B, true);
    vt_session_backward_f64(w.s, w.cot, dx, grad);
    char what[120];
    snprintf(what, sizeof what, "%s: dx", name);
    t_grad(whole_scalar, &w, w.x, len, dx, what);
    for (int i = 0; i < m->params.count; i++) check_param(&w, m, &m->params.items[i], grad, name);
    vt_session_close_f64(w.s);
    free(w.x), free(grad), free(dx);
}

static void test_gradients(void **state) {
    (void)state;
    each_toy(check_gradients);
}

/* Accumulation, NULL arguments and repetition, in double; the second cotangent in between would leave stale
 * buffers. */
static void check_backward(vt_model *m, const char *name) {
    size_t total = m->params.total, len = B * toy_pixels(m), bytes = len * sizeof(double);
    double *grad = calloc(total, 8), *twice = calloc(total, 8), *dx = malloc(bytes), *other = malloc(bytes),
           *x = toy_images(m, B, 3);
    double cot[B * MAX_CLASSES], cot2[B * MAX_CLASSES];
    t_normals(cot, T_COUNT(cot), 4, 1), t_normals(cot2, T_COUNT(cot2), 5, 1);
    vt_session_f64 *s = open64(m, B, VT_GRAD_PARAMS), *input = open64(m, B, VT_GRAD_INPUT);
    vt_session_forward_f64(s, x, B, true);
    vt_session_backward_f64(s, cot, dx, grad);
    assert_true(t_norm(dx, len) > 0);
    vt_session_backward_f64(s, cot2, other, NULL);
    t_le(-t_rel(other, dx, len), -1e-3, "%s: another cotangent gives another dx; minus the difference", name);
    vt_session_backward_f64(s, cot, other, NULL);
    assert_memory_equal(other, dx, bytes);        /* no weight gradient wanted */
    vt_session_backward_f64(s, cot, NULL, twice); /* no dx wanted */
    assert_memory_equal(twice, grad, total * 8);
    vt_session_backward_f64(s, cot, other, twice);
    assert_memory_equal(other, dx, bytes);
    for (size_t i = 0; i < total; i++)
        t_le(fabs(twice[i] - 2 * grad[i]), 1e-12 * (1 + fabs(grad[i])), "%s: gradients accumulate", name);
    for (int k = 0; k < 2; k++) { /* a session that never plans weight gradients, twice */
        memset(other, 0x5A, bytes);
        vt_session_forward_f64(input, x, B, true);
        vt_session_backward_f64(input, cot, other, NULL);
        assert_memory_equal(other, dx, bytes);
    }
    vt_session_forward_f64(input, x, B, false);
    memset(other, 0x5A, bytes), memset(dx, 0x5A, bytes);
    vt_session_backward_f64(input, cot, other, NULL); /* nothing was kept: nothing may be written */
    assert_memory_equal(other, dx, bytes);
    vt_session_close_f64(s), vt_session_close_f64(input);
    free(grad), free(twice), free(dx), free(other), free(x);
}

static void test_backward(void **state) {
    (void)state;
    each_toy(check_backward);
}

/* ---- forward ---- */

/* keep or not, and whatever the session is for: the same logits bit for bit, in both precisions. */
static void check_keep(vt_model *m, const char *name) {
    (void)name;
    double *x = toy_images(m, 1, 3), want[MAX_CLASSES];
    float *xf = floats(x, toy_pixels(m)), want32[MAX_CLASSES];
    size_t k = (size_t)m->config.classes;
    for (int mode = VT_GRAD_NONE; mode <= VT_GRAD_PARAMS; mode++)
        for (int keep = 0; keep < 4; keep++) { /* off, on, off, on: each after the other */
            vt_session_f64 *s = open64(m, 1, (vt_grad_mode)mode);
            vt_session_f32 *f = open32(m, 1, (vt_grad_mode)mode);
            for (int i = 0; i <= keep; i++) {
                const double *z = vt_session_forward_f64(s, x, 1, i & 1);
                const float *z32 = vt_session_forward_f32(f, xf, 1, i & 1);
                if (mode == VT_GRAD_NONE && keep == 0)
                    memcpy(want, z, k * sizeof *want), memcpy(want32, z32, k * sizeof *want32);
                assert_memory_equal(z, want, k * sizeof *z);
                assert_memory_equal(z32, want32, k * sizeof *z32);
                assert_ptr_equal(z32, f->logits);
            }
            vt_session_close_f64(s), vt_session_close_f32(f);
        }
    free(x), free(xf);
}

static void test_keep(void **state) {
    (void)state;
    each_toy(check_keep);
}

/* A batch of three against three single images: in double only the order of sums inside BLAS may differ
 * (1e-12). One image at a time, results are bit for bit those of a session that has seen nothing else. */
static void check_images(vt_model *m, const char *name) {
    enum { N = 3 };
    size_t n = toy_pixels(m), k = (size_t)m->config.classes;
    double *x = toy_images(m, N, 3), *dx = malloc(N * n * 8), *one = malloc(n * 8), z[N * MAX_CLASSES],
           cot[N * MAX_CLASSES];
    t_normals(cot, N * k, 4, 1);
    vt_session_f64 *s = open64(m, N, VT_GRAD_INPUT);
    memcpy(z, vt_session_forward_f64(s, x, N, true), N * k * 8);
    vt_session_backward_f64(s, cot, dx, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < N; i++) {
            const double *zi = vt_session_forward_f64(s, x + i * n, 1, true);
            t_le(t_max_diff(zi, z + i * k, k), 1e-12, "%s: logits of image %zu", name, i);
            vt_session_backward_f64(s, cot + i * k, one, NULL);
            t_le(t_max_diff(one, dx + i * n, n), 1e-12 * (1 + t_max(dx + i * n, n)), "%s: dx of image %zu", name, i);
            vt_session_f64 *fresh = open64(m, 1, VT_GRAD_INPUT);
            assert_memory_equal(vt_session_forward_f64(fresh, x + i * n, 1, true), zi, k * 8);
            double *alone = malloc(n * 8);
            vt_session_backward_f64(fresh, cot + i * k, alone, NULL);
            assert_memory_equal(alone, one, n * 8);
            vt_session_close_f64(fresh);
            free(alone);
        }
    vt_session_close_f64(s);
    free(x), free(dx), free(one);
}

static void test_images(void **state) {
    (void)state;
    each_toy(check_images);
}

/* An image alone, whose last attention forms no keys, against a batch, whose does: dx and the weights' gradients of it,
 * twice over the second image. Both are the same sums in two orders. */
static void check_few(const vt_config *c, const char *name) {
    vt_model *m = toy_model(c, 5);
    assert_true(vt_attn_may_be_few(c, c->dist_token ? 2 : 1, vt_config_tokens(c)));
    check_images(m, name);
    size_t n = toy_pixels(m), k = (size_t)c->classes, total = m->params.total;
    double *x = toy_images(m, 2, 6), *both = calloc(total, 8), *single = calloc(total, 8), cot[2 * MAX_CLASSES];
    t_normals(cot, 2 * k, 7, 1);
    vt_session_f64 *s = open64(m, 2, VT_GRAD_PARAMS);
    vt_session_forward_f64(s, x, 2, true);
    vt_session_backward_f64(s, cot, NULL, both);
    for (size_t i = 0; i < 2; i++) {
        vt_session_forward_f64(s, x + i * n, 1, true);
        vt_session_backward_f64(s, cot + i * k, NULL, single);
    }
    t_le(t_max_diff(both, single, total), 1e-12 * (1 + t_max(both, total)), "%s: weights", name);
    vt_session_close_f64(s), vt_model_close(m);
    free(x), free(both), free(single);
}

static void test_few(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    check_few(&c, "biases");
    c.tied_qk = true;
    check_few(&c, "tied");
    c.qkv_bias = false;
    check_few(&c, "tied, no biases");
    c = toy_config("dot", VT_POOL_TOKEN, true, true), c.heads = 2;
    check_few(&c, "two tokens");
    c = toy_config("dot", VT_POOL_TOKEN, false, true), c.post_norm = true;
    check_few(&c, "post-norm");
}

/* What all tokens share at the last attention, a thousand times what differs, and biases that take it away again: no
 * way keeps more than 1000 * 2^-24 of a sum, some 6e-5 of the logits and of dx's largest (ten times that here, for the
 * sums are of a dozen terms); a way that lets the shared part into the gradient of the scores loses 1000 times as much.
 */
static void test_few_shift(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    vt_model *m = toy_model(&c, 8);
    size_t n = toy_pixels(m), k = (size_t)c.classes, d = (size_t)c.dim;
    double shift[16], *x = toy_images(m, 1, 9), *dx = malloc(n * 8), cot[MAX_CLASSES];
    float *xf = floats(x, n), *df = malloc(n * sizeof *df);
    float *beta = m->w + vt_model_param(m, "blocks.1.norm1.bias")->offset;
    float *b = m->w + vt_model_param(m, "blocks.1.attn.qkv.bias")->offset;
    const float *w = m->w + vt_model_param(m, "blocks.1.attn.qkv.weight")->offset;
    t_normals(shift, d, 10, 1000), t_normals(cot, k, 11, 1);
    for (size_t j = 0; j < d; j++) beta[j] += (float)(shift[j] = round(shift[j]));
    for (size_t i = 0; i < 3 * d; i++)
        for (size_t j = 0; j < d; j++) b[i] -= (float)(shift[j] * (double)w[i * d + j]);
    vt_model_refresh(m);
    vt_session_f64 *s = open64(m, 1, VT_GRAD_INPUT);
    vt_session_f32 *f = open32(m, 1, VT_GRAD_INPUT);
    float *cf = floats(cot, k);
    for (size_t i = 0; i < k; i++) cot[i] = (double)cf[i];
    const double *z = vt_session_forward_f64(s, x, 1, true);
    const float *zf = vt_session_forward_f32(f, xf, 1, true);
    vt_session_backward_f64(s, cot, dx, NULL), vt_session_backward_f32(f, cf, df, NULL);
    for (size_t i = 0; i < k; i++) t_le(fabs((double)zf[i] - z[i]), 6e-4 * (1 + t_max(z, k)), "logit %zu", i);
    for (size_t i = 0; i < n; i++) t_le(fabs((double)df[i] - dx[i]), 6e-4 * t_max(dx, n), "dx %zu", i);
    vt_session_close_f64(s), vt_session_close_f32(f), vt_model_close(m);
    free(x), free(dx), free(xf), free(df), free(cf);
}

/* Float against double. A logit lies 4 depth + 2 = 10 products deep, each a sum of at most 48 terms that
 * float rounds to within 48 * 2^-24 = 3e-6 of the terms' size; ten of them: 3e-5 of the logits' scale, and
 * three times that on the way back, relative to the largest element of dx. The transposed copies are an equal
 * road. */
static void check_float(vt_model *m, const char *name) {
    size_t n = toy_pixels(m), k = (size_t)m->config.classes;
    double *x = toy_images(m, 1, 3), *dx = malloc(n * 8), cot[MAX_CLASSES], scale;
    float *xf = floats(x, n), *dxf = malloc(n * 4), *cotf, *wt;
    vt_err e = {0};
    assert_int_equal(vt_model_prepare(m, &e), VT_OK);
    wt = m->wt;
    t_normals(cot, k, 4, 1);
    cotf = floats(cot, k);
    vt_session_f64 *s = open64(m, 1, VT_GRAD_INPUT);
    const double *z = vt_session_forward_f64(s, x, 1, true);
    vt_session_backward_f64(s, cot, dx, NULL);
    for (int transposed = 0; transposed < 2; transposed++) {
        m->wt = transposed ? wt : NULL;
        vt_session_f32 *f = open32(m, 1, VT_GRAD_INPUT);
        const float *zf = vt_session_forward_f32(f, xf, 1, true);
        for (size_t i = 0; i < k; i++)
            t_le(fabs((double)zf[i] - z[i]), 3e-5 * (1 + t_max(z, k)), "%s: float logit", name);
        vt_session_backward_f32(f, cotf, dxf, NULL);
        scale = t_max(dx, n);
        for (size_t i = 0; i < n; i++) t_le(fabs((double)dxf[i] - dx[i]), 1e-4 * scale, "%s: float dx[%zu]", name, i);
        vt_session_close_f32(f);
    }
    m->wt = wt;
    vt_session_close_f64(s);
    free(x), free(dx), free(xf), free(dxf), free(cotf);
}

static void test_float(void **state) {
    (void)state;
    each_toy(check_float);
}

/* ---- laws ---- */

/* Image with its patches in another order: patch p of the result is patch order[p] of x. */
static void permute(double *out, const double *x, const vt_config *c, const int *order) {
    int side = vt_config_side(c), ps = c->patch, w = c->image;
    for (int p = 0; p < side * side; p++)
        for (int ch = 0; ch < 3; ch++)
            for (int y = 0; y < ps; y++)
                for (int i = 0; i < ps; i++)
                    out[(ch * w + p / side * ps + y) * w + p % side * ps + i] =
                        x[(ch * w + order[p] / side * ps + y) * w + order[p] % side * ps + i];
}

/* Without positions on the patches the logits do not see their order; with them they do. 1e-12: sums over
 * tokens run in another order. */
static void check_permutation(vt_model *m, const char *name) {
    static const int order[9] = {4, 8, 0, 6, 2, 1, 7, 3, 5};
    const vt_config *c = &m->config;
    size_t k = (size_t)c->classes;
    double *x = toy_images(m, 1, 3), *moved = malloc(toy_pixels(m) * 8), z[MAX_CLASSES];
    permute(moved, x, c, order);
    vt_session_f64 *s = open64(m, 1, VT_GRAD_NONE);
    memcpy(z, vt_session_forward_f64(s, x, 1, false), k * 8);
    t_le(-t_max_diff(vt_session_forward_f64(s, moved, 1, false), z, k), -1e-3,
         "%s: positions matter; minus the difference", name);
    const vt_param *pos = vt_model_param(m, "pos_embed");
    size_t prefix = (size_t)(vt_config_prefix(c) * c->dim);
    memset(m->w + pos->offset + prefix, 0, (pos->numel - prefix) * sizeof(float));
    memcpy(z, vt_session_forward_f64(s, x, 1, false), k * 8);
    t_le(t_max_diff(vt_session_forward_f64(s, moved, 1, false), z, k), 1e-12, "%s: permuted patches", name);
    vt_session_close_f64(s);
    free(x), free(moved);
}

static void test_permutation(void **state) {
    (void)state;
    each_toy(check_permutation);
}

static void clear_param(vt_model *m, const char *name, float *saved) {
    const vt_param *p = vt_model_param(m, name);
    memcpy(saved, m->w + p->offset, p->numel * sizeof(float));
    memset(m->w + p->offset, 0, p->numel * sizeof(float));
}

/* Logits are (head + head_dist) / 2: with one head zeroed the other's half remains, and halves add up
 * exactly. */
static void test_distilled(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, true, true);
    double *x = toy_images(m, 1, 3), z[MAX_CLASSES], half[2][MAX_CLASSES];
    size_t k = (size_t)m->config.classes;
    static const char *const names[2][2] = {{"head.weight", "head.bias"}, {"head_dist.weight", "head_dist.bias"}};
    vt_session_f64 *s = open64(m, 1, VT_GRAD_NONE);
    memcpy(z, vt_session_forward_f64(s, x, 1, false), k * 8);
    for (int h = 0; h < 2; h++) {
        float w[256], b[256];
        clear_param(m, names[h][0], w), clear_param(m, names[h][1], b);
        memcpy(half[h], vt_session_forward_f64(s, x, 1, false), k * 8);
        const vt_param *p = vt_model_param(m, names[h][0]), *q = vt_model_param(m, names[h][1]);
        memcpy(m->w + p->offset, w, p->numel * 4), memcpy(m->w + q->offset, b, q->numel * 4);
        assert_true(t_norm(half[h], k) > 0);
    }
    for (size_t i = 0; i < k; i++) assert_true(half[0][i] + half[1][i] == z[i]);
    assert_true(t_max_diff(half[0], half[1], k) > 1e-3); /* two heads, two tokens */
    vt_session_close_f64(s);
    vt_model_close(m);
    free(x);
}

/* mean and std lie inside the model: it sees (x - mean) / std and nothing else. */
static void test_normalisation(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    double *x = toy_images(m, 1, 3), z[MAX_CLASSES];
    size_t k = (size_t)m->config.classes, plane = toy_pixels(m) / 3;
    vt_session_f64 *s = open64(m, 1, VT_GRAD_NONE);
    memcpy(z, vt_session_forward_f64(s, x, 1, false), k * 8);
    for (size_t i = 0; i < 3 * plane; i++) x[i] = (x[i] - m->config.mean[i / plane]) / m->config.std[i / plane];
    for (int c = 0; c < 3; c++) m->config.mean[c] = 0, m->config.std[c] = 1;
    assert_memory_equal(vt_session_forward_f64(s, x, 1, false), z, k * 8);
    vt_session_close_f64(s);
    vt_model_close(m);
    free(x);
}

/* ---- the two callers of sessions ---- */

/* A classifier is a float session and a double one on the same stored image. */
static void test_classifier(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_AVG, false, true);
    vt_classifier c;
    vt_err e = {0};
    assert_int_equal(vt_classifier_open(&c, m, &e), VT_OK);
    size_t n = toy_pixels(m), k = (size_t)m->config.classes;
    assert_true(c.classes == m->config.classes && c.pixels == n);
    double *x = toy_images(m, 1, 3), z64[MAX_CLASSES];
    float *xf = floats(x, n), *dx = malloc(n * 4), *want = malloc(n * 4), z[MAX_CLASSES], dz[MAX_CLASSES], value,
          target[MAX_CLASSES] = {0, 0, 1};
    vt_session_f32 *f = open32(m, 1, VT_GRAD_INPUT);
    vt_session_f64 *s = open64(m, 1, VT_GRAD_NONE);
    vt_loss loss = {.kind = VT_LOSS_CE, .target = target};
    ask_logits(&c, xf, z, true);
    assert_memory_equal(z, vt_session_forward_f32(f, xf, 1, true), k * sizeof *z);
    ask_logits64(&c, xf, z64); /* between a kept forward and its backward */
    assert_memory_equal(z64, vt_session_forward_f64(s, x, 1, false), k * sizeof *z64);
    ask_backward(&c, &loss, &value, dx);
    assert_true(value == vt_loss_eval_f32(dz, &loss, z, c.classes));
    vt_session_backward_f32(f, dz, want, NULL);
    assert_memory_equal(dx, want, n * sizeof *dx);
    vt_classifier_close(&c), vt_classifier_close(&c);
    vt_session_close_f32(f), vt_session_close_f64(s);
    vt_session_close_f32(NULL), vt_session_close_f64(NULL);
    vt_model_close(m), vt_model_close(NULL);
    free(x), free(xf), free(dx), free(want);
}

static void test_probe_refuses(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    double *x = toy_images(m, 2, 3);
    static const int64_t good[2] = {0, 4}, high[2] = {0, 5}, low[2] = {-1, 0};
    vt_batch_gradients p = {0};
    vt_err e = {0};
    t_says(vt_batch_gradients_run_f64(&p, m, x, 2, high, NULL, NULL, VT_LOSS_CE, false, &e), VT_E_RANGE, &e,
           "label 5 of image 1", "5 classes");
    t_says(vt_batch_gradients_run_f64(&p, m, x, 2, low, NULL, NULL, VT_LOSS_CE, false, &e), VT_E_RANGE, &e,
           "label -1 of image 0", "");
    t_says(vt_batch_gradients_run_f64(&p, m, x, 2, good, high, NULL, VT_LOSS_DLR_T, false, &e), VT_E_RANGE, &e,
           "target 5", "");
    assert_int_equal(vt_batch_gradients_run_f64(&p, m, x, 2, good, NULL, NULL, VT_LOSS_CE, false, &e), VT_OK);
    assert_null(p.dparams);
    vt_batch_gradients_free(&p), vt_batch_gradients_free(&p);
    vt_model_close(m);
    free(x);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),     cmocka_unit_test(test_backward),      cmocka_unit_test(test_keep),
        cmocka_unit_test(test_images),        cmocka_unit_test(test_float),         cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_distilled),     cmocka_unit_test(test_normalisation), cmocka_unit_test(test_classifier),
        cmocka_unit_test(test_probe_refuses), cmocka_unit_test(test_few),           cmocka_unit_test(test_few_shift),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
