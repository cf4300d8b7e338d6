/* SPDX-License-Identifier: MIT */
/* selftest: exact tails, the separating head, nets with other heads, the grades. The verdicts on real networks are
 * tests/cli/selftest.bats. */
#include "ask.h"
#include "planted.h"
#include "selftest/selftest.h"
#include "toy.h"

#include "inference/classifier.h"
#include "selftest/tools.h"

static void test_tail(void **state) {
    (void)state;
    /* from Python's fractions */
    static const struct {
        int k, n;
        double rate, tail;
    } rows[] = {{3, 30, 0.01, 0.0033177093188826385},
                {1, 32, 0.01, 0.27501966404214634},
                {14, 29, 0.1, 1.7931274079675632e-07},
                {2, 12, 0.05, 0.11835985697148706},
                {5, 9, 0.5, 0.5},
                {44, 44, 0.05, 5.684341886080801e-58},
                {700, 1000, 0.5, 8.832839003975068e-38}};
    for (size_t i = 0; i < T_COUNT(rows); i++) /* logarithms of 1000!, 6e3, in double: 1e-12 relative */
        t_le(fabs(vt_binomial_tail(rows[i].k, rows[i].n, rows[i].rate) / rows[i].tail - 1), 1e-10, "row %zu", i);
    assert_true(vt_binomial_tail(0, 10, 0.3) == 1);
    assert_true(vt_binomial_tail(11, 10, 0.3) == 0);
}

/* The last point on one side, all others on the other; and no such plane where it lies among them. */
static void test_separate(void **state) {
    (void)state;
    enum { POINTS = 40, D = 24 };
    float x[POINTS * D], spread[POINTS * D];
    double w[D], b, *scratch = malloc((POINTS * POINTS + 4 * POINTS + 2 * D) * sizeof *scratch);
    assert_non_null(scratch);
    vt_rng_normals(&(vt_rng){.seed = 2, .purpose = 0x5E9A}, spread, POINTS * D);
    /* features of very different sizes, one of them constant; the last point a little outside along one of them */
    for (int i = 0; i < POINTS; i++)
        for (int k = 0; k < D; k++) x[i * D + k] = k == 3 ? 5 : 100 + spread[i * D + k] * powf(10, (float)(k % 7 - 3));
    x[(POINTS - 1) * D + 1] += 8 * 0.01f;
    assert_true(vt_separate(w, &b, x, POINTS, D, scratch));
    for (int i = 0; i < POINTS; i++) {
        double f = b;
        for (int k = 0; k < D; k++) f += w[k] * (double)x[i * D + k];
        assert_true(i == POINTS - 1 ? f > 0 : f < 0);
    }
    memcpy(x + (POINTS - 1) * D, x, D * sizeof *x); /* equal to the first */
    assert_false(vt_separate(w, &b, x, POINTS, D, scratch));
    free(scratch);
}

/* What varies by float32's noise alone takes no part in a head, however well it would separate: features of size one,
 * of which one is a constant but for its last two bits, and lowest on the last point. */
static void test_noise_takes_no_part(void **state) {
    (void)state;
    enum { POINTS = 12, D = 8 };
    float x[POINTS * D];
    double mean[D], inverse[D];
    vt_rng_normals(&(vt_rng){.seed = 3, .purpose = 0x5E9A}, x, POINTS * D);
    for (int i = 0; i < POINTS; i++) x[i * D + 5] = 0.5f + 0x1p-23f * (float)(i % 3), x[i * D + 6] *= 0x1p-13f;
    assert_int_equal(vt_standardise(mean, inverse, x, POINTS, D), D - 1);
    assert_true(inverse[5] == 0 && inverse[6] > 0x1p11);
    double w[D], b, *scratch = malloc((POINTS * POINTS + 4 * POINTS + 2 * D) * sizeof *scratch);
    assert_non_null(scratch);
    for (int i = 0; i < POINTS; i++)
        for (int k = 0; k < D; k++) x[i * D + k] = k == 5 ? 0.5f + (i == POINTS - 1 ? 0 : 0x1p-23f) : 1;
    assert_false(vt_separate(w, &b, x, POINTS, D, scratch));
    free(scratch);
}

