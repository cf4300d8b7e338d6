/* SPDX-License-Identifier: MIT */
/* What the attention variants are, one by one: PyTorch's numbers, closed forms, invariances, and what happens at kinks
 * and zeros. What holds for every variant is in test_attention.c. */
#include "attention_fixture.h"
#include "naive.h"
#include "reference.h"

/* ---- PyTorch, in double (tests/fixtures/gen_attention.py) ---- */

static vt_tensors *ref;

static int setup(void **state) {
    (void)state;
    vt_err e = {0};
    vt_blas_single_thread();
    if (vt_tensors_open(&ref, "tests/fixtures/golden/attention.safetensors", &e) == VT_OK) return 0;
    print_error("%s\n", e.text);
    return 1;
}

static int teardown(void **state) {
    (void)state;
    vt_tensors_close(ref);
    return 0;
}

static void load(double *to, const char *name, const char *part, size_t n) {
    double *v = reference(ref, n, "%s.%s", name, part);
    memcpy(to, v, n * sizeof *v);
    free(v);
}

/* 1e-12 of the largest: some thousand roundings of another order of sums. */
static void same(const double *got, const char *name, const char *part, size_t n) {
    double *want = reference(ref, n, "%s.%s", name, part);
    assert_true(t_max(want, n) > 0);
    t_le(t_max_diff(got, want, n), 1e-12 * t_max(want, n), "%s.%s against PyTorch", name, part);
    free(want);
}

static void test_torch(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        at_form form;
    } cases[] = {
        {"dot", {"dot.mixed", .b = 2, .t = 5, .heads = 2, .d = 3, .mixed = true}},
        {"dot", {"dot.class", .b = 2, .tq = 1, .t = 6, .heads = 2, .d = 3}},
        {"dot", {"dot.windows", .b = 4, .t = 4, .heads = 2, .d = 3, .windows = 2}},
        {"l2", {"l2.untied", .b = 2, .t = 5, .heads = 2, .d = 3}},
        {"l2", {"l2.tied", .b = 2, .t = 5, .heads = 2, .d = 3, .tied = true, .windows = 2, .mixed = true}},
        {"l2", {"l2.class", .b = 2, .tq = 1, .t = 6, .heads = 2, .d = 3}},
        {"lipnorm", {"lipnorm.qk", .b = 2, .t = 5, .heads = 2, .d = 3}},
        {"lipnorm", {"lipnorm.qv", .b = 2, .t = 5, .heads = 2, .d = 3, .windows = 2}},
        {"lipnorm", {"lipnorm.kv", .b = 2, .tq = 1, .t = 5, .heads = 2, .d = 3}},
        {"lipnorm", {"lipnorm.tied", .b = 2, .t = 5, .heads = 2, .d = 3, .tied = true, .mixed = true}},
        {"scsa", {"scsa.code", .b = 2, .t = 5, .heads = 2, .d = 3, .windows = 2}},
        {"scsa:tau=5,nu=0.75,eps=0.125", {"scsa.paper", .b = 2, .t = 5, .heads = 2, .d = 3, .mixed = true}},
        {"scsa:tau=5,nu=0.75,eps=0.125", {"scsa.class", .b = 2, .tq = 1, .t = 6, .heads = 2, .d = 3}},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        const char *name = cases[i].form.name;
        at a = at_make(cases[i].spec, &cases[i].form, 1);
        load(a.q, name, "q", a.nq), load(a.v, name, "v", a.nk), load(a.d_o, name, "do", a.nq);
        load(a.tangent[0], name, "tq", a.nq), load(a.tangent[2], name, "tv", a.nk);
        if (!a.tied) load(a.k, name, "k", a.nk), load(a.tangent[1], name, "tk", a.nk);
        if (a.bias) load(a.bias, name, "bias", a.map), load(a.mask, name, "mask", a.map / (size_t)a.heads * 2);
        if (a.pos) load(a.pos, name, "pos", a.map), load(a.gate, name, "gate", (size_t)a.heads);
        at_run_f64(&a, true, true);
        same(a.o, name, "o", a.nq), same(a.p, name, "p", (size_t)a.b * a.map), same(a.to, name, "to", a.nq);
        same(a.dq, name, "dq", a.nq), same(a.dv, name, "dv", a.nk);
        if (!a.tied) same(a.dk, name, "dk", a.nk);
        if (a.bias) same(a.dbias, name, "dbias", a.map);
        if (a.pos) same(a.dpos, name, "dpos", a.map), same(a.dgate, name, "dgate", (size_t)a.heads);
        at_free(&a);
    }
}

