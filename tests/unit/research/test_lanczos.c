/* SPDX-License-Identifier: MIT */
/* research/numeric/lanczos against LAPACK and against spectra that are planted; the symmetric eigenvalues of
 * linalg/svd. */
#include "research/numeric/lanczos.h"
#include "linalg/svd.h"
#include "t.h"

typedef struct dense {
    int n, calls;
    const double *a;
} dense;

static vt_status times(void *ctx, const double *x, double *y, vt_err *e) {
    (void)e;
    dense *d = ctx;
    d->calls++;
    for (int i = 0; i < d->n; i++) y[i] = t_dot(d->a + (size_t)i * (size_t)d->n, x, (size_t)d->n);
    return VT_OK;
}

/* Q diag(values) Q^T with Q of three reflections. */
static double *planted(int n, const double *values, uint64_t seed) {
    double *a = t_doubles((size_t)n * (size_t)n, 0, 0), *w = t_doubles((size_t)n, 0, 0);
    for (int i = 0; i < n * n; i++) a[i] = i / n == i % n ? values[i / n] : 0;
    for (uint64_t k = 0; k < 3; k++) {
        t_normals(w, (size_t)n, seed + k, 1);
        double scale = t_norm(w, (size_t)n);
        for (int side = 0; side < 2; side++)
            for (int j = 0; j < n; j++) {
                size_t step = side ? 1 : (size_t)n, from = side ? (size_t)j * (size_t)n : (size_t)j;
                double dot = 0;
                for (int i = 0; i < n; i++) dot += w[i] / scale * a[from + (size_t)i * step];
                for (int i = 0; i < n; i++) a[from + (size_t)i * step] -= 2 * dot * w[i] / scale;
            }
    }
    for (int i = 0; i < n; i++) /* rounding left it symmetric to 1e-16 only; the operator must be exactly so */
        for (int j = 0; j < i; j++) a[j * n + i] = a[i * n + j];
    return a;
}

/* Like the Hessian of a trained network: a few large values, a bulk near zero, some below. */
static double spectrum_of(int i, int n) { return i < n - 20 ? 40 * pow(0.93, i) + 1e-4 : -0.02 * (i - (n - 21)); }

/* The bar: a dense 500 x 500 test Hessian, the 20 largest to 1e-8 relative, against LAPACK. */
static void test_dense_500(void **state) {
    (void)state;
    enum { N = 500, K = 20 };
    double values[N], lapack[N], found[K], residuals[K];
    for (int i = 0; i < N; i++) values[i] = spectrum_of(i, N);
    dense d = {.n = N, .a = planted(N, values, 5)};
    vt_err e = {0};
    assert_int_equal(vt_eigen_symmetric(lapack, NULL, d.a, N, &e), VT_OK);
    double *vectors = t_doubles((size_t)K * N, 0, 0), *av = t_doubles(N, 0, 0);
    vt_lanczos_result r = {.values = found, .residuals = residuals, .vectors = vectors};
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &(vt_lanczos){.k = K, .tol = 1e-10, .seed = 3},
                                    &e),
                     VT_OK);
    assert_int_equal(r.converged, K);
    assert_int_equal(r.products, d.calls);
    assert_true(d.calls < N / 2); /* it is an iteration, not a full decomposition */
    for (int i = 0; i < K; i++) {
        t_le(fabs(found[i] / lapack[i] - 1), 1e-8, "eigenvalue %d", i);
        times(&d, vectors + i * N, av, &e);
        for (int j = 0; j < N; j++) av[j] -= found[i] * vectors[i * N + j];
        /* the recurrence's residual is the true one, up to rounding of products of size 40 */
        t_le(fabs(t_norm(av, N) - residuals[i]), 1e-12 * 40, "residual %d", i);
        for (int j = 0; j <= i; j++)
            t_le(fabs(t_dot(vectors + i * N, vectors + j * N, N) - (i == j)), 1e-12, "vectors %d, %d", i, j);
    }
    t_release("lanczos");
}