/* Features under the model's own head are its logits; a head w, b of two classes gives w.phi + b. */
static void test_heads(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        vt_model *m = toy(form == 1 ? VT_POOL_AVG : VT_POOL_TOKEN, form == 2, true), *features, *two;
        size_t d = (size_t)m->config.dim, phi = vt_feature_count(m);
        vt_classifier a, f, t;
        vt_err e = {0};
        float z[5], z2[2], *seen = calloc(phi, sizeof *seen), *x = calloc(toy_pixels(m), sizeof *x);
        double *w = calloc(2 * phi, sizeof *w), b[2] = {0.25, -0.5}, *images = toy_images(m, 1, 3);
        assert_int_equal(phi, form == 2 ? 2 * d : d); /* a distilled model has two heads */
        for (size_t i = 0; i < toy_pixels(m); i++) x[i] = (float)images[i];
        assert_int_equal(vt_other_head(&features, m, (int)phi, &e), VT_OK);
        vt_head_set(features, NULL, NULL, (int)phi, phi);
        assert_int_equal(vt_other_head(&two, m, 2, &e), VT_OK);
        t_normals(w, 2 * phi, 11, 0.5);
        vt_head_set(two, w, b, 2, phi);
        assert_int_equal(vt_classifier_open(&a, m, &e), VT_OK);
        assert_int_equal(vt_classifier_open(&f, features, &e), VT_OK);
        assert_int_equal(vt_classifier_open(&t, two, &e), VT_OK);
        ask_logits(&a, x, z, false);
        ask_logits(&f, x, seen, false);
        ask_logits(&t, x, z2, false);
        const vt_param *hw = vt_model_param(m, "head.weight"), *hb = vt_model_param(m, "head.bias");
        const vt_param *dw = vt_model_param(m, "head_dist.weight"), *db = vt_model_param(m, "head_dist.bias");
        for (int k = 0; k < 5; k++) { /* float sums of 12 or 24 terms of size one */
            double want = (double)m->w[hb->offset + (size_t)k];
            if (form == 2) want = (want + (double)m->w[db->offset + (size_t)k]) / 2;
            for (size_t i = 0; i < d; i++) want += (double)m->w[hw->offset + (size_t)k * d + i] * (double)seen[i];
            for (size_t i = 0; form == 2 && i < d; i++)
                want += (double)m->w[dw->offset + (size_t)k * d + i] * (double)seen[d + i];
            t_le(fabs((double)z[k] - want), 2e-5, "form %d, logit %d", form, k);
        }
        for (int r = 0; r < 2; r++) {
            double want = b[r];
            for (size_t i = 0; i < phi; i++) want += w[(size_t)r * phi + i] * (double)seen[i];
            t_le(fabs((double)z2[r] - want), 2e-5, "form %d, two %d", form, r);
        }
        vt_classifier_close(&a), vt_classifier_close(&f), vt_classifier_close(&t);
        vt_model_close(m), vt_model_close(features), vt_model_close(two);
        free(seen), free(x), free(w), free(images);
    }
}

static vt_grade grade(vt_check_id id, int hits, int trials, double rate) {
    vt_selftest t = {0};
    for (int i = 0; i < VT_CHECK_COUNT; i++) t.checks[i].rate = 0.01;
    t.checks[VT_CHECK_RANDOM].trials = t.checks[VT_CHECK_FLAT].trials = 30; /* nothing against these two */
    t.checks[id] = (vt_check){.hits = hits, .trials = trials, .rate = rate};
    vt_selftest_judge(&t);
    return t.grade;
}

/* Three tests in the family: Holm multiplies the smallest p by 3. */
static void test_grades(void **state) {
    (void)state;
    assert_int_equal(grade(VT_CHECK_ZERO, 0, 0, 0.01), VT_GRADE_NO_SIGN); /* not made */
    assert_int_equal(grade(VT_CHECK_ZERO, 0, 30, 0.01), VT_GRADE_NO_SIGN);
    assert_int_equal(grade(VT_CHECK_ZERO, 1, 30, 0.01), VT_GRADE_NO_SIGN);   /* p = 0.26 */
    assert_int_equal(grade(VT_CHECK_ZERO, 3, 30, 0.01), VT_GRADE_MASKED);    /* 3 x 0.0033 */
    assert_int_equal(grade(VT_CHECK_STEPS, 7, 7, 0.5), VT_GRADE_DOUBTFUL);   /* 3 / 128 = 0.023 */
    assert_int_equal(grade(VT_CHECK_STEPS, 5, 5, 0.5), VT_GRADE_NO_SIGN);    /* 3 / 32 */
    assert_int_equal(grade(VT_CHECK_STEPS, 9, 9, 0.5), VT_GRADE_MASKED);     /* 3 / 512 */
    assert_int_equal(grade(VT_CHECK_ACTIVE, 1, 40, 0.05), VT_GRADE_NO_SIGN); /* p = 0.87 */
    assert_string_equal(vt_grade_name(VT_GRADE_MASKED), "gradients are masked");
    vt_selftest none = {0}; /* without a check nothing is said of the model */
    vt_selftest_judge(&none);
    assert_int_equal(none.grade, VT_GRADE_NONE);
    assert_string_equal(none.nothing, "no check could be made");
}

