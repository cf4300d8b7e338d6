/* SPDX-License-Identifier: MIT */
/* `analyze features`: t-SNE against its definition, central differences and scikit-learn's
 * (tests/fixtures/features.json, made by tools/gen_features_fixture.py); principal components against LAPACK's singular
 * values; logistic regression against its own law and scikit-learn's; the A-distance on clouds whose answer is known;
 * features of distilled models. */
#define VT_DOUBLE
#include "base/real.h"
#include "toy.h"

#include <jansson.h>
#include "linalg/gemm.h"
#include "linalg/svd.h"
#include "models/net/session64.h"
#include "research/analysis/adistance.h"
#include "research/analysis/analyze.h"
#include "research/analysis/logistic.h"
#include "research/analysis/pca.h"
#include "research/analysis/tsne.h"

/* ---- t-SNE ---- */

enum { N = 83, D = 11 }; /* no multiple of the lanes */

/* exp(entropy) of row i. */
static double perplexity_of(const double *p, size_t n) {
    double h = 0;
    for (size_t j = 0; j < n; j++)
        if (p[j] > 0) h -= p[j] * log(p[j]);
    return exp(h);
}

static void test_perplexity(void **state) {
    (void)state;
    static const double wanted[] = {2, 5.5, 30, 80};
    double *x = t_doubles(N * D, 1, 1), *p = t_doubles(N * N, 0, 0);
    size_t apart;
    for (int k = 0; k < 20 * D; k++) x[k] *= 1000; /* scales apart: every row has a sharpness of its own */
    t_freeze(x);
    for (size_t w = 0; w < T_COUNT(wanted); w++) {
        assert_int_equal(vt_tsne_conditional(p, &apart, x, N, D, wanted[w], 2, NULL), VT_OK);
        assert_int_equal(apart, 0);
        for (int i = 0; i < N; i++) {
            double sum = 0, b = NAN;
            for (int j = 0; j < N; j++) sum += p[i * N + j];
            assert_true(p[i * N + i] == 0);
            t_le(fabs(sum - 1), 1e-13, "row %d sums to 1", i);
            t_le(fabs(perplexity_of(p + i * N, N) - wanted[w]), 1e-5, "perplexity %g of row %d", wanted[w], i);
            /* and it is a Gaussian's: log p_a / p_b over the difference of squared distances is one number */
            for (int j = 0; j < N; j++) {
                double d = 0, near = 0;
                int a = i == 0;
                for (int k = 0; k < D; k++) {
                    d += (x[i * D + k] - x[j * D + k]) * (x[i * D + k] - x[j * D + k]);
                    near += (x[i * D + k] - x[a * D + k]) * (x[i * D + k] - x[a * D + k]);
                }
                if (j == i || j == a || !(p[i * N + j] > 1e-200) || !(p[i * N + a] > 1e-200)) continue;
                double here = log(p[i * N + a] / p[i * N + j]) / (d - near);
                if (isnan(b)) b = here;
                t_le(fabs(here / b - 1), 1e-6, "sharpness of row %d", i); /* a difference of logarithms */
            }
        }
    }
    t_release("perplexity");
}

/* More copies of a point than the perplexity: nothing can be chosen among them, which is said. And one that no number
 * of points can have. */
static void test_apart(void **state) {
    (void)state;
    double *x = t_doubles(N * D, 2, 1), *p = t_doubles(N * N, 0, 0);
    size_t apart;
    vt_err e = {0};
    for (int k = 0; k < D; k++) x[k] += 1000; /* nobody else's neighbour */
    for (int i = 1; i < 12; i++) memcpy(x + i * D, x, D * sizeof *x);
    assert_int_equal(vt_tsne_conditional(p, &apart, x, N, D, 5, 1, NULL), VT_OK);
    assert_int_equal(apart, 12);
    for (int i = 0; i < N * N; i++) assert_true(p[i] >= 0 && p[i] <= 1);
    t_le(fabs(perplexity_of(p, N) - 11), 1e-6, "the eleven others");
    t_says(vt_tsne_conditional(p, &apart, x, N, D, N - 1, 1, &e), VT_E_RANGE, &e, "perplexity 82 of 83", "below 82");
    t_release("apart");
}

