/* SPDX-License-Identifier: MIT */
/* AutoAttack: for each stage a classifier that this stage alone breaks. */
#include "attack_fixture.h"

enum { STAGE_CLASSES = 12, REACH_PERCENT = 60 };

static void constants(double *z, double *slope) { /* label 0 */
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = k ? 0.5 - 0.001 * k : 1, slope[k] = 0;
}

/* A class so low that neither a probability nor a rank shows it, whose claimed slope puts its boundary at s = -reach:
 * FAB's nearest, and never there. */
static void decoy(double *z, double *slope, int k, double reach) {
    z[k] = -300, slope[k] = slope[0] - (z[0] - z[k]) / reach;
}

/* The class that can win is the last but one of twelve by the clean logits, out of reach of nine targets, and hidden
 * behind constant ones: only cross-entropy feels it, as a class among all; a score attack sees no change of
 * the margin, and untargeted FAB goes to the decoy. */
static void ce_profile(double s, double *z, double *slope) {
    constants(z, slope);
    z[11] = -1 + 2.5 * s, slope[11] = 2.5;
    decoy(z, slope, 10, 0.1);
}

/* Logits too far below the label's for cross-entropy in float. Class 1 wins between 0.6 and 1. DLR follows the third
 * logit down, towards s > 0. Targeted DLR divides by the fourth too, which rises faster, and so goes the other way;
 * the fourth is class 11, but at the clean point alone it ranks last, beyond nine targets. */
static void dlr_profile(double s, double *z, double *slope) {
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = -113 - k, slope[k] = 0;
    z[0] = 0, z[1] = s > 0.6 && s < 1.001 ? 3 : -110;
    z[2] = -111, slope[2] = -1;
    z[11] = fabs(s) < 1e-6 ? -200 : -112, slope[11] = 3;
    decoy(z, slope, 10, 0.1);
}

/* Only a step to the boundary of the class beyond nine targets leads anywhere; its logit is too low for the losses. */
static void far_class_profile(double s, double *z, double *slope) {
    constants(z, slope);
    z[11] = -300, slope[11] = 301 / 0.75;
    z[0] = s < 0.6 ? 1 : -10;
}

/* Class 1 leads cross-entropy and the margin away from s > 0, where it can never win. Class 4 wins beyond s =
 * 0.6, but shows this by sawteeth: its slope points there and is so steep that FAB's linear steps stay tiny.
 * A target of its own follows the slope's sign over the whole ball in one step. */
static void t_profile(double s, double *z, double *slope) {
    const double tooth = 2.5e-5, steep = 20000;
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = -30 - k, slope[k] = 0;
    z[0] = 0, z[2] = -10, z[3] = -11;
    z[1] = -5 - 3 * s, slope[1] = -3;
    z[4] = s < 0.6 ? -20 + steep * (s - tooth * floor(s / tooth)) : 3, slope[4] = steep;
}

/* A saturated staircase with a straight-through slope: cross-entropy is nothing in float, all wrong logits are tied, so
 * DLR is exactly -1 and the two terms of its gradient by the label's logit cancel. The best wrong class claims the
 * label's slope: the margin, which stands in for cross-entropy, has no gradient, and ratios towards that class go the
 * wrong way. Any other difference of logits has one, and its plane lies at s = 0.75. */
static void fab_profile(double s, double *z, double *slope) {
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = 0, slope[k] = 0;
    z[0] = s < 0.6 ? 160 : -10, slope[0] = slope[1] = -160 / 0.75;
    decoy(z, slope, 11, 0.1); /* for untargeted FAB */
}

/* Fine stairs with their true slope, zero: gradients are masked, scores are not. */
static void square_profile(double s, double *z, double *slope) {
    for (int k = 0; k < STAGE_CLASSES; k++) z[k] = -5 - k, slope[k] = 0;
    z[0] = 0, z[1] = floor(1000 * (s - 0.6)) / 1000;
}

typedef void profile(double s, double *z, double *slope);
static const struct version {
    const char *name;
    int stages, square;
    profile *alone[6]; /* broken by stage k alone */
} versions[] = {
    {"autoattack", 4, 3, {ce_profile, t_profile, fab_profile, square_profile}},
    {"autoattack-plus", 6, 3, {ce_profile, dlr_profile, far_class_profile, square_profile, t_profile, fab_profile}},
};

static void break_by_stage(const struct version *v, int expect, vt_norm norm, uint32_t image) {
    planted p;
    bench b;
    assert_true(planted_init(&p, STAGE_CLASSES, 8, 8));
    bench_open(&b, &p, image, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.1 : 0.25);
    free(p.kept);
    assert_true(planted_ridge(&p, STAGE_CLASSES, 8, 8, image, v->alone[expect], &b.ball));
    assert_int_equal(predicted(&p, b.x), 0);
    vt_attack a;
    assert_int_equal(vt_attack_parse(&a, v->name, norm, NULL), VT_OK);
    assert_int_equal(a.n_stages, v->stages);
    int broken_at = -1;
    for (int k = 0; k < a.n_stages; k++) {
        b.o.mode = VT_ORACLE_SEARCH;
        vt_status st = bench_run(&b, &a.stages[k], true);
        if ((st == VT_STOP) != (k == expect))
            fail_msg("%s on the model for stage %d of %s: %s", a.stages[k].id, expect, v->name, vt_status_name(st));
        assert_int_equal(b.o.has_found, k == expect);
        assert_found(&b, st);
        if (st == VT_OK) assert_int_equal(predicted(&p, b.x_adv), 0);
        if (st == VT_STOP && broken_at < 0) broken_at = k; /* the ensemble ends the image here */
    }
    assert_int_equal(broken_at, expect);
    vt_attack_free(&a);
    bench_close(&b);
    planted_free(&p);
}

static void test_stages(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(versions); i++)
        for (uint32_t image = 0; image < 3; image++)
            for (int k = 0; k < versions[i].stages; k++) {
                break_by_stage(&versions[i], k, VT_LINF, image);
                /* Square's l2 shapes do not fit a random pattern of weights */
                if (k != versions[i].square) break_by_stage(&versions[i], k, VT_L2, image);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests_name("autoattack", tests, NULL, NULL);
}
