/* SPDX-License-Identifier: MIT */
/* Attacks in l1 on linear classifiers, whose nearest point under ball and box has a closed form: entries move all the
 * way to the border of the box in the order of decreasing weight. Also FAB's l1 projection against sorting, and the
 * schedule of L1-APGD. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "attacks/apgd.h"
#include "attacks/fab.h"
#include "eval/verify.h"
#include "planted.h"
#include "t.h"

enum { SIDE = 8, N = 3 * SIDE * SIDE };

/* ---- closed form ---- */

typedef struct entry {
    double weight, room;
} entry;

static int by_weight(const void *a, const void *b) {
    double x = ((const entry *)a)->weight, y = ((const entry *)b)->weight;
    return (x < y) - (x > y);
}

/* Least |x' - x|_1 with w.(x' - x) = gap > 0 and x' in the box; INFINITY: out of reach. */
static double l1_distance(const double *w, const float *x, size_t n, double gap) {
    entry e[N];
    double moved = 0;
    for (size_t i = 0; i < n; i++) e[i] = (entry){fabs(w[i]), w[i] > 0 ? 1 - (double)x[i] : (double)x[i]};
    qsort(e, n, sizeof *e, by_weight);
    for (size_t i = 0; i < n; i++) {
        if (e[i].weight * e[i].room >= gap) return moved + gap / e[i].weight;
        gap -= e[i].weight * e[i].room, moved += e[i].room;
    }
    return INFINITY;
}

static double to_class(const planted *p, const float *x, int label, int k) {
    double w[N], gap = p->b[label] - p->b[k];
    for (size_t i = 0; i < p->n; i++) {
        w[i] = p->w[(size_t)k * p->n + i] - p->w[(size_t)label * p->n + i];
        gap -= w[i] * (double)x[i];
    }
    return l1_distance(w, x, p->n, gap);
}

static double nearest(const planted *p, const float *x, int label) {
    double d = INFINITY;
    for (int k = 0; k < p->classes; k++)
        if (k != label) d = fmin(d, to_class(p, x, label, k));
    return d;
}

/* ---- one image of a linear classifier, its nearest boundary at distance `goal` ---- */

typedef struct scene {
    planted p;
    vt_oracle o;
    vt_ball ball;
    float x[N], x_adv[N], lo[N], hi[N];
    int label, target;
    double reached; /* largest logit of the target above the label's, of the queries inside the ball */
    float *work;
} scene;

static void watch(void *arg, const float *x, int64_t call, float *z) {
    scene *s = arg;
    (void)call;
    if (s->target >= 0 && vt_ball_contains(&s->ball, x))
        s->reached = fmax(s->reached, (double)z[s->target] - (double)z[s->label]);
}

/* Without `border` pixels lie in [0.3, 0.7], else a half of them is 0 or 1. */
static void scene_open(scene *s, int classes, uint32_t seed, bool border, double goal) {
    memset(s, 0, sizeof *s);
    assert_true(planted_linear(&s->p, classes, SIDE, SIDE, 100 + seed));
    for (size_t i = 0; i < N; i++) {
        float u = vt_rng_uniform(&(vt_rng){.seed = 3, .image = seed}, i);
        s->x[i] = !border ? 0.3f + 0.4f * u : u < 0.25f ? 0 : u < 0.5f ? 1 : u;
    }
    double z[PLANTED_MOST], low = -1000, high = 1000;
    s->p.logits(&s->p, s->x, z);
    for (int k = 1; k < classes; k++)
        if (z[k] > z[s->label]) s->label = k;
    double start = s->p.b[s->label] - z[s->label];
    for (int k = 0; k < 200; k++) {
        double middle = (low + high) / 2;
        s->p.b[s->label] = start + middle;
        s->p.logits(&s->p, s->x, z);
        bool right = true;
        for (int c = 0; c < classes; c++) right = right && (c == s->label || z[c] < z[s->label]);
        *(!right || nearest(&s->p, s->x, s->label) < goal ? &low : &high) = middle;
    }
    t_le(fabs(nearest(&s->p, s->x, s->label) / goal - 1), 1e-9, "distance of the planted boundary");
    assert_int_equal(vt_oracle_open(&s->o, &s->p.c, NULL), VT_OK);
    s->o.mode = VT_ORACLE_EXHAUSTIVE;
    s->target = -1;
    s->p.watch = watch, s->p.arg = s;
    s->work = t_take(100 * N * sizeof(float));
}

