/* SPDX-License-Identifier: MIT */
/* The oracle's 8-bit threat and the repair, on planted classifiers: linear ones, whose best 8-bit point is known, so
 * that it is known whether there is an adversarial one; and what is counted, kept and repeated. */
#include "attack_fixture.h"

#include "eval/verify.h"

enum { SIDE = 8, N = 3 * SIDE * SIDE };

/* A linear model of two classes, label 0: margin = w.x + b, moved by the bias. */
typedef struct linear {
    planted p;
    bench b;
    vt_grid8 l;
    vt_task t;
    double w[N];
} linear;

/* Pixels between the levels 50 and 205, so that balls do not meet the box, or any bytes. */
static void linear_open(linear *s, uint64_t k, bool inner) {
    memset(s, 0, sizeof *s);
    assert_true(planted_linear(&s->p, 2, SIDE, SIDE, k));
    bench_open(&s->b, &s->p, (uint32_t)k, false);
    for (size_t i = 0; i < N; i++) {
        uint32_t level =
            vt_rng_bits(&(vt_rng){.seed = k, .purpose = 0x8B18}, i) % (inner ? 156 : 256) + (inner ? 50 : 0);
        s->b.x[i] = s->b.x_copy[i] = (float)level / 255;
        s->w[i] = s->p.w[N + i] - s->p.w[i];
    }
    s->b.label = 0, s->b.o.mode = VT_ORACLE_SEARCH;
    assert_int_equal(vt_grid8_open(&s->l, N, NULL), VT_OK);
    s->b.o.eight_bit = &s->l;
    s->t = (vt_task){.x = s->b.x, .n = N, .shape = {3, SIDE, SIDE}, .classes = 2, .ball = &s->b.ball};
    s->t.x_adv = s->b.x_adv, s->t.rng = (vt_rng){.seed = 5, .image = (uint32_t)k};
}

static void linear_close(linear *s) {
    vt_grid8_close(&s->l);
    bench_close(&s->b);
    planted_free(&s->p);
}

static double margin(linear *s, const float *x) { return margin_at(&s->p, x); }

/* The bias that makes the margin at x be m. */
static void set_margin(linear *s, const float *x, double m) { s->p.b[0] += margin(s, x) - m; }

/* The corner of the 8-bit linf ball that raises the margin most: the best point there is. */
static void corner(const linear *s, int levels, float *out) {
    for (size_t i = 0; i < N; i++) {
        int k = (int)lrintf(255 * s->b.x[i]), to = s->w[i] > 0 ? k + levels : k - levels;
        out[i] = (float)(to < 0 ? 0 : to > 255 ? 255 : to) / 255;
    }
}

static void start(linear *s, vt_norm norm, double eps) {
    bench_ball(&s->b, norm, eps);
    vt_oracle_reset(&s->b.o, &s->b.ball, 0, true);
    s->p.forwards = s->p.keeps = s->p.groups = s->p.backwards = s->p.forwards64 = 0;
    memcpy(s->b.x_adv, s->b.x, N * sizeof(float));
}

static vt_status run(linear *s, const char *spec) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, s->b.ball.norm, &e) != VT_OK) fail_msg("%s", e.text);
    s->t.work = floats(vt_attack_work_len(&a.stages[0], &s->t));
    s->b.o.gradients_allowed = a.stages[0].def->white_box;
    vt_status st = vt_attack_stage_run(&s->b.o, &a.stages[0], &s->t);
    free(s->t.work);
    vt_attack_free(&a);
    return st;
}

/* What is kept or returned is a point of the 8-bit threat, by the judge. */
static void assert_eight_bit(const linear *s, const float *x) {
    vt_verdict v = {.inside = true};
    vt_verify_eight_bit(&v, s->b.x, x, N, s->b.ball.norm, s->b.ball.eps);
    assert_true(v.inside);
}

/* ---- linf: broken exactly when the corner is ---- */

