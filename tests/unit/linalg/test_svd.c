/* SPDX-License-Identifier: MIT */
/* Singular values: linalg/svd against planted ones, and analysis/spectrum against models whose matrices have known
 * norms.
 */
#include "research/analysis/spectrum.h"
#include "linalg/gemm.h"
#include "linalg/svd.h"
#include "toy.h"

/* LAPACK's bound for each value is a modest multiple of 2^-53 times the largest; building the planted matrix by six
 * reflections adds as much. 16 (m + n) units leave a factor of nine over the worst measured (2 x 2), and stay below
 * 1e-12 for sides that add up to 560. */
static double tolerance(int rows, int cols) { return 16.0 * (rows + cols) * 0x1p-53; }

/* A <- (I - 2 w w^T) A from the left, or A (I - 2 w w^T) from the right, |w| = 1. */
static void reflect(double *a, int rows, int cols, int ld, bool left, uint64_t seed) {
    int n = left ? rows : cols, other = left ? cols : rows;
    size_t along = left ? (size_t)ld : 1, across = left ? 1 : (size_t)ld;
    double *w = malloc((size_t)n * sizeof *w);
    assert_non_null(w);
    t_normals(w, (size_t)n, seed, 1);
    double norm = t_norm(w, (size_t)n);
    for (int j = 0; j < other; j++) {
        double *x = a + (size_t)j * across, dot = 0;
        for (int i = 0; i < n; i++) dot += w[i] / norm * x[(size_t)i * along];
        for (int i = 0; i < n; i++) x[(size_t)i * along] -= 2 * dot * w[i] / norm;
    }
    free(w);
}

/* U S V^T with row stride ld; NaN in the padding, which nobody may read. */
static double *planted_matrix(int rows, int cols, int ld, const double *sigma, uint64_t seed) {
    double *a = t_take((size_t)rows * (size_t)ld * sizeof *a);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < ld; j++) a[i * ld + j] = j >= cols ? NAN : i == j ? sigma[i] : 0;
    for (uint64_t k = 0; k < 3; k++) {
        reflect(a, rows, cols, ld, true, seed + k);
        reflect(a, rows, cols, ld, false, seed + 10 + k);
    }
    t_freeze(a);
    return a;
}

static void check_vectors(const double *a, int rows, int cols, int ld, double want, double tol) {
    vt_err e = {0};
    double s = NAN, *u = t_doubles((size_t)rows, 0, 0), *v = t_doubles((size_t)cols, 0, 0);
    assert_int_equal(vt_svd_largest(&s, u, v, a, rows, cols, ld, &e), VT_OK);
    t_le(fabs(s - want), tol * want, "%d x %d: largest", rows, cols);
    t_le(fabs(t_norm(u, (size_t)rows) - 1), tol, "%d x %d: |u|", rows, cols);
    t_le(fabs(t_norm(v, (size_t)cols) - 1), tol, "%d x %d: |v|", rows, cols);
    for (int i = 0; i < rows; i++)
        t_le(fabs(t_dot(a + i * ld, v, (size_t)cols) - s * u[i]), tol * want, "%d x %d: (A v)[%d]", rows, cols, i);
    for (int j = 0; j < cols; j++) {
        double dot = 0;
        for (int i = 0; i < rows; i++) dot += a[i * ld + j] * u[i];
        t_le(fabs(dot - s * v[j]), tol * want, "%d x %d: (A^T u)[%d]", rows, cols, j);
    }
}

static void check_planted(int rows, int cols, int ld, const double *sigma, uint64_t seed) {
    int n = rows < cols ? rows : cols;
    vt_err e = {0};
    const double *a = planted_matrix(rows, cols, ld, sigma, seed);
    double *got = t_doubles((size_t)n, 0, 0), tol = tolerance(rows, cols);
    assert_true(tol <= 1e-12);
    assert_int_equal(vt_svd_values(got, a, rows, cols, ld, &e), VT_OK);
    for (int i = 0; i < n; i++) t_le(fabs(got[i] - sigma[i]), tol * sigma[0], "%d x %d: sigma %d", rows, cols, i);
    check_vectors(a, rows, cols, ld, sigma[0], tol);
    t_release("svd");
}