/* ---- l2 ---- */

static const at_form square = {"square", .b = 2, .t = 5, .heads = 2, .d = 3};

/* Scores by the definition; tokens that are all alike: every probability is 1/t; two far clusters, where rounding is
 * larger than distances within one: a token's distance to itself is exactly 0 and no other is smaller. */
static void test_l2_tied(void **state) {
    (void)state;
    const at_form form = {"tied", .b = 2, .t = 20, .heads = 2, .d = 40, .tied = true, .q = 0.25};
    at a = at_make("l2", &form, 1);
    at_run_f32(&a, false, false);
    for (int m = 0; m < a.b * a.heads; m++)
        for (int i = 0; i < a.t * a.t; i++) { /* log P_ii - log P_ij = scale |q_i - q_j|^2 */
            const double *p = a.p + m * a.t * a.t;
            const int row = i / a.t, c = a.heads * a.d, from = m / a.heads * a.t * c + m % a.heads * a.d;
            double far = 0;
            for (int j = 0; j < a.d; j++) far += pow(a.q[from + row * c + j] - a.q[from + i % a.t * c + j], 2);
            assert_true(p[i] <= p[row * a.t + row]);
            /* a few 2^-24 scale (|q|^2 + |k|^2), |q|^2 < 10 */
            t_le(fabs(p[i] / p[row * a.t + row] - exp(-a.scale * far)), 2e-6, "score of row %d", row);
        }
    for (size_t i = 0; i < a.nq; i++) a.q[i] = i < 40 ? a.q[i] * 1000 : a.q[i % 40];
    at_run_f32(&a, false, false);
    for (size_t i = 0; i < (size_t)a.b * a.map; i++) assert_true(fabs(a.p[i] - 0.05) <= 0x1p-27);
    t_normals(a.q, a.nq, 2, 1);
    for (size_t i = 0; i < a.nq; i++) a.q[i] += i / 80 % 2 ? 3000 : -3000;
    at_run_f32(&a, false, false);
    for (size_t i = 0; i < (size_t)a.b * a.map; i++) assert_true(a.p[i] <= a.p[i / 20 * 20 + i / 20 % 20]);
    at_free(&a);
}

/* Keys of one norm: |q - k|^2 = const - 2 <q, k>, dot products of twice the scale. */
static void test_l2_dot(void **state) {
    (void)state;
    at a = at_make("l2", &square, 1), b = at_make("dot", &square, 1);
    for (size_t i = 0; i < a.nk; i += (size_t)a.d) {
        double n = t_norm(a.k + i, (size_t)a.d);
        for (size_t j = i; j < i + (size_t)a.d; j++) a.k[j] = b.k[j] = a.k[j] * 2 / n;
    }
    b.scale *= 2;
    at_run_f64(&a, false, false), at_run_f64(&b, false, false);
    t_le(t_max_diff(a.p, b.p, (size_t)a.b * a.map), 1e-14, "l2 with keys of one norm");
    at_free(&a), at_free(&b);
}

/* A common offset of 1024 leaves float what the differences deserve: inputs are multiples of 2^-13 there, so that the
 * differences are exact, and only the mean's rounding (1024 2^-24) times the spread remains. Without centring |q|^2 =
 * 3e6 would be off by 0.2. */
static void test_l2_offset(void **state) {
    (void)state;
    at a = at_make("l2", &square, 1);
    for (size_t i = 0; i < a.nq; i++) a.q[i] = (double)(float)(a.q[i] + 1024), a.k[i] = (double)(float)(a.k[i] + 1024);
    at_run_f64(&a, true, false);
    double p[200], dq[60], dk[60], n = 0;
    memcpy(p, a.p, (size_t)a.b * a.map * 8), memcpy(dq, a.dq, a.nq * 8), memcpy(dk, a.dk, a.nk * 8);
    at_run_f32(&a, true, false);
    n = (double)a.b * (double)a.map;
    t_le(t_max_diff(a.p, p, (size_t)n), 1e-5, "probabilities with an offset");
    t_le(t_max_diff(a.dq, dq, a.nq), 1e-5 * t_max(dq, a.nq), "dq with an offset");
    t_le(t_max_diff(a.dk, dk, a.nk), 1e-5 * t_max(dk, a.nk), "dk with an offset");
    at_free(&a);
}