static void test_linf_optimum(void **state) {
    (void)state;
    static const char *const specs[] = {"fgsm", "pgd:steps=5", "apgd-ce:steps=10", "deepfool", "fmn:steps=10"};
    static linear s;
    float best[N];
    int broken = 0, robust = 0, float_only = 0;
    for (uint64_t k = 0; k < 200; k++) {
        int levels = 1 + (int)(k % 4) * (int)(k % 3);
        double share = 0.1 * (double)(k % 7); /* of a level more, which is of use to floats alone */
        linear_open(&s, k, k % 2);
        start(&s, VT_LINF, (levels + share) / 255);
        corner(&s, levels, best);
        double gain = margin(&s, best) - margin(&s, s.b.x);
        /* a float point of the ball exceeds the corner by about share / levels of the gain */
        set_margin(&s, best, k % 3 ? 0.01 * gain : -0.01 * gain);
        vt_status st = run(&s, specs[k % COUNT(specs)]);
        bool met = s.l.has_best; /* the attack did find a float point */
        if (k % 3 && met) {
            assert_int_equal(st, VT_STOP);
            assert_true(margin(&s, s.b.o.found) > 0);
            assert_eight_bit(&s, s.b.o.found);
            broken++;
        }
        if (k % 3 == 0) {
            assert_int_equal(st, VT_OK);
            assert_false(s.b.o.has_found);
            assert_eight_bit(&s, s.b.x_adv);
            robust++, float_only += met;
        }
        linear_close(&s);
    }
    assert_true(broken > 100 && robust > 60 && float_only > 30);
}

/* ---- rounding destroys the float point, and the repair finds another one ---- */

/* A float point that is barely misclassified: less than half a level from the image everywhere, and wrong in sign at
 * every other entry, so that its nearest rounding is the image itself and its rounding away from it goes astray; one
 * that is drawn is right in half of the cases, in large balls. */
static void barely(const linear *s, float *out) {
    for (size_t i = 0; i < N; i++) {
        double d = (s->w[i] > 0 ? 0.45 : -0.45) * (i % 2 ? 1 : -0.2);
        out[i] = (float)((double)s->b.x[i] + d / 255);
    }
}

/* Returns whether gradients were needed. */
static bool check_repair(vt_norm norm, double eps, uint64_t k, bool black_box) {
    static linear s;
    float v[N], z[2];
    linear_open(&s, k, true);
    start(&s, norm, eps);
    assert_int_equal(vt_grid8_aim(&s.l, &s.b.ball), VT_OK);
    barely(&s, v);
    set_margin(&s, v, 1e-4);
    assert_true(vt_ball_contains(&s.b.ball, v));
    assert_int_equal(vt_oracle_logits(&s.b.o, v, z), VT_OK); /* misclassified, but not in 8 bits */
    assert_true(z[1] > z[0] && s.l.has_best && !s.b.o.has_found);
    assert_int_equal(s.b.o.forwards, 2);
    assert_true(s.l.point_margin < 0);
    s.b.o.gradients_allowed = !black_box;
    vt_status st = vt_search_rounding(&s.b.o, &s.t.rng, s.t.x_adv);
    if (!black_box) {
        assert_int_equal(st, VT_STOP);
        assert_true(margin(&s, s.b.o.found) > 0);
        assert_eight_bit(&s, s.b.o.found);
        assert_true(s.b.o.gradients <= VT_ROUNDING_GRADIENTS);
    } else {
        assert_true(st == VT_OK || st == VT_STOP);
        assert_int_equal(s.b.o.gradients, 0);
        assert_int_equal(s.b.o.forwards, st == VT_STOP ? s.p.forwards : 2 + vt_rounding_forwards(N, false));
    }
    assert_false(s.l.searching);
    bool climbed = s.b.o.gradients > 0;
    linear_close(&s);
    return climbed;
}