/* By the mid-p of the exact test: tails from Python's fractions. Random networks of
 * tools/selftest_cases.sh have 15 to 26 of 200 right. */
static void test_guesses(void **state) {
    (void)state;
    static const struct {
        int right, images, classes;
        bool guesses;
    } rows[] = {{0, 20, 10, true}, {1, 20, 10, true},  {26, 200, 10, true}, {28, 200, 10, false}, /* 0.0838, 0.0353 */
                {1, 4, 10, true},  {2, 4, 10, false},  {1, 1, 10, false},   {1, 2, 10, true},      {3, 3, 2, true},
                {4, 4, 2, false},  {1, 6, 100, false}, {1, 11, 100, true},  {600, 1000, 2, false}, {520, 1000, 2, true},
                {5, 5, 1, true}};
    for (size_t i = 0; i < T_COUNT(rows); i++)
        if (vt_selftest_guesses(rows[i].right, rows[i].images, rows[i].classes) != rows[i].guesses)
            fail_msg("row %zu", i);
}

/* Wilson's lower bound reaches 95 % at 73 of 73; random search and failed set-ups have their own limits. */
static void test_active_rule(void **state) {
    (void)state;
    static const struct {
        vt_active a;
        bool passed;
    } rows[] = {{{.images = 73, .found = 73}, true},
                {{.images = 72, .found = 72}, false},
                {{.images = 100, .found = 99}, false},  /* lower bound 94.6 % */
                {{.images = 200, .found = 196}, false}, /* 94.97 % */
                {{.images = 200, .found = 197}, true},
                {{.images = 100, .found = 100, .random_corner = 50}, true},
                {{.images = 100, .found = 100, .random_surface = 51}, false},
                {{.images = 100, .found = 95, .setup_failed = 5}, true},
                {{.images = 100, .found = 94, .setup_failed = 6}, false},
                {{.images = 0}, false}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_selftest t = {.active = rows[i].a};
        t.active.attacked = t.active.images - t.active.setup_failed;
        vt_selftest_judge(&t);
        if (t.active.passed != rows[i].passed) fail_msg("row %zu: low %.6f", i, t.active.low);
    }
}

/* More than the allowance is said, and why. */
static void test_excess(void **state) {
    (void)state;
    static const vt_active all = {.images = 4, .attacked = 4, .found = 4},
                           missed = {.images = 5, .attacked = 4, .found = 3, .setup_failed = 1};
    static const struct {
        double cost;
        bool measured;
        int64_t survivors;
        const vt_active *active;
        const char *words;
    } rows[] = {{10, true, 2, &all, NULL},
                {10.01, false, 1, &all, "so few images"},
                {10.01, false, 0, &all, "nothing was left"},
                {10.01, true, 0, &all, "so few images"},
                {10.01, true, 2, &missed, "ran to their end"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_selftest t = {.cost = rows[i].cost, .allowance = 10, .active = *rows[i].active};
        t.reference_measured = rows[i].measured, t.survivors = rows[i].survivors;
        const char *said = vt_selftest_excess(&t);
        if (!said != !rows[i].words || (said && !strstr(said, rows[i].words)))
            fail_msg("row %zu: %s", i, said ? said : "(nothing)");
    }
}

/* A network cut behind all of its blocks is the network; cut earlier, it answers what the blocks that are left make of
 * the stream, behind the next block's first norm. What cannot be cut gives nothing. */
static void test_cut(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true), *whole, *cut, *none;
    vt_err e = {0};
    vt_classifier a, b;
    float z[5], zw[5], *x = calloc(toy_pixels(m), sizeof *x);
    double *images = toy_images(m, 1, 3);
    const vt_param *head = vt_model_param(m, "head.weight"), *bias = vt_model_param(m, "head.bias");
    double w[5 * 64], c[5];
    size_t phi = vt_feature_count(m);
    assert_true(phi * 5 <= T_COUNT(w) && m->config.depth >= 2);
    for (size_t i = 0; i < 5 * phi; i++) w[i] = (double)m->w[head->offset + i];
    for (size_t i = 0; i < 5; i++) c[i] = (double)m->w[bias->offset + i];
    for (size_t i = 0; i < toy_pixels(m); i++) x[i] = (float)images[i];
    assert_int_equal(vt_cut_behind(&whole, m, m->config.depth, 5, &e), VT_OK);
    vt_head_set(whole, w, c, 5, phi);
    assert_int_equal(vt_classifier_open(&a, m, &e), VT_OK);
    assert_int_equal(vt_classifier_open(&b, whole, &e), VT_OK);
    ask_logits(&a, x, z, false);
    ask_logits(&b, x, zw, false);
    for (int k = 0; k < 5;
         k++) /* a prepared copy sums in another order: some float32 roundings of numbers of size one */
        t_le(fabs((double)z[k] - (double)zw[k]), 1e-5, "logit %d", k);
    vt_classifier_close(&b);
    assert_int_equal(vt_cut_behind(&cut, m, 1, 5, &e), VT_OK);
    assert_int_equal(cut->config.depth, 1);
    const vt_param *norm = vt_model_param(cut, "norm.weight"), *next = vt_model_param(m, "blocks.1.norm1.weight");
    assert_memory_equal(cut->w + norm->offset, m->w + next->offset, norm->numel * sizeof(float));
    const vt_param *q = vt_model_param(cut, "blocks.0.attn.qkv.weight"), *p = vt_model_param(m, q->name);
    assert_memory_equal(cut->w + q->offset, m->w + p->offset, q->numel * sizeof(float));
    assert_int_equal(vt_cut_behind(&none, m, 0, 5, &e), VT_OK);
    assert_null(none);
    assert_int_equal(vt_cut_behind(&none, m, m->config.depth + 1, 5, &e), VT_OK);
    assert_null(none);
    vt_classifier_close(&a);
    vt_model_close(cut), vt_model_close(whole), vt_model_close(m);
    free(images), free(x);
}