/* A Gram matrix of random numbers: no planted structure, neighbours close together. */
static void test_random(void **state) {
    (void)state;
    enum { N = 500, K = 20, M = 700 };
    double *b = t_doubles((size_t)N * M, 11, 1), *a = t_doubles((size_t)N * N, 0, 0), lapack[N], found[K], residuals[K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) a[i * N + j] = a[j * N + i] = t_dot(b + i * M, b + j * M, M) / M;
    dense d = {.n = N, .a = a};
    vt_err e = {0};
    assert_int_equal(vt_eigen_symmetric(lapack, NULL, a, N, &e), VT_OK);
    vt_lanczos_result r = {.values = found, .residuals = residuals};
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &(vt_lanczos){.k = K, .tol = 1e-9, .seed = 1},
                                    &e),
                     VT_OK);
    assert_int_equal(r.converged, K);
    for (int i = 0; i < K; i++) t_le(fabs(found[i] / lapack[i] - 1), 1e-8, "eigenvalue %d", i);
    t_release("lanczos");
}

/* With few different values the recurrence vanishes, and multiple ones are found as often as they are there; the zero
 * operator ends. */
static void test_multiple(void **state) {
    (void)state;
    enum { N = 60, K = 8 };
    double values[N], found[K], residuals[K];
    for (int i = 0; i < N; i++) values[i] = i < 3 ? 5 : i < 5 ? 2 : i < 7 ? 1 : 0;
    dense d = {.n = N, .a = planted(N, values, 21)};
    vt_err e = {0};
    vt_lanczos_result r = {.values = found, .residuals = residuals};
    vt_lanczos p = {.k = K, .most = N, .tol = 1e-10, .seed = 2};
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &p, &e), VT_OK);
    for (int i = 0; i < K; i++) t_le(fabs(found[i] - values[i]), 1e-12, "eigenvalue %d of a multiple spectrum", i);
    double *zero = t_doubles((size_t)N * N, 0, 0);
    memset(zero, 0, (size_t)N * N * sizeof *zero);
    d.a = zero;
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &p, &e), VT_OK);
    assert_true(found[0] == 0 && found[K - 1] == 0 && r.lowest == 0);
    t_release("lanczos");
}

/* Too few products: a lower bound for each value, an honest count, and the same bytes for the same seed. */
static void test_unfinished(void **state) {
    (void)state;
    enum { N = 300, K = 10 };
    double values[N], found[K], residuals[K], again[K];
    for (int i = 0; i < N; i++) values[i] = 1 + 0.01 * (N - i);
    dense d = {.n = N, .a = planted(N, values, 31)};
    vt_err e = {0};
    vt_lanczos p = {.k = K, .most = 15, .tol = 1e-10, .seed = 4};
    vt_lanczos_result r = {.values = found, .residuals = residuals};
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &p, &e), VT_OK);
    assert_int_equal(r.products, 15);
    assert_true(r.converged < K);
    for (int i = 0; i < K; i++) {
        assert_true(found[i] <= values[i] + 1e-12); /* Cauchy: Ritz values lie below */
        double nearest = INFINITY;
        for (int j = 0; j < N; j++) nearest = fmin(nearest, fabs(values[j] - found[i]));
        assert_true(nearest <= residuals[i] + 1e-12); /* some eigenvalue lies within the residual */
    }
    memcpy(again, found, sizeof found);
    assert_int_equal(vt_lanczos_run(&r, &(vt_symmetric){N, times, &d}, &p, &e), VT_OK);
    assert_memory_equal(again, found, sizeof found);
    t_release("lanczos");
}

static void test_trace(void **state) {
    (void)state;
    enum { N = 200 };
    double values[N], trace = NAN, error = NAN, want = 0;
    for (int i = 0; i < N; i++) want += values[i] = spectrum_of(i, N);
    dense d = {.n = N, .a = planted(N, values, 41)};
    vt_err e = {0};
    assert_int_equal(vt_hutchinson_trace(&trace, &error, &(vt_symmetric){N, times, &d}, 400, 6, &e), VT_OK);
    t_le(fabs(trace - want), 4 * error, "trace"); /* four standard errors: one seed in 16,000 would miss */
    double spread = 0;                            /* variance of z^T A z is 2 sum over i != j of a_ij^2 */
    for (int i = 0; i < N * N; i++) spread += i / N == i % N ? 0 : 2 * d.a[i] * d.a[i];
    t_le(fabs(error / sqrt(spread / 400) - 1), 0.2, "its standard error"); /* 400 samples: known to 4 % or so */
    double *diagonal = t_doubles((size_t)N * N, 0, 0);
    for (int i = 0; i < N * N; i++) diagonal[i] = i / N == i % N ? values[i / N] : 0;
    d.a = diagonal;
    assert_int_equal(vt_hutchinson_trace(&trace, &error, &(vt_symmetric){N, times, &d}, 3, 6, &e), VT_OK);
    t_le(fabs(trace - want), 1e-10, "trace of a diagonal");
    t_le(error, 1e-12 * want, "its error");
    t_release("trace");
}

