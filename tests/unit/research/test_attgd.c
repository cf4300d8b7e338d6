/* SPDX-License-Identifier: MIT */
/* l_p mirror descent on attention: the golden joint run, the parts against their definitions, and the lab as a whole.
 */
#include "attgd_fixture.h"
#include "base/mem.h"
#include "research/lab/attgd_lab.h"

/* ---- the golden run ---- */

/* S2 has no random number. Values of an independent implementation in NumPy, to 1e-4; the tokens are those that the
 * authors' notebook prints. They hold with plain double gradients and the constant 2.2e-16 alone. */
static const struct {
    int alpha[2];
    double w_mm[4], v_mm[2], d_w, d_v, norm_w, norm_v;
} golden[VT_ATTGD_PATHS] = {
    {{1, 0}, {-.08180, -.06274, -.07767, .19851}, {.02551, .45918}, .00827, .00020, 6.699, 20.07},
    {{1, 0}, {-.08392, -.06750, -.07944, .19454}, {.02551, .45918}, .00381, .00032, 6.455, 19.65},
    {{0, 0}, {.10982, -.03228, -.06664, .19687}, {-.18315, .42125}, .00273, .00242, 5.832, 17.77},
};

static void test_golden(void **state) {
    (void)state;
    for (int k = 0; k < VT_ATTGD_PATHS; k++) {
        vt_joint o;
        vt_err e = {0};
        double p = vt_attgd_paths[k].p;
        assert_int_equal(vt_attgd_joint_run(&o, &vt_attgd_paths[k], VT_ATTGD_FLOOR, VT_ATT_PLAIN, &e), VT_OK);
        assert_memory_equal(o.alpha, golden[k].alpha, sizeof o.alpha);
        t_le(t_max_diff(o.w_mm, golden[k].w_mm, 4), 1e-4, "p %g: W_mm", p);
        t_le(t_max_diff(o.v_mm, golden[k].v_mm, 2), 1e-4, "p %g: v_mm", p);
        t_le(fabs(o.d_w - golden[k].d_w), 1e-4, "p %g: D(W)", p);
        t_le(fabs(o.d_v - golden[k].d_v), 1e-4, "p %g: D(v)", p);
        /* four digits were kept of these */
        t_le(fabs(o.norm_w - golden[k].norm_w), 6e-4, "p %g: |W|", p);
        t_le(fabs(o.norm_v - golden[k].norm_v), 6e-3, "p %g: |v|", p);
        t_le(o.gap, 1e-11, "p %g: duality gap", p);
        assert_true(o.tiny > 0 && o.stall > 0 && o.zero == 0);
    }
}

/* The constant alone makes the stall: with 1e-30 the same code goes further (values of the NumPy implementation). */
static void test_floor(void **state) {
    (void)state;
    static const double norms[] = {9.54, 8.71, 7.87};
    for (int k = 0; k < VT_ATTGD_PATHS; k++) {
        vt_joint o;
        vt_err e = {0};
        assert_int_equal(vt_attgd_joint_run(&o, &vt_attgd_paths[k], 1e-30, VT_ATT_PLAIN, &e), VT_OK);
        t_le(fabs(o.norm_w - norms[k]), 0.006, "p %g: |W|", vt_attgd_paths[k].p); /* two digits were kept */
        /* and with none and an exact gradient it reaches the machine's direction */
        assert_int_equal(vt_attgd_joint_run(&o, &vt_attgd_paths[k], 0, VT_ATT_EXACT, &e), VT_OK);
        t_le(o.d_w, golden[k].d_w / 10, "p %g: D(W) without the constant", vt_attgd_paths[k].p);
        assert_true(o.norm_w > 5 * golden[k].norm_w);
    }
}

/* ---- parts ---- */

