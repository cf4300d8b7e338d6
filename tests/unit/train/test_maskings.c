/* SPDX-License-Identifier: MIT */
/* The inner attack's maskings (Mo et al. 2022): PRM and ARD, their rates, their draws, and that they leave nothing
 * behind. Statistical bounds are multiples of the standard deviation of what is counted; seeds are fixed. */
#include "inner.h"

enum { PATCH = 4, PATCHES = 9, DEPTH = 2 };

/* ---- PRM ---- */

/* Patches (side ps) that stand at the clean image before the step; everything else stands where it does without
 * masking. Returns their number. */
static int masked(unsigned char *mask, const vt_model *m, const char *spec, const vt_recipe_attack *how, key k,
                  int ps) {
    float x[PIXELS], got[PIXELS], plain[PIXELS];
    int n = SIDE / ps, count = 0;
    image(x, m, (uint64_t)k.image, 0.1);
    attack_once(m, spec, how, got, x, k);
    attack_once(m, spec, NULL, plain, x, k);
    memset(mask, 1, (size_t)(n * n));
    for (int i = 0; i < PIXELS; i++) {
        int row = i / SIDE % SIDE / ps, column = i % SIDE / ps;
        bool clean = fabs((double)got[i] - (double)x[i]) <= UNSEEN;
        if (!clean) assert_true(got[i] == plain[i]);
        if (row < n && column < n)
            mask[row * n + column] &= clean;
        else
            assert_true(got[i] == plain[i]); /* beyond the last whole patch */
    }
    for (int i = 0; i < n * n; i++) count += mask[i];
    return count;
}

static void test_prm_count(void **state) {
    (void)state;
    static const struct {
        double keep;
        int patch, count; /* int(P (1 - keep)) */
    } cases[] = {{0, 0, 9}, {0.25, 0, 6}, {0.5, 0, 4}, {0.7, 0, 2}, {0.9, 0, 0}, {1, 0, 0}, {0.5, 2, 18}, {0.5, 5, 2}};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    unsigned char a[36], b[36];
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_recipe_attack how = {.prm = true, .drop_rate = cases[i].keep, .prm_patch = cases[i].patch};
        int ps = cases[i].patch ? cases[i].patch : PATCH, n = (SIDE / ps) * (SIDE / ps);
        assert_int_equal(masked(a, m, STAND_RANDOM, &how, first, ps), cases[i].count);
        /* the images of a step share it */
        key other = first;
        other.image++, other.epoch++;
        assert_int_equal(masked(b, m, STAND_RANDOM, &how, other, ps), cases[i].count);
        assert_memory_equal(a, b, (size_t)n);
    }
    /* the keep rate grows from 0 over the first shares of the training */
    vt_recipe_attack how = {.prm = true, .drop_rate = 1, .warm = 0.5};
    static const double shares[][2] = {{0, 9}, {0.125, 6}, {0.25, 4}, {0.375, 2}, {0.5, 0}, {1, 0}};
    for (size_t i = 0; i < T_COUNT(shares); i++) {
        key k = first;
        k.share = shares[i][0];
        assert_int_equal(masked(a, m, STAND_RANDOM, &how, k, PATCH), (int)shares[i][1]);
    }
    vt_model_close(m);
}

/* Every patch equally often over the steps of training, and another choice at the attack's next step; what was zeroed
 * before stays so where no step moves it. */
static void test_prm_draws(void **state) {
    (void)state;
    enum { RUNS = 300 };
    vt_recipe_attack how = {.prm = true, .drop_rate = 0.5};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    int count[PATCHES] = {0}, both = 0;
    for (int i = 0; i < RUNS; i++) {
        key k = {.image = 1, .step = i, .share = 1};
        unsigned char a[PATCHES], b[PATCHES];
        assert_int_equal(masked(a, m, STAND_RANDOM, &how, k, PATCH), 4);
        both += masked(b, m, "pgd:steps=2,alpha=1e-12", &how, k, PATCH);
        for (int j = 0; j < PATCHES; j++) count[j] += a[j], assert_true(b[j] >= a[j]);
    }
    for (int j = 0; j < PATCHES; j++) /* binomial, 4 sigma */
        t_le(fabs(count[j] - RUNS * 4 / 9.0), 4 * sqrt(RUNS * 20 / 81.0), "patch %d", j);
    /* two independent choices of 4 of 9 share 16/9 patches on average, variance 4 * 4/9 * 5/9 * 5/8 = 50/81 */
    t_le(fabs(both - RUNS * (8 - 16 / 9.0)), 4 * sqrt(RUNS * 50 / 81.0), "patches zeroed by one of two steps");
    vt_model_close(m);
}

/* Keep 0: every step starts at the clean image, so three of them end where one does; keep 1: as without. */
static void test_prm_ends(void **state) {
    (void)state;
    vt_recipe_attack none = {.prm = true}, all = {.prm = true, .drop_rate = 1};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    float x[PIXELS], got[PIXELS], want[PIXELS];
    image(x, m, 2, -0.1);
    attack_once(m, "pgd:steps=3,alpha=2/255", &none, got, x, first);
    attack_once(m, STEP, NULL, want, x, first);
    assert_true(same(got, want));
    t_le(vt_distance(VT_LINF, got, x, PIXELS), ALPHA + 6e-8, "one step"); /* a rounding of numbers up to 1 */
    attack_once(m, HARD, &all, got, x, first);
    attack_once(m, HARD, NULL, want, x, first);
    assert_true(same(got, want));
    vt_model_close(m);
}