static void scene_close(scene *s) {
    t_release("l1 scene");
    vt_oracle_close(&s->o);
    planted_free(&s->p);
}

static uint32_t start = 5; /* which random start */

static vt_task aim(scene *s, double eps) {
    vt_ball_init(&s->ball, VT_L1, eps, s->x, N, s->lo, s->hi);
    vt_oracle_reset(&s->o, &s->ball, s->label, true);
    s->reached = -INFINITY;
    return (vt_task){.x = s->x,
                     .n = N,
                     .shape = {3, SIDE, SIDE},
                     .classes = s->p.classes,
                     .label = s->label,
                     .ball = &s->ball,
                     .x_adv = s->x_adv,
                     .work = s->work,
                     .rng = {.seed = 1, .purpose = start}};
}

static bool breaks(scene *s, const char *spec, double eps) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_L1, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task t = aim(s, eps);
    assert_int_equal(a.stages[0].def->run(&s->o, a.stages[0].params, &t), VT_OK);
    assert_true(vt_ball_contains(&s->ball, s->x_adv));
    vt_attack_free(&a);
    return s->o.has_found;
}

static void each_scene(void (*f)(scene *s, double goal, void *arg), void *arg) {
    static const double goals[2][3] = {{0.05, 0.25, 4}, {0.2, 2, 10}}; /* 0.3 of room: the first two never meet it */
    for (uint32_t c = 0; c < 12; c++) {
        static scene s;
        int classes = c % 3 == 0 ? 2 : c % 3 == 1 ? 4 : 10;
        double goal = goals[c % 2][c / 2 % 3];
        scene_open(&s, classes, c, c % 2, goal);
        f(&s, goal, arg);
        scene_close(&s);
    }
}

typedef struct bar {
    const char *spec;
    double ratio;
} bar;

static void check_bar(scene *s, double goal, void *arg) {
    const bar *b = arg;
    if (!breaks(s, b->spec, goal * b->ratio)) fail_msg("%s at %g times the optimum %g", b->spec, b->ratio, goal);
    assert_false(breaks(s, b->spec, goal * 0.999)); /* nothing is there */
}

/* DLR on many classes has a maximum before every class: a run ends before the one whose basin it starts in, at the
 * ratio of that class's distance to the nearest's. Square draws shapes at random that are wider than the optimum's
 * single pixels. */
static void test_optimum(void **state) {
    (void)state;
    static const bar bars[] = {
        {"apgd-ce", 1.01},
        {"apgd-ce:large_eps=0", 1.02},
        {"apgd-dlr:restarts=5", 1.01},
        {"apgd-t", 1.01},
        {"fab", 1.02},
        {"fab-t", 1.02},
        {"pgd", 1.02},
        {"pgd:steps=200", 1.01},
        {"square", 2.5},
    };
    for (size_t i = 0; i < T_COUNT(bars); i++) each_scene(check_bar, (void *)(uintptr_t)&bars[i]);
}

/* What holds wherever a run starts: attacks that try every class, or start several times. A single run of APGD on CE or
 * DLR may end before a class that is not the nearest one, and then needs that class's distance. */
static void test_any_start(void **state) {
    (void)state;
    static const bar bars[] = {{"apgd-ce:restarts=5", 1.02},
                               {"apgd-dlr:restarts=5", 1.02},
                               {"apgd-t", 1.02},
                               {"fab", 1.02},
                               {"pgd:restarts=3", 1.05}};
    for (start = 6; start < 9; start++)
        for (size_t i = 0; i < T_COUNT(bars); i++) each_scene(check_bar, (void *)(uintptr_t)&bars[i]);
    start = 5;
}