/* The definition, written down plainly: factor sum p log(1 + d^2) + log Z, and with p's entropy the divergence. */
typedef struct plain {
    const double *p, *y;
    int n;
    double factor;
} plain;

static double objective(void *ctx) {
    const plain *s = ctx;
    double sum = 0, z = 0;
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n; j++) {
            double u = s->y[i] - s->y[j], v = s->y[s->n + i] - s->y[s->n + j], near = 1 + u * u + v * v;
            if (i != j) sum += s->p[i * s->n + j] * log(near), z += 1 / near;
        }
    return s->factor * sum + log(z);
}

static void test_gradient(void **state) {
    (void)state;
    static const int sizes[] = {3, 8, 17, 24};
    for (size_t k = 0; k < T_COUNT(sizes); k++) {
        int n = sizes[k];
        size_t m = (size_t)n, apart;
        double *x = t_doubles(m * D, 3 + k, 1), *p = t_doubles(m * m, 0, 0), *y = t_doubles(2 * m, 4, 1),
               *g = t_doubles(2 * m, 0, 0), *work = t_doubles(3 * m, 0, 0), mass = 0, entropy = 0;
        assert_int_equal(vt_tsne_conditional(p, &apart, x, m, D, n > 3 ? 5 : 1.5, 1, NULL), VT_OK);
        vt_tsne_joint(p, m);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                assert_true(p[i * n + j] == p[j * n + i]);
                mass += p[i * n + j], entropy += p[i * n + j] > 0 ? p[i * n + j] * log(p[i * n + j]) : 0;
            }
        t_le(fabs(mass - 1), 1e-13, "joint similarities sum to 1");
        for (double factor = 1; factor <= 12; factor += 11) {
            plain f = {p, y, n, factor};
            vt_tsne_gradient(g, p, y, m, factor, 1, work);
            t_grad(objective, &f, y, 2 * m, g, "gradient of t-SNE");
        }
        double kl = vt_tsne_kl(p, y, m, 1, work);
        t_le(fabs(kl - (entropy + objective(&(plain){p, y, n, 1}))), 1e-13, "divergence of %d points", n);
        assert_true(kl > 0);
        t_release("gradient");
    }
}

/* ---- scikit-learn ---- */

static json_t *theirs;

static int setup(void **state) {
    (void)state;
    vt_blas_single_thread();
    theirs = json_load_file("tests/fixtures/features.json", 0, NULL);
    return !theirs;
}

static int teardown(void **state) {
    (void)state;
    json_decref(theirs);
    return 0;
}

static double number(const json_t *a, size_t i) { return json_number_value(json_array_get(a, i)); }
static double entry(const char *key, size_t i, size_t k) {
    return number(json_array_get(json_object_get(theirs, key), i), k);
}
static double value(const char *key) { return json_number_value(json_object_get(theirs, key)); }

enum { M = 60, W = 10 }; /* the fixture's points */

static double *points(void) {
    double *x = t_doubles(M * W, 0, 0);
    for (size_t i = 0; i < M; i++)
        for (size_t k = 0; k < W; k++) x[i * W + k] = entry("x", i, k);
    return x;
}

static void start(double *y, const vt_pca *pca, const double *x) {
    double sum = 0;
    vt_pca_project(y, 2, pca, x, M);
    for (size_t i = 0; i < M; i++) sum += y[i] * y[i];
    for (size_t i = 0; i < 2 * M; i++) y[i] *= 1e-4 / sqrt(sum / M);
}

