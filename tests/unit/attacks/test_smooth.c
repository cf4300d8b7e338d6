/* SPDX-License-Identifier: MIT */
/* smooth-pgd and nes: networks whose gradient at a point says nothing of the loss a little further away. Along the one
 * direction that counts the ball reaches from s = -1 to 1, and the margin's trend is 0.6 - s: an image that falls. */
#include "attack_fixture.h"
#include "t.h"

enum { SIDE = 8 };
#define PERIOD 0.02 /* of s; noise of eps in each of 192 pixels moves s by some 0.05 */

/* Rises by 1 on nineteen twentieths of each period and drops by 39 on the rest: every gradient but one in twenty leads
 * away, their mean is the trend's. */
static void saw(double s, double *z, double *slope) {
    double phase = s / PERIOD - floor(s / PERIOD), rise = 0.95;
    double tooth = phase < rise ? phase * PERIOD : rise * PERIOD - 39 * (phase - rise) * PERIOD;
    z[0] = 0.6 - floor(s / PERIOD) * PERIOD + tooth, z[1] = 0;
    slope[0] = phase < rise ? 1 : -39, slope[1] = 0;
}

/* Steps without a slope. */
static void stairs(double s, double *z, double *slope) {
    z[0] = 0.6 - floor(s / PERIOD) * PERIOD, z[1] = 0;
    slope[0] = slope[1] = 0;
}

static bool breaks(void (*profile)(double, double *, double *), vt_norm norm, const char *spec) {
    planted p;
    bench b;
    vt_attack a;
    vt_err e = {0};
    assert_true(planted_init(&p, 2, SIDE, SIDE));
    bench_open(&b, &p, 7, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.02 : norm == VT_L2 ? 0.2 : 1.5);
    free(p.kept);
    assert_true(planted_ridge(&p, 2, SIDE, SIDE, 7, profile, &b.ball));
    b.label = 0, b.o.mode = VT_ORACLE_SEARCH;
    assert_int_equal(vt_attack_parse(&a, spec, norm, &e), VT_OK);
    vt_status s = bench_run(&b, &a.stages[0], true);
    assert_true(s == VT_OK || s == VT_STOP);
    vt_attack_free(&a);
    bench_close(&b);
    planted_free(&p);
    return s == VT_STOP;
}

static void test_averages_see_the_trend(void **state) {
    (void)state;
    for (vt_norm n = VT_LINF; n <= VT_L2; n++) { /* in l1 a step moves two pixels: too little noise in what they do */
        assert_false(breaks(saw, n, "pgd:loss=margin,steps=40"));
        assert_false(breaks(saw, n, "apgd-dlr"));
        assert_true(breaks(saw, n, "smooth-pgd:steps=40,draws=128"));
    }
}

static void test_differences_see_steps(void **state) {
    (void)state;
    for (vt_norm n = VT_LINF; n <= VT_L2; n++) {
        assert_false(breaks(stairs, n, "pgd:loss=margin,steps=40"));
        assert_false(breaks(stairs, n, "smooth-pgd:steps=40,draws=128"));
        assert_true(breaks(stairs, n, "nes:steps=40,draws=100"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_averages_see_the_trend),
        cmocka_unit_test(test_differences_see_steps),
    };
    return cmocka_run_group_tests_name("smooth", tests, NULL, NULL);
}
