/* SPDX-License-Identifier: MIT */
/* Layer norm and the other normalisations: values by definition, gradients in double against central differences. */
#include "nn_fixture.h"

#include "nn/nn.h"

/* ---- layer norm ---- */

typedef struct norm {
    int m, c;
    double *y, *stat, *x, *g, *b, *res, *dy;
} norm;

#define LN_EPS 1e-5

static vt_norm_f64 bound(const norm *l, double *dg, double *db) {
    return (vt_norm_f64){.kind = VT_NORM_LAYER, .eps = LN_EPS, .g = l->g, .b = l->b, .dg = dg, .db = db};
}

static double norm_scalar(void *ctx) {
    norm *l = ctx;
    size_t mc = (size_t)(l->m * l->c);
    vt_norm_forward_f64(l->y, l->stat, l->x, bound(l, NULL, NULL), l->m, l->c);
    return t_dot(l->y, l->dy, mc) + (l->res ? t_dot(l->x, l->res, mc) : 0); /* the residual path beside it */
}

/* Against the definition, in its own two passes. */
static void norm_values(const norm *l) {
    for (int i = 0; i < l->m; i++) {
        const double *x = l->x + i * l->c;
        double mean = 0, var = 0;
        for (int j = 0; j < l->c; j++) mean += x[j] / l->c;
        for (int j = 0; j < l->c; j++) var += (x[j] - mean) * (x[j] - mean) / l->c;
        t_le(fabs(l->stat[2 * i] - mean), 1e-14 * (1 + fabs(mean)), "mean");
        t_le(fabs(l->stat[2 * i + 1] * sqrt(var + LN_EPS) - 1), 1e-13, "rstd");
        for (int j = 0; j < l->c; j++)
            t_le(fabs(l->y[i * l->c + j] - ((x[j] - mean) / sqrt(var + LN_EPS) * l->g[j] + l->b[j])), 1e-12,
                 "layernorm value");
    }
}

static void norm_case(int m, int c) {
    size_t mc = (size_t)(m * c), n = (size_t)c, bytes = mc * sizeof(double);
    norm l = {.m = m,
              .c = c,
              .y = t_doubles(mc, 0, 0),
              .stat = t_doubles(2 * (size_t)m, 0, 0),
              .x = t_doubles(mc, 1, 2),
              .g = t_doubles(n, 2, 1),
              .b = t_doubles(n, 3, 1),
              .dy = t_doubles(mc, 4, 1)};
    double *res = t_doubles(mc, 5, 1), *dx = t_doubles(mc, 0, 0), *dg = t_doubles(n, 0, 0), *db = t_doubles(n, 0, 0);
    double *dx2 = t_doubles(mc, 0, 0), *dg2 = t_doubles(n, 0, 0), *db2 = t_doubles(n, 0, 0);
    for (size_t i = 0; i < mc; i++) l.x[i] += 0.5;
    t_freeze(l.x), t_freeze(l.g), t_freeze(l.b), t_freeze(l.dy), t_freeze(res);
    norm_scalar(&l);
    norm_values(&l);
    for (int with_res = 0; with_res < 2; with_res++) {
        l.res = with_res ? res : NULL;
        zero(dg, n), zero(db, n);
        norm_scalar(&l);
        vt_norm_backward_f64(dx, l.res, l.dy, l.x, l.stat, bound(&l, dg, db), m, c);
        t_grad(norm_scalar, &l, l.x, mc, dx, "layernorm dx");
        t_grad(norm_scalar, &l, l.g, n, dg, "layernorm dg");
        t_grad(norm_scalar, &l, l.b, n, db, "layernorm db");
        norm_scalar(&l); /* statistics of the unperturbed x again */
        vt_norm_backward_f64(dx2, l.res, l.dy, l.x, l.stat, bound(&l, NULL, NULL), m, c);
        assert_memory_equal(dx2, dx, bytes);
        memcpy(dx2, l.dy, bytes); /* dx over dy */
        vt_norm_backward_f64(dx2, l.res, dx2, l.x, l.stat, bound(&l, NULL, NULL), m, c);
        assert_memory_equal(dx2, dx, bytes);
    }
    memcpy(dx2, res, bytes); /* dx over res, with parameter gradients */
    memcpy(dg2, dg, n * sizeof *dg), memcpy(db2, db, n * sizeof *db);
    vt_norm_backward_f64(dx2, dx2, l.dy, l.x, l.stat, bound(&l, dg2, db2), m, c);
    assert_memory_equal(dx2, dx, bytes);
    is_double(dg2, dg, n, "layernorm dg");
    is_double(db2, db, n, "layernorm db");
    zero(dg2, n), zero(db2, n);
    vt_norm_backward_f64(NULL, NULL, l.dy, l.x, l.stat, bound(&l, dg2, NULL), m, c);
    vt_norm_backward_f64(NULL, NULL, l.dy, l.x, l.stat, bound(&l, NULL, db2), m, c);
    assert_memory_equal(dg2, dg, n * sizeof *dg);
    assert_memory_equal(db2, db, n * sizeof *db);
    t_release("layernorm");
}

static void test_layernorm(void **state) {
    (void)state;
    norm_case(1, 3);
    norm_case(5, 7);
    norm_case(3, 65);
    norm_case(2, 197);
}

/* ---- normalisations of other kinds ---- */

typedef struct kinds {
    int m, c;
    double *y, *stat, *x, *g, *b, *dy, *res;
    vt_norm_f64 n;
} kinds;