static void test_power(void **state) {
    (void)state;
    static const double x[] = {0, -0.0, 1, -1, 2.5, -1e-3, 1e10, -1e-10, 3e-200};
    static const double e[] = {0.1, 0.25, 1 / 3., 0.5, 0.75, 1, 4 / 3., 1.5, 2, 3, 10};
    double got[T_COUNT(x)];
    for (size_t k = 0; k < T_COUNT(e); k++) {
        vt_lp_power(got, x, T_COUNT(x), e[k]);
        for (size_t i = 0; i < T_COUNT(x); i++) {
            double want = x[i] ? copysign(pow(fabs(x[i]), e[k]), x[i]) : 0;
            /* a few ulp, and what the rounding of e = 4/3 itself does */
            double tol = 4e-15 + (x[i] ? 2.3e-16 * fabs(log(fabs(x[i]))) : 0);
            t_le(fabs(got[i] - want), tol * fabs(want), "sgn(x) |x|^e of %g, %g", x[i], e[k]);
        }
    }
}

static void test_norm(void **state) {
    (void)state;
    double x[40], s;
    t_normals(x, 40, 1, 1);
    for (size_t k = 0; k < T_COUNT(bench_p); k++) {
        double p = bench_p[k], q = p / (p - 1);
        for (int two = 0; two < 2; two++, p = q) {
            s = 0;
            for (int i = 0; i < 40; i++) s += pow(fabs(x[i]), p);
            t_le(fabs(vt_lp_norm(x, 40, p) / pow(s, 1 / p) - 1), 1e-13, "|x|_%g", p);
        }
    }
    double big[] = {3e200, -4e200}, small[] = {3e-200, 4e-200}, none[] = {0, 0}, bad[] = {1, NAN};
    t_le(fabs(vt_lp_norm(big, 2, 2) / 5e200 - 1), 1e-14, "large");
    t_le(fabs(vt_lp_norm(small, 2, 2) / 5e-200 - 1), 1e-14, "small");
    t_le(vt_lp_norm(none, 2, 1.75), 0, "zero");
    assert_true(isnan(vt_lp_norm(bad, 2, 3)));
}

static void test_bregman(void **state) {
    (void)state;
    double u[12], w[12];
    for (size_t k = 0; k < T_COUNT(bench_p); k++) {
        double p = bench_p[k], want = 0;
        t_normals(u, 12, 10 + k, 1), t_normals(w, 12, 30 + k, 1);
        w[3] = 0, u[4] = 0;
        for (int i = 0; i < 12; i++)
            want += pow(fabs(u[i]), p) / p - pow(fabs(w[i]), p) / p -
                    (w[i] ? copysign(pow(fabs(w[i]), p - 1), w[i]) : 0) * (u[i] - w[i]);
        t_le(fabs(vt_lp_bregman(u, w, 12, p) - want), 1e-13 * 12, "D_psi, p %g", p);
        double nu = vt_lp_norm(u, 12, p), nw = vt_lp_norm(w, 12, p), dot = 0;
        for (int i = 0; i < 12; i++) dot += u[i] / nu * (w[i] ? copysign(pow(fabs(w[i]) / nw, p - 1), w[i]) : 0);
        t_le(fabs(vt_lp_direction(u, w, 12, p) - (1 - dot)), 1e-14, "the directional one, p %g", p);
        /* near by, the definition cancels; the second derivative does not: (p-1) |w|^(p-2) / 2 and h = 1e-6 */
        want = 0, w[3] = 1;
        for (int i = 0; i < 12; i++) u[i] = w[i] * (1 + 1e-6), want += (p - 1) / 2 * pow(fabs(w[i]), p) * 1e-12;
        t_le(fabs(vt_lp_bregman(u, w, 12, p) / want - 1), 1e-5, "D_psi near by, p %g",
             p); /* h, and rounding of u - w */
        t_le(fabs(vt_lp_direction(u, w, 12, p)), 1e-14, "the same direction, p %g", p);
    }
    /* the power of w, or of w and u, is too small for a double */
    static const double big = 1, small = 1e-110, turned = -1e-200;
    t_le(fabs(vt_lp_bregman(&big, &small, 1, 3) - 1 / 3.), 1e-16, "D_psi(1, 1e-110)");
    t_le(fabs(vt_lp_bregman(&big, &turned, 1, 1.75) - 1 / 1.75), 1e-16, "D_psi(1, -1e-200)");
    t_le(fabs(vt_lp_bregman(&small, &turned, 1, 3)), 0, "D_psi(1e-110, -1e-200)");
    static const double x[] = {3, 0}, y[] = {1, 1};
    t_le(fabs(vt_lp_direction(x, y, 2, 2) - (1 - sqrt(0.5))), 1e-15, "1 - cos 45 degrees");
    t_le(fabs(vt_lp_sparsity(x, 2) - 1), 1e-15, "one entry"), t_le(fabs(vt_lp_sparsity(y, 2)), 1e-15, "all alike");
}