static void test_sklearn(void **state) {
    (void)state;
    double *x = points(), *p = t_doubles(M * M, 0, 0), *y = t_doubles(2 * M, 0, 0), *work = t_doubles(3 * M, 0, 0),
           *g = t_doubles(2 * M, 0, 0);
    size_t apart;
    vt_tsne_result r;
    vt_pca pca;
    vt_err e = {0};
    assert_int_equal(vt_tsne_conditional(p, &apart, x, M, W, value("perplexity"), 1, &e), VT_OK);
    vt_tsne_joint(p, M);
    /* its bisection ends at 1e-5 of the entropy, in float */
    for (size_t k = 0; k < 2; k++)
        for (size_t j = 0, i = (size_t)number(json_object_get(theirs, "rows"), k); j < M; j++)
            t_le(fabs(p[i * M + j] - entry("joint", k, j)), 1e-4 * fmax(p[i * M + j], 1e-4), "joint %zu, %zu", i, j);
    for (size_t i = 0; i < M; i++) y[i] = entry("y", i, 0), y[M + i] = entry("y", i, 1);
    t_le(fabs(vt_tsne_kl(p, y, M, 1, work) / value("kl") - 1), 1e-4, "the divergence of its own positions");
    vt_tsne_gradient(g, p, y, M, 1, 1, work);
    for (size_t i = 0; i < M; i++)
        for (size_t k = 0; k < 2; k++)
            t_le(fabs(g[k * M + i] - entry("gradient", i, k)), 1e-4 * t_max(g, 2 * M), "gradient of point %zu", i);
    /* the same steps from the same start, slow enough that float's rounding does not grow: positions of theirs moved by
     * 1e-6 at the start end within 0.05 of 4 and within 1e-5 of the divergence */
    assert_int_equal(vt_pca_open(&pca, x, M, W, &e), VT_OK);
    vt_tsne o = {.perplexity = value("perplexity"), .exaggeration = 12, .threads = 1};
    o.rate = value("rate"), o.steps = (int)value("steps");
    start(y, &pca, x);
    assert_int_equal(vt_tsne_run(y, &r, x, M, W, &o, &e), VT_OK);
    t_le(fabs(r.kl / value("kl") - 1), 1e-3, "divergence after %d steps: %.6f, theirs %.6f", o.steps, r.kl,
         value("kl"));
    for (size_t i = 0; i < M; i++)
        for (size_t k = 0; k < 2; k++) /* axes of theirs have signs of their own */
            t_le(fabs(fabs(y[k * M + i]) - fabs(entry("y", i, k))), 0.2, "position %zu", i);
    /* to the end: so few points have many minima, and theirs from eight starts nearby differ by a fifth */
    o.rate = 0, o.steps = 1000;
    start(y, &pca, x);
    assert_int_equal(vt_tsne_run(y, &r, x, M, W, &o, &e), VT_OK);
    double least = INFINITY, most = 0;
    for (size_t k = 0; k < json_array_size(json_object_get(theirs, "ends")); k++)
        least = fmin(least, number(json_object_get(theirs, "ends"), k)),
        most = fmax(most, number(json_object_get(theirs, "ends"), k));
    t_le(r.kl, 1.02 * most, "divergence at the end");
    t_le(0.98 * least, r.kl, "divergence at the end");
    assert_true(r.rate == 50 && r.apart == 0);
    t_le(r.gradient, 1e-3, "what is left of the gradient");
    for (size_t k = 0; k < W; k++)
        t_le(fabs(pca.values[k] / number(json_object_get(theirs, "variances"), k) - 1), 1e-10, "variance %zu", k);
    vt_pca_close(&pca);
    t_release("scikit-learn");
}

/* The same bits for every number of threads; and an interrupt ends it. */
static void test_threads(void **state) {
    (void)state;
    enum { MANY = 150 };
    double *x = t_doubles(MANY * D, 7, 1), *y[2];
    vt_tsne_result r[2];
    vt_err e = {0};
    volatile sig_atomic_t stop = 1;
    vt_tsne o = {.perplexity = 20, .exaggeration = 12, .steps = 300};
    for (int k = 0; k < 2; k++) {
        o.threads = 1 + 2 * k, y[k] = t_doubles(2 * MANY, 8, 1e-4);
        assert_int_equal(vt_tsne_run(y[k], &r[k], x, MANY, D, &o, &e), VT_OK);
    }
    assert_memory_equal(y[0], y[1], 2 * MANY * sizeof *y[0]);
    assert_memory_equal(&r[0], &r[1], sizeof r[0]);
    assert_true(vt_tsne_bytes(MANY) >= MANY * MANY * sizeof(double));
    assert_true(vt_tsne_bytes(SIZE_MAX / 2) > SIZE_MAX / 2); /* and not what is left of an overflow */
    o.interrupt = &stop;
    t_says(vt_tsne_run(y[0], &r[0], x, MANY, D, &o, &e), VT_INTERRUPTED, &e, "interrupted", "half done");
    o.interrupt = NULL, o.rate = 1e300;
    t_says(vt_tsne_run(y[0], &r[0], x, MANY, D, &o, &e), VT_E_NUMERIC, &e, "diverged", "learning rate 1e+300");
    t_release("threads");
}

