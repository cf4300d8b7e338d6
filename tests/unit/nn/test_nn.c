/* SPDX-License-Identifier: MIT */
/* src/nn and the attention core in double: every backward against central differences of its forward with a
 * random cotangent, the contracts of nn.h (accumulate, NULL, inputs unchanged, nothing outside the buffers),
 * the losses. */
#include "nn_fixture.h"

#include "linalg/gemm.h"
#include "models/net/attention.h"
#include "nn/nn.h"

/* ---- linear ---- */

typedef struct linear {
    int m, n, k;
    double *y, *x, *w, *wt, *b, *res, *dy;
} linear;

static void transpose(double *wt, const double *w, int n, int k) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) wt[j * n + i] = w[i * k + j];
}

/* The handle, with what is asked for. */
static vt_linear_f64 bound(const linear *l, const double *wt, const double *b, double *dw, double *db) {
    return (vt_linear_f64){.w = l->w, .wt = wt, .b = b, .dw = dw, .db = db, .n = l->n, .k = l->k};
}

static double linear_scalar(void *ctx) {
    linear *l = ctx;
    vt_linear_forward_f64(l->y, NULL, l->x, bound(l, NULL, l->b, NULL, NULL), l->m);
    return t_dot(l->y, l->dy, (size_t)(l->m * l->n));
}

/* wt, missing bias and the residual form are the same function by other routes. */
static void linear_variants(linear *l) {
    size_t mn = (size_t)(l->m * l->n);
    double *other = t_doubles(mn, 0, 0), tol = 1e-14 * l->k;
    vt_linear_forward_f64(l->y, NULL, l->x, bound(l, NULL, l->b, NULL, NULL), l->m);
    vt_linear_forward_f64(other, NULL, l->x, bound(l, l->wt, l->b, NULL, NULL), l->m);
    t_le(t_max_diff(other, l->y, mn), tol, "linear with wt");
    vt_linear_forward_f64(other, NULL, l->x, bound(l, NULL, NULL, NULL, NULL), l->m);
    for (size_t i = 0; i < mn; i++) other[i] += l->b[i % (size_t)l->n];
    t_le(t_max_diff(other, l->y, mn), tol, "linear without bias");
    for (int form = 0; form < 4; form++) {
        vt_linear_forward_f64(other, l->res, l->x,
                              bound(l, form & 1 ? l->wt : NULL, form & 2 ? l->b : NULL, NULL, NULL), l->m);
        for (size_t i = 0; i < mn; i++) other[i] += (form & 2 ? 0 : l->b[i % (size_t)l->n]) - l->res[i];
        t_le(t_max_diff(other, l->y, mn), 10 * tol, "residual, form %d", form);
    }
    memcpy(other, l->res, mn * sizeof *other);
    vt_linear_forward_f64(other, other, l->x, bound(l, NULL, l->b, NULL, NULL), l->m);
    for (size_t i = 0; i < mn; i++) other[i] -= l->res[i];
    t_le(t_max_diff(other, l->y, mn), 10 * tol, "residual in place");
}

static void linear_case(int m, int n, int k) {
    size_t mn = (size_t)(m * n), mk = (size_t)(m * k), nk = (size_t)(n * k);
    linear l = {.m = m,
                .n = n,
                .k = k,
                .y = t_doubles(mn, 0, 0),
                .x = t_doubles(mk, 1, 1),
                .w = t_doubles(nk, 2, 1),
                .wt = t_doubles(nk, 0, 0),
                .b = t_doubles((size_t)n, 3, 1),
                .res = t_doubles(mn, 4, 1),
                .dy = t_doubles(mn, 5, 1)};
    double *dx = t_doubles(mk, 0, 0), *dw = t_doubles(nk, 0, 0), *db = t_doubles((size_t)n, 0, 0);
    double *dx2 = t_doubles(mk, 0, 0), *dw2 = t_doubles(nk, 0, 0), *db2 = t_doubles((size_t)n, 0, 0);
    transpose(l.wt, l.w, n, k);
    t_freeze(l.x), t_freeze(l.w), t_freeze(l.wt), t_freeze(l.b), t_freeze(l.res), t_freeze(l.dy);
    linear_variants(&l);
    zero(dw, nk), zero(db, (size_t)n);
    vt_linear_backward_f64(dx, NULL, l.dy, l.x, bound(&l, NULL, NULL, dw, db), m);
    t_grad(linear_scalar, &l, l.x, mk, dx, "linear dx");
    t_grad(linear_scalar, &l, l.w, nk, dw, "linear dw");
    t_grad(linear_scalar, &l, l.b, (size_t)n, db, "linear db");
    memcpy(dw2, dw, nk * sizeof *dw), memcpy(db2, db, (size_t)n * sizeof *db);
    vt_linear_backward_f64(NULL, NULL, l.dy, l.x, bound(&l, NULL, NULL, dw2, db2), m);
    is_double(dw2, dw, nk, "linear dw");
    is_double(db2, db, (size_t)n, "linear db");
    /* as an attack asks: x is not even there */
    vt_linear_backward_f64(dx2, NULL, l.dy, NULL, bound(&l, NULL, NULL, dw2, db2), m);
    assert_memory_equal(dx2, dx, mk * sizeof *dx);
    is_double(dw2, dw, nk, "linear dw without x");
    is_double(db2, db, (size_t)n, "linear db without x");
    vt_linear_backward_f64(dx2, dx2, l.dy, NULL, bound(&l, NULL, NULL, NULL, NULL), m);
    is_double(dx2, dx, mk, "linear dx with a residual");
    zero(dw2, nk);
    vt_linear_backward_f64(NULL, NULL, l.dy, l.x, bound(&l, NULL, NULL, dw2, NULL), m);
    assert_memory_equal(dw2, dw, nk * sizeof *dw);
    zero(db2, (size_t)n);
    vt_linear_backward_f64(NULL, NULL, l.dy, l.x, bound(&l, NULL, NULL, NULL, db2), m);
    assert_memory_equal(db2, db, (size_t)n * sizeof *db);
    t_release("linear");
}