/* After a network's first failure a worker answers zero, and its part ends with that failure, not with a verdict. */
static void test_failed_gear(void **state) {
    (void)state;
    planted p;
    vt_tester g = {0};
    vt_err e = {0};
    assert_true(planted_linear(&p, 3, 4, 4, 1));
    float x[48] = {0.5f}, z[3], dx[48], value, target[3] = {1, 0, 0};
    const vt_loss ce = {.kind = VT_LOSS_CE, .target = target};
    vt_tester_logits(&g, &p.c, x, z, true);
    vt_tester_backward(&g, &p.c, &ce, &value, dx);
    assert_true(z[0] != 0 && dx[0] != 0 && value > 0);
    assert_int_equal(vt_tester_failure(&g, &e), VT_OK);
    p.fail_after = 1;
    vt_tester_logits(&g, &p.c, x, z, true);
    p.fail_after = 0;
    assert_true(z[0] == 0 && z[1] == 0 && z[2] == 0);
    vt_tester_backward(&g, &p.c, &ce, &value, dx);
    assert_true(dx[0] == 0 && value == 0 && p.backwards == 1);
    assert_int_equal(vt_tester_failure(&g, &e), VT_E_MODEL);
    assert_string_equal(e.text, "call 2 is one too many");
    vt_tester_logits(&g, &p.c, x, z, true); /* said: the worker serves again */
    assert_true(z[0] != 0);
    planted_free(&p);
}

/* Before a run: the largest samples where the run is long, of as many images as there are; a gradient costs r. */
static void test_plan(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_subject s = {.model = m};
    vt_eval_options v = {.subject = &s, .n_images = 20};
    vt_selftest t = {.v = &v, .points_only = true}, all = {.v = &v};
    vt_selftest_plan(&t, (vt_passes){.forwards = 1e9});
    const double r = t.ratio, points = 20 * (7 + 5 * r) + 20 * (22 + 40 * r);
    assert_true(r > 1.5 && r < 3);
    t_le(fabs(t.forecast / (1.1 * points) - 1), 1e-12, "points alone"); /* double, a few operations */
    assert_true(t.escalation_forecast == 0);
    vt_selftest_plan(&all, (vt_passes){.gradients = 1e9});
    assert_true(all.reference == 1e9 * r && all.allowance == 0.1 * all.reference);
    t_le(fabs(all.escalation_forecast / (1.1 * 16 * (5000 + 63 * r)) - 1), 1e-12, "if in doubt");
    assert_true(all.forecast > 1.1 * points + 20 * 1000); /* Square on what stands, and more */
    vt_selftest_plan(&all, (vt_passes){.forwards = 1});   /* a short run: 200 forwards an image are allowed */
    assert_true(all.forecast >= 1.1 * 200 * 20 && all.forecast < 20 * 1000);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail),        cmocka_unit_test(test_separate), cmocka_unit_test(test_noise_takes_no_part),
        cmocka_unit_test(test_heads),       cmocka_unit_test(test_grades),   cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_active_rule), cmocka_unit_test(test_excess),   cmocka_unit_test(test_cut),
        cmocka_unit_test(test_failed_gear), cmocka_unit_test(test_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
