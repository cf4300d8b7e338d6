/* SPDX-License-Identifier: MIT */
/* src/models/net/attention and every variant of its registry, in every legal shape: gradients and tangents in double,
 * rows that sum to one, float against double, large numbers. What is particular to a variant is in
 * test_attention_variants.c. */
#include "attention_fixture.h"

static void grad(at *a, double *x, size_t n, const double *g, const char *name, const char *of) {
    char what[140];
    snprintf(what, sizeof what, "%s: gradient of %s", name, of);
    t_grad(at_scalar, a, x, n, g, what);
}

/* Tolerance and step of t.h. */
static void check_gradients(at *a, const char *name) {
    at_run_f64(a, true, false);
    if (a->ortho > 0) t_le(fabs(a->ortho_value - at_ortho(a)), 1e-12 * at_ortho(a), "%s: value of L_AM", name);
    grad(a, a->q, a->nq, a->dq, name, a->tied ? "q and k" : "q");
    if (!a->tied) grad(a, a->k, a->nk, a->dk, name, "k");
    grad(a, a->v, a->nk, a->dv, name, "v");
    if (a->bias) grad(a, a->bias, a->map, a->dbias, name, "bias");
    if (a->pos) grad(a, a->pos, a->map, a->dpos, name, "pos");
    if (a->pos) grad(a, a->gate, (size_t)a->heads, a->dgate, name, "gate");
}

static void test_gradients(void **state) {
    (void)state;
    at_each(check_gradients);
}

/* Gradients that are not wanted change no other: a factor may move from one product to the next, no more. */
static void check_lean(at *a, const char *name) {
    double *const x[] = {a->dq, a->dk, a->dv};
    const size_t n[] = {a->nq, a->tied ? 0 : a->nk, a->nk};
    double *want[3];
    at_run_f64(a, true, false);
    for (int i = 0; i < 3; i++) want[i] = memcpy(malloc(n[i] * 8 + 8), x[i], n[i] * 8);
    a->lean = true;
    at_run_f64(a, true, false);
    for (int i = 0; i < 3; i++) {
        if (n[i]) t_le(t_max_diff(x[i], want[i], n[i]), 1e-14 * (1 + t_max(want[i], n[i])), "%s: gradient %d", name, i);
        free(want[i]);
    }
}

static void test_lean(void **state) {
    (void)state;
    at_each(check_lean);
}

/* x += f t for q, k, v; tied: once */
static void step(at *a, double f) {
    for (size_t i = 0; i < a->nq; i++) a->q[i] += f * a->tangent[0][i];
    for (size_t i = 0; i < a->nk && !a->tied; i++) a->k[i] += f * a->tangent[1][i];
    for (size_t i = 0; i < a->nk; i++) a->v[i] += f * a->tangent[2][i];
}

/* Against central differences (as gradients), and <u, J t> = <J^T u, t>: the two come from different code, each sum of
 * some hundred terms; 1e-12 of the norms is 4500 roundings. */
static void check_jvp(at *a, const char *name) {
    double *up = malloc(a->nq * sizeof *up);
    step(a, T_GRAD_STEP), at_run_f64(a, false, false);
    memcpy(up, a->o, a->nq * sizeof *up);
    step(a, -2 * T_GRAD_STEP), at_run_f64(a, false, false);
    for (size_t i = 0; i < a->nq; i++) up[i] = (up[i] - a->o[i]) / (2 * T_GRAD_STEP);
    step(a, T_GRAD_STEP);
    a->ortho = 0;
    at_run_f64(a, true, true);
    t_le(t_rel(a->to, up, a->nq), T_GRAD_TOL, "%s: tangent", name);
    double left = t_dot(a->d_o, a->to, a->nq);
    double right = t_dot(a->dq, a->tangent[0], a->nq) + t_dot(a->dv, a->tangent[2], a->nk);
    if (!a->tied) right += t_dot(a->dk, a->tangent[1], a->nk);
    t_le(fabs(left - right), 1e-12 * t_norm(a->d_o, a->nq) * t_norm(a->to, a->nq), "%s: adjoint of the tangent", name);
    free(up);
}