/* ---- principal components ---- */

/* n above and below d, more rows than are centred at a time, and a feature that never varies. */
static void test_pca(void **state) {
    (void)state;
    static const struct { size_t n, d; } cases[] = {{40, 7}, {5, 9}, {600, 12}, {2, 1}};
    for (size_t c = 0; c < T_COUNT(cases); c++) {
        size_t n = cases[c].n, d = cases[c].d, rank = n < d ? n : d;
        double *x = t_doubles(n * d, 20 + c, 3), *centred = t_doubles(n * d, 0, 0), *y = t_doubles(n * d, 0, 0),
               sigma[16], all = 0, first = 0;
        for (size_t i = 0; d > 5 && i < n; i++) x[i * d + 5] = 7.25;
        for (size_t i = 0; i < n; i++) x[i * d] += 1000; /* far from 0 */
        t_freeze(x);
        for (size_t k = 0; k < d; k++) {
            double mean = 0;
            for (size_t i = 0; i < n; i++) mean += x[i * d + k] / (double)n;
            for (size_t i = 0; i < n; i++) centred[i * d + k] = x[i * d + k] - mean;
        }
        vt_pca p;
        vt_err e = {0};
        assert_int_equal(vt_svd_values(sigma, centred, (int)n, (int)d, (int)d, &e), VT_OK);
        assert_int_equal(vt_pca_open(&p, x, n, d, &e), VT_OK);
        vt_pca_project(y, (int)d, &p, x, n);
        double tol = 1e-12 * sigma[0] * sigma[0]; /* rounding of squares, and of the mean at 1000 */
        for (size_t k = 0; k < d; k++) {
            double want = k < rank ? sigma[k] * sigma[k] : 0, along = 0, most = 0;
            t_le(fabs(p.values[k] * (double)(n - 1) - want), tol, "variance %zu of %zu x %zu", k, n, d);
            assert_true(p.values[k] >= 0 && (k == 0 || p.values[k] <= p.values[k - 1]));
            /* coordinates have that variance, and are uncorrelated */
            for (size_t l = 0; l <= k; l++)
                t_le(fabs(t_dot(y + k * n, y + l * n, n) - (k == l ? want : 0)), tol, "coordinates %zu, %zu", k, l);
            for (size_t l = 0; l < d; l++) {
                double a = p.axes[k * d + l];
                along += a * a, most = fabs(a) > fabs(most) ? a : most;
            }
            t_le(fabs(along - 1), 1e-13, "length of axis %zu", k);
            assert_true(most > 0);
            all += want, first += k < 2 ? want : 0;
        }
        t_le(fabs(vt_pca_share(&p, 2) - first / all), 1e-12, "share");
        t_le(fabs(vt_pca_share(&p, d) - 1), 1e-15, "whole");
        vt_pca_close(&p);
        t_release("pca");
    }
}

/* ---- the classifier ---- */

typedef struct at {
    const vt_logistic *l;
    double *w, *f;
} at;

static double objective_at(void *ctx) {
    at *s = ctx;
    double sum = 0;
    for (size_t i = 0; i < s->l->n; i++) {
        double t = t_dot(s->l->x + i * s->l->m, s->w, s->l->m);
        sum += log(1 + exp(s->l->yes[i] ? -t : t));
    }
    return sum / (double)s->l->n + s->l->lambda / 2 * t_dot(s->w, s->w, s->l->m - 1);
}

