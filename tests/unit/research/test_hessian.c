/* SPDX-License-Identifier: MIT */
/* analysis/hessian: products against the dense Hessian of training's own gradients and its eigenvalues by LAPACK,
 * against second differences of the loss alone in every architecture, against the closed form of the block of the head;
 * what a change of scale does to raw and to relative eigenvalues (UAM, Theorem 4, for a ViT). */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "linalg/svd.h"
#include "models/forms.h"
#include "models/net/session64.h"
#include "research/analysis/hessian.h"
#include "train/objective.h"

enum { IMAGES = 3, K = 5 };

typedef struct bench {
    vt_model *m;
    vt_hessian h;
    float *x;
    int labels[IMAGES];
} bench;

static bench open_bench(vt_model *m, int threads) {
    bench b = {.m = m};
    vt_err e = {0};
    double *x = toy_images(m, IMAGES, 7);
    size_t n = IMAGES * toy_pixels(m);
    b.x = malloc(n * sizeof *b.x);
    for (size_t i = 0; i < n; i++) b.x[i] = (float)x[i];
    for (int i = 0; i < IMAGES; i++) b.labels[i] = (2 * i + 1) % m->config.classes;
    if (vt_hessian_open(&b.h, m, IMAGES, threads, &e) != VT_OK) fail_msg("%s", e.text);
    free(x);
    return b;
}

/* The bench has moved to where it stays: its Hessian may point at its labels. */
static vt_symmetric operator_of(bench *b) {
    b->h.x = b->x, b->h.labels = b->labels, b->h.images = IMAGES;
    return vt_hessian_operator(&b->h);
}

static void close_bench(bench *b) {
    vt_hessian_close(&b->h);
    vt_model_close(b->m);
    free(b->x);
}

/* 2 x 2 patches, two heads of width 2: some 400 parameters a block. */
static vt_model *small(const char *arch, const char *attn, const char *forms, int depth, uint64_t seed) {
    vt_config c = toy_config(attn, VT_POOL_TOKEN, false, true);
    vt_err e = {0};
    c.patch = 6, c.dim = 4, c.depth = depth, c.heads = 2, c.hidden = 6, c.classes = K;
    if (!strcmp(arch, "xcit")) c.image = 16, c.patch = 8; /* its stem's */
    snprintf(c.arch, sizeof c.arch, "%s", arch);
    if (vt_form_parse(&c, forms, arch, &e) != VT_OK) fail_msg("%s", e.text);
    if (vt_config_check(&c, arch, &e) != VT_OK) fail_msg("%s", e.text);
    return toy_model(&c, seed);
}

static double loss_of(bench *b) {
    double loss;
    assert_int_equal(vt_hessian_loss(&b->h, &loss, NULL, NULL, NULL), VT_OK);
    return loss;
}

/* ---- the dense Hessian ---- */

/* Gradient of the mean cross-entropy at w, as training takes it: all images at once, the objective "ce". */
static void training_gradient(double *g, const bench *b, vt_session_f64 *s, const double *w) {
    const vt_model *m = b->m;
    vt_step_sums sums;
    float target[IMAGES * K] = {0};
    double dz[IMAGES * K], *x = malloc(IMAGES * toy_pixels(m) * sizeof *x);
    for (size_t i = 0; i < IMAGES * toy_pixels(m); i++) x[i] = (double)b->x[i];
    for (int i = 0; i < IMAGES; i++) target[i * K + b->labels[i]] = 1;
    memset(g, 0, m->params.total * sizeof *g);
    s->master = w;
    vt_micro_gradient_f64(g, &sums, s, vt_objective_find_f64("ce"), NULL, x, target, IMAGES, 1.0 / IMAGES, dz);
    free(x);
}

/* Where each of the operator's components lies among the model's reals. */
static size_t *places(const vt_model *m) {
    size_t *at = malloc(m->params.total * sizeof *at), n = 0;
    for (int i = 0; i < m->params.count; i++)
        for (size_t k = 0; k < m->params.items[i].numel && !m->params.items[i].buffer; k++)
            at[n++] = m->params.items[i].offset + k;
    assert_int_equal(n, vt_model_param_count(m));
    return at;
}

/* Column by column, (8 (g(h) - g(-h)) - (g(2h) - g(-2h))) / 12h with h = 2^-11: truncation h^4/30 of the fifth
 * derivative, 2e-15 of it, rounding some 2^-53 / h = 2e-13 of a gradient of size 1. */