static void test_jvp(void **state) {
    (void)state;
    at_each(check_jvp);
}

/* A sum of t quotients by their own sum: t + 1 roundings. */
static void check_rows(at *a, const char *name) {
    const size_t rows = (size_t)(a->b * a->heads * a->tq), t = (size_t)a->t;
    for (int bits = 32; bits <= 64; bits += 32) {
        bits == 32 ? at_run_f32(a, false, false) : at_run_f64(a, false, false);
        for (size_t i = 0; i < rows; i++) {
            double sum = 0, least = 0;
            for (size_t j = 0; j < t; j++) sum += a->p[i * t + j], least = fmin(least, a->p[i * t + j]);
            t_le(fabs(sum - 1), (double)(t + 4) * (bits == 32 ? 0x1p-24 : 0x1p-53), "%s: row %zu", name, i);
            assert_true(least == 0);
        }
    }
}

static void test_rows(void **state) {
    (void)state;
    at_each(check_rows);
}

/* Float against double on the same inputs. A score is a sum of d terms of at most S = max(scale (|q| + |k|)^2, tau) and
 * is off by (d + 4) 2^-24 S; that is the relative error of a probability, doubled by the row's sum, which adds t more
 * roundings, as do the products with V; four such products follow one another in a gradient, whose terms cancel by no
 * more than a factor of four in these cases. */
static void check_float(at *a, const char *name) {
    enum { N = 8 };
    double *const x[N] = {a->o, a->to, a->dq, a->dk, a->dv, a->dbias, a->dpos, a->dgate};
    const size_t n[N] = {a->nq,
                         a->nq,
                         a->nq,
                         a->tied ? 0 : a->nk,
                         a->nk,
                         a->bias ? a->map : 0,
                         a->pos ? a->map : 0,
                         a->pos ? (size_t)a->heads : 0};
    static const char *const names[N] = {"o", "tangent", "dq", "dk", "dv", "dbias", "dpos", "dgate"};
    double *want[N], q = 0, k = 0;
    for (size_t i = 0; i + (size_t)a->d <= a->nq; i += (size_t)a->d) q = fmax(q, t_norm(a->q + i, (size_t)a->d));
    for (size_t i = 0; i + (size_t)a->d <= a->nk; i += (size_t)a->d) k = fmax(k, t_norm(a->k + i, (size_t)a->d));
    double s = fmax(a->scale * (q + k) * (q + k), 10), tol = 16 * (a->d + a->t + 8) * 0x1p-24 * (1 + s);
    at_run_f64(a, true, true);
    for (int i = 0; i < N; i++) want[i] = memcpy(malloc(n[i] * 8 + 8), x[i], n[i] * 8);
    at_run_f32(a, true, true);
    for (int i = 0; i < N; i++) {
        if (n[i]) t_le(t_max_diff(x[i], want[i], n[i]), tol * t_max(want[i], n[i]), "%s: %s in float", name, names[i]);
        free(want[i]);
    }
}

static void test_float(void **state) {
    (void)state;
    at_each(check_float);
}

/* Queries and keys of norm 1e4: nothing overflows, rows still sum to one. */
static void check_large(at *a, const char *name) {
    for (size_t i = 0; i < a->nq; i++) a->q[i] *= 4096;
    for (size_t i = 0; i < a->nk && !a->tied; i++) a->k[i] *= 4096;
    at_run_f32(a, true, true);
    assert_true(t_max(a->o, a->nq) < 1e3 && t_max(a->to, a->nq) < 1e30);
    t_le(t_max(a->dq, a->nq), 1e30, "%s: dq", name);
    if (!a->tied) t_le(t_max(a->dk, a->nk), 1e30, "%s: dk", name);
    t_le(t_max(a->dv, a->nk), 1e30, "%s: dv", name);
    check_rows(a, name);
}

static void test_large(void **state) {
    (void)state;
    at_each(check_large);
}