static void test_logistic(void **state) {
    (void)state;
    enum { ROWS = 300, COLS = 9 };
    double *x = t_doubles(ROWS * COLS, 30, 1), *w = t_doubles(COLS, 31, 1), *g = t_doubles(COLS, 0, 0),
           *f = t_doubles(ROWS, 0, 0), left;
    bool yes[ROWS];
    vt_err e = {0};
    for (int i = 0; i < ROWS; i++)
        yes[i] = x[i * COLS] + x[i * COLS + 1] > 0.3 * x[i * COLS + 2], x[i * COLS + COLS - 1] = 1;
    t_freeze(x);
    vt_logistic l = {.x = x, .yes = yes, .n = ROWS, .m = COLS, .lambda = 0.02};
    at s = {&l, w, f};
    t_le(fabs(vt_logistic_objective(g, f, &l, w) - objective_at(&s)), 1e-14, "objective");
    t_grad(objective_at, &s, w, COLS, g, "gradient of the logistic loss");
    static const double lambdas[] = {1e-6, 0.02, 100}; /* separable: without lambda there is no minimum at all */
    for (size_t k = 0; k < T_COUNT(lambdas); k++) {
        l.lambda = lambdas[k];
        if (vt_logistic_fit(w, &left, &l, &e) != VT_OK) fail_msg("%s", e.text);
        double least = vt_logistic_objective(g, f, &l, w);
        t_le(t_max(g, COLS), VT_LOGISTIC_TOL, "the gradient at the end, lambda %g", lambdas[k]);
        t_le(fabs(left - t_max(g, COLS)), 0, "as it says");
        for (int j = 0; j < COLS; j++) /* nowhere around is it less */
            for (double d = -1e-3; d <= 1e-3; d += 2e-3) {
                w[j] += d;
                assert_true(vt_logistic_objective(NULL, f, &l, w) > least);
                w[j] -= d;
            }
    }
    t_release("logistic");
}

static void test_logistic_sklearn(void **state) {
    (void)state;
    double *x = points(), *z = t_doubles(M * (W + 1), 0, 0), w[W + 1], left;
    bool yes[M];
    for (size_t k = 0; k < W; k++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < M; i++) mean += x[i * W + k] / M;
        for (size_t i = 0; i < M; i++) square += (x[i * W + k] - mean) * (x[i * W + k] - mean) / M;
        for (size_t i = 0; i < M; i++) z[i * (W + 1) + k] = (x[i * W + k] - mean) / sqrt(square);
    }
    for (size_t i = 0; i < M; i++) z[i * (W + 1) + W] = 1, yes[i] = i >= M / 2;
    const vt_logistic l = {.x = z, .yes = yes, .n = M, .m = W + 1, .lambda = value("lambda")};
    assert_int_equal(vt_logistic_fit(w, &left, &l, NULL), VT_OK);
    for (size_t k = 0; k <= W; k++) /* it ends at a gradient of 1e-13 */
        t_le(fabs(w[k] - number(json_object_get(theirs, "weights"), k)), 1e-8, "weight %zu", k);
    t_release("logistic");
}

/* ---- the A-distance ---- */

enum { PAIRS = 120, WIDE = 60 };

static vt_adistance_result distance_of(const double *x, size_t n, size_t d, int folds, int threads) {
    vt_adistance_result r;
    vt_err e = {0};
    const vt_adistance o = {.folds = folds, .lambda = 1e-3, .seed = 3, .threads = threads};
    if (vt_adistance_run(&r, x, n, d, &o, &e) != VT_OK) fail_msg("%s", e.text);
    t_le(r.gradient, VT_LOGISTIC_TOL, "the worst fit");
    t_le(fabs(r.value - 2 * (1 - (double)r.wrong / (double)n)), 1e-15, "value");
    return r;
}

