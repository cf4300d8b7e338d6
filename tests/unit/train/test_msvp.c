/* SPDX-License-Identifier: MIT */
/* MSVP in double: the gradient with its vectors held, the power iteration against a plain one, against an SVD and
 * against a planted spectrum, what rests. */
#include "penalty_fixture.h"

#include "linalg/svd.h"

enum { ROWS, COLUMNS, WHOLE };
static const char *const splits[] = {"rows", "columns", "whole"};

typedef struct part {
    size_t offset;
    int rows, cols, ld;
} part;

/* Part h of a matrix, said once more. */
static part part_of(vt_matrix w, int split, int h) {
    part p = {w.offset, w.rows, w.cols, w.cols};
    if (split == ROWS) p.rows = w.rows / w.heads, p.offset += (size_t)(h * p.rows * w.cols);
    if (split == COLUMNS) p.cols = w.cols / w.heads, p.offset += (size_t)(h * p.cols);
    return p;
}

static double at(const double *w, part p, int i, int j) { return w[p.offset + (size_t)(i * p.ld + j)]; }

/* u^T W v by the definition */
static double form(const double *w, part p, const double *u, const double *v) {
    double s = 0;
    for (int i = 0; i < p.rows; i++)
        for (int j = 0; j < p.cols; j++) s += u[i] * at(w, p, i, j) * v[j];
    return s;
}

/* Largest singular value by one-sided Jacobi: rotations of pairs of columns until all are orthogonal. */
static double sigma_max(const double *w, part p) {
    enum { MOST = 24 };
    double a[MOST][MOST], top = 0;
    assert_true(p.rows <= MOST && p.cols <= MOST);
    for (int i = 0; i < p.rows; i++)
        for (int j = 0; j < p.cols; j++) a[j][i] = at(w, p, i, j);
    for (int sweep = 0; sweep < 30; sweep++)
        for (int j = 0; j < p.cols; j++)
            for (int k = j + 1; k < p.cols; k++) {
                double alpha = t_dot(a[j], a[j], (size_t)p.rows), beta = t_dot(a[k], a[k], (size_t)p.rows);
                double gamma = t_dot(a[j], a[k], (size_t)p.rows);
                if (fabs(gamma) < 1e-300) continue;
                double zeta = (beta - alpha) / (2 * gamma);
                double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t);
                for (int i = 0; i < p.rows; i++) {
                    double x = a[j][i], y = a[k][i];
                    a[j][i] = c * (x - t * y), a[k][i] = c * (t * x + y);
                }
            }
    for (int j = 0; j < p.cols; j++) top = fmax(top, t_norm(a[j], (size_t)p.rows));
    return top;
}

typedef struct frozen {
    const bench *b;
    const double *lambda;
    int split;
} frozen;

/* sum lambda (u^T W v)^2 with the vectors that stand in the state */
static double frozen_value(void *ctx) {
    const frozen *f = ctx;
    double value = 0;
    const double *x = f->b->state;
    for (int block = 0; block < f->b->m->config.depth; block++)
        for (int k = 0; k < 3; k++) {
            vt_matrix w = matrix(f->b, block, (vt_weight_kind)(VT_WEIGHT_Q + k));
            for (int h = 0; h < (f->split == WHOLE ? 1 : w.heads); h++) {
                part p = part_of(w, f->split, h);
                double s = form(f->b->w, p, x, x + p.rows);
                value += f->lambda[k] * s * s;
                x += p.rows + p.cols;
            }
        }
    assert_true(x == f->b->state + f->b->state_len);
    return value;
}

/* The vectors count as constants: the gradient is that of lambda (u^T W v)^2 at the vectors that apply() leaves. */
static void test_msvp_gradient(void **state) {
    (void)state;
    static const double lambda[3] = {0.5, 0.25, 1};
    for (int split = 0; split < 3; split++)
        for (int iterations = 1; iterations <= 3; iterations += 2) {
            char options[80];
            snprintf(options, sizeof options, "lambda=0.5,0.25,1;split=%s;iterations=%d", splits[split], iterations);
            bench b = bench_open("msvp", options, toy(VT_POOL_TOKEN, false, true));
            t_freeze(b.w);
            double value = bench_apply(&b);
            frozen f = {&b, lambda, split};
            t_le(fabs(frozen_value(&f) - value), 1e-13 * value, "msvp value, %s", splits[split]);
            t_grad(frozen_value, &f, b.w, b.total, b.last, splits[split]);
            bench_close(&b, "msvp");
        }
}