/* ---- texts ---- */

static void test_parse(void **state) {
    (void)state;
    vt_attn_spec s, again;
    vt_err e = {0};
    int n;
    const vt_attn *const *defs = vt_attns(&n);
    for (int i = 0; i < n; i++) { /* canonical texts read back */
        assert_int_equal(vt_attn_parse(&s, defs[i]->name, &e), VT_OK);
        assert_ptr_equal(s.is, defs[i]);
        assert_int_equal(vt_attn_parse(&again, s.text, &e), VT_OK);
        assert_string_equal(again.text, s.text);
        assert_memory_equal(&again.options, &s.options, sizeof s.options);
        assert_ptr_equal(vt_attn_find(s.text), defs[i]);
        assert_true(defs[i]->summary && defs[i]->reference);
        const vt_attn_ops_f64 *ops = vt_attn_ops_find_f64(s.text);
        assert_true(ops->probs && ops->dprobs && ops->tprobs);
        assert_string_equal(ops->is->name, defs[i]->name);
        assert_string_equal(vt_attn_ops_find_f32(s.text)->is->name, defs[i]->name);
    }
    assert_int_equal(vt_attn_parse(&s, "dot", &e), VT_OK);
    assert_string_equal(s.text, "dot");
    assert_int_equal(vt_attn_parse(&s, "scsa:nu=1,tau=2.5", &e), VT_OK);
    assert_string_equal(s.text, "scsa:tau=2.5,nu=1,eps=0");
    assert_int_equal(s.needs, VT_ATTN_OWN_VALUES);
    assert_int_equal(vt_attn_parse(&s, "l2:tied=1,full=yes", &e), VT_OK);
    assert_string_equal(s.text, "l2:tied=1,full=1");
    assert_int_equal(s.needs, VT_ATTN_TIED | VT_ATTN_FULL);
    t_says(vt_attn_parse(&s, "dott", &e), VT_E_UNKNOWN, &e, "variant 'dott'", "did you mean 'dot'");
    t_says(vt_attn_parse(&s, "do", &e), VT_E_UNKNOWN, &e, "variant 'do'", "");
    t_says(vt_attn_parse(&s, "", &e), VT_E_UNKNOWN, &e, "variant ''", "");
    t_says(vt_attn_parse(&s, "scsa:", &e), VT_E_USAGE, &e, "'scsa:'", "colon");
    t_says(vt_attn_parse(&s, "dot:tau=1", &e), VT_E_UNKNOWN, &e, "attention dot", "'tau'");
    t_says(vt_attn_parse(&s, "scsa:tao=1", &e), VT_E_UNKNOWN, &e, "'tao'", "'tau'");
    t_says(vt_attn_parse(&s, "scsa:tau=0", &e), VT_E_USAGE, &e, "tau is 0", "between 0.001");
    t_says(vt_attn_parse(&s, "scsa:nu=-1", &e), VT_E_USAGE, &e, "nu is -1", "between 0");
    t_says(vt_attn_parse(&s, "scsa:eps=2", &e), VT_E_USAGE, &e, "eps is 2", "and 1");
    t_says(vt_attn_parse(&s, "l2:tied=2", &e), VT_E_USAGE, &e, "tied is '2'", "");
    t_says(vt_attn_parse(&s, "scsa:tau=1.2345678901234567,nu=2.3456789012345678,eps=0.34567890123456789", &e),
           VT_E_RANGE, &e, "scsa", "at most 63");
    assert_null(vt_attn_find("no such variant"));
    assert_null(vt_attn_find(":"));
    assert_null(vt_attn_ops_find_f64("no such variant"));
    assert_null(vt_attn_ops_find_f64(":"));
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gradients, t_drop),
        cmocka_unit_test_teardown(test_jvp, t_drop),
        cmocka_unit_test_teardown(test_rows, t_drop),
        cmocka_unit_test_teardown(test_float, t_drop),
        cmocka_unit_test_teardown(test_large, t_drop),
        cmocka_unit_test_teardown(test_lean, t_drop),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