static void test_repair(void **state) {
    (void)state;
    int climbs = 0;
    for (uint64_t k = 0; k < 40; k++) {
        climbs += check_repair(VT_LINF, 1.0 / 255, k, false);
        climbs += check_repair(VT_LINF, 0.3, k, false);
        climbs += check_repair(VT_L2, 4.8 / 255, k, false);  /* the float point is 4.5 levels away */
        climbs += check_repair(VT_L1, 55.0 / 255, k, false); /* 51.8 levels */
        check_repair(VT_LINF, 1.0 / 255, k, true);
    }
    assert_in_range(climbs, 30, 160);
}

/* The best grid point of a ball of one level (linf: of every entry, else of one), and a float point that is better.
 */
static void one_level(const linear *s, vt_norm norm, float *best, float *more) {
    size_t top = 0;
    double length = 0;
    for (size_t i = 0; i < N; i++) {
        if (fabs(s->w[i]) > fabs(s->w[top])) top = i;
        length += s->w[i] * s->w[i];
    }
    memcpy(best, s->b.x, N * sizeof *best);
    memcpy(more, s->b.x, N * sizeof *more);
    for (size_t i = 0; i < N; i++) {
        double sign = s->w[i] > 0 ? 1 : -1, all = norm == VT_LINF, here = norm == VT_LINF || i == top;
        best[i] = (float)(lrintf(255 * s->b.x[i]) + (here ? sign : 0)) / 255;
        double d = all || norm == VT_L1 ? 1.4 * here * sign : 1.3 * s->w[i] / sqrt(length);
        more[i] = (float)((double)s->b.x[i] + d / 255);
    }
}

/* Floats break the image; 8 bits do exactly when their best point does. */
static void test_one_level(void **state) {
    (void)state;
    static const double eps[VT_NORM_COUNT] = {1.9 / 255, 1.35 / 255, 1.9 / 255};
    static linear s;
    for (uint64_t k = 0; k < 60; k++) {
        vt_norm norm = (vt_norm)(k % VT_L0);
        bool exists = k / 3 % 2;
        float best[N], more[N], z[2];
        linear_open(&s, k, true);
        start(&s, norm, eps[norm]);
        assert_int_equal(vt_grid8_aim(&s.l, &s.b.ball), VT_OK);
        one_level(&s, norm, best, more);
        set_margin(&s, best, exists ? 1e-4 : -1e-4);
        assert_true(vt_ball_contains(&s.b.ball, more) && margin(&s, more) > 1e-3);
        vt_status st = vt_oracle_logits(&s.b.o, more, z);
        if (st == VT_OK) st = vt_search_rounding(&s.b.o, &s.t.rng, s.t.x_adv);
        assert_int_equal(st, exists ? VT_STOP : VT_OK);
        assert_int_equal(s.b.o.has_found, exists);
        if (exists) assert_memory_equal(s.b.o.found, best, sizeof best);
        if (!exists) assert_memory_equal(s.b.x_adv, best, sizeof best); /* the worst point met */
        if (!exists) assert_int_equal(s.b.o.gradients, VT_ROUNDING_GRADIENTS);
        assert_true(s.b.o.forwards <= 2 + vt_rounding_forwards(N, true));
        linear_close(&s);
    }
}

/* ---- counts, and the oracle's promises ---- */