static void test_planted(void **state) {
    (void)state;
    static const int shapes[][3] = {{1, 1, 1},  {1, 7, 7},   {7, 1, 3},    {2, 2, 2},     {3, 5, 9},     {5, 3, 3},
                                    {16, 4, 4}, {64, 8, 64}, {33, 65, 70}, {192, 64, 64}, {64, 192, 192}};
    for (size_t k = 0; k < T_COUNT(shapes); k++) {
        double falling[64], repeated[64], one[64] = {2.5};
        for (int i = 0; i < 64; i++) falling[i] = 7.0 / (1 + i), repeated[i] = i < 2 ? 3 : i < 5 ? 1e-3 : 0;
        check_planted(shapes[k][0], shapes[k][1], shapes[k][2], falling, 100 + k);
        check_planted(shapes[k][0], shapes[k][1], shapes[k][2], repeated, 200 + k);
        check_planted(shapes[k][0], shapes[k][1], shapes[k][2], one, 300 + k); /* rank one */
    }
}

/* Closed forms, without our reflections: 1 x 1, a row, a b^T, 2 x 2. */
static void test_closed_forms(void **state) {
    (void)state;
    vt_err e = {0};
    double s[2], minus = -3, row[3] = {2, -3, 6}, outer[6] = {3, 0, 4, 6, 0, 8}, two[4] = {3, 0, 4, 5};
    assert_int_equal(vt_svd_values(s, &minus, 1, 1, 1, &e), VT_OK);
    assert_true(s[0] == 3);
    assert_int_equal(vt_svd_values(s, row, 1, 3, 3, &e), VT_OK);
    t_le(fabs(s[0] - 7), 7 * tolerance(1, 3), "row");
    assert_int_equal(vt_svd_values(s, outer, 2, 3, 3, &e), VT_OK);
    t_le(fabs(s[0] - 5 * sqrt(5)), 12 * tolerance(2, 3), "a b^T");
    t_le(fabs(s[1]), 12 * tolerance(2, 3), "a b^T, second");
    assert_int_equal(vt_svd_values(s, two, 2, 2, 2, &e), VT_OK); /* A^T A has 45 and 5 */
    t_le(fabs(s[0] - sqrt(45)), 7 * tolerance(2, 2), "2 x 2");
    t_le(fabs(s[1] - sqrt(5)), 7 * tolerance(2, 2), "2 x 2, second");
}

/* Powers of two move every value alike, out to where squares over- and underflow. */
static void test_scale(void **state) {
    (void)state;
    vt_err e = {0};
    double a[20], s[4], t[4], u[5], v[4], top;
    t_normals(a, 20, 7, 1);
    assert_int_equal(vt_svd_values(s, a, 5, 4, 4, &e), VT_OK);
    t_le(fabs(t_norm(s, 4) - t_norm(a, 20)), 5 * tolerance(5, 4), "Frobenius");
    for (int power = -1000; power <= 1000; power += 500) {
        double b[20];
        for (int i = 0; i < 20; i++) b[i] = ldexp(a[i], power);
        assert_int_equal(vt_svd_values(t, b, 5, 4, 4, &e), VT_OK);
        for (int i = 0; i < 4; i++)
            t_le(fabs(ldexp(t[i], -power) - s[i]), s[0] * tolerance(5, 4), "2^%d, value %d", power, i);
        assert_int_equal(vt_svd_largest(&top, u, v, b, 5, 4, 4, &e), VT_OK);
        t_le(fabs(ldexp(top, -power) - s[0]), s[0] * tolerance(5, 4), "2^%d, largest", power);
    }
    double zero[6] = {0};
    assert_int_equal(vt_svd_values(t, zero, 3, 2, 2, &e), VT_OK);
    assert_true(t[0] == 0 && t[1] == 0);
}

