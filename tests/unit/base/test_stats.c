/* SPDX-License-Identifier: MIT */
/* src/base/stats: the published examples (to half a unit of their last digit), closed forms and identities. */
#include "t.h"

#include "base/stats.h"

#define DIGITS 5e-7 /* examples are printed with six decimals */

/* ---- Wilson ---- */

static void test_wilson(void **state) {
    (void)state;
    static const struct {
        int64_t count, total;
        double z, low, high;
    } cases[] = {
        {550, 1000, VT_Z_TWO_SIDED, 0.519033, 0.580585}, {8, 10, VT_Z_TWO_SIDED, 0.490162, 0.943318},
        {0, 500, VT_Z_TWO_SIDED, 0, 0.007624},           {500, 500, VT_Z_TWO_SIDED, 0.992376, 1},
        {0, 500, VT_Z_ONE_SIDED, 0, 0.005382},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        double low, high, percent_low, percent_high;
        vt_wilson_at(cases[i].count, cases[i].total, cases[i].z, &low, &high);
        t_le(fabs(low - cases[i].low), DIGITS, "case %zu: low", i);
        t_le(fabs(high - cases[i].high), DIGITS, "case %zu: high", i);
        if (cases[i].z != VT_Z_TWO_SIDED) continue;
        vt_wilson(cases[i].count, cases[i].total, &percent_low, &percent_high);
        assert_true(percent_low == 100 * low && percent_high == 100 * high);
    }
}

/* The ends of the interval solve (p - phat)^2 = z^2 p (1 - p) / n; at 0 and n they are exact. */
static void test_wilson_equation(void **state) {
    (void)state;
    static const int64_t totals[] = {1, 2, 7, 100, 10000, 1000000};
    for (size_t i = 0; i < T_COUNT(totals); i++)
        for (int share = 0; share <= 8; share++) {
            int64_t n = totals[i], k = n * share / 8;
            double end[2], p = (double)k / (double)n, z2 = VT_Z_TWO_SIDED * VT_Z_TWO_SIDED;
            vt_wilson_at(k, n, VT_Z_TWO_SIDED, &end[0], &end[1]);
            assert_true(end[0] >= 0 && end[0] <= p && p <= end[1] && end[1] <= 1);
            if (k == 0) assert_true(end[0] == 0);
            if (k == n) assert_true(end[1] == 1);
            for (int j = 0; j < 2; j++) /* a few roundings of numbers up to 1, z2 / n of them scaled */
                t_le(fabs((end[j] - p) * (end[j] - p) - z2 / (double)n * end[j] * (1 - end[j])),
                     1e-15 * (1 + z2 / (double)n), "%lld of %lld", (long long)k, (long long)n);
        }
    double low, high;
    vt_wilson_at(0, 0, VT_Z_TWO_SIDED, &low, &high);
    assert_true(low == 0 && high == 1);
    vt_wilson(0, 0, &low, &high);
    assert_true(low == 0 && high == 100);
}

/* ---- McNemar ---- */

static void test_mcnemar(void **state) {
    (void)state;
    static const struct {
        int64_t b, c;
        double two_sided, a_better, mid_p; /* negative: not given */
    } cases[] = {
        {15, 5, 0.041389, 0.020695, 0.026604},
        {5, 15, 0.041389, -1, 0.026604},
        {12, 2, 0.012939, -1, 0.007385},
        {3, 9, 0.145996, -1, -1},
        {4, 4, 1, -1, 1},
        {0, 0, 1, 1, 1},
        {5, 0, 0.0625, 0.03125, 0.03125}, /* 2 / 2^5, 1 / 2^5 */
        {0, 1, 1, 1, 0.5},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_mcnemar r = vt_mcnemar_exact(cases[i].b, cases[i].c);
        t_le(fabs(r.two_sided - cases[i].two_sided), DIGITS, "case %zu: two-sided", i);
        if (cases[i].a_better >= 0) t_le(fabs(r.a_better - cases[i].a_better), DIGITS, "case %zu: one-sided", i);
        if (cases[i].mid_p >= 0) t_le(fabs(r.mid_p - cases[i].mid_p), DIGITS, "case %zu: mid-p", i);
    }
}

/* Against sums over Pascal's rows in long double, whose exponents hold 2^-2000 (values above 1e-300 are
 * compared). The logarithms of gamma functions near
 * n log n carry 2^-53 n log n: 2e-12 at n = 2000, three of them. */