static double loss_of(void *ctx) {
    void **both = ctx;
    return vt_att_loss(both[0], both[1]);
}

/* Lemma 17: the gradient's formula, and the decoder's, against central differences. */
static void test_gradient(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        vt_att a;
        double w[16], dw[16], dv[4], exact[16], near[16];
        bench_problem(&a, 3, 5, 4, seed);
        t_normals(w, 16, seed + 50, 0.7);
        void *both[] = {&a, w};
        double loss = vt_att_gradient(&a, w, VT_ATT_PLAIN, dw, dv);
        t_le(fabs(loss - vt_att_loss(&a, w)), 0, "loss");
        t_grad(loss_of, both, w, 16, dw, "W");
        t_grad(loss_of, both, a.v, 4, dv, "v");
        vt_att_gradient(&a, w, VT_ATT_EXACT, exact, NULL);
        t_le(t_rel(exact, dw, 16), 1e-13, "the exact form");
        int alpha[3];
        for (int i = 0; i < 3; i++) alpha[i] = vt_att_chosen(&a, i);
        double limit = 0, above = vt_att_near(&a, w, alpha, 0, near);
        for (int i = 0; i < 3; i++) limit += log1p(exp(-vt_att_score(&a, i, alpha[i]))) / 3;
        t_le(t_rel(near, dw, 16), 1e-13, "the form near the limit");
        t_le(fabs(limit + above - loss), 1e-14, "loss above the limit");
        vt_att_close(&a);
    }
}

/* Far out, where the gradient is e^-k: the shifted form, the same without shift, and the sums over pairs agree. */
static void test_near(void **state) {
    (void)state;
    vt_att a;
    double w[16], g[16], plain[16];
    int alpha[3];
    vt_svm svm;
    vt_err e = {0};
    bench_problem(&a, 3, 5, 4, 9);
    bench_best(&a, alpha);
    assert_int_equal(vt_attsvm(w, &svm, &a, alpha, 2, &e), VT_OK);
    for (double k = 20; k <= 640; k *= 2) { /* e^-640 is a normal double still */
        double far[16];
        for (int i = 0; i < 16; i++) far[i] = k * w[i];
        double above = vt_att_near(&a, far, alpha, k, g), loss = vt_att_near(&a, far, alpha, 0, plain);
        for (int i = 0; i < 16; i++) plain[i] *= exp(k);
        t_le(t_rel(plain, g, 16), 1e-11, "gradient e^-%g", k); /* the rounding of exponents near k */
        t_le(fabs(loss * exp(k) / above - 1), 1e-11, "loss e^-%g", k);
        vt_att_gradient(&a, far, VT_ATT_EXACT, plain, NULL);
        for (int i = 0; i < 16; i++) plain[i] *= exp(k);
        t_le(t_rel(plain, g, 16), 1e-11, "the exact form, e^-%g", k);
    }
    vt_att_close(&a);
}

