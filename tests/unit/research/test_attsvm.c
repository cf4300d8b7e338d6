/* SPDX-License-Identifier: MIT */
/* The l_p support vector machine: judged by its own optimality conditions and duality gap, by closed forms, and by
 * SciPy's answers (attsvm_reference.h). */
#include "t.h"
#include "attsvm_reference.h"
#include "research/lab/attsvm.h"

static const double exponents[] = {1.05, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4};

/* w and lambda satisfy the Karush-Kuhn-Tucker conditions: A w >= 1, lambda >= 0, lambda_j (a_j w - 1) = 0, and w is
 * sgn(u) |u|^(q-1) of u = A^T lambda, that is grad psi(w) = u. */
static void optimal(const double *a, int m, int n, const double *w, const double *lambda, double p) {
    double least = INFINITY, largest = t_max(lambda, (size_t)m), slack = 0, u[200];
    memset(u, 0, sizeof u);
    for (int j = 0; j < m; j++) {
        double s = t_dot(a + j * n, w, (size_t)n);
        least = fmin(least, s);
        assert_true(lambda[j] >= 0);
        slack = fmax(slack, lambda[j] / largest * fabs(s - 1));
        for (int k = 0; k < n; k++) u[k] += lambda[j] * a[j * n + k];
    }
    t_le(1 - least, 1e-14, "p %g: margin %.17g", p, least); /* w was scaled to make it 1 */
    /* a gap of 1e-12 leaves 1e-6 in w and in its products */
    t_le(slack, 1e-5, "p %g: complementarity", p);
    double slope[200];
    vt_lp_power(slope, w, (size_t)n, p - 1);
    t_le(t_rel(slope, u, (size_t)n), 1e-5, "p %g: stationarity", p);
}

static void solve_random(uint64_t seed, int m, int n, double p) {
    double a[80 * 200], w[200], lambda[80];
    vt_svm s;
    vt_err e = {0};
    t_normals(a, (size_t)(m * n), seed, 1);
    if (vt_svm_solve(w, lambda, &s, a, m, n, p, &e) != VT_OK) fail_msg("p %g: %s", p, e.text);
    t_le(s.gap, 1e-11, "p %g, %d rows of %d: duality gap", p, m, n);
    t_le(fabs(s.norm / vt_lp_norm(w, (size_t)n, p) - 1), 1e-14, "p %g: norm", p);
    optimal(a, m, n, w, lambda, p);
}

static void test_conditions(void **state) {
    (void)state;
    for (size_t k = 0; k < T_COUNT(exponents); k++) {
        solve_random(1, 1, 5, exponents[k]);
        solve_random(2, 12, 40, exponents[k]);
        solve_random(3, 6, 7, exponents[k]);
        solve_random(4, 24, 60, exponents[k]);
    }
}

/* One row: w = sgn(a) |a|^(q-1) / |a|_q^q. */
static void test_one_row(void **state) {
    (void)state;
    static const double a[] = {2, -1, 0, 0.25};
    for (size_t k = 0; k < T_COUNT(exponents); k++) {
        double p = exponents[k], q = p / (p - 1), w[4], sum = 0, err = 0;
        vt_svm s;
        vt_err e = {0};
        assert_int_equal(vt_svm_solve(w, NULL, &s, a, 1, 4, p, &e), VT_OK);
        for (int i = 0; i < 4; i++) sum += pow(fabs(a[i]), q);
        for (int i = 0; i < 4; i++) {
            double want = a[i] ? copysign(pow(fabs(a[i]), q - 1), a[i]) / sum : 0;
            err = fmax(err, fabs(w[i] - want));
        }
        t_le(err, 1e-12, "p %g", p); /* scaling to margin 1 makes it exact */
    }
}