static void test_mcnemar_sums(void **state) {
    (void)state;
    static const int64_t totals[] = {1, 2, 3, 10, 99, 100, 1000, 2000};
    for (size_t i = 0; i < T_COUNT(totals); i++) {
        int64_t n = totals[i];
        long double term = powl(2, -(long double)n), below = 0; /* P(X = k), P(X <= k) */
        for (int64_t k = 0; k <= n; k++) {
            below += term;
            vt_mcnemar r = vt_mcnemar_exact(n - k, k); /* A better: P(X >= n - k) = P(X <= k) */
            double want = (double)below, two = k == n - k ? 1 : 2 * want;
            if (want > 1e-300) t_le(fabs(r.a_better / want - 1), 1e-11, "n %lld, c %lld", (long long)n, (long long)k);
            t_le(fabs(r.a_better + r.b_better - 1 - (double)term), 1e-11, "n %lld, c %lld: tails", (long long)n,
                 (long long)k);
            if (2 * k <= n && want > 1e-300) {
                t_le(fabs(r.two_sided / two - 1), 1e-11, "n %lld, c %lld: two-sided", (long long)n, (long long)k);
                if (2 * k < n)
                    t_le(fabs(r.mid_p - (two - (double)term)), 1e-11 * two, "n %lld, c %lld: mid-p", (long long)n,
                         (long long)k);
            }
            term = term * (long double)(n - k) / (long double)(k + 1);
        }
        t_le(fabs((double)below - 1), 1e-15, "the reference itself, n %lld", (long long)n);
    }
}

/* b = m + 1, c = m - 1: two-sided p = 1 - C(2m, m) / 4^m, and the central term is (1 - 1/(8m)) / sqrt(pi m) up to
 * 1/(128 m^2). One-sided tails far out against the normal with continuity correction. */
static void test_mcnemar_large(void **state) {
    (void)state;
    static const int64_t halves[] = {1000, 100000, 5000000};
    for (size_t i = 0; i < T_COUNT(halves); i++) {
        double m = (double)halves[i], centre = (1 - 1 / (8 * m)) / sqrt(acos(-1) * m);
        vt_mcnemar r = vt_mcnemar_exact(halves[i] + 1, halves[i] - 1);
        /* three gamma functions' relative error 2^-53 2m log(2m) of a sum near 1, and the series' next term */
        double tol = 3 * 0x1p-53 * 2 * m * log(2 * m) + centre / (100 * m * m);
        t_le(fabs(r.two_sided - (1 - centre)), tol, "m %g", m);
    }
    /* n = 10^6, 3 standard deviations (500 each): the normal tail's own error is of the order 1/n^0.5 relative */
    vt_mcnemar far = vt_mcnemar_exact(501500, 498500);
    t_le(fabs(far.a_better / (0.5 * erfc((1500 - 0.5) / 500 / sqrt(2))) - 1), 1e-3, "normal tail");
    assert_true(vt_mcnemar_exact(100000, 0).two_sided == 0); /* 2^-99999 underflows quietly */
}

/* ---- Holm, claims ---- */

static void test_holm(void **state) {
    (void)state;
    static const double p[] = {0.010, 0.040, 0.030, 0.005}, want[] = {0.030, 0.060, 0.060, 0.020};
    double q[4];
    vt_holm(q, p, 4);
    for (int i = 0; i < 4; i++) t_le(fabs(q[i] - want[i]), 1e-16 * 8, "test %d", i);
    /* order of the family does not matter */
    static const int turn[] = {2, 0, 3, 1};
    double moved[4], r[4];
    for (int i = 0; i < 4; i++) moved[i] = p[turn[i]];
    vt_holm(r, moved, 4);
    for (int i = 0; i < 4; i++) assert_true(r[i] == q[turn[i]]);
    /* ties, one test, values cut at 1, a missing test, an empty family */
    vt_holm(q, (double[]){0.02, 0.02, 0.02}, 3);
    for (int i = 0; i < 3; i++) t_le(fabs(q[i] - 0.06), 1e-16, "tie %d", i);
    vt_holm(q, (double[]){0.3}, 1);
    assert_true(q[0] == 0.3);
    vt_holm(q, (double[]){0.9, 0.8, 0}, 3);
    assert_true(q[0] == 1 && q[1] == 1 && q[2] == 0);
    vt_holm(q, (double[]){NAN, 0.01, NAN, 0.02}, 4);
    assert_true(q[0] == 1 && q[2] == 1);
    t_le(fabs(q[1] - 0.04) + fabs(q[3] - 0.06), 1e-16, "beside missing tests");
    q[0] = 5;
    vt_holm(q, p, 0);
    assert_true(q[0] == 5);
}

