/* SPDX-License-Identifier: MIT */
/* Penalties of src/train in double, but for MSVP (test_msvp.c): the minima and gradients of the orthogonality terms,
 * gates, and what all of them refuse. */
#include "penalty_fixture.h"
#include "naive.h"

#include "linalg/gemm.h"

/* ---- registry ---- */

static void test_registry(void **state) {
    (void)state;
    int n;
    const vt_penalty_def_f64 *const *defs = vt_penalty_defs_f64(&n);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) {
        assert_true(defs[i] == vt_penalty_find_f64(defs[i]->name));
        void *p = t_params(defs[i]->opts, defs[i]->params_size, "");
        assert_false(defs[i]->active(p)); /* off unless asked for */
        free(p);
    }
    assert_null(vt_penalty_find_f64("no such"));
}

/* ---- orthogonality ---- */

/* ||P^T P - I||^2 literally; P [rows, cols] */
static double literal_gap(const double *p, int rows, int cols) {
    double *s = malloc((size_t)(cols * cols) * sizeof *s), value = 0;
    assert_non_null(s);
    naive_gemm(true, false, cols, cols, rows, 1, p, cols, p, cols, 0, s, cols);
    for (int i = 0; i < cols; i++)
        for (int j = 0; j < cols; j++) value += (s[i * cols + j] - (i == j)) * (s[i * cols + j] - (i == j));
    free(s);
    return value;
}

static double literal_la(const bench *b, int block, const char *form_) {
    enum { D = 6 };
    double p[D * 4 * D], value = 0;
    bool wide = !strcmp(form_, "wide");
    for (int k = 0; k < 4; k++) {
        vt_matrix w = matrix(b, block, (vt_weight_kind)(VT_WEIGHT_Q + k));
        const double *a = b->w + w.offset;
        if (!strcmp(form_, "each")) value += literal_gap(a, D, D);
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) p[wide ? i * 4 * D + k * D + j : (k * D + i) * D + j] = a[i * D + j];
    }
    return !strcmp(form_, "each") ? value : wide ? literal_gap(p, D, 4 * D) : literal_gap(p, 4 * D, D);
}

static vt_model *narrow(void) {
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.dim = 6, c.hidden = 10, c.patch = 6;
    return toy_model(&c, 3);
}

static void test_ortho_gradient(void **state) {
    (void)state;
    static const char *const forms[] = {"stack", "wide", "each"};
    static const struct {
        const char *name;
        bool la, lf;
        double am;
    } variants[] = {{"LA", true, false, 0},       {"LF", false, true, 0},       {"AM", false, false, 0.5},
                    {"VAR-I", false, false, 0.5}, {"VAR-II", true, false, 0.5}, {"VAR-III", true, true, 0.5}};
    for (size_t v = 0; v < T_COUNT(variants); v++)
        for (size_t f = 0; f < (variants[v].la ? T_COUNT(forms) : 1); f++) {
            char options[80];
            double want = 0;
            snprintf(options, sizeof options, "variant=%s;lambda=0.5;la_form=%s", variants[v].name, forms[f]);
            bench b = bench_open("ortho", options, narrow());
            assert_true(b.def->active(b.params) && b.state_len == 0);
            if (variants[v].lf) assert_int_equal(b.def->work_len(b.params, b.m), 6 * 6); /* the smaller Gram matrix */
            for (int block = 0; block < 2; block++) {
                vt_matrix one = matrix(&b, block, VT_WEIGHT_FC1), two = matrix(&b, block, VT_WEIGHT_FC2);
                if (variants[v].la) want += 0.5 * literal_la(&b, block, forms[f]);
                if (variants[v].lf)
                    want += 0.5 * (literal_gap(b.w + one.offset, 10, 6) + literal_gap(b.w + two.offset, 6, 10));
            }
            t_freeze(b.w);
            double value = bench_apply(&b), gradient[4096];
            t_le(fabs(value - want), 1e-13 * (1 + want), "ortho %s %s", variants[v].name, forms[f]);
            assert_true(b.total <= T_COUNT(gradient));
            memcpy(gradient, b.last, b.total * sizeof *gradient);
            t_check("ortho");
            if (variants[v].la || variants[v].lf)
                t_grad(bench_scalar, &b, b.w, b.total, gradient, options);
            else
                assert_true(value == 0 && t_max(gradient, b.total) == 0);
            t_le(fabs(b.def->attention(b.params, 4) - variants[v].am / 4), 1e-16, "AM over the batch");
            bench_close(&b, "ortho");
            snprintf(options, sizeof options, "variant=%s;lambda=0.5;am_reduce=sum", variants[v].name);
            void *p = t_params(b.def->opts, b.def->params_size, options);
            assert_true(b.def->attention(p, 4) == variants[v].am);
            free(p);
        }
}

