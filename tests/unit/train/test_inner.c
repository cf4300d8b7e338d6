/* SPDX-License-Identifier: MIT */
/* train/inner, the attack inside adversarial training: the same attack as an evaluation's, what it maximises, TRADES'
 * start, and what its result depends on. The loss and its sign are computed anew by a double session. */
#include "inner.h"

#include "parallel/threads.h"
#include "models/net/session64.h"
#include "train/batch.h"

static const float one_hot[CLASSES] = {0, 0, 0, 1, 0};

/* d/dx sum_k t_k (-log p_k) at x, in double; z: the logits there. */
static void gradient(double *dx, double *z, const vt_model *m, const float *x, const double *t) {
    vt_session_f64 *s;
    vt_err e = {0};
    double x64[PIXELS], dz[CLASSES], sum = 0, mass = 0;
    for (int i = 0; i < PIXELS; i++) x64[i] = (double)x[i];
    assert_int_equal(vt_session_open_f64(&s, m, 1, VT_GRAD_INPUT, &e), VT_OK);
    memcpy(z, vt_session_forward_f64(s, x64, 1, true), CLASSES * sizeof *z);
    for (int k = 0; k < CLASSES; k++) sum += exp(z[k]), mass += t[k];
    for (int k = 0; k < CLASSES; k++) dz[k] = mass * exp(z[k]) / sum - t[k];
    vt_session_backward_f64(s, dz, dx, NULL);
    vt_session_close_f64(s);
}

static void gradient_of(double *dx, const vt_model *m, const float *x, const float *target) {
    double z[CLASSES], t[CLASSES];
    for (int k = 0; k < CLASSES; k++) t[k] = (double)target[k];
    gradient(dx, z, m, x, t);
}

/* x_adv is `from` moved by alpha along the sign of g and brought into the ball round x. Pixels where |g| is below
 * `floor` of the largest are not judged: the float attack may see another sign. */
static void check_step(const float *x_adv, const float *from, const float *x, const double *g, double floor) {
    float want[PIXELS], lo[PIXELS], hi[PIXELS];
    double least = floor * t_max(g, PIXELS);
    int judged = 0;
    vt_ball ball;
    vt_ball_init(&ball, VT_LINF, EPS, x, PIXELS, lo, hi);
    for (int i = 0; i < PIXELS; i++) want[i] = from[i] + (g[i] > 0 ? (float)ALPHA : -(float)ALPHA);
    vt_ball_project(&ball, want);
    for (int i = 0; i < PIXELS; i++)
        if (fabs(g[i]) > least) {
            judged++;
            if (x_adv[i] != want[i]) fail_msg("pixel %d: %.9g, not %.9g", i, (double)x_adv[i], (double)want[i]);
        }
    assert_true(judged > PIXELS / 2);
}

/* ---- the attack itself ---- */

/* Through an evaluation's classifier and oracle (judging, exhaustive). */
static void direct(float *x_adv, const vt_model *m, const char *spec, vt_norm norm, double eps, const float *x,
                   const float *target, key k) {
    vt_classifier c;
    vt_oracle o;
    vt_attack a;
    vt_err e = {0};
    float lo[PIXELS], hi[PIXELS];
    vt_ball ball;
    assert_int_equal(vt_attack_parse(&a, spec, norm, &e), VT_OK);
    assert_int_equal(vt_classifier_open(&c, m, &e), VT_OK);
    assert_int_equal(vt_oracle_open(&o, &c, &e), VT_OK);
    o.mode = VT_ORACLE_EXHAUSTIVE;
    vt_ball_init(&ball, norm, eps, x, PIXELS, lo, hi);
    vt_oracle_reset(&o, &ball, vt_argmax_f32(target, CLASSES), true);
    vt_oracle_target(&o, target);
    vt_task t = {.x = x,
                 .n = PIXELS,
                 .shape = {3, SIDE, SIDE},
                 .classes = CLASSES,
                 .label = vt_argmax_f32(target, CLASSES),
                 .ball = &ball,
                 .rng = {.seed = SEED,
                         .purpose = vt_rng_purpose("inner") + (uint32_t)k.epoch * 2654435761u,
                         .image = (uint32_t)k.image},
                 .x_adv = x_adv};
    t.work = calloc(vt_attack_work_len(&a.stages[0], &t) + 1, sizeof *t.work);
    assert_non_null(t.work);
    assert_int_equal(a.stages[0].def->run(&o, a.stages[0].params, &t), VT_OK);
    free(t.work);
    vt_oracle_close(&o), vt_classifier_close(&c), vt_attack_free(&a);
}

