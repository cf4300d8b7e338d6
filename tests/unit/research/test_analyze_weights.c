/* SPDX-License-Identifier: MIT */
/* src/research/analysis: gaps of orthogonality against LAPACK's singular values and their known floors; the registry; a
 * whole analysis run twice, with its tables. */
#include "base/real.h"
#include "toy.h"

#include "research/analysis/analyze.h"
#include "research/analysis/orthogonality.h"
#include "linalg/svd.h"

/* |W^T W - I|^2 = sum (sigma^2 - 1)^2 over n values, of which n - m are zero when W [m, n] is wide. */
static void against_lapack(const vt_gap *g, const double *w, int m, int n, const char *what) {
    double sigma[64], sum = 0;
    int k = m < n ? m : n;
    assert_int_equal(vt_svd_values(sigma, w, m, n, n, NULL), VT_OK);
    for (int i = 0; i < k; i++) sum += (sigma[i] * sigma[i] - 1) * (sigma[i] * sigma[i] - 1);
    t_le(fabs(g->gap - sum) / (1 + sum), 1e-12, "%s: gap", what);
    t_le(fabs(g->loss - sum - (n - k)) / (1 + sum), 1e-12, "%s: loss", what);
    t_le(fabs(g->floor - (n - k)), 0, "%s: floor", what);
}

static void test_gaps(void **state) {
    (void)state;
    static const int sizes[][2] = {{1, 1}, {5, 3}, {3, 5}, {12, 3}, {3, 12}, {8, 8}};
    for (size_t i = 0; i < T_COUNT(sizes); i++) {
        double w[64], direct = 0;
        int m = sizes[i][0], n = sizes[i][1];
        vt_gap g;
        char what[40];
        snprintf(what, sizeof what, "%d x %d", m, n);
        t_normals(w, (size_t)(m * n), 3 + i, 0.7);
        assert_int_equal(vt_gap_of(&g, w, m, n, NULL), VT_OK);
        against_lapack(&g, w, m, n, what);
        for (int a = 0; a < n; a++) /* and as it is written */
            for (int b = 0; b < n; b++) {
                double s = -(a == b);
                for (int k = 0; k < m; k++) s += w[k * n + a] * w[k * n + b];
                direct += s * s;
            }
        t_le(fabs(g.loss - direct) / direct, 1e-12, "%s: directly", what);
    }
    double eye[16] = {0}; /* orthonormal rows, 4 wider than high: nothing left but the floor */
    eye[0] = eye[9] = 1;
    vt_gap g;
    assert_int_equal(vt_gap_of(&g, eye, 2, 8, NULL), VT_OK);
    t_le(g.gap, 0, "orthonormal rows");
    t_le(fabs(g.loss - 6), 0, "their floor");
}

/* Four blocks of I/2 below each other: P^T P = I, a loss of 0. Side by side: rows of length 1, floor 3 d. */
static void test_block(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_gap g[VT_GAP_COUNT];
    int d = m->config.dim;
    assert_int_equal(vt_gaps_of_block(g, m, 1, NULL), VT_OK);
    for (int r = 0; r < VT_WEIGHT_KINDS; r++) {
        vt_matrix x;
        double w[400];
        assert_true(vt_model_matrix(m, 1, (vt_weight_kind)r, &x));
        for (int i = 0; i < x.rows * x.cols; i++) w[i] = (double)m->w[x.offset + (size_t)i];
        against_lapack(&g[r], w, x.rows, x.cols, vt_gap_name(r));
    }
    double tall[4 * 144], wide[4 * 144];
    for (int r = 0; r < 4; r++) {
        vt_matrix x;
        assert_true(vt_model_matrix(m, 1, (vt_weight_kind)r, &x));
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++)
                tall[(r * d + i) * d + j] = wide[i * 4 * d + r * d + j] = (double)m->w[x.offset + (size_t)(i * d + j)];
    }
    against_lapack(&g[VT_GAP_STACK], tall, 4 * d, d, "stack");
    against_lapack(&g[VT_GAP_WIDE], wide, d, 4 * d, "wide");
    for (int r = 0; r < 4; r++) {
        vt_matrix x;
        assert_true(vt_model_matrix(m, 1, (vt_weight_kind)r, &x));
        for (int i = 0; i < d * d; i++) m->w[x.offset + (size_t)i] = i / d == i % d ? 0.5f : 0;
    }
    assert_int_equal(vt_gaps_of_block(g, m, 1, NULL), VT_OK);
    t_le(g[VT_GAP_STACK].loss, 0, "stack of I/2");
    t_le(g[VT_GAP_WIDE].gap, 0, "wide of I/2");
    t_le(fabs(g[VT_GAP_WIDE].loss - 3 * d), 0, "floor of wide");
    t_le(fabs(g[VT_WEIGHT_Q].gap - d * 0.5625), 1e-13, "each alone is not orthogonal"); /* (1/4 - 1)^2 a value */
    vt_model_close(m);
}