static void test_adistance(void **state) {
    (void)state;
    double *x = t_doubles(2 * PAIRS * WIDE, 40, 1), *half = x + PAIRS * WIDE;
    /* two samples of one distribution: 240 right or wrong with chance 1/2, so the distance has a deviation of 4
     * sqrt(1/4 / 240) = 0.13, and folds share training points: five deviations. Trained on what it tests it would be 2,
     * for 60 features and a bias separate most of 240 points. */
    vt_adistance_result r = distance_of(x, PAIRS, WIDE, 5, 1), other = distance_of(x, PAIRS, WIDE, 5, 3);
    t_le(fabs(r.value), 5 * 4 * sqrt(0.25 / (2 * PAIRS)), "samples of one distribution: %g", r.value);
    assert_memory_equal(&r, &other, sizeof r);
    /* a shift of six deviations: no point of 240 is on the wrong side but with chance 1e-3 each, in sixty directions */
    for (int i = 0; i < PAIRS * WIDE; i++) half[i] += 6;
    r = distance_of(x, PAIRS, WIDE, 5, 2);
    assert_true(r.value == 2 && r.spread == 0 && r.wrong == 0);
    /* one direction alone, two deviations apart: the best classifier errs in Phi(-1) = 0.1587 of the points */
    for (int i = 0; i < PAIRS * WIDE; i++) half[i] -= i % WIDE ? 6 : 4;
    r = distance_of(x, PAIRS, WIDE, 10, 1);
    t_le(r.value, 2 * (1 - 2 * 0.1587) + 5 * 0.1, "two deviations: %g", r.value); /* 0.1: 4 sqrt(0.16 0.84 / 240) */
    t_le(0.5, r.value, "two deviations: %g", r.value);
    /* copies: the classifier learns nothing from a pair, and of a pair exactly one is wrong. Were a point's copy among
     * the training points, it would be told by its copy, and always wrongly. */
    memcpy(half, x, PAIRS * WIDE * sizeof *x);
    r = distance_of(x, PAIRS, WIDE, 7, 1);
    assert_true(r.value == 0 && r.wrong == PAIRS);
    for (int f = 0; f < 7; f++) assert_true(r.of_fold[f] == 0);
    t_release("A-distance");
}

/* Units and constants of features change nothing; as many folds as pairs; what is refused. */
static void test_adistance_edges(void **state) {
    (void)state;
    enum { FEW = 30, COLS = 4 };
    double *x = t_doubles(2 * FEW * COLS, 50, 1);
    vt_err e = {0};
    vt_adistance_result r[2];
    for (int i = FEW * COLS; i < 2 * FEW * COLS; i++) x[i] += 1;
    for (int i = 0; i < 2 * FEW; i++) x[i * COLS + 3] = 0.1; /* a constant that no float holds exactly */
    r[0] = distance_of(x, FEW, COLS, FEW, 1);
    assert_true(r[0].value > 0.3 && r[0].spread > 0);
    for (int i = 0; i < 2 * FEW; i++) x[i * COLS] = 1024 * x[i * COLS] - 4096, x[i * COLS + 3] = 7;
    r[1] = distance_of(x, FEW, COLS, FEW, 1);
    assert_int_equal(r[0].wrong, r[1].wrong);
    t_says(vt_adistance_run(r, x, FEW, COLS, &(vt_adistance){.folds = FEW + 1, .lambda = 1}, &e), VT_E_RANGE, &e,
           "31 folds of 30 pairs", "2 to 100");
    t_says(vt_adistance_run(r, x, FEW, COLS, &(vt_adistance){.folds = 1, .lambda = 1}, &e), VT_E_RANGE, &e, "1 folds",
           "2");
    volatile sig_atomic_t stop = 1;
    t_says(vt_adistance_run(r, x, FEW, COLS, &(vt_adistance){.folds = 3, .lambda = 1, .threads = 1, .interrupt = &stop},
                            &e),
           VT_INTERRUPTED, &e, "interrupted", "half done");
    t_release("A-distance");
}

/* ---- the kind ---- */