/* A rounding in between costs the kept forward: the gradient is still the query's, attention too. */
static void test_counts(void **state) {
    (void)state;
    static linear s;
    float v[N], z[2], dx[N], value, mean[4];
    linear_open(&s, 1, true);
    start(&s, VT_LINF, 1.0 / 255);
    assert_int_equal(vt_grid8_aim(&s.l, &s.b.ball), VT_OK);
    barely(&s, v);
    set_margin(&s, v, 1e-4);
    vt_loss loss = vt_oracle_loss(&s.b.o, VT_LOSS_MARGIN);
    assert_int_equal(vt_oracle_gradient(&s.b.o, v, &loss, z, &value, dx), VT_OK);
    assert_true(z[1] > z[0] && value == z[1] - z[0]); /* of v, not of its rounding */
    assert_true(s.p.forwards == 2 && s.b.o.forwards == 1 && s.b.o.gradients == 1 && !s.b.o.own.has_x);
    for (size_t i = 0; i < N; i++) assert_true(fabs((double)dx[i] - s.w[i]) <= 1e-6); /* float32 of a weight below 8 */
    assert_int_equal(vt_oracle_gradient(&s.b.o, v, &loss, z, &value, dx), VT_OK);
    assert_true(s.p.forwards == 3 && s.b.o.forwards == 1 && s.b.o.gradients == 2); /* no better: not rounded again */
    v[0] += s.w[0] > 0 ? 1e-4f : -1e-4f;
    assert_int_equal(vt_oracle_attention(&s.b.o, v, 0, mean), VT_OK);
    assert_true(s.p.forwards == 6 && s.b.o.forwards == 4); /* v, its rounding, and v again to look at */
    assert_true(s.b.o.own.has_x && !memcmp(s.b.o.own.x, v, sizeof v));
    assert_int_equal(s.p.forwards64, 0);
    linear_close(&s);
}

/* Whole runs: the counters are the classifier's own, up to gradients that share a forward. */
static void test_totals(void **state) {
    (void)state;
    static const char *const specs[] = {"pgd:steps=4", "apgd-ce:steps=6", "ddn:steps=8", "square:queries=60",
                                        "fab:steps=5"};
    static linear s;
    for (uint64_t k = 0; k < 40; k++) {
        linear_open(&s, k, false);
        start(&s, VT_L2, 0.05 + 0.01 * (double)k);
        set_margin(&s, s.b.x, -0.05 * (double)(k + 1));
        vt_status st = run(&s, specs[k % COUNT(specs)]);
        assert_int_equal(s.b.o.gradients, s.p.backwards);
        assert_in_range(s.p.forwards, s.b.o.forwards, s.b.o.forwards + s.b.o.gradients);
        assert_eight_bit(&s, st == VT_STOP ? s.b.o.found : s.b.x_adv);
        linear_close(&s);
    }
}

/* Right in double, wrong in float32 by 0.5: kept as borderline, but nothing ends. */
static void unsure(void *arg, const float *x, int64_t call, float *z) {
    (void)arg, (void)x, (void)call;
    z[1] += 0.5f;
}

static void test_unconfirmed(void **state) {
    (void)state;
    static linear s;
    linear_open(&s, 3, true);
    start(&s, VT_LINF, 1.0 / 255);
    double gain = 0;
    for (size_t i = 0; i < N; i++) gain += fabs(s.w[i]) / 255;
    set_margin(&s, s.b.x, -gain - 0.1);
    s.p.watch = unsure;
    assert_int_equal(run(&s, "pgd:steps=3"), VT_OK);
    assert_true(s.b.o.has_found && s.p.forwards64 > 0);
    assert_eight_bit(&s, s.b.o.found);
    s.p.watch = NULL;
    assert_true(margin(&s, s.b.o.found) < 0);
    linear_close(&s);
}

/* Exhaustive: the attack goes on as it always did, and its last point is rounded. */
static void test_exhaustive(void **state) {
    (void)state;
    static linear s;
    float plain[N];
    for (uint64_t k = 0; k < 10; k++) {
        linear_open(&s, k, false);
        s.b.o.mode = VT_ORACLE_EXHAUSTIVE, s.b.o.eight_bit = NULL;
        start(&s, VT_LINF, 2.5 / 255);
        set_margin(&s, s.b.x, -0.1);
        assert_int_equal(run(&s, "pgd:steps=4"), VT_OK);
        int64_t forwards = s.b.o.forwards, gradients = s.b.o.gradients;
        memcpy(plain, s.b.x_adv, sizeof plain);
        s.b.o.eight_bit = &s.l;
        start(&s, VT_LINF, 2.5 / 255);
        assert_int_equal(run(&s, "pgd:steps=4"), VT_OK);
        assert_true(s.b.o.forwards == forwards && s.b.o.gradients == gradients);
        for (size_t i = 0; i < N; i++) {
            int k8 = (int)lrintf(255 * s.b.x_adv[i]);
            assert_true((float)k8 / 255 == s.b.x_adv[i]);
            assert_true(fabs((double)s.b.x_adv[i] - (double)plain[i]) <= 0.5001 / 255 ||
                        abs(k8 - (int)lrintf(255 * s.b.x[i])) == 2);
        }
        linear_close(&s);
    }
}