/* Towards one class: APGD's loss reaches it within a ball 2 % wider than its distance, and FAB's point lies there. */
static void check_targets(scene *s, double goal, void *arg) {
    (void)goal, (void)arg;
    vt_apgd_params apgd = {.steps = 100, .restarts = 1, .eot = 1, .rho = 0.75, .random_start = true, .large_eps = true};
    vt_fab_params fab = {.steps = 100, .restarts = 1, .alpha_max = 0.1, .eta = 1.05, .beta = 0.9};
    for (s->target = 0; s->target < s->p.classes; s->target++) {
        double want = to_class(&s->p, s->x, s->label, s->target), got;
        if (s->target == s->label || want > 60) continue;
        vt_task t = aim(s, want * 1.02);
        vt_loss loss = vt_oracle_loss(&s->o, VT_LOSS_DLR_T);
        loss.other = s->target;
        bool broken;
        float best[N];
        assert_int_equal(vt_apgd_run(&s->o, &apgd, &t, &loss, &t.rng, &broken), VT_OK);
        assert_true(broken);
        assert_true(s->reached > 0);
        assert_int_equal(vt_fab_run(&s->o, &fab, &t, s->target, false, &t.rng, best, &got), VT_OK);
        t_le(got, want * 1.02, "fab towards class %d", s->target);
        t_le(goal, got * (1 + 1e-6), "fab: nothing is nearer"); /* float logits at the boundary */
    }
    s->target = -1;
}

static void test_targets(void **state) {
    (void)state;
    each_scene(check_targets, NULL);
}

/* ---- FAB's projection against sorting ---- */

static void test_fab_projection(void **state) {
    (void)state;
    int far = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        vt_rng r = {.seed = 11, .purpose = vt_rng_purpose("project"), .image = i};
        size_t n = 1 + vt_rng_bits(&r, 0) % 64;
        float u[64], w[64], d[64];
        double flipped[64], at = 0, size = 0, there = 0, length = 0, nothing = 0;
        vt_rng_normals(&r, w, n);
        for (size_t k = 0; k < n; k++) {
            uint32_t kind = vt_rng_bits(&r, 1000 + k) % 8;
            u[k] = kind < 2 ? (float)kind : vt_rng_uniform(&r, 3000 + k);
            w[k] *= kind == 2 ? 0.0f : kind == 3 ? 1e-9f : 1.0f;
            if (i % 5 == 4) w[k] = roundf(w[k]); /* ties */
            at += (double)w[k] * (double)u[k], size += fabs((double)w[k]);
            nothing = fmax(nothing, 1e-8 * fabs((double)w[k]));
        }
        double gap = size * ((double)vt_rng_uniform(&r, 2000) * 1.6 - 0.8);
        if (i % 7 == 6) gap = 0;
        vt_fab_project(VT_L1, d, u, w, at + gap, n);
        for (size_t k = 0; k < n; k++) flipped[k] = (gap > 0 ? 1 : -1) * (double)w[k];
        for (size_t k = 0; k < n; k++) {
            double v = (double)u[k] + (double)d[k];
            assert_true(v >= -0x1p-24 && v <= 1 + 0x1p-24);
            if (gap != 0) assert_true(d[k] == 0 || (fabs((double)w[k]) > nothing && (d[k] > 0) == (flipped[k] > 0)));
            there += (double)w[k] * (double)d[k], length += fabs((double)d[k]);
        }
        double want = gap == 0 ? 0 : l1_distance(flipped, u, n, fabs(gap));
        if (want == INFINITY) { /* as far as the box allows, but for weights that count as none */
            far++;
            for (size_t k = 0; k < n; k++) {
                double room = flipped[k] > 0 ? 1 - (double)u[k] : (double)u[k];
                if (fabs((double)w[k]) > nothing) t_le(fabs(fabs((double)d[k]) - room), 0x1p-24, "entry %zu", k);
            }
            continue;
        }
        /* each d is off by half a unit in the last place of 1 at most, and weights of 1e-8 of the largest are left out
         */
        t_le(fabs(there - gap), size * 0x1p-25 + 64e-8, "plane of case %u", i);
        if (size > 1e-6) t_le(fabs(length - want), (double)n * 0x1p-25 + 1e-6, "length of case %u", i);
    }
    assert_in_range(far, 300, 2500);
}

