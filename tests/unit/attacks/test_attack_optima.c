/* SPDX-License-Identifier: MIT */
/* Gradient attacks where the answer is known: closed-form optima of linear margins, kappa, the number and order of
 * targets, restarts. */
#include "attack_fixture.h"
#include "attacks/target_order.h"

static void test_one_step_is_fgsm(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        planted p;
        assert_true(planted_mlp(&p, 10, 8, 8, i));
        bench b;
        bench_open(&b, &p, i, false);
        bench_ball(&b, i % 2 ? VT_L2 : VT_LINF, i % 2 ? 0.5 : 8.0 / 255);
        float *fgsm = floats(p.n);
        assert_int_equal(run_spec(&b, "fgsm"), VT_OK);
        memcpy(fgsm, b.x_adv, p.n * sizeof(float));
        const char *spec = i % 2 ? "pgd:steps=1,alpha=0.5,random_start=0" : "pgd:steps=1,alpha=8/255,random_start=0";
        assert_int_equal(run_spec(&b, spec), VT_OK);
        assert_memory_equal(fgsm, b.x_adv, p.n * sizeof(float));
        free(fgsm);
        bench_close(&b);
        planted_free(&p);
    }
}

/* z_1 - z_0 = 2 w.x + const, further classes constant and far below, so that CE, margin, DLR and targeted DLR
 * rise together with w.x (Croce and Hein 2020, eq. 6 and 7). Label 0; the margin at x is `margin` (below 0). */
static double plant_two_sided(planted *p, bench *b, int classes, double margin) {
    for (size_t i = 0; i < p->n; i++) {
        p->w[i] = -p->w[p->n + i];
        for (int k = 2; k < classes; k++) p->w[(size_t)k * p->n + i] = 0;
    }
    double wx = 0, sum = 0;
    for (size_t i = 0; i < p->n; i++) {
        double w = p->w[p->n + i];
        wx += w * (double)b->x[i];
        sum += b->ball.norm == VT_LINF ? fabs(w) : w * w;
    }
    p->b[1] = -wx + margin / 2, p->b[0] = -p->b[1];
    for (int k = 2; k < classes; k++) p->b[k] = -1000 - k;
    b->label = 0;
    return 2 * (b->ball.norm == VT_LINF ? sum : sqrt(sum)); /* gain of the margin for each unit of eps */
}

/* Pixels lie in [0.3, 0.7] and eps <= 0.25, so the box never binds. The stored point is within 2^-24 of the
 * real one in each element: `gain` at eps of that size bounds the loss for linf, and by Cauchy sqrt(n) times
 * it for l2. The rest (1e-5 of the gain) is for l2 directions: pgd's off-axis part shrinks by 0.8 a step, and
 * a float direction is off by 1e-7; both enter squared. */
static void test_linear_optimum(void **state) {
    (void)state;
    static const char *const specs[] = {"fgsm",
                                        "pgd:steps=100",
                                        "pgd:steps=100,loss=margin,random_start=0",
                                        "pgd:steps=100,loss=dlr",
                                        "apgd-ce",
                                        "apgd-dlr",
                                        "apgd-t:targets=1", /* without it, x_adv is that of the last target */
                                        "apgd-malt:targets=1",
                                        "mt-pgd:targets=1",
                                        "apgd-ce:eot=2,steps=50",
                                        "apgd-ce:restarts=3,steps=50"};
    for (size_t s = 0; s < COUNT(specs); s++)
        for (int c = 0; c < 12; c++) {
            planted p;
            vt_norm norm = c % 2 ? VT_L2 : VT_LINF;
            int classes = c / 2 % 3 == 0 ? 2 : c / 2 % 3 == 1 ? 5 : 10;
            double eps = norm == VT_LINF ? 0.1 : 0.25, bound = -0.5 + c / 6;
            assert_true(planted_linear(&p, classes, 8, 8, (uint64_t)c));
            bench b;
            bench_open(&b, &p, (uint32_t)c, true);
            bench_ball(&b, norm, eps);
            double gain = plant_two_sided(&p, &b, classes, 0);
            plant_two_sided(&p, &b, classes, bound - eps * gain); /* the best reachable margin is `bound` */
            assert_int_equal(run_spec(&b, specs[s]), VT_OK);
            double tol = gain * (norm == VT_LINF ? 0x1p-24 : 0x1p-24 * sqrt((double)p.n) + 1e-5 * eps);
            double got = margin_at(&p, b.x_adv);
            assert_true(got <= bound + 1e-9 * gain); /* nothing beyond the optimum */
            assert_true(bound - got <= tol);
            assert_int_equal(b.o.has_found, bound > 0);
            bench_close(&b);
            planted_free(&p);
        }
}