static double *dense_hessian(const bench *b) {
    static const double at[4] = {1, -1, 2, -2}, weight[4] = {8, -8, -1, 1};
    const double h = 0x1p-11;
    size_t n = b->h.n, total = b->m->params.total, *place = places(b->m);
    double *a = calloc(n * n, sizeof *a), *w = malloc(total * sizeof *w), *g = malloc(total * sizeof *g);
    vt_session_f64 *s;
    assert_int_equal(vt_session_open_f64(&s, b->m, IMAGES, VT_GRAD_PARAMS, NULL), VT_OK);
    memcpy(w, b->h.theta, total * sizeof *w);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) {
            w[place[i]] = b->h.theta[place[i]] + at[k] * h;
            training_gradient(g, b, s, w);
            w[place[i]] = b->h.theta[place[i]];
            for (size_t j = 0; j < n; j++) a[i * n + j] += weight[k] * g[place[j]] / (12 * h);
        }
    vt_session_close_f64(s);
    free(place), free(w), free(g);
    return a;
}

/* Largest eigenvalues of dense a by LAPACK and of op by Lanczos; the trace within five standard errors. */
static void same_spectrum(const double *a, const vt_symmetric *op, const char *what) {
    int n = (int)op->n;
    double *lapack = malloc(op->n * sizeof *lapack), found[K], residuals[K], trace, error, sum = 0;
    vt_err e = {0};
    vt_lanczos_result r = {.values = found, .residuals = residuals};
    assert_int_equal(vt_eigen_symmetric(lapack, NULL, a, n, &e), VT_OK);
    if (vt_lanczos_run(&r, op, &(vt_lanczos){.k = K, .most = n, .tol = 1e-9, .seed = 1}, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_int_equal(r.converged, K);
    /* an eigenvalue moves by no more than the error of the products does: 2e-8 of the largest (hessian.c) */
    for (int i = 0; i < K; i++)
        t_le(fabs(found[i] - lapack[i]) / lapack[0], 1e-7, "%s: eigenvalue %d of %g", what, i, lapack[i]);
    t_le(lapack[n - 1] - r.lowest, 1e-7 * lapack[0], "%s: the lowest Ritz value is below the lowest eigenvalue", what);
    assert_int_equal(vt_hutchinson_trace(&trace, &error, op, 200, 2, &e), VT_OK);
    for (int i = 0; i < n; i++) sum += lapack[i];
    t_le(fabs(trace - sum), 5 * error, "%s: trace %g, by LAPACK %g", what, trace, sum);
    assert_true(error < fabs(lapack[0]));
    free(lapack);
}

static void test_dense(void **state) {
    (void)state;
    bench b = open_bench(small("vit", "dot", "", 1, 3), 2);
    vt_symmetric op = operator_of(&b);
    size_t n = op.n;
    double *a = dense_hessian(&b), *v = malloc(3 * n * sizeof *v), *y = v + n, *want = y + n, skew = 0, size = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            size = fmax(size, fabs(a[i * n + j])), skew = fmax(skew, fabs(a[i * n + j] - a[j * n + i]));
    t_le(skew, 1e-10 * size, "the dense Hessian is not symmetric: the judge is off");
    for (int t = 0; t < 20;
         t++) { /* random directions, then single parameters, far from the gaps between tensors too */
        if (t < 10) t_normals(v, n, 20 + (uint64_t)t, t + 1);
        if (t >= 10) memset(v, 0, n * sizeof *v), v[(size_t)(t - 10) * (n - 1) / 9] = 1;
        assert_int_equal(op.apply(op.ctx, v, y, NULL), VT_OK);
        for (size_t i = 0; i < n; i++) want[i] = t_dot(a + i * n, v, n);
        /* rounding, which rules in so small a network: 2^-53 / t is 2e-10 of a gradient of size 1 for |v| = 1 */
        t_le(t_max_diff(y, want, n), 1e-8 * t_norm(v, n), "product %d of size %g", t, t_norm(want, n));
    }
    same_spectrum(a, &op, "raw");
    double *d = malloc(2 * n * sizeof *d);
    vt_hessian_size(&b.h, d);
    for (size_t i = 0; i < n * n; i++) a[i] *= d[i / n] * d[i % n];
    vt_relative r = {op, d, d + n};
    vt_symmetric relative = vt_relative_operator(&r);
    same_spectrum(a, &relative, "relative");
    free(a), free(v), free(d);
    close_bench(&b);
}

/* ---- every architecture ---- */

static const struct kind {
    const char *arch, *attn, *forms;
    int depth;
} kinds[] = {
    {"vit", "dot", "", 2},
    {"vit", "dot", "pool=avg qk_norm=1 registers=1", 1},
    {"vit", "dot", "act=relu", 2}, /* kinks, none within a step along these lines */
    {"vit", "l2", "", 1},
    {"vit", "lipnorm", "", 1},
    {"vit", "scsa", "norm=center final_norm=center factor=alpha", 1},
    {"convit", "dot", "local_blocks=1", 2},
    {"swin", "dot", "pool=avg norm_first=1 no_cls=1 stages=1 stage_depth=2 stage_heads=2 window=2", 2},
    {"xcit", "dot", "class_blocks=1 tokens_norm=1 eta=0.5", 1}, /* BatchNorm: buffers stay out */
};

/* Along v of length 1: (-f(2h) + 16 f(h) - 30 f(0) + 16 f(-h) - f(-2h)) / 12h^2 of the loss; no gradient is in it. */
static double bend(bench *b, const double *v, const size_t *place) {
    static const double at[5] = {0, 1, -1, 2, -2}, weight[5] = {-30, 16, 16, -1, -1};
    const double h = 0x1p-11;
    double f = 0, *theta = b->h.theta, *kept = malloc(b->m->params.total * sizeof *kept);
    memcpy(kept, theta, b->m->params.total * sizeof *kept);
    for (int k = 0; k < 5; k++) {
        for (size_t j = 0; j < b->h.n; j++) theta[place[j]] = kept[place[j]] + at[k] * h * v[j];
        f += weight[k] * loss_of(b) / (12 * h * h);
    }
    memcpy(theta, kept, b->m->params.total * sizeof *kept);
    free(kept);
    return f;
}

static void test_curvature(void **state) {
    (void)state;
    for (size_t i = 0; i < T_COUNT(kinds); i++) {
        const struct kind *q = &kinds[i];
        bench b = open_bench(small(q->arch, q->attn, q->forms, q->depth, 3 + i), 1);
        vt_symmetric op = operator_of(&b);
        size_t n = op.n, *place = places(b.m);
        double *v = malloc(2 * n * sizeof *v), *y = v + n, most = 0;
        for (uint64_t t = 0; t < 4; t++) {
            t_normals(v, n, 40 + t, 1);
            double size = t_norm(v, n);
            for (size_t k = 0; k < n; k++) v[k] /= size;
            assert_int_equal(op.apply(op.ctx, v, y, NULL), VT_OK);
            /* rounding 64/12 2^-53 f / h^2 = 5e-9 for a loss of 2, truncation h^4/90 |f6|, for scsa's 1/|q|^4 3e-9 */
            t_le(fabs(t_dot(v, y, n) - bend(&b, v, place)), 2e-8, "%s %s %s, direction %d", q->arch, q->attn, q->forms,
                 (int)t);
            most = fmax(most, fabs(t_dot(v, y, n)));
        }
        assert_true(most > 1e-3);
        vt_hessian_check c;
        assert_int_equal(vt_hessian_examine(&c, &b.h, v, 3, NULL), VT_OK);
        t_le(c.symmetry, 1e-6, "%s %s %s: symmetry", q->arch, q->attn, q->forms);
        t_le(c.halved, 1e-6, "%s %s %s: step halved", q->arch, q->attn, q->forms);
        free(v), free(place);
        close_bench(&b);
    }
}

/* ---- the head: softmax regression on features, whose Hessian has a closed form ---- */

/* features [IMAGES, dim + 1] (and 1, for the bias): the logits of a head that is the identity. */
static void features_of(double *phi, bench *b) {
    const vt_param *w = vt_model_param(b->m, "head.weight"), *bias = vt_model_param(b->m, "head.bias");
    int d = b->m->config.dim;
    double kept[K * 8], kept_bias[K], z[IMAGES * K], loss, *theta = b->h.theta;
    memcpy(kept, theta + w->offset, w->numel * sizeof *kept);
    memcpy(kept_bias, theta + bias->offset, K * sizeof *kept_bias);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < d; j++) theta[w->offset + (size_t)(k * d + j)] = k == j;
    memset(theta + bias->offset, 0, K * sizeof *theta);
    assert_int_equal(vt_hessian_loss(&b->h, &loss, NULL, z, NULL), VT_OK);
    memcpy(theta + w->offset, kept, w->numel * sizeof *kept);
    memcpy(theta + bias->offset, kept_bias, K * sizeof *kept_bias);
    for (int i = 0; i < IMAGES; i++)
        for (int j = 0; j <= d; j++) phi[i * (d + 1) + j] = j < d ? z[i * K + j] : 1;
}

/* Of weights [K, dim] and bias [K], in directions [K, dim + 1]: y = mean_i ((diag p - p p^T) V phi) phi^T. */
static void closed_form(double *y, const double *v, const double *phi, const double *z, int d) {
    memset(y, 0, (size_t)(K * (d + 1)) * sizeof *y);
    for (int i = 0; i < IMAGES; i++) {
        double p[K], u[K], sum = 0, mean = 0;
        const double *f = phi + i * (d + 1);
        for (int k = 0; k < K; k++) sum += exp(z[i * K + k]);
        for (int k = 0; k < K; k++)
            p[k] = exp(z[i * K + k]) / sum, u[k] = t_dot(v + k * (d + 1), f, (size_t)d + 1), mean += p[k] * u[k];
        for (int k = 0; k < K; k++)
            for (int j = 0; j <= d; j++) y[k * (d + 1) + j] += p[k] * (u[k] - mean) * f[j] / IMAGES;
    }
}

static void test_head(void **state) {
    (void)state;
    bench b = open_bench(small("vit", "dot", "", 2, 9), 2);
    vt_symmetric op = operator_of(&b);
    enum { D = 4, PLACES = K * (D + 1) };
    double phi[IMAGES * (D + 1)], z[IMAGES * K], v[PLACES], want[PLACES], got[PLACES], loss;
    double *whole = malloc(2 * op.n * sizeof *whole), *y = whole + op.n;
    size_t *place = places(b.m), at[PLACES], w = vt_model_param(b.m, "head.weight")->offset,
           bias = vt_model_param(b.m, "head.bias")->offset;
    for (size_t i = 0; i < op.n; i++)
        for (size_t k = 0; k < K; k++) {
            for (size_t j = 0; j < D; j++)
                if (place[i] == w + k * D + j) at[k * (D + 1) + j] = i;
            if (place[i] == bias + k) at[k * (D + 1) + D] = i;
        }
    assert_int_equal(vt_hessian_loss(&b.h, &loss, NULL, z, NULL), VT_OK);
    features_of(phi, &b);
    for (uint64_t t = 0; t < 10; t++) {
        t_normals(v, PLACES, 60 + t, 1);
        memset(whole, 0, op.n * sizeof *whole);
        for (int k = 0; k < PLACES; k++) whole[at[k]] = v[k];
        assert_int_equal(op.apply(op.ctx, whole, y, NULL), VT_OK);
        for (int k = 0; k < PLACES; k++) got[k] = y[at[k]];
        closed_form(want, v, phi, z, D);
        /* 2^-53 |v| / t is 1e-9 of a gradient of size 1, the products are about 0.3 */
        t_le(t_rel(got, want, PLACES), 1e-7, "block of the head, direction %d", (int)t);
    }
    free(whole), free(place);
    close_bench(&b);
}

/* ---- Theorem 4 for a ViT ---- */

typedef struct top {
    double raw, relative, logits[IMAGES * K];
} top;

static top top_of(bench *b) {
    top t;
    double residual, loss, *d = malloc(2 * b->h.n * sizeof *d);
    vt_symmetric op = operator_of(b);
    vt_hessian_size(&b->h, d);
    vt_relative r = {op, d, d + op.n};
    vt_symmetric relative = vt_relative_operator(&r);
    const vt_lanczos one = {.k = 1, .tol = 1e-9, .seed = 1};
    vt_lanczos_result got = {.values = &t.raw, .residuals = &residual};
    assert_int_equal(vt_hessian_loss(&b->h, &loss, NULL, t.logits, NULL), VT_OK);
    assert_int_equal(vt_lanczos_run(&got, &op, &one, NULL), VT_OK);
    assert_int_equal(got.converged, 1);
    got.values = &t.relative;
    assert_int_equal(vt_lanczos_run(&got, &relative, &one, NULL), VT_OK);
    assert_int_equal(got.converged, 1);
    free(d);
    return t;
}

static void test_theorem_4(void **state) {
    (void)state;
    static const vt_weight_kind pairs[2][2] = {{VT_WEIGHT_V, VT_WEIGHT_O}, {VT_WEIGHT_Q, VT_WEIGHT_K}};
    for (size_t i = 0; i < T_COUNT(kinds); i++)
        for (int k = 0; k < 2; k++) {
            const struct kind *q = &kinds[i];
            /* lipnorm's scores know the lengths of v; those of distances, and normed q and k, are another matter */
            bool looks = !strcmp(q->attn, "lipnorm"),
                 products = !strcmp(q->attn, "dot") && !strstr(q->forms, "qk_norm");
            if (k && !products && strcmp(q->attn, "scsa") != 0) continue;
            bench b = open_bench(small(q->arch, q->attn, q->forms, q->depth, 3 + i), 1);
            vt_err e = {0};
            if (vt_hessian_can_rescale(b.m, pairs[k][0], pairs[k][1], &e) != VT_OK) fail_msg("%s", e.text);
            top before = top_of(&b);
            vt_hessian_rescale(&b.h, pairs[k][0], pairs[k][1], 100);
            top after = top_of(&b);
            double moved = t_max_diff(before.logits, after.logits, IMAGES * K);
            if (looks) { /* and so the command says that it is another function */
                assert_true(moved > 1e-4);
            } else {
                const char *what = k ? "Q and K" : "V and O";
                t_le(moved, 1e-12, "%s %s %s, %s: logits", q->arch, q->attn, q->forms, what);
                /* rounding of the products, some 1e-9: the relative eigenvalues are below 1, or raw 200 */
                t_le(fabs(after.relative / before.relative - 1), 1e-7, "%s %s %s, %s: relative eigenvalue", q->arch,
                     q->attn, q->forms, what);
                t_le((k ? 2 : 20) * before.raw / after.raw, 1, "%s %s %s, %s: raw eigenvalue %g became %g", q->arch,
                     q->attn, q->forms, what, before.raw, after.raw);
            }
            close_bench(&b);
        }
}

/* ---- threads, refusals ---- */

static void test_threads(void **state) {
    (void)state;
    bench b[3];
    double *y[3], loss[3];
    for (int i = 0; i < 3; i++) {
        b[i] = open_bench(small("vit", "dot", "", 2, 4), i + 1);
        vt_symmetric op = operator_of(&b[i]);
        assert_int_equal(b[i].h.threads, i + 1);
        double *v = malloc(op.n * sizeof *v);
        y[i] = malloc(2 * op.n * sizeof **y);
        t_normals(v, op.n, 1, 1);
        assert_int_equal(op.apply(op.ctx, v, y[i], NULL), VT_OK);
        assert_int_equal(vt_hessian_loss(&b[i].h, &loss[i], y[i] + op.n, NULL, NULL), VT_OK);
        assert_int_equal(b[i].h.gradients, 3 * IMAGES);
        assert_memory_equal(y[0], y[i], 2 * op.n * sizeof **y);
        assert_memory_equal(loss, &loss[i], sizeof *loss);
        free(v);
    }
    for (int i = 0; i < 3; i++) close_bench(&b[i]), free(y[i]);
    bench many = open_bench(small("vit", "dot", "", 1, 4), 64); /* no more than there are images */
    assert_int_equal(many.h.threads, IMAGES);
    close_bench(&many);
}

static void test_refusals(void **state) {
    (void)state;
    static const sig_atomic_t stop = 1;
    vt_err e = {0};
    bench b = open_bench(small("vit", "l2", "tied_qk=1", 1, 4), 1);
    t_says(vt_hessian_can_rescale(b.m, VT_WEIGHT_Q, VT_WEIGHT_K, &e), VT_E_USAGE, &e, "block 0",
           "W_Q and W_K of its own");
    vt_symmetric op = operator_of(&b);
    double *v = calloc(2 * op.n, sizeof *v);
    assert_int_equal(op.apply(op.ctx, v, v + op.n, &e), VT_OK); /* zero: no direction, and no division by its length */
    assert_int_equal(b.h.gradients, 0);
    t_le(t_max(v, 2 * op.n), 0, "H 0");
    v[3] = 1, b.h.interrupt = &stop;
    t_says(op.apply(op.ctx, v, v + op.n, &e), VT_INTERRUPTED, &e, "interrupted", "half done");
    free(v);
    close_bench(&b);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dense),   cmocka_unit_test(test_curvature),
                                       cmocka_unit_test(test_head),    cmocka_unit_test(test_theorem_4),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