/* Tied: W_Q once, with its own lambda; W_K's counts for nothing. */
static void test_msvp_tied(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.tied_qk = true;
    bench b = bench_open("msvp", "lambda=0.5,0.75,1;split=whole;method=svd", toy_model(&c, 1));
    double value = bench_apply(&b), want = 0;
    for (int block = 0; block < c.depth; block++)
        for (int k = 0; k < 2; k++) {
            vt_matrix w = matrix(&b, block, k ? VT_WEIGHT_V : VT_WEIGHT_Q);
            double sigma[12];
            vt_err e = {0};
            assert_int_equal(vt_svd_values(sigma, b.w + w.offset, w.rows, w.cols, w.cols, &e), VT_OK);
            want += (k ? 1 : 0.5) * sigma[0] * sigma[0];
        }
    t_le(fabs(value - want), 1e-12 * want, "msvp of a tied model");
    assert_int_equal(b.state_len, 2 * 2 * 24); /* blocks, matrices, u and v */
    bench_close(&b, "msvp tied");
}

enum { WIDEST = 39 };

/* n iterations from u, v in plain loops; returns sigma. */
static double plain(double *u, double *v, const double *w, part p, int n) {
    double size = 0;
    for (; n > 0; n--) {
        for (int j = 0; j < p.cols; j++) {
            v[j] = 0;
            for (int i = 0; i < p.rows; i++) v[j] += at(w, p, i, j) * u[i];
        }
        size = t_norm(v, (size_t)p.cols) + 1e-12;
        for (int j = 0; j < p.cols; j++) v[j] /= size;
        for (int i = 0; i < p.rows; i++) {
            u[i] = 0;
            for (int j = 0; j < p.cols; j++) u[i] += at(w, p, i, j) * v[j];
        }
        size = t_norm(u, (size_t)p.rows) + 1e-12;
        for (int i = 0; i < p.rows; i++) u[i] /= size;
    }
    return form(w, p, u, v);
}

/* Every part of a model of this width: two iterations are v <- W^T u, u <- W v, each made a unit vector, twice; the
 * gradient is 2 lambda sigma u v^T; the first vectors are unit vectors too. 12 and 39: widths that vectors of four rows
 * and of 32 columns divide, exceed, and do not fill. */
static void iteration_case(int dim, int split) {
    char options[80];
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.dim = dim;
    snprintf(options, sizeof options, "lambda=0.5;split=%s;iterations=2", splits[split]);
    bench b = bench_open("msvp", options, toy_model(&c, 5));
    double *before = t_doubles(b.state_len, 0, 0), u[WIDEST], v[WIDEST], want = 0;
    memcpy(before, b.state, b.state_len * sizeof *before);
    double value = bench_apply(&b);
    const double *x = before, *now = b.state;
    for (int k = 0; k < 2 * 3; k++)
        for (int h = 0; h < (split == WHOLE ? 1 : 3); h++) {
            part p = part_of(matrix(&b, k / 3, (vt_weight_kind)(VT_WEIGHT_Q + k % 3)), split, h);
            t_le(fabs(t_norm(x, (size_t)p.rows) - 1), 1e-11, "first u"); /* the floor of 1e-12 counts */
            t_le(fabs(t_norm(x + p.rows, (size_t)p.cols) - 1), 1e-11, "first v");
            memcpy(u, x, (size_t)p.rows * sizeof *u);
            double sigma = plain(u, v, b.w, p, 2);
            t_le(t_max_diff(now, u, (size_t)p.rows), 1e-14, "u, %s of %d", splits[split], dim);
            t_le(t_max_diff(now + p.rows, v, (size_t)p.cols), 1e-14, "v, %s of %d", splits[split], dim);
            for (int i = 0; i < p.rows; i++) /* 1e-15 for what the gradient held before */
                for (int j = 0; j < p.cols; j++)
                    t_le(fabs(at(b.last, p, i, j) - sigma * u[i] * v[j]), 1e-14, "gradient, %s of %d", splits[split],
                         dim);
            want += 0.5 * sigma * sigma;
            x += p.rows + p.cols, now += p.rows + p.cols;
        }
    t_le(fabs(value - want), 1e-13 * want, "value, %s of %d", splits[split], dim);
    bench_close(&b, "msvp");
}

static void test_msvp_iteration(void **state) {
    (void)state;
    for (int split = 0; split < 3; split++) iteration_case(12, split), iteration_case(WIDEST, split);
}

/* u^T W v of every part with the vectors that the last step left. */
static void estimates(double *sigma, const bench *b, int split) {
    const double *x = b->state;
    for (int k = 0; k < 2 * 3; k++)
        for (int h = 0; h < (split == WHOLE ? 1 : 3); h++) {
            part p = part_of(matrix(b, k / 3, (vt_weight_kind)(VT_WEIGHT_Q + k % 3)), split, h);
            *sigma++ = form(b->w, p, x, x + p.rows);
            x += p.rows + p.cols;
        }
}