static void test_linear(void **state) {
    (void)state;
    linear_case(1, 1, 1);
    linear_case(7, 5, 3);
    linear_case(3, 17, 9);
    linear_case(2, 7, 65);
    linear_case(13, 3, 1);
    linear_case(1, 10, 33);
}

/* ---- softmax ---- */

typedef struct softmax {
    int m, n, ld;
    double *p, *s, *dp;
} softmax;

#define SOFTMAX_SCALE 0.37

static double softmax_scalar(void *ctx) {
    softmax *l = ctx;
    vt_softmax_forward_f64(l->p, l->s, SOFTMAX_SCALE, l->m, l->n, l->ld);
    double s = 0;
    for (int i = 0; i < l->m; i++) s += t_dot(l->p + i * l->ld, l->dp + i * l->ld, (size_t)l->n);
    return s;
}

/* Rows sum to one, p is the definition's, and adding a constant to a row changes nothing. */
static void softmax_values(softmax *l) {
    vt_softmax_forward_f64(l->p, l->s, SOFTMAX_SCALE, l->m, l->n, l->ld);
    for (int i = 0; i < l->m; i++) {
        double *s = l->s + i * l->ld, *p = l->p + i * l->ld, sum = 0, z = 0, shifted[256];
        for (int j = 0; j < l->n; j++) z += exp(SOFTMAX_SCALE * s[j]);
        for (int j = 0; j < l->n; j++) {
            t_le(fabs(p[j] - exp(SOFTMAX_SCALE * s[j]) / z), 1e-14, "softmax value");
            sum += p[j];
        }
        /* n products p_j = e_j * inv, each rounded once, and a sum of n terms: within 4 units a term */
        t_le(fabs(sum - 1), 4 * 0x1p-53 * l->n, "row sum of %d", l->n);
        for (int j = 0; j < l->n; j++) shifted[j] = s[j] + 1000;
        vt_softmax_forward_f64(shifted, shifted, SOFTMAX_SCALE, 1, l->n, l->ld);
        t_le(t_max_diff(shifted, p, (size_t)l->n), 1e-12, "softmax of a shifted row"); /* 1000 eps of rounding in s */
    }
}