/* What an image yields is a function of its key: another image before it changes nothing. */
static void test_again(void **state) {
    (void)state;
    static const char *const specs[] = {"ddn:steps=6", "pgd:steps=3", "cw-l2:steps=10"};
    static linear s;
    float first[N];
    for (uint64_t k = 0; k < 12; k++) {
        int64_t forwards = 0, gradients = 0;
        vt_status st = VT_OK;
        linear_open(&s, k, false);
        for (int again = 0; again < 2; again++) {
            start(&s, VT_L2, 0.12);
            set_margin(&s, s.b.x, -0.15);
            s.t.rng.image = (uint32_t)k;
            vt_status now = run(&s, specs[k % COUNT(specs)]);
            const float *x = s.b.o.has_found ? s.b.o.found : s.b.x_adv;
            if (again) {
                assert_true(now == st && s.b.o.forwards == forwards && s.b.o.gradients == gradients);
                assert_memory_equal(first, x, sizeof first);
            }
            st = now, forwards = s.b.o.forwards, gradients = s.b.o.gradients;
            memcpy(first, x, sizeof first);
            start(&s, VT_LINF, 0.3); /* another threat, another draw */
            s.t.rng.image = 99;
            run(&s, "pgd:steps=2");
        }
        linear_close(&s);
    }
}

/* ---- squares: outside of them nothing moves, inside every level is free ---- */

static void test_patch(void **state) {
    (void)state;
    static linear s;
    vt_patch patch = {.size = 3, .count = 2, .grid = 1};
    int stops = 0;
    for (uint64_t k = 0; k < 20; k++) {
        linear_open(&s, k, false);
        s.t.patch = &patch;
        start(&s, VT_LINF, 1);
        set_margin(&s, s.b.x, -0.4 * (double)k);
        vt_attack a;
        assert_int_equal(vt_attack_parse(&a, k % 2 ? "square:queries=100,where=centre" : "pgd:steps=4,places=2",
                                         VT_NORM_PATCH, NULL),
                         VT_OK);
        s.t.work = floats(vt_attack_work_len(&a.stages[0], &s.t));
        s.b.o.gradients_allowed = a.stages[0].def->white_box;
        vt_status st = vt_attack_stage_run(&s.b.o, &a.stages[0], &s.t);
        const float *x = st == VT_STOP ? s.b.o.found : s.b.x_adv;
        vt_verdict v = {.inside = true, .broken = true};
        vt_verify_patch(&v, s.b.x, x, vt_shape_rgb(SIDE), &patch);
        vt_verify_eight_bit(&v, s.b.x, x, N, VT_LINF, 1);
        assert_true(v.inside);
        if (st == VT_STOP) assert_true(margin(&s, x) > 0);
        stops += st == VT_STOP;
        free(s.t.work);
        vt_attack_free(&a);
        linear_close(&s);
    }
    assert_in_range(stops, 5, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linf_optimum), cmocka_unit_test(test_repair), cmocka_unit_test(test_one_level),
        cmocka_unit_test(test_counts),       cmocka_unit_test(test_totals), cmocka_unit_test(test_unconfirmed),
        cmocka_unit_test(test_exhaustive),   cmocka_unit_test(test_again),  cmocka_unit_test(test_patch),
    };
    return cmocka_run_group_tests_name("eight_bit", tests, NULL, NULL);
}
