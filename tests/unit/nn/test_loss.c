/* SPDX-License-Identifier: MIT */
/* src/nn/loss.c in double: values by the definitions, gradients against central differences, shifts, ties. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "nn/loss.h"

typedef struct loss_case {
    vt_loss loss;
    double *z, *dz;
    int classes;
} loss_case;

static double loss_scalar(void *ctx) {
    loss_case *l = ctx;
    return vt_loss_eval_f64(NULL, &l->loss, l->z, l->classes);
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The definitions, from sorted logits. */
static double loss_value(const loss_case *l, int y) {
    double pi[16], sum = 0, value = 0, other = -INFINITY, num;
    for (int k = 0; k < l->classes; k++) {
        pi[k] = l->z[k];
        sum += exp(l->z[k]);
        if (k != y) other = fmax(other, l->z[k]);
    }
    qsort(pi, (size_t)l->classes, sizeof *pi, descending);
    switch (l->loss.kind) {
    case VT_LOSS_CE:
        for (int k = 0; k < l->classes; k++) value += (double)l->loss.target[k] * (log(sum) - l->z[k]);
        return value;
    case VT_LOSS_LINEAR:
        for (int k = 0; k < l->classes; k++) value += (double)l->loss.target[k] * l->z[k];
        return value;
    case VT_LOSS_DLR:
        return (other - l->z[y]) / (l->classes >= 3 ? pi[0] - pi[2] : 1);
    case VT_LOSS_DLR_T:
        num = l->z[l->loss.other] - l->z[y];
        return num / (l->classes >= 4 ? pi[0] - (pi[2] + pi[3]) / 2 : 1);
    case VT_LOSS_PM:
        return (exp(other) - exp(l->z[y])) / sum;
    case VT_LOSS_PO:
        return exp(other) / sum;
    default:
        return other - l->z[y];
    }
}

static void one_loss(loss_case *l, int y, const char *what) {
    size_t n = (size_t)l->classes;
    t_freeze(l->z);
    double value = vt_loss_eval_f64(l->dz, &l->loss, l->z, l->classes);
    t_le(fabs(value - loss_value(l, y)), 1e-13 * (1 + fabs(value)), "%s of %d classes", what, l->classes);
    assert_true(value == loss_scalar(l)); /* dz = NULL changes nothing */
    t_grad(loss_scalar, l, l->z, n, l->dz, what);
    double shifted[16];
    memcpy(shifted, l->z, n * sizeof *shifted);
    for (size_t k = 0; k < n; k++) shifted[k] += 100;
    double moved = vt_loss_eval_f64(NULL, &l->loss, shifted, l->classes); /* 100 eps of rounding in each logit */
    if (l->loss.kind != VT_LOSS_LINEAR)
        t_le(fabs(moved - value), 1e-11 * (1 + fabs(value)), "%s of shifted logits", what);
    t_check(what);
}

/* The same, towards the class: minus all of it. */
static void towards(const loss_case *l) {
    double dz[16], value = vt_loss_eval_f64(NULL, &l->loss, l->z, l->classes);
    vt_loss loss = l->loss;
    loss.towards = true;
    assert_true(vt_loss_eval_f64(dz, &loss, l->z, l->classes) == -value);
    for (int k = 0; k < l->classes; k++) assert_true(dz[k] == -l->dz[k]);
    assert_true(vt_loss_eval_f64(NULL, &loss, l->z, l->classes) == -value);
}

/* Every loss at every label and, for dlr_t, target; each of several draws puts the label at another rank.
 * Draws with two logits closer than 0.01 are skipped: the sorted losses have a kink where logits tie. */