/* ---- ARD ---- */

/* One step with exactly these branches open, through a session of our own. */
static void step_with(float *x_adv, const vt_model *m, const float *x, const unsigned char *open) {
    vt_session_f32 *s;
    vt_err e = {0};
    float dz[CLASSES], g[PIXELS], step[PIXELS], lo[PIXELS], hi[PIXELS];
    vt_loss ce = {.kind = VT_LOSS_CE, .target = mixed};
    vt_ball ball;
    assert_int_equal(vt_session_open_f32(&s, m, 1, VT_GRAD_INPUT, &e), VT_OK);
    s->branch_open = open;
    vt_loss_eval_f32(dz, &ce, vt_session_forward_f32(s, x, 1, true), CLASSES);
    vt_session_backward_f32(s, dz, g, NULL);
    vt_session_close_f32(s);
    vt_ball_init(&ball, VT_LINF, EPS, x, PIXELS, lo, hi);
    vt_ball_step(&ball, step, g, ALPHA);
    for (int i = 0; i < PIXELS; i++) x_adv[i] = x[i] + step[i];
    vt_ball_project(&ball, x_adv);
}

/* Keep 0: all branches closed (and the skip path still there: mean pooling has one from every pixel); keep 1: as
 * without; and a masked run leaves nothing behind for the next. */
static void test_ard_ends(void **state) {
    (void)state;
    static const unsigned char closed[DEPTH] = {0, 0};
    vt_recipe_attack how = {.ard = true};
    vt_model *m = toy(VT_POOL_AVG, false, true);
    float x[PIXELS], got[PIXELS], want[PIXELS], plain[PIXELS];
    image(x, m, 2, -0.1);
    attack_once(m, STEP, NULL, plain, x, first);
    vt_inner in;
    opened(&in, m, STEP, VT_INNER_LABEL, 0, &how);
    attack(&in, got, x, mixed, EPS, first);
    step_with(want, m, x, closed);
    assert_true(same(got, want));
    assert_false(same(got, plain));
    how.drop_rate = 1;
    attack(&in, got, x, mixed, EPS, first);
    assert_true(same(got, plain));
    how.drop_rate = 0;
    attack(&in, got, x, mixed, EPS, first);
    how.ard = false;
    attack(&in, got, x, mixed, EPS, first);
    assert_true(same(got, plain));
    vt_inner_close(&in);
    vt_model_close(m);
}

/* In between: each block on its own, open with probability keep, one draw for all images of a step. */
static void test_ard_draws(void **state) {
    (void)state;
    enum { RUNS = 400 };
    static const double keep = 0.7;
    vt_recipe_attack how = {.ard = true, .drop_rate = keep};
    vt_model *m = toy(VT_POOL_AVG, false, true);
    vt_inner in, two;
    opened(&in, m, STEP, VT_INNER_LABEL, 0, &how), opened(&two, m, HARD, VT_INNER_LABEL, 0, &how);
    float x[2][PIXELS], want[2][4][PIXELS], got[PIXELS];
    int count[4] = {0}, again = 0;
    for (int i = 0; i < 2; i++) {
        image(x[i], m, (uint64_t)i, 0.1);
        for (unsigned p = 0; p < 4; p++)
            step_with(want[i][p], m, x[i], (unsigned char[DEPTH]){(unsigned char)(p & 1), (unsigned char)(p >> 1)});
        for (int p = 1; p < 4; p++)
            for (int q = 0; q < p; q++) assert_false(same(want[i][p], want[i][q])); /* they can be told apart */
    }
    for (int k = 0; k < RUNS; k++) {
        int found = -1;
        attack(&in, got, x[0], mixed, EPS, (key){.image = 0, .step = k, .share = 1});
        for (int p = 0; p < 4; p++)
            if (same(got, want[0][p])) found = p;
        assert_true(found >= 0);
        count[found]++;
        attack(&in, got, x[1], mixed, EPS, (key){.image = 1, .step = k, .share = 1});
        assert_true(same(got, want[1][found]));
        attack(&two, got, x[0], mixed, EPS, (key){.image = 0, .step = k, .share = 1}); /* the third step's draw */
        again += two.open[0] == (found & 1) && two.open[1] == found >> 1;
    }
    const double p[4] = {(1 - keep) * (1 - keep), keep * (1 - keep), keep * (1 - keep), keep * keep};
    double agree = 0;
    for (int i = 0; i < 4; i++) { /* binomial, 4 sigma */
        t_le(fabs(count[i] - RUNS * p[i]), 4 * sqrt(RUNS * p[i] * (1 - p[i])), "pattern %d", i);
        agree += p[i] * p[i];
    }
    t_le(fabs(again - RUNS * agree), 4 * sqrt(RUNS * agree * (1 - agree)), "same pattern at two steps of an attack");
    vt_inner_close(&in), vt_inner_close(&two);
    vt_model_close(m);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prm_count), cmocka_unit_test(test_prm_draws), cmocka_unit_test(test_prm_ends),
        cmocka_unit_test(test_ard_ends),  cmocka_unit_test(test_ard_draws),
    };
    return cmocka_run_group_tests_name("maskings", tests, NULL, NULL);
}