static void softmax_case(int m, int n, int ld) {
    size_t len = (size_t)(m * ld), bytes = len * sizeof(double);
    softmax l =
        {.m = m, .n = n, .ld = ld, .p = t_doubles(len, 0, 0), .s = t_doubles(len, 1, 2), .dp = t_doubles(len, 2, 1)};
    double *ds = t_doubles(len, 0, 0), *other = t_doubles(len, 0, 0), *num = t_doubles(len, 0, 0);
    for (int i = 0; i < m; i++) /* the padding of a row is nobody's: it must be neither read nor written */
        for (int j = n; j < ld; j++) l.s[i * ld + j] = l.dp[i * ld + j] = NAN;
    t_freeze(l.s), t_freeze(l.dp);
    memset(l.p, 0x5A, bytes), memset(ds, 0x5A, bytes);
    softmax_values(&l);
    vt_softmax_backward_f64(ds, l.dp, l.p, SOFTMAX_SCALE, m, n, ld);
    memset(num, 0x5A, bytes);
    for (int i = 0; i < m; i++)
        if (n < ld) {
            assert_memory_equal(l.p + i * ld + n, num, (size_t)(ld - n) * sizeof(double));
            assert_memory_equal(ds + i * ld + n, num, (size_t)(ld - n) * sizeof(double));
        }
    for (int i = 0; i < m && n > 1; i++) t_grad(softmax_scalar, &l, l.s + i * ld, (size_t)n, ds + i * ld, "softmax ds");
    softmax_scalar(&l);
    memcpy(other, l.dp, bytes);
    vt_softmax_backward_f64(other, other, l.p, SOFTMAX_SCALE, m, n, ld); /* in place */
    for (int i = 0; i < m; i++) assert_memory_equal(other + i * ld, ds + i * ld, (size_t)n * sizeof(double));
    memcpy(other, l.s, bytes);
    vt_softmax_forward_f64(other, other, SOFTMAX_SCALE, m, n, ld);
    for (int i = 0; i < m; i++) assert_memory_equal(other + i * ld, l.p + i * ld, (size_t)n * sizeof(double));
    t_release("softmax");
}

static void test_softmax(void **state) {
    (void)state;
    softmax_case(1, 1, 1);
    softmax_case(3, 2, 16);
    softmax_case(5, 7, 7);
    softmax_case(2, 16, 16);
    softmax_case(3, 65, 80);
    softmax_case(1, 197, 208);
}

/* ---- patches ---- */

typedef struct patches {
    int h, w, ps;
    double *rows, *x, *drows;
} patches;

static const double mean[3] = {0.4914, 0.4822, 0.4465}, std_[3] = {0.247, 0.2435, 0.2616};

static double patches_scalar(void *ctx) {
    patches *l = ctx;
    vt_patchify_forward_f64(l->rows, l->x, mean, std_, 1, l->h, l->w, l->ps);
    return t_dot(l->rows, l->drows, (size_t)(3 * l->h * l->w));
}

static void patches_case(int h, int w, int ps) {
    size_t n = (size_t)(3 * h * w);
    patches l =
        {.h = h, .w = w, .ps = ps, .rows = t_doubles(n, 0, 0), .x = t_doubles(n, 1, 1), .drows = t_doubles(n, 2, 1)};
    double *dx = t_doubles(n, 0, 0);
    t_freeze(l.x), t_freeze(l.drows);
    patches_scalar(&l);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                int patch = (y / ps) * (w / ps) + x / ps, at = (c * ps + y % ps) * ps + x % ps;
                double want = (l.x[(c * h + y) * w + x] - mean[c]) / std_[c];
                assert_true(l.rows[patch * 3 * ps * ps + at] == want);
            }
    vt_patchify_backward_f64(dx, l.drows, std_, 1, h, w, ps);
    t_grad(patches_scalar, &l, l.x, n, dx, "patchify dx");
    t_release("patchify");
}

static void test_patchify(void **state) {
    (void)state;
    patches_case(4, 4, 4);
    patches_case(6, 9, 3);
    patches_case(5, 7, 1);
    patches_case(8, 4, 2);
}

static void test_add_to(void **state) {
    (void)state;
    double *a = t_doubles(197, 1, 1), *b = t_doubles(197, 2, 1), *was = t_doubles(197, 1, 1);
    t_freeze(b);
    vt_add_to_f64(a, b, 197);
    for (int i = 0; i < 197; i++) assert_true(a[i] == was[i] + b[i]);
    vt_add_to_f64(a, b, 0);
    t_release("add_to");
}

/* ---- attention: every variant of the registry ---- */

typedef struct attn {
    vt_attn_shape_f64 s;
    double *o, *p, *saved, *qkv, *d_o;
} attn;

/* qkv [b*t, 3c]: q | k | v, each head-major (timm) */
static vt_attn_in_f64 in_one(const attn *a) {
    int c = a->s.c;
    return (vt_attn_in_f64){a->qkv, a->qkv + c, a->qkv + 2 * c, 3 * c, 3 * c, 3 * c};
}

static double attn_scalar(void *ctx) {
    attn *a = ctx;
    const vt_attn_in_f64 in = in_one(a);
    vt_attn_forward_f64(a->o, a->p, a->saved, &in, &a->s);
    return t_dot(a->o, a->d_o, (size_t)(a->s.b * a->s.t * a->s.c));
}

static void attn_backward(double *dqkv, double *scratch, attn *a) {
    int c = a->s.c;
    const vt_attn_in_f64 in = in_one(a);
    const vt_attn_grad_f64 g = {dqkv, dqkv + c, dqkv + 2 * c, 3 * c, 3 * c, 3 * c};
    vt_attn_backward_f64(&g, scratch, a->d_o, a->p, a->saved, &in, &a->s);
}