/* The full form, X -> P X A_h W_V^h, put together as a block would: q = x wq^T tied, v = q M, attention, and back. */
static void test_l2_full(void **state) {
    (void)state;
    enum { B = 2, T = 4, H = 2, D = 3, DIM = 7, C = H * D, ROWS = B * T };
    double *x = reference(ref, ROWS * DIM, "full.x"), *wq = reference(ref, C * DIM, "full.wq"),
           *wv = reference(ref, C * DIM, "full.wv");
    double m[H * D * D], dm[H * D * D] = {0}, dx[ROWS * DIM], dwq[C * DIM] = {0}, dwv[C * DIM] = {0}, q[ROWS * C];
    const at_form form = {"full", .b = B, .t = T, .heads = H, .d = D, .tied = true};
    at a = at_make("l2", &form, 1);
    naive_gemm(false, true, ROWS, C, DIM, 1, x, DIM, wq, DIM, 0, q, C);
    memcpy(a.q, q, sizeof q);
    const vt_attn_shape_f64 shape = {.b = a.b, .t = a.t, .c = C, .heads = H, .scale = a.scale};
    vt_attn_full_mix_f64(m, wq, wv, &shape, DIM);
    vt_attn_full_values_f64(a.v, C, a.q, C, m, &shape);
    load(a.d_o, "full", "do", a.nq);
    at_run_f64(&a, true, true);
    same(a.o, "full", "o", a.nq);
    vt_attn_full_dvalues_f64(a.dq, C, dm, a.dv, C, a.q, C, m, &shape); /* dq: scores and values */
    vt_attn_full_dmix_f64(dwq, dwv, dm, wq, wv, &shape, DIM);
    naive_gemm(true, false, C, DIM, ROWS, 1, a.dq, C, x, DIM, 1, dwq, DIM);
    naive_gemm(false, false, ROWS, DIM, C, 1, a.dq, C, wq, DIM, 0, dx, DIM);
    same(dx, "full", "dx", ROWS * DIM), same(dwq, "full", "dwq", C * DIM), same(dwv, "full", "dwv", C * DIM);
    /* tangents of q give those of v, and dm may be left out */
    double tv[ROWS * C], only[ROWS * C] = {0}, with[ROWS * C] = {0};
    vt_attn_full_values_f64(tv, C, a.tangent[0], C, m, &shape);
    vt_attn_full_dvalues_f64(only, C, NULL, a.d_o, C, a.q, C, m, &shape);
    vt_attn_full_dvalues_f64(with, C, dm, a.d_o, C, a.q, C, m, &shape);
    assert_memory_equal(only, with, sizeof only);
    t_le(fabs(t_dot(a.d_o, tv, a.nq) - t_dot(only, a.tangent[0], a.nq)), 1e-12 * t_norm(tv, a.nq) * t_norm(a.d_o, a.nq),
         "adjoint of the values' tangent");
    at_free(&a);
    free(x), free(wq), free(wv);
}

/* ---- lipnorm ---- */

/* Scores are at most scale in size, so probabilities of a row differ by a factor of at most e^(2 scale), whatever the
 * inputs; scaling all of q, k, v changes nothing, scaling q and k nothing while neither V* nor the order of norms does.
 */