/* Adjusted values reject what the stepwise rule rejects. */
static void test_holm_steps(void **state) {
    (void)state;
    enum { N = 12 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        double p[N], q[N], sorted[N];
        for (int i = 0; i < N; i++) {
            double u = (double)vt_rng_uniform(&(vt_rng){.seed = seed}, (uint64_t)i);
            p[i] = sorted[i] = u * u * u * u;
        }
        for (int i = 1; i < N; i++)
            for (int j = i; j > 0 && sorted[j] < sorted[j - 1]; j--) {
                double t = sorted[j];
                sorted[j] = sorted[j - 1], sorted[j - 1] = t;
            }
        int rejected = 0, got = 0;
        while (rejected < N && (N - rejected) * sorted[rejected] <= 0.05) rejected++;
        vt_holm(q, p, N);
        for (int i = 0; i < N; i++) {
            got += q[i] <= 0.05;
            assert_true((q[i] <= 0.05) == (rejected > 0 && p[i] <= sorted[rejected - 1]));
        }
        assert_int_equal(got, rejected);
    }
}

static void test_claims(void **state) {
    (void)state;
    static const struct {
        double p_for, p_against;
        const char *name;
    } cases[] = {{0.05, 0.96, "held"},    {0.0501, 0.96, "undecided"}, {0.96, 0.05, "not"}, {0.5, 0.5, "undecided"},
                 {NAN, 0.5, "undecided"}, {NAN, 0.01, "not"},          {1, 1, "undecided"}, {0, 1, "held"}};
    for (size_t i = 0; i < T_COUNT(cases); i++)
        assert_string_equal(vt_claim_name(vt_claim(cases[i].p_for, cases[i].p_against, 0.05)), cases[i].name);
    vt_mcnemar r = vt_mcnemar_exact(15, 5);
    assert_int_equal(vt_claim(r.a_better, r.b_better, 0.05), VT_CLAIM_HELD);
    assert_int_equal(vt_claim(r.b_better, r.a_better, 0.05), VT_CLAIM_NOT);
    assert_int_equal(vt_claim(r.a_better, r.b_better, 0.02), VT_CLAIM_UNDECIDED);
}

/* ---- paired difference ---- */

/* Roots of the score whose q maximises the likelihood, found by bisecting its derivative (an own program, in Python);
 * (12, 2, 50) is Newcombe's example (Statistics in Medicine 17, 1998), for which he prints 0.0611 to 0.3447. */
static void test_paired(void **state) {
    (void)state;
    static const struct {
        int64_t a, b, n;
        double low, high;
    } cases[] = {
        {12, 2, 50, -0.344708748, -0.061112406},   {15, 5, 100, -0.192396505, -0.013446761},
        {0, 7, 20, 0.132481037, 0.567145723},      {3, 9, 1000, -0.000932063, 0.014376330},
        {40, 20, 160, -0.218064244, -0.030864533}, {4, 4, 30, -0.199297394, 0.199297394},
        {0, 1, 5, -0.321378958, 0.624465370},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        double low, high, swapped_low, swapped_high;
        vt_paired_interval(cases[i].a, cases[i].b, cases[i].n, VT_Z_TWO_SIDED, &low, &high);
        t_le(fabs(low - cases[i].low), 1e-9, "case %zu: low", i); /* printed with nine decimals */
        t_le(fabs(high - cases[i].high), 1e-9, "case %zu: high", i);
        vt_paired_interval(cases[i].b, cases[i].a, cases[i].n, VT_Z_TWO_SIDED, &swapped_low, &swapped_high);
        t_le(fabs(swapped_low + high), 1e-14, "case %zu: exchanged", i);
        t_le(fabs(swapped_high + low), 1e-14, "case %zu: exchanged", i);
    }
}

/* Nothing changed: d / (1 - d) = z^2 / n at the end. Everything: the end is 1. No image: nothing is known. */
static void test_paired_ends(void **state) {
    (void)state;
    double low, high, z2 = VT_Z_TWO_SIDED * VT_Z_TWO_SIDED;
    for (int64_t n = 1; n <= 10000000; n *= 10) {
        double end = z2 / ((double)n + z2);
        vt_paired_interval(0, 0, n, VT_Z_TWO_SIDED, &low, &high);
        t_le(fabs(high - end), 1e-12, "n %lld", (long long)n);
        t_le(fabs(low + end), 1e-12, "n %lld", (long long)n);
        vt_paired_interval(0, n, n, VT_Z_TWO_SIDED, &low, &high);
        assert_true(high == 1 && low > -1 && low < 1);
    }
    vt_paired_interval(0, 0, 0, VT_Z_TWO_SIDED, &low, &high);
    assert_true(low == -1 && high == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wilson),       cmocka_unit_test(test_wilson_equation), cmocka_unit_test(test_mcnemar),
        cmocka_unit_test(test_mcnemar_sums), cmocka_unit_test(test_mcnemar_large),   cmocka_unit_test(test_holm),
        cmocka_unit_test(test_holm_steps),   cmocka_unit_test(test_claims),          cmocka_unit_test(test_paired),
        cmocka_unit_test(test_paired_ends),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