/* Tied: three matrices a block, not four. In the form `each` the value is that of the untied model less W_K's part. */
static void test_ortho_tied(void **state) {
    (void)state;
    vt_config c = toy_config("dot", VT_POOL_TOKEN, false, true);
    c.tied_qk = true;
    static const char *const forms[] = {"each", "stack", "wide"};
    for (size_t k = 0; k < T_COUNT(forms); k++) {
        char options[80];
        snprintf(options, sizeof options, "variant=LA;lambda=0.5;la_form=%s", forms[k]);
        bench b = bench_open("ortho", options, toy_model(&c, 1));
        double value = bench_scalar(&b), *gradient = t_doubles(b.total, 0, 0), want = 0;
        memcpy(gradient, b.last, b.total * sizeof *gradient);
        t_grad(bench_scalar, &b, b.w, b.total, gradient, options);
        static const vt_weight_kind once[] = {VT_WEIGHT_Q, VT_WEIGHT_V, VT_WEIGHT_O};
        for (int i = 0; k == 0 && i < c.depth * 3; i++) {
            vt_matrix w = matrix(&b, i / 3, once[i % 3]);
            for (int p = 0; p < w.cols; p++)
                for (int q = 0; q < w.cols; q++) {
                    double sum = p == q ? -1 : 0;
                    for (int r = 0; r < w.rows; r++)
                        sum += b.w[w.offset + (size_t)(r * w.cols + p)] * b.w[w.offset + (size_t)(r * w.cols + q)];
                    want += 0.5 * sum * sum;
                }
        }
        if (k == 0) t_le(fabs(value - want), 1e-12 * want, "LA of a tied model");
        bench_close(&b, "ortho tied");
    }
}

/* Minima: stacked, c_k Q_k with orthogonal Q_k and sum c_k^2 = 1 meet P^T P = I; side by side the same matrices meet
 * P P^T = I, and P^T P, 4 D x 4 D of rank D, stays 3 D away from I; each: orthogonal matrices; the MLP's second matrix,
 * D x hidden, stays hidden - D away. The gradient vanishes there. */
static void test_ortho_minima(void **state) {
    (void)state;
    enum { D = 6, HIDDEN = 10 };
    static const struct {
        const char *options;
        double c[4], floor; /* per block */
    } cases[] = {
        {"variant=LA;lambda=1;la_form=stack", {0.1, 0.5, 0.7, 0.5}, 0},
        {"variant=LA;lambda=1;la_form=wide", {0.1, 0.5, 0.7, 0.5}, 3 * D},
        {"variant=LA;lambda=1;la_form=each", {1, 1, 1, 1}, 0},
        {"variant=LF;lambda=1", {1, 1, 1, 1}, HIDDEN - D},
    };
    double q[HIDDEN * HIDDEN];
    for (size_t c = 0; c < T_COUNT(cases); c++) {
        bench b = bench_open("ortho", cases[c].options, narrow());
        for (int block = 0; block < 2; block++) {
            for (int k = 0; k < 4; k++) {
                double *w = b.w + matrix(&b, block, (vt_weight_kind)(VT_WEIGHT_Q + k)).offset;
                orthonormal(q, D, (uint64_t)(10 * block + k));
                for (int i = 0; i < D * D; i++) w[i] = cases[c].c[k] * q[i];
            }
            orthonormal(q, HIDDEN, (uint64_t)(90 + block));
            double *one = b.w + matrix(&b, block, VT_WEIGHT_FC1).offset;
            double *two = b.w + matrix(&b, block, VT_WEIGHT_FC2).offset;
            for (int i = 0; i < HIDDEN; i++)
                for (int j = 0; j < D; j++)
                    one[i * D + j] = q[i * HIDDEN + j], two[j * HIDDEN + i] = q[i * HIDDEN + D - 1 - j];
        }
        t_le(fabs(bench_apply(&b) - 2 * cases[c].floor), 1e-13, "minimum of %s", cases[c].options);
        t_le(t_max(b.last, b.total), 2e-14, "gradient at the minimum of %s", cases[c].options); /* of sums near 10 */
        bench_close(&b, "ortho");
    }
}

/* ---- gates ---- */

/* Tensors of every kind that the gate penalty tells apart. */
static vt_model *gated(bool gate) {
    vt_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    vt_param_add(&m->params, 0, false, VT_INIT_ONE, "pos_embed", (int64_t[4]){1, 5, 4});
    if (gate) vt_param_add(&m->params, 1, false, VT_INIT_ONE, "patch_gate", (int64_t[4]){1, 5});
    vt_param_add(&m->params, 2, true, VT_INIT_ONE, "patch_embed.proj.weight", (int64_t[4]){4, 3, 2, 2});
    vt_param_add(&m->params, 3, false, VT_INIT_ONE, "patch_embed.proj.bias", (int64_t[4]){4});
    vt_param_add(&m->params, 4, false, VT_INIT_ONE, "cls_token", (int64_t[4]){1, 1, 4});
    vt_param_add(&m->params, 5, false, VT_INIT_ONE, "dist_token", (int64_t[4]){1, 1, 4});
    m->params.layer = 1;
    vt_param_add(&m->params, 0, true, VT_INIT_ONE, "head.weight", (int64_t[4]){3, 4});
    m->w = calloc(m->params.total, sizeof *m->w);
    assert_non_null(m->w);
    for (int i = 0; i < m->params.count; i++)
        for (size_t k = 0; k < m->params.items[i].numel; k++)
            m->w[m->params.items[i].offset + k] = (float)(0.25 + (double)k / 16) * (k % 2 ? -1 : 1);
    return m;
}

