/* SPDX-License-Identifier: MIT */
/* Verdicts on a model without a double copy, which is asked again, and on one that draws, whose askings vote: by hand.
 * And the oracle, which ends an image by the same askings. */
#include "t.h"

#include <math.h>
#include <string.h>
#include "attacks/oracle.h"
#include "eval/verify.h"

enum { CLASSES = 3, PIXELS = 12, MOST = 20 };

/* Answers as told: the first alone, then those of logits64. */
typedef struct told {
    float first[CLASSES];
    double again[MOST][CLASSES];
    int votes;
} told;

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    (void)x, (void)keep, (void)e;
    memcpy(z, ((told *)self)->first, sizeof((told *)self)->first);
    return VT_OK;
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    const told *t = self;
    (void)x, (void)e;
    memcpy(z, t->again, (size_t)t->votes * sizeof t->again[0]);
    return VT_OK;
}

static vt_classifier of(told *t, bool random) {
    return (vt_classifier){.classes = CLASSES,
                           .pixels = PIXELS,
                           .self = t,
                           .votes = t->votes,
                           .random = random,
                           .logits = logits,
                           .alone = NULL,
                           .logits64 = logits64};
}

/* The verdict on a point of the ball whose label is 0; and whether the oracle would end there. */
static vt_verdict judge(told *t, bool random, bool *ends) {
    vt_classifier c = of(t, random);
    vt_verdict v;
    float x[PIXELS] = {0}, z[CLASSES], lo[PIXELS], hi[PIXELS];
    double z64[MOST * CLASSES];
    assert_int_equal(vt_verify(&v, &c, x, x, 0, VT_LINF, 0.1, z, z64, NULL), VT_OK);
    vt_oracle o;
    vt_ball ball;
    assert_int_equal(vt_oracle_open(&o, &c, NULL), VT_OK);
    vt_ball_init(&ball, VT_LINF, 0.1, x, PIXELS, lo, hi);
    vt_oracle_reset(&o, &ball, 0, true);
    vt_status s = vt_oracle_logits(&o, x, NULL);
    assert_true(s == VT_OK || s == VT_STOP);
    *ends = s == VT_STOP;
    vt_oracle_close(&o);
    return v;
}

static void asked_again(void **state) {
    (void)state;
    bool ends;
    /* margins 0.50, 0.48, 0.51; no two answers differ by more than 0.02 in a logit */
    told t = {{0, 0.5f, -1}, {{0.01, 0.49, -1}, {0, 0.51, -1}}, 2};
    vt_verdict v = judge(&t, false, &ends);
    assert_true(v.broken && !v.borderline && v.again && !v.votes && ends);
    assert_int_equal(v.pred, 1);
    assert_true(fabs(v.margin - 0.5) < 1e-6 && fabs(v.margin64 - 0.48) < 1e-12 && fabs(v.noise - 0.02) < 1e-12);
    t.again[1][1] = 0.36; /* margin 0.36, noise 0.15: sure enough for a verdict, not for the end of a search (4 x) */
    v = judge(&t, false, &ends);
    assert_true(v.broken && !v.borderline && !ends && fabs(v.noise - 0.14) < 1e-6);
    t.again[1][1] = 0.2; /* margin 0.2 below noise 0.3 */
    v = judge(&t, false, &ends);
    assert_true(v.broken && v.borderline && !ends);
    t.again[1][1] = -0.1; /* in the other batch it is right */
    v = judge(&t, false, &ends);
    assert_true(v.broken && v.borderline && v.pred64 == 0 && !ends);
    told right = {{1, 0, 0}, {{-1, 0, -2}, {-1, 0, -2}}, 2}; /* alone it is right: that counts */
    v = judge(&right, false, &ends);
    assert_true(!v.broken && !v.borderline && !ends);
    t.again[1][2] = NAN;
    v = judge(&t, false, &ends);
    assert_true(!v.finite && !v.broken);
}

static told votes(int wrong) {
    told t = {{0, 1, 0}, {{0}}, MOST};
    for (int r = 0; r < MOST; r++) t.again[r][r < wrong ? 1 + r % 2 : 0] = 1;
    return t;
}

static void voted(void **state) {
    (void)state;
    bool ends;
    for (int wrong = 0; wrong <= MOST; wrong++) {
        told t = votes(wrong);
        vt_verdict v = judge(&t, true, &ends);
        /* of 20, 15 or more are over the exact 95 % interval of a half (0.5090 to 0.9134 at 15, 0.4572 at 14) */
        assert_int_equal(v.votes, MOST);
        assert_int_equal(v.wrong, wrong);
        assert_int_equal(v.broken, wrong > 10);
        assert_int_equal(v.borderline, wrong > 10 && wrong < 15);
        assert_int_equal(ends, wrong >= 15);
        assert_int_equal(v.pred, wrong > 10 ? 1 : 0);
        assert_true(fabs(v.margin - (wrong - (MOST - wrong)) / 20.0) < 1e-12);
    }
}

static void clean(void **state) {
    (void)state;
    float x[PIXELS] = {0}, z[CLASSES];
    double z64[MOST * CLASSES];
    bool unsure;
    vt_verdict v;
    told t = {{1, 0, 0}, {{1, 0, 0}, {0.9, 0, 0}}, 2};
    vt_classifier c = of(&t, false);
    assert_int_equal(vt_predict(&v, &unsure, &c, x, 0, z, z64, NULL), VT_OK);
    assert_true(v.pred == 0 && !unsure && v.margin == -1 && v.pred64 == -1 && isnan(v.margin64));
    t.again[1][2] = 2; /* beside others it is taken for class 2 */
    assert_int_equal(vt_predict(&v, &unsure, &c, x, 0, z, z64, NULL), VT_OK);
    assert_true(v.pred == 0 && unsure);
    for (int wrong = 0; wrong <= MOST; wrong++) {
        told d = votes(wrong);
        c = of(&d, true);
        assert_int_equal(vt_predict(&v, &unsure, &c, x, 0, z, z64, NULL), VT_OK);
        assert_int_equal(v.pred == 0, wrong <= 10);
        assert_int_equal(unsure, wrong > 5 && wrong < 15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(asked_again), cmocka_unit_test(voted), cmocka_unit_test(clean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