static void test_step(void **state) {
    (void)state;
    double w[3] = {1, -2, 0.5}, theta[3], g[3] = {0.3, 0, -0.4};
    vt_mirror m = {.p = 2, .eta = 0.1};
    vt_lp_power(theta, w, 3, 1);
    vt_mirror_step(&m, theta, w, g, 3); /* p = 2: plain gradient descent */
    static const double want[] = {0.97, -2, 0.54};
    t_le(t_max_diff(w, want, 3), 1e-15, "gradient descent");
    m = (vt_mirror){.p = 3, .eta = 0.1, .normalised = true, .floor = 0};
    double v[2] = {0, 4}, phi[2], h[2] = {-8, 0};
    vt_lp_power(phi, v, 2, 2);
    t_le(fabs(vt_mirror_step(&m, phi, v, h, 2) - 8), 1e-14, "|g|_1.5");
    t_le(fabs(v[0] - sqrt(0.1)) + fabs(v[1] - 4), 1e-15, "p = 3 from zero");
    double none[2] = {0, 0};
    t_le(vt_mirror_step(&m, phi, v, none, 2), 0, "no gradient");
    t_le(fabs(v[0] - sqrt(0.1)) + fabs(v[1] - 4), 1e-15, "and no step");
    double tiny[2] = {5e-324, 0}; /* eta / |g| overflows, eta g / |g| does not */
    vt_mirror_step(&m, phi, v, tiny, 2);
    t_le(fabs(v[0]) + fabs(v[1] - 4), 1e-8, "the smallest gradient makes a whole step");
}

/* ---- the lab ---- */

static json_t *lab(const char *part, const char *seeds, int threads, uint64_t seed, char **text) {
    const vt_lab_def *def;
    vt_attgd_options o;
    vt_err e = {0};
    json_t *doc;
    size_t size;
    assert_int_equal(vt_lab_find(&def, "attgd", &e), VT_OK);
    vt_opt_defaults(def->opts, &o);
    assert_int_equal(vt_opt_set(def->opts, &o, "part", part, "lab", &e), VT_OK);
    assert_int_equal(vt_opt_set(def->opts, &o, "seeds", seeds, "lab", &e), VT_OK);
    assert_int_equal(vt_opt_set(def->opts, &o, "quick", "1", "lab", &e), VT_OK);
    vt_lab l = {.seed = seed, .threads = threads, .out = open_memstream(text, &size)};
    assert_non_null(l.out);
    if (vt_lab_run(def, &o, &l, &doc, &e) != VT_OK) fail_msg("%s", e.text);
    fclose(l.out);
    return doc;
}

static double number(const json_t *o, const char *key, size_t i, size_t k) {
    return json_number_value(json_array_get(json_array_get(json_object_get(o, key), i), k));
}

/* Six problems: the smallest of each row stands on the diagonal, in both ways of comparing. 100 are in lab.bats. */
static void test_local(void **state) {
    (void)state;
    char *one, *three;
    json_t *a = lab("local", "6", 1, 1, &one), *b = lab("local", "6", 3, 1, &three);
    assert_true(json_equal(a, b));
    assert_string_equal(one, three);
    json_t *r = json_object_get(json_object_get(a, "results"), "local");
    const char *const tables[] = {"same_tokens", "different_tokens"};
    for (int t = 0; t < 2; t++)
        for (size_t p = 0; p < 3; p++)
            for (size_t k = 0; k < 3; k++)
                if (k != p)
                    assert_true(number(json_object_get(r, tables[t]), "mean", p, p) <
                                number(json_object_get(r, tables[t]), "mean", p, k));
    for (size_t p = 0; p < 3; p++)
        t_le(0.999 - json_number_value(json_array_get(json_object_get(r, "max_softmax"), p)), 0, "one token, path %zu",
             p);
    t_le(json_number_value(json_object_get(r, "worst_duality_gap")), 1e-11, "machines");
    json_decref(a), json_decref(b);
    free(one), free(three);
}

/* Sun et al.: each p has the largest l_p margin, near the machine's, never above it; for three data sets. */
static void test_margin(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        char *text;
        json_t *doc = lab("margin", "2", 1, seed, &text),
               *r = json_object_get(json_object_get(doc, "results"), "margin");
        for (size_t k = 0; k < 5; k++) {
            double best = json_number_value(json_array_get(json_object_get(r, "largest_margin"), k));
            double own = number(r, "margin", k, k);
            for (size_t i = 0; i < 5; i++) {
                assert_true(i == k || own > number(r, "margin", i, k));
                t_le(number(r, "margin", i, k) / best, 1 + 1e-9, "above the machine: run %zu, margin %zu", i, k);
            }
            t_le(0.9 - own / best, 0, "run %zu reaches its machine", k);
        }
        json_decref(doc), free(text);
    }
}