static void test_refusals(void **state) {
    (void)state;
    vt_err e = {0};
    double s = 11, u[4], v[4], a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    a[6] = NAN;
    t_says(vt_svd_values(&s, a, 3, 4, 4, &e), VT_E_NUMERIC, &e, "element [1,2] of a 3 x 4 matrix", "nan");
    t_says(vt_svd_largest(&s, u, v, a, 3, 4, 4, &e), VT_E_NUMERIC, &e, "[1,2]", "finite");
    a[6] = -INFINITY;
    t_says(vt_svd_values(&s, a, 3, 4, 4, &e), VT_E_NUMERIC, &e, "[1,2]", "inf");
    t_says(vt_svd_values(&s, a, 0, 4, 4, &e), VT_E_SHAPE, &e, "0 x 4", "at least 1");
    t_says(vt_svd_values(&s, a, 3, -1, 4, &e), VT_E_SHAPE, &e, "3 x -1", "at least 1");
    t_says(vt_svd_largest(&s, u, v, a, 3, 4, 3, &e), VT_E_SHAPE, &e, "3 x 4 with a row stride of 3", "width");
    assert_true(s == 11);
}

/* ---- a model's spectrum ---- */

/* Rank one with whole numbers, exact in float: element [r,c] is a_r b_c, so that every row or column block has the norm
 * |a block| |b block|. Different for each block of the network and each role. */
static double left(int block, vt_weight_kind kind, int r) { return 1 + (3 * r + 5 * block + (int)kind) % 7; }
static double right(int block, vt_weight_kind kind, int c) { return 1 + (c * c + block + 2 * (int)kind) % 11; }

static void plant(vt_model *m) {
    for (int b = 0; b < m->config.depth; b++)
        for (int r = 0; r < VT_WEIGHT_KINDS; r++) {
            vt_matrix x;
            assert_true(vt_model_matrix(m, b, (vt_weight_kind)r, &x));
            for (int i = 0; i < x.rows; i++)
                for (int j = 0; j < x.cols; j++)
                    m->w[x.offset + (size_t)(i * x.cols + j)] =
                        (float)(left(b, (vt_weight_kind)r, i) * right(b, (vt_weight_kind)r, j));
        }
    vt_model_refresh(m);
}

static double norm_of(double (*f)(int, vt_weight_kind, int), int b, vt_weight_kind r, int from, int to) {
    double s = 0;
    for (int i = from; i < to; i++) s += f(b, r, i) * f(b, r, i);
    return sqrt(s);
}

static vt_model *planted_model(void) {
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    vt_model *m = toy_model(&c, 3);
    plant(m);
    return m;
}

static void check_role(const vt_spectrum *s, const vt_model *m, int b, vt_weight_kind kind) {
    vt_matrix x;
    assert_true(vt_model_matrix(m, b, kind, &x));
    double a = norm_of(left, b, kind, 0, x.rows), w = norm_of(right, b, kind, 0, x.cols), most[2] = {0, 0};
    t_le(fabs(vt_spectrum_get(s, b, kind, VT_PART_WHOLE, 0) / (a * w) - 1), 1e-12, "%s of block %d",
         vt_weight_kind_name(kind), b);
    for (int h = 0; h < x.heads && kind <= VT_WEIGHT_V; h++) {
        int d = x.rows / x.heads;
        double want[2] = {norm_of(left, b, kind, h * d, (h + 1) * d) * w,
                          a * norm_of(right, b, kind, h * d, (h + 1) * d)};
        for (int k = 0; k < 2; k++) {
            vt_part part = k ? VT_PART_COLUMNS : VT_PART_ROWS;
            t_le(fabs(vt_spectrum_get(s, b, kind, part, h) / want[k] - 1), 1e-12, "%s of block %d, %s, head %d",
                 vt_weight_kind_name(kind), b, vt_part_name(part), h);
            most[k] = fmax(most[k], want[k]);
        }
    }
    if (kind > VT_WEIGHT_V) return;
    t_le(fabs(vt_spectrum_get(s, b, kind, VT_PART_ROWS, -1) / most[0] - 1), 1e-12, "largest head by rows");
    t_le(fabs(vt_spectrum_get(s, b, kind, VT_PART_COLUMNS, -1) / most[1] - 1), 1e-12, "largest head by columns");
}