/* Bit for bit what the attack finds elsewhere, inside ball and box; and as many gradients as steps, nothing more. */
static void test_same_attack(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        vt_norm norm;
        double eps;
        int steps;
    } cases[] = {{"pgd:steps=2,alpha=5/255", VT_LINF, EPS, 2},
                 {"pgd:steps=3,alpha=0.2", VT_L2, 0.5, 3},
                 {"fgsm", VT_LINF, EPS, 1}};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_inner in;
        vt_err e = {0};
        float x[PIXELS], got[PIXELS], want[PIXELS], lo[PIXELS], hi[PIXELS];
        vt_ball ball;
        assert_int_equal(vt_inner_open(&in, m, cases[i].spec, cases[i].norm, VT_INNER_LABEL, 0, NULL, SEED, &e), VT_OK);
        for (int k = 0; k < 6; k++) {
            const float *target = k % 2 ? mixed : one_hot;
            key at = {.image = k, .epoch = k / 2, .step = 100 - k};
            image(x, m, (uint64_t)k, -0.1);
            attack(&in, got, x, target, cases[i].eps, at);
            assert_int_equal(in.oracle.gradients, cases[i].steps);
            assert_int_equal(in.oracle.forwards, 0);
            direct(want, m, cases[i].spec, cases[i].norm, cases[i].eps, x, target, at);
            assert_true(same(got, want));
            vt_ball_init(&ball, cases[i].norm, cases[i].eps, x, PIXELS, lo, hi);
            assert_true(vt_ball_contains(&ball, got));
            assert_true(vt_distance(cases[i].norm, got, x, PIXELS) <= cases[i].eps);
            assert_false(same(got, x));
        }
        vt_inner_close(&in);
    }
    vt_model_close(m);
}

/* The same for attacks that look at the label, the distance or their own best point: for every label, 0 and others. */
static void test_same_for_every_attack(void **state) {
    (void)state;
    static const char *const specs[] = {"pgd:steps=3,restarts=3", "apgd-ce:steps=10", "apgd-dlr:steps=10",
                                        "apgd-t:steps=10",        "fab:steps=5",      "fab-t:steps=5"};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    for (size_t i = 0; i < T_COUNT(specs); i++)
        for (int l2 = 0; l2 < 2; l2++) {
            vt_inner in;
            vt_err e = {0};
            float x[PIXELS], got[PIXELS], want[PIXELS];
            vt_norm norm = l2 ? VT_L2 : VT_LINF;
            double eps = l2 ? 0.5 : EPS;
            int moved = 0;
            assert_int_equal(vt_inner_open(&in, m, specs[i], norm, VT_INNER_LABEL, 0, NULL, SEED, &e), VT_OK);
            for (int k = 0; k < 2 * CLASSES; k++) {
                float target[CLASSES] = {0};
                key at = {.image = k, .epoch = k / 2, .step = 100 - k};
                target[k % CLASSES] = k < CLASSES ? 1 : 0.75f;
                target[(k + 2) % CLASSES] += k < CLASSES ? 0 : 0.25f;
                image(x, m, (uint64_t)k, -0.1);
                attack(&in, got, x, target, eps, at);
                direct(want, m, specs[i], norm, eps, x, target, at);
                if (!same(got, want)) fail_msg("%s, norm %d, label %d, image %d", specs[i], l2, k % CLASSES, k);
                moved += !same(got, x);
            }
            assert_true(moved > 0); /* FAB leaves an image that is wrong already */
            vt_inner_close(&in);
        }
    vt_model_close(m);
}

/* The mixed label is what is maximised, not its largest class. (Float gradients are right to 1e-4 of the largest:
 * test_golden.c; 1e-3 leaves no sign in doubt.) */
