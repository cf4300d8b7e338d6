/* SPDX-License-Identifier: MIT */
/* Ascents that go in circles: what is left out must change nothing, neither the points, nor the counts, nor the moment
 * at which a draft hands over. The judge is the same attack on a classifier that promises nothing about its bits. */
#include "ask.h"
#include "attack_fixture.h"
#include "attacks/attacker.h"
#include "inference/wrap.h"

enum { SIDE = 2, N = 3 * SIDE * SIDE };

/* Class 0 leads by far wherever the image is. */
static void sure_logits(planted *p, const float *x, double *z) {
    for (int k = 0; k < p->classes; k++) z[k] = k ? -1e-3 * k : 9 + 1e-3 * (double)x[0];
}

/* Pairs of pixels are turned about 0.5: signs of that slope lead around the ball, on circles of any length. */
static void whirl(planted *p, const float *x, const float *dz, float *dx) {
    (void)dz;
    for (size_t i = 0; i < p->n; i += 2) dx[i] = 0.5f - x[i + 1], dx[i + 1] = x[i] - 0.5f;
}

/* Every pixel is drawn to 0.5, and steps over it: circles of two. */
static void bounce(planted *p, const float *x, const float *dz, float *dx) {
    (void)dz;
    for (size_t i = 0; i < p->n; i++) dx[i] = 0.5f - x[i];
}

/* The draft's own whirl runs the other way round. */
static void whirl_back(planted *p, const float *x, const float *dz, float *dx) {
    whirl(p, x, dz, dx);
    for (size_t i = 0; i < p->n; i++) dx[i] = -dx[i];
}

static bool draft_errs; /* it takes every third of the whirl for class 1, which the model denies */

static void draft_logits(planted *p, const float *x, double *z) {
    sure_logits(p, x, z);
    if (draft_errs && x[0] > 0.53f) z[1] = 20;
}

typedef void (*slope_fn)(planted *p, const float *x, const float *dz, float *dx);

typedef struct outcome {
    vt_status status;
    float x_adv[N];
    int64_t forwards, gradients, vanished, asked_again;
    int64_t repeated, computed, drafted; /* differ between the two */
} outcome;

static void plant(planted *p, slope_fn slope, bool exact) {
    assert_true(planted_init(p, 3, SIDE, SIDE));
    p->logits = sure_logits, p->inject = slope, p->c.exact = exact;
}