static void test_spectrum(void **state) {
    (void)state;
    vt_err e = {0};
    vt_spectrum s, t;
    vt_model *m = planted_model();
    assert_int_equal(vt_spectrum_measure(&s, m, true, 1, &e), VT_OK);
    assert_int_equal(s.depth, 2);
    assert_int_equal(s.heads, 3);
    for (int b = 0; b < s.depth; b++)
        for (int r = 0; r < VT_WEIGHT_KINDS; r++) check_role(&s, m, b, (vt_weight_kind)r);
    double mean =
        (vt_spectrum_get(&s, 0, VT_WEIGHT_K, VT_PART_ROWS, 2) + vt_spectrum_get(&s, 1, VT_WEIGHT_K, VT_PART_ROWS, 2)) /
        2;
    assert_true(vt_spectrum_get(&s, -1, VT_WEIGHT_K, VT_PART_ROWS, 2) == mean);
    assert_true(isnan(vt_spectrum_get(&s, 0, VT_WEIGHT_FC1, VT_PART_ROWS, -1))); /* no heads there */
    assert_true(isnan(vt_spectrum_get(&s, 2, VT_WEIGHT_Q, VT_PART_WHOLE, 0)));
    assert_true(isnan(vt_spectrum_get(&s, 0, VT_WEIGHT_Q, VT_PART_ROWS, 3)));
    /* threads change nothing; without `all` the other three are not there */
    assert_int_equal(vt_spectrum_measure(&t, m, false, 3, &e), VT_OK);
    for (int r = 0; r < VT_WEIGHT_KINDS; r++)
        for (int h = 0; h < 3; h++) {
            double x = vt_spectrum_get(&s, 1, (vt_weight_kind)r, VT_PART_COLUMNS, h);
            double y = vt_spectrum_get(&t, 1, (vt_weight_kind)r, VT_PART_COLUMNS, h);
            assert_true(r <= VT_WEIGHT_V
                            ? x == y
                            : isnan(y) && isnan(vt_spectrum_get(&t, -1, (vt_weight_kind)r, VT_PART_WHOLE, 0)));
        }
    vt_spectrum_free(&s);
    vt_spectrum_free(&t);
    vt_model_close(m);
}

/* One entry a row and column: the values of the whole and of every part are entries, and the two splits differ. */
static void test_splits(void **state) {
    (void)state;
    vt_err e = {0};
    vt_spectrum s;
    vt_matrix x;
    vt_model *m = planted_model();
    assert_true(vt_model_matrix(m, 1, VT_WEIGHT_V, &x));
    memset(m->w + x.offset, 0, 144 * sizeof(float));
    for (int i = 0; i < 12; i++)
        m->w[x.offset + (size_t)(i * 12 + (5 * i + 2) % 12)] = (float)(i + 1); /* 5 i + 2 permutes */
    assert_int_equal(vt_spectrum_measure(&s, m, false, 2, &e), VT_OK);
    double rows[3] = {4, 8, 12}, columns[3] = {0, 0, 0};
    for (int i = 0; i < 12; i++) columns[(5 * i + 2) % 12 / 4] = fmax(columns[(5 * i + 2) % 12 / 4], i + 1);
    t_le(fabs(vt_spectrum_get(&s, 1, VT_WEIGHT_V, VT_PART_WHOLE, 0) - 12), 1e-12, "whole");
    for (int h = 0; h < 3; h++) {
        t_le(fabs(vt_spectrum_get(&s, 1, VT_WEIGHT_V, VT_PART_ROWS, h) - rows[h]), 1e-12, "rows, head %d", h);
        t_le(fabs(vt_spectrum_get(&s, 1, VT_WEIGHT_V, VT_PART_COLUMNS, h) - columns[h]), 1e-12, "columns, head %d", h);
    }
    vt_spectrum_free(&s);
    vt_model_close(m);
}