static void test_soft_label(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    float x[PIXELS], x_adv[PIXELS];
    double g[PIXELS], hard[PIXELS];
    int other = 0;
    for (int k = 0; k < 4; k++) {
        image(x, m, (uint64_t)k, 0.1);
        attack_once(m, STEP, NULL, x_adv, x, first);
        gradient_of(g, m, x, mixed), gradient_of(hard, m, x, one_hot);
        check_step(x_adv, x, x, g, 1e-3);
        for (int i = 0; i < PIXELS; i++) other += (g[i] > 0) != (hard[i] > 0);
    }
    assert_true(other > PIXELS / 4); /* of 4: the two goals can be told apart */
    vt_model_close(m);
}

/* ---- TRADES ---- */

/* The first step goes up the divergence KL(p || p') from where the start stands: there p' - p is some 1e-2, of which
 * float logits leave 1e-4; pixels above 1e-2 of the largest gradient are beyond doubt. */
static void test_prediction(void **state) {
    (void)state;
    const double sigma = 0.01; /* six of them inside the ball would be 0.06; more than the ball is cut off */
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_inner stand, step;
    opened(&stand, m, STAND, VT_INNER_PREDICTION, sigma, NULL);
    opened(&step, m, STEP, VT_INNER_PREDICTION, sigma, NULL);
    for (int k = 0; k < 4; k++) {
        float x[PIXELS], from[PIXELS], x_adv[PIXELS];
        double z[CLASSES], p[CLASSES], g[PIXELS], sum = 0;
        key at = {.image = k, .epoch = 1};
        image(x, m, (uint64_t)k, 0.1);
        attack(&stand, from, x, one_hot, EPS, at);
        attack(&step, x_adv, x, one_hot, EPS, at);
        assert_true(same(step.start, stand.start));
        for (int i = 0; i < PIXELS; i++) {
            double seen = fmin(fmax((double)stand.start[i], (double)x[i] - EPS), (double)x[i] + EPS);
            t_le(fabs((double)from[i] - seen), 1e-7, "start, pixel %d", i); /* the ball's bounds are floats */
        }
        gradient(g, z, m, x, (double[CLASSES]){0});
        for (int c = 0; c < CLASSES; c++) sum += exp(z[c]);
        for (int c = 0; c < CLASSES; c++) p[c] = exp(z[c]) / sum;
        gradient(g, z, m, step.start, p);
        check_step(x_adv, step.start, x, g, 1e-2);
    }
    vt_inner_close(&stand), vt_inner_close(&step);
    vt_model_close(m);
}

/* The start: normal numbers of the given deviation round the image, in [0,1], keyed by image and epoch. */
static void test_start(void **state) {
    (void)state;
    enum { RUNS = 40, N = RUNS * PIXELS };
    const double sigma = 0.001; /* TRADES' */
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_inner in;
    opened(&in, m, STAND, VT_INNER_PREDICTION, sigma, NULL);
    float x[PIXELS], x_adv[PIXELS], before[PIXELS];
    double sum = 0, squares = 0;
    image(x, m, 1, 0.1);
    for (int k = 0; k < RUNS; k++) {
        attack(&in, x_adv, x, one_hot, EPS, (key){.image = k % 8, .epoch = k / 8});
        for (int i = 0; i < PIXELS; i++) {
            double d = ((double)x_adv[i] - (double)x[i]) / sigma;
            sum += d, squares += d * d;
        }
        if (k) assert_false(same(x_adv, before));
        memcpy(before, x_adv, sizeof before);
    }
    /* 4 standard errors of a mean and of a mean square of N normals (rounding to float adds 3e-5) */
    t_le(fabs(sum / N), 4 / sqrt(N), "mean of the start");
    t_le(fabs(squares / N - 1), 4 * sqrt(2.0 / N), "variance of the start");
    attack(&in, x_adv, x, one_hot, EPS, (key){.image = 7, .epoch = 4, .step = 99});
    assert_true(same(x_adv, before)); /* the step does not enter */
    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i % 2);
    attack(&in, x_adv, x, one_hot, EPS, first);
    int cut = 0;
    for (int i = 0; i < PIXELS; i++) {
        assert_true(in.start[i] >= 0 && in.start[i] <= 1 && x_adv[i] >= 0 && x_adv[i] <= 1);
        cut += in.start[i] == x[i];
    }
    t_le(fabs(cut - PIXELS / 2.0), 4 * sqrt(PIXELS / 4.0), "starts cut off at black and white"); /* 4 sigma */
    vt_inner_close(&in);
    vt_model_close(m);
}