static void test_registry(void **state) {
    (void)state;
    int n;
    const vt_analysis_def *const *defs = vt_analysis_defs(&n), *d;
    assert_true(n > 0);
    static const char *const names[] = {"affinity",  "attention",     "features", "jacobian",
                                        "lipschitz", "orthogonality", "spectrum"};
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(names); i++) {
        assert_int_equal(vt_analysis_find(&d, names[i], &e), VT_OK);
        assert_string_equal(d->name, names[i]);
        int at = 0;
        while (at < n && defs[at] != d) at++;
        assert_true(at < n);
        assert_true(d->run && *d->summary && *d->source);
        assert_true((d->opts != NULL) == (d->params_size > 0));
    }
    t_says(vt_analysis_find(&d, "lipshitz", &e), VT_E_UNKNOWN, &e, "lipshitz", "did you mean 'lipschitz'");
    t_says(vt_analysis_find(&d, "zzzzzzzz", &e), VT_E_UNKNOWN, &e, "there are", "spectrum");
}

/* Weights alone, threads 1 and 3: the same table and the same document. */
static void test_run(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    static const char *const kinds[] = {"spectrum", "orthogonality"};
    for (size_t i = 0; i < T_COUNT(kinds); i++) {
        char *text[2], *json[2];
        for (int k = 0; k < 2; k++) {
            const vt_analysis_def *d;
            vt_analyze a = {.n = 1, .threads = 1 + 2 * k, .seed = 3};
            a.subjects[0] = (vt_analyzed){.path = "toy", .model = m};
            size_t size;
            json_t *doc;
            FILE *f = open_memstream(&text[k], &size);
            vt_err e = {0};
            assert_int_equal(vt_analysis_find(&d, kinds[i], &e), VT_OK);
            void *params = calloc(1, d->params_size + 1);
            vt_opt_defaults(d->opts, params);
            if (vt_analyze_run(d, params, &a, f, &doc, &e) != VT_OK) fail_msg("%s", e.text);
            fclose(f);
            json[k] = json_dumps(doc, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
            json_decref(doc);
            free(params);
        }
        assert_string_equal(text[0], text[1]);
        assert_string_equal(json[0], json[1]);
        assert_non_null(strstr(text[0], "toy: vit, 2 blocks"));
        for (int k = 0; k < 2; k++) free(text[k]), free(json[k]);
    }
    vt_model_close(m);
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0, "0.0000"},
                 {1.23456, "1.2346"},
                 {12.3456, "12.346"},
                 {123.456, "123.46"},
                 {1234.56, "1234.6"},
                 {123456, "123456"},
                 {1234567, "1.235e+06"},
                 {0.00012345, "1.234e-04"},
                 {-0.5, "-0.5000"},
                 {INFINITY, "inf"},
                 {NAN, "-"}};
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        char text[16];
        vt_analyze_number(cases[i].x, text);
        assert_string_equal(text, cases[i].text);
        assert_true(strlen(text) <= 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gaps), cmocka_unit_test(test_block),
                                       cmocka_unit_test(test_registry), cmocka_unit_test(test_run),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