/* Runs one image in the ball of 0.1 around grey; draft: of this slope, NULL: none. */
static outcome run_one(const char *spec, vt_norm norm, vt_oracle_mode mode, slope_fn slope, slope_fn draft,
                       bool exact) {
    planted p, d;
    vt_attack a;
    vt_err e = {0};
    vt_oracle o;
    vt_attacker k;
    plant(&p, slope, exact), plant(&d, draft, exact);
    d.logits = draft_logits;
    if (vt_attack_parse(&a, spec, norm, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task dims = vt_attacker_dims(p.shape, 3, NULL);
    assert_int_equal(vt_oracle_open(&o, &p.c, &e), VT_OK);
    assert_int_equal(vt_attacker_open(&k, p.shape, vt_attacker_work(&a, &dims), &e), VT_OK);
    if (draft) o.draft.classifier = &d.c;
    float grey[N];
    for (int i = 0; i < N; i++) grey[i] = 0.5f;
    vt_task t = {.clean = grey, .classes = 3, .norm = norm, .eps = 0.1, .mode = mode};
    t.rng = (vt_rng){.seed = 5, .purpose = vt_rng_purpose("pgd"), .image = 3};
    outcome r = {.status = vt_attacker_run(&k, &o, &a.stages[0], &t)};
    memcpy(r.x_adv, k.at, sizeof r.x_adv);
    r.forwards = o.forwards, r.gradients = o.gradients, r.vanished = o.vanished;
    r.asked_again = o.draft.asked_again, r.repeated = o.repeated;
    r.computed = p.backwards + d.backwards, r.drafted = d.backwards;
    vt_attacker_close(&k), vt_oracle_close(&o), vt_attack_free(&a);
    planted_free(&p), planted_free(&d);
    return r;
}

/* Runs it on the classifier that promises and on the other. Returns the first outcome, which must be the second's. */
static outcome compare(const char *spec, vt_norm norm, vt_oracle_mode mode, slope_fn slope, slope_fn draft) {
    outcome a = run_one(spec, norm, mode, slope, draft, true), b = run_one(spec, norm, mode, slope, draft, false);
    if (a.status != b.status || memcmp(a.x_adv, b.x_adv, sizeof a.x_adv) || a.forwards != b.forwards ||
        a.gradients != b.gradients || a.vanished != b.vanished || a.asked_again != b.asked_again)
        fail_msg("%s ends otherwise if its circles are left out", spec);
    assert_int_equal(a.status, VT_OK);
    assert_int_equal(b.repeated, 0);
    assert_int_equal(b.computed, b.gradients);
    assert_int_equal(a.computed + a.repeated, a.gradients);
    return a;
}

/* Attacks, steps and lengths of steps; circles of 2 and of many. */
static void test_same_result(void **state) {
    (void)state;
    static const char *const attacks[] = {"pgd",
                                          "pgd:restarts=2,loss=margin",
                                          "pgd:random_start=0", /* bounce: stands still */
                                          "mt-pgd:restarts=2",
                                          "pgd-trades:eps=0.1",
                                          "pgd-specformer:restarts=2",
                                          "pgd-specformer:loss=cw"};
    static const char *const alphas[] = {"0.07", "0.03", "0.012"};
    static const vt_oracle_mode modes[] = {VT_ORACLE_SEARCH, VT_ORACLE_EXHAUSTIVE, VT_ORACLE_MIN_DISTANCE,
                                           VT_ORACLE_NO_VERDICT};
    for (size_t i = 0; i < COUNT(attacks); i++)
        for (size_t k = 0; k < COUNT(alphas); k++) {
            int64_t spared = 0;
            for (int steps = 1; steps < 140; steps += 1 + steps / 3) {
                char spec[100];
                snprintf(spec, sizeof spec, "%s%csteps=%d,alpha=%s", attacks[i], strchr(attacks[i], ':') ? ',' : ':',
                         steps, alphas[k]);
                for (size_t m = 0; m < COUNT(modes); m++) {
                    spared += compare(spec, VT_LINF, modes[m], whirl, NULL).repeated;
                    spared += compare(spec, VT_LINF, modes[m], bounce, NULL).repeated;
                }
            }
            if (!spared) fail_msg("%s never went in circles", attacks[i]);
        }
}

/* A circle of two is left out two or three steps after it began, long ones not much later. */
static void test_soon(void **state) {
    (void)state;
    outcome r = compare("pgd:steps=1000,alpha=0.03", VT_LINF, VT_ORACLE_SEARCH, bounce, NULL);
    assert_in_range(r.computed, 3, 9); /* at most 4 steps to grey, then the circle */
    r = compare("pgd:steps=1000,alpha=0.012", VT_LINF, VT_ORACLE_SEARCH, whirl, NULL);
    assert_in_range(r.computed, 30, 300);
    r = compare("mt-pgd:steps=1000,alpha=0.03,targets=1,restarts=2", VT_LINF, VT_ORACLE_SEARCH, bounce, NULL);
    assert_in_range(r.computed, 12, 60); /* two runs of three lengths of steps, each with a circle of its own */
}

/* A draft's circles are its own, end where the model takes over, and count what was asked again. */
static void test_draft(void **state) {
    (void)state;
    for (int errs = 0; errs < 2; errs++)
        for (int steps = 20; steps < 400; steps += 37) {
            char spec[60];
            draft_errs = errs;
            snprintf(spec, sizeof spec, "pgd:steps=%d,alpha=0.03,restarts=2", steps);
            outcome r = compare(spec, VT_LINF, VT_ORACLE_SEARCH, whirl, whirl_back);
            if (steps > 200) assert_true(r.repeated > steps);
            if (steps > 200) assert_true(r.drafted > 0 && r.computed > r.drafted);
            assert_true(errs ? r.asked_again > 0 : r.asked_again == 0);
        }
}

/* A known cheat around a classifier may answer otherwise next time. */
static void test_wrap(void **state) {
    (void)state;
    planted p;
    vt_wrap w;
    plant(&p, bounce, true);
    vt_classifier c = p.c;
    assert_int_equal(vt_wrap_parse(&w, "noise", NULL), VT_OK);
    assert_int_equal(vt_wrap_classifier(&w, &c, (vt_shape){1, 1, (int)c.pixels}, false, NULL), VT_OK);
    assert_true(p.c.exact && !c.exact);
    vt_classifier_close(&c), vt_wrap_free(&w), planted_free(&p);
}

/* Sparse steps depend on more than the point. */
static void test_l1(void **state) {
    (void)state;
    outcome r = run_one("pgd:steps=300,alpha=0.03", VT_L1, VT_ORACLE_SEARCH, bounce, NULL, true);
    assert_int_equal(r.repeated, 0);
}

static void leave_alone(void *ctx, int k, float *x_adv) { (void)ctx, (void)k, (void)x_adv; }

/* Under a hook nothing is left out: it may change what the next step sees. */
static void test_hook(void **state) {
    (void)state;
    planted p;
    bench b;
    plant(&p, bounce, true);
    bench_open(&b, &p, 3, true);
    bench_ball(&b, VT_LINF, 0.1);
    assert_int_equal(run_spec(&b, "pgd:steps=50"), VT_OK);
    assert_true(b.o.repeated > 20);
    vt_attack a;
    assert_int_equal(vt_attack_parse(&a, "pgd:steps=50", VT_LINF, NULL), VT_OK);
    float *work = floats(vt_attack_work_len(&a.stages[0], &(vt_task){.n = N, .shape = p.shape, .classes = 3}));
    vt_task t = {.x = b.x, .n = N, .shape = p.shape, .classes = 3, .ball = &b.ball, .x_adv = b.x_adv, .work = work};
    t.before_step = leave_alone;
    vt_oracle_reset(&b.o, &b.ball, b.label, true);
    assert_int_equal(vt_attack_stage_run(&b.o, &a.stages[0], &t), VT_OK);
    assert_int_equal(b.o.repeated, 0);
    free(work);
    vt_attack_free(&a);
    bench_close(&b);
    planted_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_result), cmocka_unit_test(test_soon), cmocka_unit_test(test_draft),
        cmocka_unit_test(test_wrap),        cmocka_unit_test(test_l1),   cmocka_unit_test(test_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