static void test_lipnorm_bound(void **state) {
    (void)state;
    const size_t n = 2 * 2 * 25;
    for (int k = -3; k <= 3; k++) {
        at_form form = square;
        form.q = pow(4, k), form.k = pow(4, k % 2), form.v = 0.5;
        at a = at_make("lipnorm", &form, 1);
        double p[200];
        at_run_f64(&a, false, false);
        for (size_t i = 0; i < n; i++)
            for (size_t j = i / 5 * 5; j < i / 5 * 5 + 5; j++)
                t_le(fabs(log(a.p[i] / a.p[j])), 2 * a.scale + 1e-14, "difference of scores");
        memcpy(p, a.p, n * 8);
        for (size_t i = 0; i < a.nq; i++) a.q[i] *= 3, a.k[i] *= 3, a.v[i] *= 3;
        at_run_f64(&a, false, false);
        /* 1e-12 over c >= 0.01 is the one thing that does not scale */
        t_le(t_max_diff(a.p, p, n), 1e-9, "all times three");
        at_free(&a);
    }
    at a = at_make("lipnorm", &square, 1);
    double p[200];
    for (size_t i = 0; i < a.nk; i++) a.v[i] /= 1024; /* c = |Q|_F K*, before and after */
    at_run_f64(&a, false, false), memcpy(p, a.p, n * 8);
    for (size_t i = 0; i < a.nq; i++) a.q[i] *= 5, a.k[i] *= 0.25;
    at_run_f64(&a, false, false);
    t_le(t_max_diff(a.p, p, n), 1e-11, "q and k scaled");
    for (size_t i = 0; i < a.nk; i++) a.v[i] *= 1 << 20; /* c = |Q|_F V*: the scores shrink with it */
    at_run_f64(&a, false, false);
    t_le(-t_max_diff(a.p, p, n), -1e-2, "large values; minus the difference");
    at_free(&a);
}

/* Two keys share K*: the first takes the gradient, so its slope is the one outwards and the second's the one inwards.
 * One-sided differences of step h are off by h f''/2: 1e-6 of slopes near 1e-2. */
static void test_lipnorm_tie(void **state) {
    (void)state;
    const at_form form = {"tie", .b = 1, .t = 3, .heads = 1, .d = 2, .v = 0.125};
    const double h = 1e-7;
    at a = at_make("lipnorm", &form, 1);
    const double k[6] = {1.5, 2, 2, 1.5, 0.5, 0};
    memcpy(a.k, k, sizeof k);
    at_run_f64(&a, true, false);
    double base = at_scalar(&a);
    for (int row = 0; row < 2; row++) {
        double slope = 0, sign = row ? -1 : 1;
        for (int j = 0; j < 2; j++) slope += a.dk[2 * row + j] * k[2 * row + j];
        for (int j = 0; j < 2; j++) a.k[2 * row + j] = k[2 * row + j] * (1 + sign * h);
        double seen = sign * (at_scalar(&a) - base) / h;
        for (int j = 0; j < 2; j++) a.k[2 * row + j] = k[2 * row + j] * (1 - sign * h);
        double other = -sign * (at_scalar(&a) - base) / h;
        memcpy(a.k, k, sizeof k);
        t_le(fabs(seen - slope), 1e-6, "row %d", row);
        t_le(-fabs(other - slope), -1e-4, "row %d: a kink; minus the difference", row);
    }
    at_free(&a);
}

/* No query at all, or no anything: finite, and no gradient comes from nowhere. */
static void test_lipnorm_zero(void **state) {
    (void)state;
    at a = at_make("lipnorm", &square, 1);
    memset(a.q, 0, a.nq * 8);
    at_run_f64(&a, true, true);
    t_le(t_max(a.dk, a.nk), 0, "dk without queries");
    t_le(t_max(a.dq, a.nq), 1e3, "dq without queries");
    memset(a.k, 0, a.nk * 8), memset(a.v, 0, a.nk * 8);
    at_run_f64(&a, true, true);
    t_le(t_max(a.dq, a.nq) + t_max(a.dk, a.nk), 0, "gradients of nothing");
    t_le(t_max(a.to, a.nq), 1e3, "tangent at nothing");
    at_free(&a);
}

/* ---- scsa ---- */

/* Positive factors on tokens of q and k change nothing, and with nu on those of v. */
static void test_scsa_scaling(void **state) {
    (void)state;
    static const char *const specs[] = {"scsa", "scsa:nu=2"};
    for (int k = 0; k < 2; k++) {
        at a = at_make(specs[k], &square, 1);
        double o[60];
        at_run_f64(&a, false, false), memcpy(o, a.o, sizeof o);
        for (size_t i = 0; i < a.nq; i++) {
            size_t row = i / 3; /* tokens and heads */
            a.q[i] *= 0.5 + (double)(row % 7), a.k[i] *= 0.25 + (double)(row % 5);
            if (k) a.v[i] *= 1 + (double)(row % 3);
        }
        at_run_f64(&a, false, false);
        t_le(t_max_diff(a.o, o, 60), 1e-13, "%s: scaled tokens", specs[k]);
        at_free(&a);
    }
}