static void attn_rows(const attn *a) {
    int ldp = vt_attn_ldp(a->s.t);
    for (int i = 0; i < a->s.b * a->s.heads * a->s.t; i++) {
        double sum = 0;
        for (int j = 0; j < a->s.t; j++) sum += a->p[i * ldp + j];
        t_le(fabs(sum - 1), 1e-13, "%s: row %d of the probabilities", a->s.def->is->name, i);
    }
}

static void attn_case(const vt_attn_ops_f64 *def, int b, int t, int heads, int d) {
    attn a = {.s = {.def = def, .b = b, .t = t, .c = heads * d, .heads = heads, .scale = 0.6}};
    vt_opt_defaults(def->is->opts, &a.s.options);
    size_t btc = (size_t)(b * t * a.s.c), len = (size_t)b * vt_attn_p_len_f64(&a.s),
           aux = (size_t)b * vt_attn_saved_len_f64(&a.s);
    a.o = t_doubles(btc, 0, 0), a.p = t_doubles(len, 0, 0), a.saved = t_doubles(aux, 0, 0);
    a.qkv = t_doubles(3 * btc, 1, 1), a.d_o = t_doubles(btc, 2, 1);
    double *dqkv = t_doubles(3 * btc, 0, 0), *other = t_doubles(3 * btc, 0, 0);
    double *scratch = t_doubles(vt_attn_scratch_len_f64(&a.s), 0, 0);
    assert_true(vt_attn_scratch_len_f64(&a.s) <= (size_t)(2 * t * vt_attn_ldp(t))); /* as attention.h promises */
    t_freeze(a.qkv), t_freeze(a.d_o);
    attn_scalar(&a);
    attn_rows(&a);
    attn_backward(dqkv, scratch, &a);
    char what[64];
    snprintf(what, sizeof what, "attention %s dqkv", def->is->name);
    t_grad(attn_scalar, &a, a.qkv, 3 * btc, dqkv, what);
    attn_scalar(&a);
    attn_backward(other, scratch, &a);
    assert_memory_equal(other, dqkv, 3 * btc * sizeof *dqkv);
    t_release(def->is->name);
}

static void test_attention(void **state) {
    (void)state;
    int n;
    const vt_attn *const *defs = vt_attns(&n);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        const vt_attn_ops_f64 *ops = vt_attn_ops_find_f64(defs[i]->name);
        assert_ptr_equal(vt_attn_find(defs[i]->name), defs[i]);
        attn_case(ops, 1, 2, 1, 1);
        attn_case(ops, 2, 5, 3, 4);
        attn_case(ops, 1, 17, 2, 3);
    }
    assert_null(vt_attn_ops_find_f64("no such variant"));
}

/* Scaled dot products by the definition, head by head: what the registry-driven test above cannot know. */
static void test_dot_values(void **state) {
    (void)state;
    enum { B = 2, T = 5, H = 3, D = 4, C = H * D };
    attn a = {.s = {.def = vt_attn_ops_find_f64("dot"), .b = B, .t = T, .c = C, .heads = H, .scale = 0.6}};
    a.o = t_doubles(B * T * C, 0, 0), a.p = t_doubles(B * vt_attn_p_len_f64(&a.s), 0, 0), a.saved = t_doubles(1, 0, 0);
    a.qkv = t_doubles(3 * B * T * C, 1, 1), a.d_o = t_doubles(B * T * C, 2, 1);
    attn_scalar(&a);
    for (int i = 0; i < B * T; i++)
        for (int h = 0; h < H; h++) {
            const double *q = a.qkv + i * 3 * C + h * D, *rows = a.qkv + i / T * T * 3 * C + h * D;
            double e[T], z = 0;
            for (int j = 0; j < T; j++) z += e[j] = exp(0.6 * t_dot(q, rows + j * 3 * C + C, D));
            for (int k = 0; k < D; k++) {
                double want = 0;
                for (int j = 0; j < T; j++) want += e[j] / z * rows[j * 3 * C + 2 * C + k];
                t_le(fabs(a.o[i * C + h * D + k] - want), 1e-14, "dot attention, row %d head %d", i, h);
            }
        }
    t_release("dot");
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_linear, t_drop),    cmocka_unit_test_teardown(test_softmax, t_drop),
        cmocka_unit_test_teardown(test_patchify, t_drop),  cmocka_unit_test_teardown(test_add_to, t_drop),
        cmocka_unit_test_teardown(test_attention, t_drop), cmocka_unit_test_teardown(test_dot_values, t_drop),
    };
    return cmocka_run_group_tests_name("nn", tests, NULL, NULL);
}