static double kinds_scalar(void *ctx) {
    kinds *l = ctx;
    size_t mc = (size_t)(l->m * l->c);
    vt_norm_forward_f64(l->y, l->stat, l->x, l->n, l->m, l->c);
    return t_dot(l->y, l->dy, mc) + (l->res ? t_dot(l->x, l->res, mc) : 0);
}

/* The definition of a kind: LayerNorm (x - m) / sqrt(v + eps), BatchNorm the same with a channel's constants,
 * CenterNorm (x - m) c / (c - 1), none x. */
static double defined(const kinds *l, int i, int j) {
    const double *x = l->x + i * l->c;
    double mean = 0, var = 0, r = 1;
    for (int k = 0; k < l->c; k++) mean += x[k] / l->c;
    for (int k = 0; k < l->c; k++) var += (x[k] - mean) * (x[k] - mean) / l->c;
    if (l->n.kind == VT_NORM_NONE) return x[j];
    if (l->n.kind == VT_NORM_LAYER) r = 1 / sqrt(var + l->n.eps);
    if (l->n.kind == VT_NORM_BATCH) mean = l->n.mean[j], r = 1 / sqrt(l->n.var[j] + l->n.eps);
    if (l->n.kind == VT_NORM_CENTER) r = l->c / (l->c - 1.0);
    return (x[j] - mean) * r * l->g[j] + l->b[j];
}

static void kinds_case(vt_norm_kind kind, int m, int c) {
    size_t mc = (size_t)(m * c), n = (size_t)c, bytes = mc * sizeof(double);
    kinds l = {.m = m, .c = c, .y = t_doubles(mc, 0, 0), .stat = t_doubles(2 * (size_t)m, 0, 0)};
    l.x = t_doubles(mc, 1, 2), l.dy = t_doubles(mc, 4, 1);
    l.g = t_doubles(n, 2, 1), l.b = t_doubles(n, 3, 1);
    double *mean = t_doubles(n, 6, 1), *var = t_doubles(n, 7, 1), *res = t_doubles(mc, 5, 1);
    double *dx = t_doubles(mc, 0, 0), *dg = t_doubles(n, 0, 0), *db = t_doubles(n, 0, 0), *dx2 = t_doubles(mc, 0, 0);
    for (size_t j = 0; j < n; j++) var[j] = j % 3 ? fabs(var[j]) : 0; /* eps alone may hold the root */
    bool affine = kind != VT_NORM_NONE, batch = kind == VT_NORM_BATCH;
    l.n = (vt_norm_f64){kind, 1e-3, affine ? l.g : NULL, affine ? l.b : NULL, batch ? mean : NULL, batch ? var : NULL,
                        NULL, NULL};
    t_freeze(l.x), t_freeze(l.g), t_freeze(l.b), t_freeze(l.dy), t_freeze(res), t_freeze(mean), t_freeze(var);
    kinds_scalar(&l);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < c; j++)
            t_le(fabs(l.y[i * c + j] - defined(&l, i, j)), 1e-12 * (1 + fabs(l.y[i * c + j])), "norm %d", kind);
    vt_norm_again_f64(dx2, l.stat, l.x, l.n, m, c);
    assert_memory_equal(dx2, l.y, bytes);
    memcpy(dx2, l.x, bytes);
    vt_norm_forward_f64(dx2, l.stat, dx2, l.n, m, c); /* in place */
    assert_memory_equal(dx2, l.y, bytes);
    for (int with_res = 0; with_res < 2; with_res++) {
        l.res = with_res ? res : NULL;
        zero(dg, n), zero(db, n);
        l.n.dg = dg, l.n.db = db;
        vt_norm_backward_f64(dx, l.res, l.dy, l.x, l.stat, l.n, m, c);
        l.n.dg = l.n.db = NULL;
        t_grad(kinds_scalar, &l, l.x, mc, dx, "norm dx");
        if (affine) t_grad(kinds_scalar, &l, l.g, n, dg, "norm dg"), t_grad(kinds_scalar, &l, l.b, n, db, "norm db");
        kinds_scalar(&l);
        memcpy(dx2, l.dy, bytes); /* dx over dy, no parameter gradients */
        vt_norm_backward_f64(dx2, l.res, dx2, l.x, l.stat, l.n, m, c);
        assert_memory_equal(dx2, dx, bytes);
    }
    memcpy(dx2, res, bytes); /* dx over res */
    l.n.dg = dg;
    vt_norm_backward_f64(dx2, dx2, l.dy, l.x, l.stat, l.n, m, c);
    assert_memory_equal(dx2, dx, bytes);
    l.n.dg = NULL, l.n.db = db;
    vt_norm_backward_f64(NULL, NULL, l.dy, l.x, l.stat, l.n, m, c);
    t_release("norms");
}

static void test_norms(void **state) {
    (void)state;
    for (int kind = VT_NORM_LAYER; kind <= VT_NORM_NONE; kind++) {
        kinds_case((vt_norm_kind)kind, 1, 3);
        kinds_case((vt_norm_kind)kind, 7, 5);
        kinds_case((vt_norm_kind)kind, 2, 65);
    }
    kinds_case(VT_NORM_BATCH, 2, 600); /* more than a piece of the row */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_layernorm, t_drop),
        cmocka_unit_test_teardown(test_norms, t_drop),
    };
    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