/* Never above the largest singular value, never falling, and in the end equal to it; the three ways to cut a matrix
 * give three values, in the order that theory knows: a part's norm is at most the whole's, whose square is at most the
 * sum of the parts' squares. */
static void test_msvp_estimate(void **state) {
    (void)state;
    enum { PARTS = 2 * 3 * 3 };
    double sum[3][2 * 3] = {{0}};
    for (int split = 0; split < 3; split++) {
        char options[80];
        snprintf(options, sizeof options, "lambda=1;split=%s", splits[split]);
        bench b = bench_open("msvp", options, toy(VT_POOL_TOKEN, false, true));
        int heads = split == WHOLE ? 1 : 3, parts = 2 * 3 * heads;
        double top[PARTS], last[PARTS] = {0}, sigma[PARTS] = {0};
        for (int i = 0; i < parts; i++) {
            vt_matrix w = matrix(&b, i / heads / 3, (vt_weight_kind)(VT_WEIGHT_Q + i / heads % 3));
            top[i] = sigma_max(b.w, part_of(w, split, i % heads));
            sum[split][i / heads] += top[i] * top[i];
        }
        for (int step = 0; step < 3000; step++) {
            double value = bench_scalar(&b), squares = 0;
            estimates(sigma, &b, split);
            for (int i = 0; i < parts; i++) {
                t_le(sigma[i], top[i] * (1 + 1e-14), "%s: sigma above the largest", splits[split]);
                t_le(last[i], sigma[i] * (1 + 1e-14), "%s: sigma fell", splits[split]);
                squares += sigma[i] * sigma[i], last[i] = sigma[i];
            }
            t_le(fabs(value - squares), 1e-13 * squares, "%s: value", splits[split]);
        }
        for (int i = 0; i < parts; i++)
            t_le(fabs(sigma[i] / top[i] - 1), 1e-10, "%s: sigma after 3000 steps", splits[split]);
        bench_close(&b, "msvp");
    }
    for (int i = 0; i < 2 * 3; i++) {
        assert_true(sum[WHOLE][i] < sum[ROWS][i] && sum[WHOLE][i] < sum[COLUMNS][i]);
        assert_true(sum[ROWS][i] < 3 * sum[WHOLE][i] && sum[COLUMNS][i] < 3 * sum[WHOLE][i]);
        assert_true(fabs(sum[ROWS][i] - sum[COLUMNS][i]) > 1e-3);
    }
}

/* method=svd: the penalty itself, without an estimate, and its gradient (the largest singular values of random matrices
 * are simple, so it has one). */
static void test_msvp_exact(void **state) {
    (void)state;
    for (int split = 0; split < 3; split++) {
        char options[80];
        snprintf(options, sizeof options, "lambda=1;method=svd;split=%s", splits[split]);
        bench b = bench_open("msvp", options, toy(VT_POOL_TOKEN, false, true));
        int heads = split == WHOLE ? 1 : 3;
        double sum = 0, value = bench_apply(&b), *g = t_doubles(b.total, 0, 0);
        memcpy(g, b.last, b.total * sizeof *g);
        for (int i = 0; i < 2 * 3 * heads; i++) {
            vt_matrix w = matrix(&b, i / heads / 3, (vt_weight_kind)(VT_WEIGHT_Q + i / heads % 3));
            double s = sigma_max(b.w, part_of(w, split, i % heads));
            sum += s * s;
        }
        t_le(fabs(value - sum), 1e-12 * sum, "%s: value", splits[split]);
        t_grad(bench_scalar, &b, b.w, b.total, g, splits[split]);
        bench_close(&b, "msvp");
    }
}

/* W = U diag(1, 0.8, 0.1, 0.1, ...) V^T. One step takes the tangent of v's angle to v_1 down by (s2/s1)^2 = 0.64, and
 * 1 - sigma, quadratic in it, by the square of that, 0.4096 (Theorem 0.C.1, corrected). After 5 steps the rest of the
 * spectrum counts (0.1/0.8)^20 = 1e-18; the second law is exact up to the square of the tangent, and the floor 1e-12 of
 * each norm lowers sigma by 2e-12. */