/* More targets than wrong classes are cut to those there are; each is attacked once. */
static void test_few_targets(void **state) {
    (void)state;
    planted p;
    assert_true(planted_linear(&p, 4, 6, 6, 5));
    bench b;
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 1e-4);
    assert_int_equal(run_spec(&b, "apgd-t:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 8);
    assert_int_equal(run_spec(&b, "apgd-t:steps=7,targets=2,restarts=5"), VT_OK);
    assert_int_equal(b.o.gradients, 2 * 5 * 8);
    assert_int_equal(run_spec(&b, "fab-t:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 7);
    assert_int_equal(b.o.forwards, 3 * 7 + 1);
    assert_int_equal(run_spec(&b, "fab:steps=7"), VT_OK);
    assert_int_equal(b.o.gradients, 3 * 7); /* K - 1 boundaries a step */
    bench_close(&b);
    planted_free(&p);
}

typedef struct starts {
    int64_t second; /* the call that begins the second run */
    float x[2][108];
} starts;

static void note_starts(void *arg, const float *x, int64_t call, float *z) {
    starts *s = arg;
    (void)z;
    if (call == 0) memcpy(s->x[0], x, sizeof s->x[0]);
    if (call == s->second) memcpy(s->x[1], x, sizeof s->x[1]);
}

static void test_restarts_differ(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int64_t second;
    } rows[] = {{"pgd:steps=5,restarts=2", 6},
                {"apgd-ce:steps=5,restarts=2", 6},
                {"apgd-dlr:steps=5,restarts=2", 6},
                {"apgd-t:steps=5,targets=1,restarts=2", 7 /* and the clean logits at call 0 */},
                {"square:queries=5,restarts=2", 6}};
    for (size_t k = 0; k < COUNT(rows); k++)
        for (vt_norm norm = VT_LINF; norm <= VT_L2; norm++) {
            planted p;
            starts s = {.second = rows[k].second};
            assert_true(planted_linear(&p, 4, 6, 6, 5));
            p.watch = note_starts, p.arg = &s;
            bench b;
            bench_open(&b, &p, 1, true);
            bench_ball(&b, norm, 1e-3);
            assert_int_equal(run_spec(&b, rows[k].spec), VT_OK);
            assert_memory_not_equal(s.x[0], s.x[1], sizeof s.x[0]);
            if (k != 3) assert_memory_not_equal(s.x[0], b.x, sizeof s.x[0]);
            assert_memory_not_equal(s.x[1], b.x, sizeof s.x[0]);
            bench_close(&b);
            planted_free(&p);
        }
}

/* kappa: margins rise by 1/50 a step and stay once they exceed it. */
static void test_kappa(void **state) {
    (void)state;
    planted p;
    bench b;
    assert_true(planted_init(&p, 2, 8, 8));
    bench_open(&b, &p, 1, true);
    bench_ball(&b, VT_LINF, 0.1);
    free(p.kept);
    assert_true(planted_ridge(&p, 2, 8, 8, 1, tilt_profile, &b.ball));
    assert_int_equal(run_spec(&b, "pgd:steps=50,alpha=0.002,random_start=0,loss=margin,kappa=0.21"), VT_OK);
    double got = margin_at(&p, b.x_adv);
    assert_true(got > 0.21 && got <= 0.2201); /* the eleventh step, but for rounding */
    assert_int_equal(b.o.gradients, 50);
    bench_close(&b);
    planted_free(&p);
}

static void test_ranks(void **state) {
    (void)state;
    static const float z[] = {3, 7, 5, 5, 1}; /* descending, the higher of equals first: 1, 3, 2, 0, 4 */
    static const int order[] = {1, 3, 2, 0, 4};
    for (int r = 1; r <= 5; r++) {
        assert_int_equal(vt_target_of_rank(z, 5, -1, r), order[r - 1]);
        /* a label among the targets is replaced by the class at rank 1 */
        assert_int_equal(vt_target_of_rank(z, 5, order[r - 1], r), order[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_targets),      cmocka_unit_test(test_restarts_differ), cmocka_unit_test(test_kappa),
        cmocka_unit_test(test_one_step_is_fgsm), cmocka_unit_test(test_linear_optimum),  cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests_name("attack optima", tests, NULL, NULL);
}
