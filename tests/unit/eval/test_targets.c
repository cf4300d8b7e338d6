/* SPDX-License-Identifier: MIT */
/* Targets of a run: how they are drawn, the least likely class, and what the judge says of a point that shall be of one
 * class, with logits that are told. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "attacks/oracle.h"
#include "eval/targets.h"
#include "eval/verify.h"

enum { K = 4, PIXELS = 3 };

static void test_drawn(void **state) {
    (void)state;
    enum { IMAGES = 40000, LABEL = 2, CLASSES = 5 };
    int count[CLASSES] = {0}, moved = 0;
    for (int i = 0; i < IMAGES; i++) {
        int k = vt_target_drawn(7, i, LABEL, CLASSES);
        assert_in_range(k, 0, CLASSES - 1);
        assert_int_equal(k, vt_target_drawn(7, i, LABEL, CLASSES));
        moved += k != vt_target_drawn(8, i, LABEL, CLASSES);
        count[k]++;
    }
    assert_int_equal(count[LABEL], 0);
    for (int k = 0; k < CLASSES; k++) /* 10,000 each, standard deviation 87 */
        assert_true(k == LABEL || abs(count[k] - IMAGES / 4) < 5 * 87);
    assert_true(abs(moved - IMAGES * 3 / 4) < 5 * 87);
    assert_int_equal(vt_target_drawn(1, 1, 0, 2), 1);
    assert_int_equal(vt_target_drawn(1, 1, 1, 2), 0);
}

static void test_least(void **state) {
    (void)state;
    assert_int_equal(vt_target_least((float[]){3, 1, 2, 4}, 0, K), 1);
    assert_int_equal(vt_target_least((float[]){3, 1, 2, 4}, 1, K), 2); /* the label is not one */
    assert_int_equal(vt_target_least((float[]){0, 0, 0, 0}, 0, K), 1);
    assert_int_equal(vt_target_least((float[]){0, 0, 0, 0}, 3, K), 0);
    assert_int_equal(vt_target_least((float[]){5, 4, 3, 2}, 3, K), 2);
    vt_targets t;
    assert_int_equal(vt_targets_open(&t, "LEAST-likely", NULL), VT_OK);
    assert_int_equal(vt_targets_class(&t, 0, 0, 0, (float[]){3, 1, 2, 4}, K), 1);
    assert_int_equal(vt_targets_open(&t, "Random", NULL), VT_OK);
    assert_int_equal(vt_targets_class(&t, 9, 4, 0, NULL, K), vt_target_drawn(9, 4, 0, K));
}

typedef struct told {
    float z[K];
    double z64[K];
} told;

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    (void)x, (void)keep, (void)e;
    memcpy(z, ((told *)self)->z, sizeof((told *)self)->z);
    return VT_OK;
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    (void)x, (void)e;
    memcpy(z, ((told *)self)->z64, sizeof((told *)self)->z64);
    return VT_OK;
}

/* Label 0, target 2. The oracle and the judge agree where the margin is far above the noise. */
static vt_verdict judge(const told *t, bool *ends) {
    const vt_classifier c = {.classes = K,
                             .pixels = PIXELS,
                             .self = (void *)(uintptr_t)t,
                             .logits = logits,
                             .logits64 = logits64};
    const int32_t goal = 2;
    const vt_terms terms = {.norm = VT_LINF, .eps = 0.1, .target = &goal};
    const vt_rng key = {.seed = 1};
    float x[PIXELS] = {0}, z[K], lo[PIXELS], hi[PIXELS];
    double z64[K];
    vt_verdict v;
    vt_oracle o;
    vt_ball ball;
    assert_int_equal(vt_verify_by(&v, &terms, &c, &key, x, x, vt_shape_rgb(1), 0, z, z64, NULL), VT_OK);
    assert_int_equal(vt_oracle_open(&o, &c, NULL), VT_OK);
    vt_ball_init(&ball, VT_LINF, 0.1, x, PIXELS, lo, hi);
    vt_oracle_reset(&o, &ball, 0, true);
    vt_oracle_aim(&o, goal);
    vt_status s = vt_oracle_logits(&o, x, NULL);
    assert_true(s == VT_OK || s == VT_STOP);
    assert_true(fabs((double)vt_oracle_margin(&o, t->z) - v.margin) < 1e-6);
    assert_true(vt_oracle_reached(&o, t->z) == (v.pred == goal));
    *ends = s == VT_STOP;
    vt_oracle_close(&o);
    return v;
}

static void test_judge(void **state) {
    (void)state;
    bool ends;
    told t = {{1, 0, 3, 2.5f}, {1, 0, 3, 2.5}};
    vt_verdict v = judge(&t, &ends);
    assert_true(v.broken && !v.borderline && ends && v.pred == 2 && v.pred64 == 2);
    assert_true(v.margin == 0.5 && v.margin64 == 0.5);
    t = (told){{1, 0, 3, 3.5f}, {1, 0, 3, 3.5}}; /* misclassified, as another class */
    v = judge(&t, &ends);
    assert_true(!v.broken && !v.borderline && !ends && v.pred == 3 && v.margin == -0.5 && v.margin64 == -0.5);
    assert_int_equal(vt_verdict_status(&v), VT_RECORD_ROBUST);
    t = (told){{1, 0, 3, 2.9f}, {1, 0, 3, 3.1}}; /* in double another class, which is not the label either */
    v = judge(&t, &ends);
    assert_true(v.broken && v.borderline && !ends && v.pred64 == 3 && v.margin64 < 0);
    t = (told){{1, 0, 3, 2.99f}, {1, 0, 3.02, 2.99}}; /* margins 0.01 and 0.03, noise 0.02 */
    v = judge(&t, &ends);
    assert_true(v.broken && v.borderline && !ends);
    t = (told){{4, 0, 3, 2}, {4, 0, 3, 2}};
    v = judge(&t, &ends);
    assert_true(!v.broken && !ends && v.margin == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_judge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