static void losses_of(int classes) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        loss_case l = {.classes = classes,
                       .z = t_doubles((size_t)classes, 100 + seed, 2),
                       .dz = t_doubles((size_t)classes, 0, 0)};
        float *target = t_take((size_t)classes * sizeof *target);
        double gap = INFINITY;
        for (int i = 0; i < classes; i++)
            for (int j = 0; j < i; j++) gap = fmin(gap, fabs(l.z[i] - l.z[j]));
        l.loss.target = target;
        for (int y = 0; y < classes && gap > 0.01; y++) {
            for (int k = 0; k < classes; k++) target[k] = k == y;
            for (int kind = 0; kind < VT_LOSS_COUNT; kind++)
                for (int t = 0; t < (kind == VT_LOSS_DLR_T ? classes : 1); t++) {
                    if (kind == VT_LOSS_DLR_T && t == y) continue;
                    /* y third with dlr: (pi1 - pi3)/(pi1 - pi3) is constant; its gradient is tested by itself
                     */
                    int above = 0;
                    for (int k = 0; k < classes; k++) above += l.z[k] > l.z[y];
                    if (kind == VT_LOSS_DLR && classes >= 3 && above == 2) continue;
                    l.loss.kind = (vt_loss_kind)kind, l.loss.other = t;
                    one_loss(&l, y, vt_loss_names_f64[kind]);
                    towards(&l);
                }
            float soft = 0.3f,
                  rest = 0.7f / (float)(classes - 1); /* label smoothing: the loss is of the whole vector */
            for (int k = 0; k < classes; k++) target[k] = k == y ? soft : rest * (k % 2 ? 1.1f : 0.9f);
            l.loss.kind = VT_LOSS_CE;
            one_loss(&l, y, "ce of a soft target");
        }
        t_release("loss");
    }
}

static void test_losses(void **state) {
    (void)state;
    losses_of(2);
    losses_of(3);
    losses_of(4);
    losses_of(10);
}

static void test_worked_examples(void **state) {
    (void)state;
    static const double z[4] = {1, 2, 4, 3.5};
    static const float y2[4] = {0, 0, 1, 0};
    vt_loss loss = {.kind = VT_LOSS_DLR, .target = y2, .other = 3};
    double dz[4];
    t_le(fabs(vt_loss_eval_f64(dz, &loss, z, 4) + 0.25), 1e-12, "dlr");
    /* N = 0.5, D = 2: -(e2 - e3)/D + N/D^2 (e2 - e1) */
    static const double dlr[4] = {0, -0.125, -0.375, 0.5};
    t_le(t_max_diff(dz, dlr, 4), 1e-12, "gradient of dlr");
    loss.kind = VT_LOSS_DLR_T;
    t_le(fabs(vt_loss_eval_f64(dz, &loss, z, 4) + 0.2), 1e-12, "dlr_t");
    /* D = 4 - (2 + 1)/2 = 2.5: -(e2 - e3)/D + N/D^2 (e2 - e1/2 - e0/2) */
    static const double dlr_t[4] = {-0.04, -0.04, -0.32, 0.4};
    t_le(t_max_diff(dz, dlr_t, 4), 1e-12, "gradient of dlr_t");
    loss.kind = VT_LOSS_MARGIN;
    assert_true(vt_loss_eval_f64(NULL, &loss, z, 4) == -0.5);
    static const float y1[4] = {0, 1, 0, 0};
    loss = (vt_loss){.kind = VT_LOSS_DLR, .target = y1}; /* ranked third: constant 1, gradient zero */
    t_le(fabs(vt_loss_eval_f64(dz, &loss, z, 4) - 1), 1e-12, "dlr of a label ranked third");
    t_le(t_max(dz, 4), 1e-11, "its gradient");
    static const double sure[3] = {800, 0, -800}; /* no overflow, and the exact loss of a wrong class */
    static const float last[3] = {0, 0, 1}, first[3] = {1, 0, 0};
    loss = (vt_loss){.kind = VT_LOSS_CE, .target = last};
    assert_true(vt_loss_eval_f64(dz, &loss, sure, 3) == 1600 && dz[0] == 1 && dz[1] == 0 && dz[2] == -1);
    loss.target = first;
    assert_true(vt_loss_eval_f64(dz, &loss, sure, 3) == 0 && dz[0] == 0);
}

/* Ties go to the lowest index; the margin's rival is never the label. */
static void test_argmax(void **state) {
    (void)state;
    static const double tie[5] = {1, 3, 2, 3, 3}, flat[4] = {0, 0, 0, 0};
    assert_int_equal(vt_argmax_f64(tie, 5), 1);
    assert_int_equal(vt_argmax_f64(flat, 4), 0);
    assert_true(vt_margin_f64(tie, 1, 5) == 0 && vt_margin_f64(tie, 0, 5) == 2 && vt_margin_f64(tie, 2, 5) == 1);
    static const double two[2] = {5, -1};
    assert_true(vt_margin_f64(two, 0, 2) == -6 && vt_margin_f64(two, 1, 2) == 6);
    assert_int_equal(vt_argmax_f64(two, 1), 0);
    for (int k = 0; k < VT_LOSS_COUNT; k++) assert_non_null(vt_loss_names_f64[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_losses, t_drop),
        cmocka_unit_test(test_worked_examples),
        cmocka_unit_test(test_argmax),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