/* p = 2: rows (1,0) and (1,1) ask w_1 >= 1 alone; a third row (-1, 2) makes w = (1, 1). */
static void test_plane(void **state) {
    (void)state;
    static const double a[] = {1, 0, 1, 1, -1, 2};
    double w[2];
    vt_svm s;
    vt_err e = {0};
    assert_int_equal(vt_svm_solve(w, NULL, &s, a, 2, 2, 2, &e), VT_OK);
    t_le(fabs(w[0] - 1) + fabs(w[1]), 1e-6, "two rows: %g %g", w[0], w[1]);
    assert_int_equal(vt_svm_solve(w, NULL, &s, a, 3, 2, 2, &e), VT_OK);
    t_le(fabs(w[0] - 1) + fabs(w[1] - 1), 1e-6, "three rows: %g %g", w[0], w[1]);
}

static void test_scipy(void **state) {
    (void)state;
    double a[REF_ROWS * REF_COLUMNS], w[REF_COLUMNS];
    for (int i = 0; i < REF_ROWS * REF_COLUMNS; i++) a[i] = sin(0.37 * i * i + 0.9 * i) + 0.2;
    for (size_t k = 0; k < T_COUNT(ref_svm); k++) {
        vt_svm s;
        vt_err e = {0};
        assert_int_equal(vt_svm_solve(w, NULL, &s, a, REF_ROWS, REF_COLUMNS, ref_svm[k].p, &e), VT_OK);
        /* a duality gap of 1e-12 leaves 1e-6 in w */
        t_le(t_max_diff(w, ref_svm[k].w, REF_COLUMNS), 3e-6, "p %g", ref_svm[k].p);
    }
}

/* Rows of an attention problem: every other token of every sample, in order, as (X_alpha - X_t) z^T. */
static void test_rows(void **state) {
    (void)state;
    vt_att a;
    vt_err e = {0};
    assert_int_equal(vt_att_open(&a, 2, 3, 2, &e), VT_OK);
    t_normals(a.x, 12, 5, 1), t_normals(a.z, 4, 6, 1);
    double rows[4 * 4], w[4], err = 0;
    static const int alpha[] = {1, 0}, other[][2] = {{0, 2}, {1, 2}};
    vt_attsvm_rows(rows, &a, alpha);
    for (int i = 0, j = 0; i < 2; i++)
        for (int k = 0; k < 2; k++, j++)
            for (int r = 0; r < 2; r++)
                for (int c = 0; c < 2; c++) {
                    double want =
                        (a.x[(i * 3 + alpha[i]) * 2 + r] - a.x[(i * 3 + other[i][k]) * 2 + r]) * a.z[i * 2 + c];
                    err = fmax(err, fabs(rows[j * 4 + r * 2 + c] - want));
                }
    t_le(err, 0, "rows");
    /* and the machine's margins are those of attention's logits */
    vt_svm s;
    if (vt_attsvm(w, &s, &a, alpha, 1.75, &e) == VT_OK)
        for (int j = 0; j < 4; j++) t_le(1 - t_dot(rows + j * 4, w, 4), 1e-12, "row %d", j);
    vt_att_close(&a);
}

static void test_refusals(void **state) {
    (void)state;
    static const double opposed[] = {1, 2, -1, -2}, nothing[] = {0, 0}, fine[] = {1, 1};
    static const double outside[] = {1, 1.0499, 4.001, 6, NAN, INFINITY};
    double w[2];
    vt_svm s;
    vt_err e = {0};
    for (size_t k = 0; k < T_COUNT(outside); k++)
        t_says(vt_svm_solve(w, NULL, &s, fine, 1, 2, outside[k], &e), VT_E_RANGE, &e, "between 1.05 and 4", "p is");
    for (size_t k = 0; k < T_COUNT(exponents); k++) {
        t_says(vt_svm_solve(w, NULL, &s, opposed, 2, 2, exponents[k], &e), VT_E_NUMERIC, &e, "no w satisfies",
               "2 rows");
        t_says(vt_svm_solve(w, NULL, &s, nothing, 1, 2, exponents[k], &e), VT_E_NUMERIC, &e, "no w satisfies",
               "1 rows");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions), cmocka_unit_test(test_one_row), cmocka_unit_test(test_plane),
        cmocka_unit_test(test_scipy),      cmocka_unit_test(test_rows),    cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