static void test_msvp_planted(void **state) {
    (void)state;
    enum { D = 12 };
    bench b = bench_open("msvp", "lambda=1,0,0;split=whole", toy(VT_POOL_TOKEN, false, true));
    double u[D * D], v[D * D], tangent = 1, gap = 1;
    int judged = 0;
    orthonormal(u, D, 1), orthonormal(v, D, 2);
    part p = part_of(matrix(&b, 0, VT_WEIGHT_Q), WHOLE, 0);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            double s = 0;
            for (int k = 0; k < D; k++) s += u[i * D + k] * (k == 0 ? 1 : k == 1 ? 0.8 : 0.1) * v[j * D + k];
            b.w[p.offset + (size_t)(i * D + j)] = s;
        }
    t_le(fabs(sigma_max(b.w, p) - 1), 1e-14, "the test's own SVD");
    double *other = b.w + matrix(&b, 1, VT_WEIGHT_Q).offset;
    memset(other, 0, D * D * sizeof *other); /* so that the value is that of the planted matrix */
    for (int step = 1; gap > 1e-8; step++) {
        double sigma = sqrt(bench_scalar(&b)), along = 0, across[D];
        const double *now = b.state + D;
        for (int j = 0; j < D; j++) along += now[j] * v[j * D];
        for (int j = 0; j < D; j++) across[j] = now[j] - along * v[j * D];
        double t = t_norm(across, D) / fabs(along), g = 1 - sigma;
        if (step > 5 && tangent < 0.1) {
            t_le(fabs(t / tangent - 0.64), 1e-10, "tangent at step %d", step);
            t_le(fabs(g / gap - 0.4096), tangent * tangent + 4e-12 / g, "1 - sigma at step %d", step);
            judged++;
        }
        tangent = t, gap = g;
        assert_true(step < 40);
    }
    assert_true(judged >= 5);
    bench_close(&b, "msvp");
}

/* A branch with lambda 0 has no term and its vectors rest; a zero matrix has no gradient, makes no NaN, and keeps its
 * vectors for the day it is not zero. */
static void test_msvp_rest(void **state) {
    (void)state;
    bench b = bench_open("msvp", "lambda=0.5,0,0.25", toy(VT_POOL_TOKEN, false, true));
    size_t one = b.state_len / 6; /* of a branch */
    vt_matrix k = matrix(&b, 0, VT_WEIGHT_K), v = matrix(&b, 1, VT_WEIGHT_V);
    memset(b.w + v.offset, 0, (size_t)(v.rows * v.cols) * sizeof *b.w);
    double *before = t_doubles(b.state_len, 0, 0);
    memcpy(before, b.state, b.state_len * sizeof *before);
    double value = bench_apply(&b);
    assert_true(value > 0 && isfinite(value));
    for (size_t branch = 0; branch < 6; branch++) {
        bool rests = branch % 3 == 1 || branch == 5;
        assert_true(rests == !memcmp(before + branch * one, b.state + branch * one, one * sizeof *before));
    }
    for (int i = 0; i < k.rows * k.cols; i++)
        assert_true(b.last[k.offset + (size_t)i] == 0 && b.last[v.offset + (size_t)i] == 0);
    double sigma[2 * 3 * 3];
    estimates(sigma, &b, ROWS);
    for (int i = 0; i < 2 * 3 * 3; i++) /* 3 heads of q, of k, whose vectors rest, and of v */
        assert_true(i / 3 % 3 == 1 || (i < 15 ? sigma[i] > 0 : sigma[i] == 0));
    bench_close(&b, "msvp");
}

/* The first vectors depend on seed, block and branch, on nothing else. */
static void test_msvp_start(void **state) {
    (void)state;
    bench b = bench_open("msvp", "lambda=1", toy(VT_POOL_TOKEN, false, true));
    double *again = t_doubles(b.state_len, 0, 0), *other = t_doubles(b.state_len, 0, 0);
    b.def->start(again, b.work, b.w, b.m, b.params, 11);
    b.def->start(other, b.work, b.w, b.m, b.params, 12);
    assert_memory_equal(again, b.state, b.state_len * sizeof *again);
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 6; j++) {
            assert_true(other[i * b.state_len / 6] != again[j * b.state_len / 6]);
            assert_true(i == j || again[i * b.state_len / 6] != again[j * b.state_len / 6]);
        }
    vt_matrix q = matrix(&b, 0, VT_WEIGHT_Q); /* u and v of a part begin apart, too */
    assert_true(fabs(again[0] / again[1] - again[q.rows / q.heads] / again[q.rows / q.heads + 1]) > 1e-6);
    bench_close(&b, "msvp");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_msvp_gradient, t_drop),  cmocka_unit_test_teardown(test_msvp_tied, t_drop),
        cmocka_unit_test_teardown(test_msvp_iteration, t_drop), cmocka_unit_test_teardown(test_msvp_estimate, t_drop),
        cmocka_unit_test_teardown(test_msvp_planted, t_drop),   cmocka_unit_test_teardown(test_msvp_exact, t_drop),
        cmocka_unit_test_teardown(test_msvp_rest, t_drop),      cmocka_unit_test_teardown(test_msvp_start, t_drop),
    };
    return cmocka_run_group_tests_name("msvp", tests, NULL, NULL);
}