/* A row of zeros: below the floor the norm is the constant 1e-12, so the row scores 0 everywhere and its gradient is
 * 1e12 times that of the normalised row, as PyTorch's F.normalize has it; with eps > 0 the map is smooth. */
static void test_scsa_zero(void **state) {
    (void)state;
    const double tau = 10;
    at a = at_make("scsa", &square, 1);
    memset(a.q, 0, 3 * 8), memset(a.k, 0, 3 * 8); /* token 0, head 0 */
    at_run_f64(&a, true, true);
    double want[3] = {0}, dp[5], mean = 0;
    for (int j = 0; j < 5; j++) t_le(fabs(a.p[j] - 0.2), 1e-15, "a zero query looks everywhere");
    for (int j = 0; j < 5; j++) dp[j] = t_dot(a.d_o, a.v + 6 * j, 3), mean += dp[j] / 5;
    for (int j = 1; j < 5; j++)
        for (int l = 0; l < 3; l++)
            want[l] += 1e12 * tau * 0.2 * (dp[j] - mean) * a.k[6 * j + l] / t_norm(a.k + 6 * j, 3);
    t_le(t_max_diff(a.dq, want, 3), 1e-13 * t_max(want, 3), "gradient of a zero query");
    t_le(t_max(a.dk, 3), 1e14, "gradient of a zero key");
    t_le(-t_max(a.dk, 3), -1e10, "gradient of a zero key; minus its size");
    at_run_f32(&a, true, true);
    t_le(t_max_diff(a.dq, want, 3), 1e-5 * t_max(want, 3), "gradient of a zero query in float");
    t_le(t_max(a.dk, a.nk) + t_max(a.to, a.nq), 1e15, "the rest in float");
    /* half the floor: the score grows with the row, and so <q, dq> is the slope along it */
    for (int l = 0; l < 3; l++) a.q[l] = 0.5e-12 / sqrt(3);
    at_run_f64(&a, true, false);
    double slope = t_dot(a.q, a.dq, 3), side[2];
    for (int s = 0; s < 2; s++) {
        for (int l = 0; l < 3; l++) a.q[l] = (s ? 1 - 1e-5 : 1 + 1e-5) * 0.5e-12 / sqrt(3);
        side[s] = at_scalar(&a);
    }
    t_le(fabs((side[0] - side[1]) / 2e-5 - slope), 1e-8, "slope along a query below the floor");
    t_le(-fabs(slope), -1e-2, "... and minus its size");
    at_free(&a);
    a = at_make("scsa:nu=1,eps=0.25", &square, 1);
    memset(a.q, 0, 3 * 8), memset(a.k, 0, 3 * 8), memset(a.v, 0, 3 * 8);
    at_run_f64(&a, true, false);
    t_grad(at_scalar, &a, a.q, a.nq, a.dq, "dq at a zero row with eps");
    t_grad(at_scalar, &a, a.k, a.nk, a.dk, "dk at a zero row with eps");
    t_grad(at_scalar, &a, a.v, a.nk, a.dv, "dv at a zero row with eps");
    at_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_torch, t_drop),        cmocka_unit_test_teardown(test_l2_tied, t_drop),
        cmocka_unit_test_teardown(test_l2_dot, t_drop),       cmocka_unit_test_teardown(test_l2_offset, t_drop),
        cmocka_unit_test_teardown(test_l2_full, t_drop),      cmocka_unit_test_teardown(test_lipnorm_bound, t_drop),
        cmocka_unit_test_teardown(test_lipnorm_tie, t_drop),  cmocka_unit_test_teardown(test_lipnorm_zero, t_drop),
        cmocka_unit_test_teardown(test_scsa_scaling, t_drop), cmocka_unit_test_teardown(test_scsa_zero, t_drop),
    };
    return cmocka_run_group_tests_name("attention variants", tests, setup, teardown);
}