/* ---- N-FGSM ---- */

/* de Jorge et al. 2022, algorithm 1: eta = U(-2 eps, 2 eps), then one step of eps along the gradient's sign at x + eta,
 * which no ball round x cuts off. */
static void test_noise(void **state) {
    (void)state;
    enum { RUNS = 40, N = RUNS * PIXELS };
    static const vt_recipe_attack how = {.noise = 2};
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_inner in;
    opened(&in, m, "fgsm", VT_INNER_LABEL, 0, &how);
    double g[PIXELS], sum = 0, squares = 0, most = 0;
    float x[PIXELS], x_adv[PIXELS], before[PIXELS];
    for (int i = 0; i < PIXELS; i++) x[i] = 0.5f;
    for (int k = 0; k < RUNS; k++) {
        attack(&in, x_adv, x, mixed, EPS, (key){.image = k % 8, .epoch = k / 8});
        for (int i = 0; i < PIXELS; i++) {
            double u = ((double)in.centre[i] - 0.5) / (2 * EPS);
            t_le(fabs(u), 1 + 1e-6, "noise"); /* rounding of float */
            t_le(fabs((double)x_adv[i] - (double)in.centre[i]), EPS, "step");
            sum += u, squares += u * u, most = fmax(most, fabs((double)x_adv[i] - 0.5));
        }
        if (k) assert_false(same(x_adv, before));
        memcpy(before, x_adv, sizeof before);
    }
    /* 4 standard errors of a mean and a mean square of N uniform numbers: variances 1/3 and 4/45 */
    t_le(fabs(sum / N), 4 * sqrt(1.0 / 3 / N), "mean of the noise");
    t_le(fabs(squares / N - 1.0 / 3), 4 * sqrt(4.0 / 45 / N), "variance of the noise");
    t_le(2.5 * EPS, most, "the largest perturbation of %d pixels, at most 3 eps", N);
    attack(&in, x_adv, x, mixed, EPS, (key){.image = 7, .epoch = 4, .step = 99});
    assert_true(same(x_adv, before)); /* the step does not enter */
    for (int k = 0; k < 4; k++) {
        image(x, m, (uint64_t)k, 0.1);
        attack(&in, x_adv, x, mixed, EPS, (key){.image = k});
        gradient_of(g, m, in.centre, mixed);
        for (int i = 0; i < PIXELS; i++)
            assert_true(in.centre[i] >= 0 && in.centre[i] <= 1 && x_adv[i] >= 0 && x_adv[i] <= 1);
        double least = 1e-3 * t_max(g, PIXELS); /* as test_soft_label's */
        for (int i = 0; i < PIXELS; i++) {
            double want = fmin(fmax((double)in.centre[i] + (g[i] > 0 ? EPS : -EPS), 0), 1);
            if (fabs(g[i]) > least) t_le(fabs((double)x_adv[i] - want), 1e-7, "pixel %d", i); /* roundings of float */
        }
    }
    vt_inner_close(&in);
    vt_model_close(m);
}

/* ---- what the result depends on ---- */

static const vt_recipe_attack hard = {.prm = true, .ard = true, .drop_rate = 0.6};

typedef struct pool {
    const vt_model *m;
    vt_inner in[2];
    float (*x)[PIXELS], (*x_adv)[PIXELS];
} pool;

static vt_status work(void *ctx, int thread, size_t item, vt_err *e) {
    (void)e;
    pool *p = ctx;
    return vt_inner_run(&p->in[thread], p->x_adv[item], p->x[item], mixed, EPS, (int64_t)item, 1, 7, 1, e);
}