/* D A D is what its name says, and A' = T^-1 A T^-1 with |theta'| = T |theta| has the same eigenvalues. */
static void test_relative(void **state) {
    (void)state;
    enum { N = 40, K = 5 };
    double *a = t_doubles(N * N, 51, 1), *b = t_doubles(N * N, 0, 0), *d = t_doubles(N, 52, 1),
           *d2 = t_doubles(N, 0, 0);
    double scratch[N], found[K], moved[K], raw[K], residuals[K], lapack[N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) a[j * N + i] = a[i * N + j];
    for (int i = 0; i < N; i++) d[i] = fabs(d[i]), d2[i] = d[i] * (i < N / 2 ? 10 : 0.25);
    for (int i = 0; i < N * N; i++) b[i] = a[i] * d[i / N] / d2[i / N] * d[i % N] / d2[i % N];
    dense da = {.n = N, .a = a}, db = {.n = N, .a = b};
    vt_err e = {0};
    vt_lanczos p = {.k = K, .most = N, .tol = 1e-12, .seed = 1};
    vt_relative ra = {{N, times, &da}, d, scratch}, rb = {{N, times, &db}, d2, scratch};
    vt_symmetric first = vt_relative_operator(&ra), second = vt_relative_operator(&rb);
    assert_int_equal(vt_lanczos_run(&(vt_lanczos_result){.values = found, .residuals = residuals}, &first, &p, &e),
                     VT_OK);
    assert_int_equal(vt_lanczos_run(&(vt_lanczos_result){.values = moved, .residuals = residuals}, &second, &p, &e),
                     VT_OK);
    assert_int_equal(vt_lanczos_run(&(vt_lanczos_result){.values = raw, .residuals = residuals}, &rb.inner, &p, &e),
                     VT_OK);
    for (int i = 0; i < N * N; i++) b[i] = a[i] * d[i / N] * d[i % N];
    assert_int_equal(vt_eigen_symmetric(lapack, NULL, b, N, &e), VT_OK);
    for (int i = 0; i < K; i++) {
        t_le(fabs(found[i] - lapack[i]), 1e-10 * lapack[0], "relative eigenvalue %d", i);
        t_le(fabs(moved[i] - lapack[i]), 1e-10 * lapack[0], "relative eigenvalue %d after rescaling", i);
    }
    assert_true(fabs(raw[0] / lapack[0] - 1) > 0.1); /* the raw ones did move */
    t_release("relative");
}