static void test_nan_weight(void **state) {
    (void)state;
    vt_err e = {0};
    vt_spectrum s;
    vt_matrix x;
    vt_model *m = planted_model();
    assert_true(vt_model_matrix(m, 1, VT_WEIGHT_K, &x));
    m->w[x.offset + 2 * 12 + 3] = NAN;
    t_says(vt_spectrum_measure(&s, m, false, 1, &e), VT_E_NUMERIC, &e, "W_K of block 1", "element [2,3]");
    assert_null(s.matrices);
    vt_model_close(m);
}

/* On a trained model: the whole is at least its largest part, and at most the root of their squares' sum. */
static void test_trained(void **state) {
    (void)state;
    vt_err e = {0};
    vt_spectrum s;
    vt_model *m;
    assert_int_equal(vt_model_open(&m, "weights/shapes10-vit/model.safetensors", NULL, &e), VT_OK);
    assert_int_equal(vt_spectrum_measure(&s, m, true, 2, &e), VT_OK);
    for (int b = 0; b < s.depth; b++)
        for (int r = 0; r <= VT_WEIGHT_V; r++)
            for (int p = VT_PART_ROWS; p < VT_PART_COUNT; p++) {
                double whole = vt_spectrum_get(&s, b, (vt_weight_kind)r, VT_PART_WHOLE, 0), squares = 0;
                for (int h = 0; h < s.heads; h++)
                    squares += pow(vt_spectrum_get(&s, b, (vt_weight_kind)r, (vt_part)p, h), 2);
                assert_true(vt_spectrum_get(&s, b, (vt_weight_kind)r, (vt_part)p, -1) <= whole * (1 + 1e-12));
                assert_true(whole <= sqrt(squares) * (1 + 1e-12));
            }
    vt_spectrum_free(&s);
    vt_model_close(m);
}

/* ---- positive definite systems ---- */

static void test_positive(void **state) {
    (void)state;
    static const int sides[] = {1, 2, 7, 40};
    vt_err e = {0};
    for (size_t k = 0; k < T_COUNT(sides); k++) {
        int n = sides[k];
        size_t m = (size_t)n;
        double *b = t_doubles(m * m, 60 + k, 1), *a = t_doubles(m * m, 0, 0), *kept = t_doubles(m * m, 0, 0),
               *x = t_doubles(m, 70, 1), *right = t_doubles(m, 0, 0);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) kept[i * n + j] = (i == j) + t_dot(b + i * n, b + j * n, m) / n;
        memcpy(right, x, m * sizeof *x);
        for (int i = 0; i < n; i++) /* what lies above the diagonal nobody reads */
            for (int j = 0; j < n; j++) a[i * n + j] = j > i ? 1e6 : kept[i * n + j];
        assert_int_equal(vt_solve_positive(x, a, n, &e), VT_OK);
        for (int i = 0; i < n; i++) /* eigenvalues are 1 to about 5 */
            t_le(fabs(t_dot(kept + i * n, x, m) - right[i]), 1e-13 * n, "row %d of %d", i, n);
        t_release("positive");
    }
    double a[4] = {1, 2, 2, 1}, x[2] = {1, 1}; /* eigenvalues 3 and -1 */
    t_says(vt_solve_positive(x, a, 2, &e), VT_E_NUMERIC, &e, "2 x 2", "not positive definite");
    a[0] = NAN;
    t_says(vt_solve_positive(x, a, 2, &e), VT_E_NUMERIC, &e, "nan", "must be finite");
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_planted, t_drop),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_spectrum),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_nan_weight),
        cmocka_unit_test(test_trained),
        cmocka_unit_test_teardown(test_positive, t_drop),
    };
    return cmocka_run_group_tests_name("svd", tests, NULL, NULL);
}