static void test_rates(void **state) {
    (void)state;
    char *text;
    json_t *doc = lab("rates", "2", 1, 0, &text), *runs = json_object_get(json_object_get(doc, "results"), "rates"), *r;
    static const char *const breaches[] = {"lemma20_breaches", "lemma21_breaches", "lemma27_breaches",
                                           "lemma28_breaches", "unstable"};
    size_t i, k;
    assert_int_equal(json_array_size(runs), 4);
    json_array_foreach(runs, i, r) {
        json_t *marks = json_object_get(r, "marks"), *m;
        double last = 0, norm = 0, machine = json_number_value(json_object_get(r, "machine_norm"));
        json_array_foreach(marks, k, m) {
            double ratio =
                json_number_value(json_object_get(m, "divergence")) / json_number_value(json_object_get(m, "rate"));
            double a = json_number_value(json_object_get(m, "norm"));
            if (k > 1) assert_true(ratio <= last); /* Lemma 29 */
            if (k > 1)
                t_le(0.25 * machine * log(10) - (a - norm), 0, "Lemma 30, run %zu", i); /* the theory's slope is 1 */
            last = ratio, norm = a;
        }
        for (size_t b = 0; b < T_COUNT(breaches); b++)
            assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "cone"), breaches[b])), 0);
        /* from Lemma 20's radius alone the run leaves the thin cone: Lemma 28 does need "far enough" */
        assert_true(json_integer_value(json_object_get(json_object_get(r, "cone_near"), "lemma28_breaches")) > 0);
    }
    json_decref(doc), free(text);
}

static vt_status keep_figure(void *ctx, const char *name, const char *svg, vt_err *e) {
    (void)e;
    assert_non_null(strstr(svg, "<path"));
    strcat(strcat(ctx, name), " ");
    return VT_OK;
}

/* Registry, claims, figures, interruption. */
static void test_room(void **state) {
    (void)state;
    const vt_lab_def *def;
    vt_err e = {0};
    t_says(vt_lab_find(&def, "atgd", &e), VT_E_UNKNOWN, &e, "unknown lab 'atgd'", "did you mean 'attgd'?");
    t_says(vt_lab_find(&def, "zzzzzzz", &e), VT_E_UNKNOWN, &e, "there are: attgd", "");
    t_says(vt_memory_check("a table", (size_t)1 << 60, &e), VT_E_MEMORY, &e, "a table would need 1073741824.0 GiB",
           "this machine has");
    assert_int_equal(vt_memory_check("a table", 1, &e), VT_OK);
    volatile sig_atomic_t stop = 1;
    vt_attgd_options o;
    char names[100] = "", *text;
    size_t size;
    json_t *doc;
    assert_int_equal(vt_lab_find(&def, "attgd", &e), VT_OK);
    vt_opt_defaults(def->opts, &o);
    o.part = 2; /* joint */
    vt_lab l = {.threads = 1, .out = open_memstream(&text, &size), .picture = keep_figure, .picture_ctx = names};
    assert_int_equal(vt_lab_run(def, &o, &l, &doc, &e), VT_OK);
    assert_string_equal(names, "joint ");
    json_t *claims = json_object_get(doc, "claims");
    assert_int_equal(json_array_size(claims), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(claims, 0), "finding")), "supports");
    json_decref(doc);
    fflush(l.out);
    assert_non_null(
        strstr(text, "verdict: of 3 claims of the paper this run supports 1, weakens 1, does not test 1\n"));
    o.part = 1, l.interrupt = &stop;
    t_says(vt_lab_run(def, &o, &l, &doc, &e), VT_INTERRUPTED, &e, "interrupted", "");
    json_decref(doc);
    fclose(l.out), free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_floor),   cmocka_unit_test(test_power),
        cmocka_unit_test(test_norm),   cmocka_unit_test(test_bregman), cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_near),   cmocka_unit_test(test_step),    cmocka_unit_test(test_local),
        cmocka_unit_test(test_margin), cmocka_unit_test(test_rates),   cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