/* linalg/svd: against planted values and its own products; one place's lower triangle counts. */
static void test_eigen(void **state) {
    (void)state;
    enum { N = 33 };
    double values[N], found[N], again[N], *vectors = t_doubles(N * N, 0, 0);
    for (int i = 0; i < N; i++) values[i] = 3 - 0.2 * i;
    double *a = planted(N, values, 61);
    t_freeze(a);
    vt_err e = {0};
    assert_int_equal(vt_eigen_symmetric(found, vectors, a, N, &e), VT_OK);
    dense d = {.n = N, .a = a};
    for (int i = 0; i < N; i++) {
        double av[N];
        t_le(fabs(found[i] - values[i]), 1e-13, "eigenvalue %d", i); /* LAPACK: some units of 2^-53 times the largest */
        times(&d, vectors + i * N, av, &e);
        for (int j = 0; j < N; j++) t_le(fabs(av[j] - found[i] * vectors[i * N + j]), 1e-13, "vector %d", i);
    }
    double diagonal[4] = {2, 2, 2, 2}, beside[3] = {-1, -1, -1}, t[4], tv[16];
    assert_int_equal(vt_eigen_tridiagonal(t, tv, diagonal, beside, 4, &e), VT_OK);
    for (int i = 0; i < 4; i++) { /* 2 - 2 cos(j pi / 5), the second difference */
        t_le(fabs(t[i] - (2 + 2 * cos((i + 1) * 3.14159265358979323846 / 5))), 1e-14, "tridiagonal %d", i);
        t_le(fabs(2 * tv[4 * i] - tv[4 * i + 1] - t[i] * tv[4 * i]), 1e-14, "tridiagonal vector %d", i);
    }
    assert_int_equal(vt_eigen_tridiagonal(t, NULL, diagonal, NULL, 1, &e), VT_OK);
    assert_true(t[0] == 2);
    t_check("eigen");
    double *b = t_doubles(N * N, 0, 0);
    for (int i = 0; i < N * N; i++) b[i] = i % N > i / N ? 77 : a[i];
    assert_int_equal(vt_eigen_symmetric(again, NULL, b, N, &e), VT_OK);
    for (int i = 0; i < N; i++) t_le(fabs(again[i] - found[i]), 1e-13, "from the lower triangle");
    t_release("eigen");
}

static vt_status broken(void *ctx, const double *x, double *y, vt_err *e) {
    memcpy(y, x, 4 * sizeof *y);
    if (!ctx) return vt_fail(e, VT_INTERRUPTED, "stop here");
    y[2] = NAN;
    return VT_OK;
}

static void test_refusals(void **state) {
    (void)state;
    double values[9], residuals[9], bad[4] = {1, 0, NAN, 1};
    int some = 0;
    vt_lanczos_result r = {.values = values, .residuals = residuals};
    vt_err e = {0};
    vt_symmetric a = {4, broken, NULL}, nan = {4, broken, &some};
    t_says(vt_lanczos_run(&r, &a, &(vt_lanczos){.k = 5, .tol = 1e-6}, &e), VT_E_RANGE, &e, "5 eigenvalues", "4 x 4");
    t_says(vt_lanczos_run(&r, &a, &(vt_lanczos){.k = 0, .tol = 1e-6}, &e), VT_E_RANGE, &e, "0 eigenvalues", "1 to 4");
    t_says(vt_lanczos_run(&r, &a, &(vt_lanczos){.k = 3, .most = 2, .tol = 1e-6}, &e), VT_E_RANGE, &e, "3",
           "2 products");
    t_says(vt_lanczos_run(&r, &a, &(vt_lanczos){.k = 1}, &e), VT_E_RANGE, &e, "tolerance", "0");
    t_says(vt_lanczos_run(&r, &a, &(vt_lanczos){.k = 1, .tol = 1}, &e), VT_INTERRUPTED, &e, "stop here", "");
    t_says(vt_lanczos_run(&r, &nan, &(vt_lanczos){.k = 1, .tol = 1}, &e), VT_E_NUMERIC, &e, "product 1", "finite");
    t_says(vt_hutchinson_trace(values, residuals, &a, 0, 1, &e), VT_E_RANGE, &e, "0 samples", "1");
    t_says(vt_hutchinson_trace(values, residuals, &nan, 2, 1, &e), VT_E_NUMERIC, &e, "finite", "");
    t_says(vt_eigen_symmetric(values, NULL, bad, 2, &e), VT_E_NUMERIC, &e, "[1,0]", "finite");
    t_says(vt_eigen_symmetric(values, NULL, bad, 0, &e), VT_E_RANGE, &e, "0 x 0", "20000");
    /* the memory asked for grows with the products */
    assert_true(vt_lanczos_bytes(1000, &(vt_lanczos){.k = 5, .most = 100}) >= 100 * 1000 * sizeof(double));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_eigen, t_drop),      cmocka_unit_test_teardown(test_dense_500, t_drop),
        cmocka_unit_test_teardown(test_random, t_drop),     cmocka_unit_test_teardown(test_multiple, t_drop),
        cmocka_unit_test_teardown(test_unfinished, t_drop), cmocka_unit_test_teardown(test_trace, t_drop),
        cmocka_unit_test_teardown(test_relative, t_drop),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