static void test_gate(void **state) {
    (void)state;
    static const char *const options[] = {"l1=0.5", "l2=0.25", "l1=0.5;l2=0.25"};
    for (size_t c = 0; c < T_COUNT(options); c++) {
        bench b = bench_open("gate", options[c], gated(true));
        double want = 0, gradient[256];
        for (int i = 0; i < b.m->params.count; i++) {
            const vt_param *p = &b.m->params.items[i];
            bool weight = strstr(p->name, "weight"), gate = !strcmp(p->name, "patch_gate");
            for (size_t k = 0; k < p->numel; k++) {
                double x = b.w[p->offset + k];
                want += (gate && c != 1 ? 0.5 * fabs(x) : 0) + (weight && c != 0 ? 0.25 * x * x : 0);
            }
        }
        double value = bench_apply(&b);
        t_le(fabs(value - want), 1e-14 * want, "gate, %s", options[c]);
        assert_true(b.total <= T_COUNT(gradient));
        memcpy(gradient, b.last, b.total * sizeof *gradient);
        t_grad(bench_scalar, &b, b.w, b.total, gradient, options[c]);
        if (c != 1) { /* the subgradient at zero is zero */
            size_t at_zero = vt_model_param(b.m, "patch_gate")->offset + 2;
            b.w[at_zero] = 0;
            bench_apply(&b);
            assert_true(b.last[at_zero] == 0 && fabs(b.last[at_zero + 1] + 0.5) <= 1e-15);
        }
        bench_close(&b, "gate");
    }
}

/* ---- what does not fit ---- */

static void refuses(const char *penalty, const char *options, const vt_model *m, const char *a, const char *b) {
    const vt_penalty_def_f64 *d = vt_penalty_find_f64(penalty);
    void *p = t_params(d->opts, d->params_size, options);
    vt_err e = {0};
    vt_status s = d->check(p, m, &e);
    t_says(s, VT_E_SHAPE, &e, a, b);
    free(p);
}

static void test_checks(void **state) {
    (void)state;
    vt_model *m = gated(false);
    vt_err e = {0};
    m->config.depth = 1, m->config.heads = 3;
    snprintf(m->config.arch, sizeof m->config.arch, "other");
    refuses("gate", "l1=0.1", m, "gate.l1", "model.patch_gate");
    refuses("msvp", "lambda=1", m, "block 0", "W_Q");
    refuses("ortho", "variant=LA", m, "other", "W_Q");
    m->params.layer = 2;
    vt_param_add(&m->params, 0, true, VT_INIT_ONE, "blocks.0.attn.qkv.weight", (int64_t[4]){30, 8});
    vt_param_add(&m->params, 1, true, VT_INIT_ONE, "blocks.0.attn.proj.weight", (int64_t[4]){8, 10});
    refuses("msvp", "lambda=1", m, "10 x 8", "msvp.split");
    refuses("msvp", "lambda=1;split=columns", m, "10 x 8", "msvp.split");
    refuses("ortho", "variant=LA", m, "W_O", "ortho.la_form");
    refuses("ortho", "variant=LA;la_form=wide", m, "W_O", "ortho.la_form");
    refuses("ortho", "variant=VAR-III;la_form=each", m, "block 0", "FC1");
    static const char *const fits[][2] = {{"msvp", "lambda=1;split=whole"},
                                          {"ortho", "variant=LA;la_form=each"},
                                          {"ortho", "variant=AM"},
                                          {"gate", "l2=1"}};
    for (size_t i = 0; i < T_COUNT(fits); i++) {
        const vt_penalty_def_f64 *d = vt_penalty_find_f64(fits[i][0]);
        void *p = t_params(d->opts, d->params_size, fits[i][1]);
        if (d->check(p, m, &e) != VT_OK) fail_msg("%s", e.text);
        free(p);
    }
    vt_model_close(m);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry),
        cmocka_unit_test_teardown(test_ortho_gradient, t_drop),
        cmocka_unit_test_teardown(test_ortho_tied, t_drop),
        cmocka_unit_test_teardown(test_ortho_minima, t_drop),
        cmocka_unit_test_teardown(test_gate, t_drop),
        cmocka_unit_test(test_checks),
    };
    return cmocka_run_group_tests_name("penalty", tests, NULL, NULL);
}