/* ---- L1-APGD's schedule ---- */

typedef struct diary {
    scene *s;
    int n;
    double distance[200];
    size_t entries[200]; /* that differ from the centre */
} diary;

static void note(void *arg, int64_t call, float *value, float *dx) {
    diary *d = arg;
    const float *x = d->s->p.kept;
    (void)call, (void)value, (void)dx;
    if (d->n == 200) return;
    d->distance[d->n] = vt_distance(VT_L1, x, d->s->x, N);
    for (size_t i = 0; i < N; i++) d->entries[d->n] += x[i] != d->s->x[i];
    d->n++;
}

/* 31, 31 and 41 queries in balls of 3, 2 and 1 eps for 100 steps; 103 gradients. On a linear loss the best point gets
 * sparser, and the last iterates lie on the ball's surface. */
static void test_phases(void **state) {
    (void)state;
    static scene s;
    static diary d;
    scene_open(&s, 4, 50, false, 8);
    d = (diary){.s = &s};
    s.p.watch = NULL, s.p.watch_gradient = note, s.p.arg = &d;
    assert_false(breaks(&s, "apgd-ce", 4));
    assert_int_equal(s.o.gradients, 103);
    assert_int_equal(s.o.forwards, 0);
    assert_int_equal(d.n, 103);
    for (int i = 0; i < 103; i++) {
        double radius = i < 31 ? 12 : i < 62 ? 8 : 4;
        t_le(d.distance[i], radius, "query %d", i);
    }
    t_le(11.9, d.distance[0], "the start fills the wide ball");
    t_le(7.9, d.distance[31], "the second phase's start");
    t_le(3.9, d.distance[102], "the end");
    assert_true(d.entries[102] < d.entries[0] / 2);
    static const struct {
        const char *spec;
        int gradients;
    } rows[] = {{"apgd-ce:large_eps=0", 101},
                {"apgd-ce:steps=3", 6},
                {"apgd-ce:steps=1", 2},
                {"apgd-ce:steps=4", 5},
                {"apgd-ce:steps=2", 3},
                {"apgd-ce:steps=5,random_start=0", 8},
                {"apgd-t:steps=10,targets=2", 26},
                {"apgd-ce:steps=7,restarts=3", 30}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        assert_false(breaks(&s, rows[i].spec, 4));
        assert_int_equal(s.o.gradients, rows[i].gradients);
    }
    scene_close(&s);
}

/* The judge has its own norm: the same float32 point is inside at the sum of its changes, and not just below. */
static void test_judge(void **state) {
    (void)state;
    static scene s;
    scene_open(&s, 4, 9, false, 2);
    memcpy(s.x_adv, s.x, sizeof s.x);
    s.x_adv[3] = s.x[3] + 0.25f, s.x_adv[80] = s.x[80] - 0.125f, s.x_adv[191] = s.x[191] + 0.0625f;
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double d = (double)s.x_adv[i] - (double)s.x[i];
        sum += fabs(d), squares += d * d;
    }
    float z[PLANTED_MOST];
    double z64[PLANTED_MOST];
    vt_verdict v;
    assert_int_equal(vt_verify(&v, &s.p.c, s.x, s.x_adv, s.label, VT_L1, sum, z, z64, NULL), VT_OK);
    assert_true(v.inside && v.l1 == sum && fabs(v.l2 - sqrt(squares)) <= 1e-15);
    assert_int_equal(vt_verify(&v, &s.p.c, s.x, s.x_adv, s.label, VT_L1, nextafter(sum, 0), z, z64, NULL), VT_OK);
    assert_false(v.inside || v.broken);
    assert_int_equal(vt_verify(&v, &s.p.c, s.x, s.x_adv, s.label, VT_L2, 0.3, z, z64, NULL), VT_OK);
    assert_true(v.inside); /* 0.2864 in l2 */
    scene_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimum),        cmocka_unit_test(test_any_start), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_fab_projection), cmocka_unit_test(test_phases),    cmocka_unit_test(test_judge),
    };
    return cmocka_run_group_tests_name("l1 attacks", tests, NULL, NULL);
}