/* Before an image is read: what cannot be, and n^2 numbers that no machine has room for. */
static void test_refused(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    const vt_analysis_def *d;
    vt_err e = {0};
    vt_attack attack = {0};
    static const struct {
        const char *key, *value;
        size_t images;
        bool attacked;
        vt_status status;
        const char *says[2];
    } cases[] = {
        {"perplexity", "30", 15, true, VT_E_USAGE, {"perplexity 30 needs more than 31 points", "30 (15 images, clean"}},
        {"perplexity", "30", 31, false, VT_E_USAGE, {"there are 31 (31 images)", "or --perplexity"}},
        {"folds", "17", 16, true, VT_E_USAGE, {"17 folds of 16 images", "an image for each"}},
        {"steps", "1", (size_t)1 << 22, false, VT_E_MEMORY, {"analysis features would need", "this machine has"}},
        {"steps", "1", (size_t)1 << 31, true, VT_E_MEMORY, {"analysis features would need", "this machine has"}},
    };
    assert_int_equal(vt_analysis_find(&d, "features", &e), VT_OK);
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_analyze a = {.n = 1,
                        .threads = 2,
                        .n_images = cases[i].images,
                        .attack = cases[i].attacked ? &attack : NULL};
        a.subjects[0] = (vt_analyzed){.path = "toy", .model = m};
        json_t *doc;
        void *params = calloc(1, d->params_size);
        vt_opt_defaults(d->opts, params);
        assert_int_equal(vt_opt_set(d->opts, params, cases[i].key, cases[i].value, "features", &e), VT_OK);
        t_says(vt_analyze_run(d, params, &a, NULL, &doc, &e), cases[i].status, &e, cases[i].says[0], cases[i].says[1]);
        free(params);
    }
    vt_model_close(m);
}

/* ---- features of distilled models (every architecture: tests/unit/models/test_combinations.c) ---- */

/* Which heads count decides which rows are features. */
static void test_distilled(void **state) {
    (void)state;
    enum { IMAGES = 3 };
    static const char *const names[] = {"head.weight", "head.bias", "head_dist.weight", "head_dist.bias"};
    for (int read = VT_DIST_MEAN; read <= VT_DIST_DIST; read++) {
        vt_config c = toy_config("dot", VT_POOL_TOKEN, true, true);
        c.dist_head = (vt_dist_head)read;
        vt_model *m = toy_model(&c, 9);
        vt_session_f64 *s;
        const float *w[4];
        int len;
        for (int k = 0; k < 4; k++) w[k] = m->w + vt_model_param(m, names[k])->offset;
        double *x = toy_images(m, IMAGES, 5);
        assert_int_equal(vt_session_open_f64(&s, m, IMAGES, VT_GRAD_NONE, NULL), VT_OK);
        const double *z = vt_session_forward_f64(s, x, IMAGES, false);
        for (int i = 0; i < IMAGES; i++) {
            const double *f = vt_session_features_f64(s, i, &len);
            assert_int_equal(len, read == VT_DIST_MEAN ? 2 * c.dim : c.dim);
            assert_int_equal(len, vt_session_feature_len_f64(m));
            for (int k = 0; k < c.classes; k++) {
                double sum[2];
                for (int h = 0; h < 2; h++) {
                    const double *of = f + (read == VT_DIST_MEAN && h ? c.dim : 0);
                    sum[h] = (double)w[2 * h + 1][k];
                    for (int j = 0; j < c.dim; j++) sum[h] += (double)w[2 * h][k * c.dim + j] * of[j];
                }
                double want = read == VT_DIST_MEAN ? (sum[0] + sum[1]) / 2 : sum[read == VT_DIST_DIST];
                t_le(fabs(z[i * c.classes + k] - want), 1e-13, "logit %d of image %d, heads %d", k, i, read);
            }
        }
        free(x), vt_session_close_f64(s), vt_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_perplexity, t_drop),
        cmocka_unit_test_teardown(test_apart, t_drop),
        cmocka_unit_test_teardown(test_gradient, t_drop),
        cmocka_unit_test_teardown(test_sklearn, t_drop),
        cmocka_unit_test_teardown(test_threads, t_drop),
        cmocka_unit_test_teardown(test_pca, t_drop),
        cmocka_unit_test_teardown(test_logistic, t_drop),
        cmocka_unit_test_teardown(test_logistic_sklearn, t_drop),
        cmocka_unit_test_teardown(test_adistance, t_drop),
        cmocka_unit_test_teardown(test_adistance_edges, t_drop),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_distilled),
    };
    return cmocka_run_group_tests_name("features", tests, setup, teardown);
}