/* Not on the object that runs it, what that ran before, nor the thread; but on image, epoch and (maskings) step. */
static void test_independence(void **state) {
    (void)state;
    enum { N = 12 };
    static float x[N][PIXELS], one[N][PIXELS], two[N][PIXELS];
    vt_model *m = toy(VT_POOL_AVG, false, true);
    pool p = {.m = m, .x = x, .x_adv = two};
    for (int i = 0; i < 2; i++) opened(&p.in[i], m, HARD, VT_INNER_LABEL, 0, &hard);
    for (uint64_t i = 0; i < N; i++) {
        image(x[i], m, i, -0.1);
        attack_once(m, HARD, &hard, one[i], x[i], (key){.image = (int64_t)i, .epoch = 1, .step = 7, .share = 1});
        for (int k = 0; k < PIXELS; k++) {
            double d = fabs((double)one[i][k] - (double)x[i][k]);
            assert_true(d <= EPS && one[i][k] >= 0 && one[i][k] <= 1);
        }
    }
    vt_err e = {0};
    assert_int_equal(vt_for_each(N, 2, work, &p, &e), VT_OK);
    assert_memory_equal(one, two, sizeof one);
    static const key others[] = {{.image = 1, .epoch = 1, .step = 7, .share = 1},
                                 {.image = 0, .epoch = 2, .step = 7, .share = 1},
                                 {.image = 0, .epoch = 1, .step = 8, .share = 1},
                                 {.image = 0, .epoch = 1, .step = 7 + (INT64_C(1) << 32), .share = 1}};
    for (size_t k = 0; k < T_COUNT(others); k++) {
        attack(&p.in[0], two[0], x[0], mixed, EPS, others[k]);
        assert_false(same(one[0], two[0]));
    }
    for (int i = 0; i < 2; i++) vt_inner_close(&p.in[i]);
    vt_model_close(m);
}

static void test_no_radius(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    vt_inner in;
    opened(&in, m, HARD, VT_INNER_PREDICTION, 0.1, &hard);
    float x[PIXELS], x_adv[PIXELS];
    image(x, m, 1, -0.1);
    attack(&in, x_adv, x, mixed, 0, first);
    assert_true(same(x_adv, x));
    vt_inner_close(&in);
    vt_model_close(m);

    /* the radius grows in a line between the two shares */
    vt_recipe r = {.attack = {.eps = 0.5, .ramp_begin = 0.25, .ramp_end = 0.75}};
    static const double at[][2] = {{0, 0}, {0.2, 0}, {0.25, 0}, {0.375, 0.125}, {0.5, 0.25}, {0.75, 0.5}, {1, 0.5}};
    for (size_t i = 0; i < T_COUNT(at); i++) assert_true(vt_batch_eps(&r, at[i][0]) == at[i][1]); /* exact in binary */
    r.attack.ramp_begin = r.attack.ramp_end = 0;
    assert_true(vt_batch_eps(&r, 0) == 0.5 && vt_batch_eps(&r, 1) == 0.5);
}

static vt_status lost(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    (void)self, (void)loss, (void)value, (void)dx;
    return vt_fail(e, VT_E_MODEL, "the device is gone");
}

static vt_status no_answer(void *self, const float *x, float *z, bool keep, vt_err *e) {
    (void)self, (void)x, (void)z, (void)keep;
    return vt_fail(e, VT_E_MODEL, "no answer");
}

/* A network that fails: training stops with its sentence and the image, from a gradient or from TRADES' prediction. */
static void test_lost_model(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    float x[PIXELS], got[PIXELS];
    image(x, m, 0, -0.1);
    for (int predicts = 0; predicts < 2; predicts++) {
        vt_inner in;
        vt_err e = {0};
        vt_inner_goal goal = predicts ? VT_INNER_PREDICTION : VT_INNER_LABEL;
        assert_int_equal(vt_inner_open(&in, m, "pgd:steps=2", VT_LINF, goal, 0, NULL, SEED, &e), VT_OK);
        if (predicts)
            in.model.logits = no_answer;
        else
            in.model.backward = lost;
        assert_int_equal(vt_inner_run(&in, got, x, one_hot, EPS, 41, 0, 0, 1, &e), VT_E_MODEL);
        if (predicts)
            assert_string_equal(e.text, "no answer");
        else
            assert_string_equal(e.text, "image 41: the inner attack failed: the device is gone");
        vt_inner_close(&in);
    }
    vt_model_close(m);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_attack),  cmocka_unit_test(test_same_for_every_attack),
        cmocka_unit_test(test_soft_label),   cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_start),        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_independence), cmocka_unit_test(test_no_radius),
        cmocka_unit_test(test_lost_model),
    };
    return cmocka_run_group_tests_name("inner", tests, NULL, NULL);
}
