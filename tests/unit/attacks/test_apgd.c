/* SPDX-License-Identifier: MIT */
/* APGD's schedule and result (Croce and Hein 2020, algorithm 1), on a classifier whose losses and gradients follow a
 * script. */
#include "attack_fixture.h"

enum { MOST_CALLS = 101, SCRIPT_N = 12 };

typedef struct script {
    float loss[MOST_CALLS], point[MOST_CALLS][SCRIPT_N], g[MOST_CALLS][SCRIPT_N];
    bool flipped[MOST_CALLS]; /* this call answers with a wrong class */
} script;

static void script_logits(void *arg, const float *x, int64_t call, float *z) {
    script *s = arg;
    memcpy(s->point[call], x, sizeof s->point[call]);
    z[0] = 1, z[1] = s->flipped[call] ? 2 : 0, z[2] = -1;
}

static void script_gradient(void *arg, int64_t call, float *value, float *dx) {
    script *s = arg;
    *value = s->loss[call];
    memcpy(dx, s->g[call], sizeof s->g[call]);
}

/* The end of each window between checkpoints for 100 steps. */
static const int windows[] = {22, 41, 57, 70, 80, 87, 93, 99, 101};

/* loss[0], loss[1] as given; in each window the first falls[w] comparisons fall by drop[w], the others rise.
 */
static void script_losses(script *s, float l0, float l1, const int *falls, const float *drop, const float *rise) {
    s->loss[0] = l0, s->loss[1] = l1;
    for (int c = 2, w = 0, k = 0; c < MOST_CALLS; c++) {
        if (c > windows[w]) w++, k = 0;
        s->loss[c] = s->loss[c - 1] + (k++ < falls[w] ? -drop[w] : rise[w]);
    }
}

static void constrain(const bench *b, double *v) {
    double length = 0, f;
    for (size_t i = 0; i < SCRIPT_N; i++) length += (v[i] - (double)b->x[i]) * (v[i] - (double)b->x[i]);
    f = fmin(1, b->ball.eps / sqrt(length));
    for (size_t i = 0; i < SCRIPT_N; i++) {
        double d = v[i] - (double)b->x[i];
        v[i] = (double)b->x[i] + (b->ball.norm == VT_L2 ? d * f : fmax(-b->ball.eps, fmin(b->ball.eps, d)));
    }
}

static void ascend(const bench *b, double *v, const double *cur, const float *g, double eta) {
    double length = 0;
    for (size_t i = 0; i < SCRIPT_N; i++) length += (double)g[i] * (double)g[i];
    for (size_t i = 0; i < SCRIPT_N; i++) {
        double sign = g[i] > 0 ? 1 : g[i] < 0 ? -1 : 0;
        v[i] = cur[i] + eta * (b->ball.norm == VT_L2 ? (double)g[i] / sqrt(length) : sign);
    }
    constrain(b, v);
}

/* Algorithm 1 with the fired checkpoints given (0 ends the list): the greatest distance of any queried
 * point. */
static double replay(const bench *b, const script *s, int steps, const int *fires) {
    double cur[SCRIPT_N], prev[SCRIPT_N], top[SCRIPT_N], z[SCRIPT_N], next[SCRIPT_N], eta = 2 * b->ball.eps, worst = 0;
    int best = 0, from = 0;
    for (size_t i = 0; i < SCRIPT_N; i++) cur[i] = prev[i] = top[i] = (double)b->x[i];
    for (int step = 1; step <= steps; step++) {
        double a = step == 1 ? 1 : 0.75;
        ascend(b, z, cur, s->g[from], eta);
        for (size_t i = 0; i < SCRIPT_N; i++) next[i] = cur[i] + a * (z[i] - cur[i]) + (1 - a) * (cur[i] - prev[i]);
        constrain(b, next);
        memcpy(prev, cur, sizeof prev);
        memcpy(cur, next, sizeof cur);
        from = step;
        for (size_t i = 0; i < SCRIPT_N; i++) worst = fmax(worst, fabs(cur[i] - (double)s->point[step][i]));
        if (s->loss[step] > s->loss[best]) {
            best = step;
            memcpy(top, cur, sizeof top);
        }
        if (*fires == step) {
            eta /= 2, from = best, fires++;
            memcpy(cur, top, sizeof cur);
        }
    }
    return worst;
}

static void act(bench *b, planted *p, script *s, uint64_t seed) {
    assert_true(planted_linear(p, 3, 2, 2, seed));
    p->watch = script_logits, p->watch_gradient = script_gradient, p->arg = s;
    for (int c = 0; c < MOST_CALLS; c++)
        vt_rng_normals(&(vt_rng){.seed = seed, .image = (uint32_t)c}, s->g[c], SCRIPT_N);
    for (int c = 0; c < MOST_CALLS; c += 3) s->g[c][c % SCRIPT_N] = 0; /* sign(0) = 0 */
    bench_open(b, p, (uint32_t)seed, true);
    b->label = 0;
    bench_ball(b, seed % 2 ? VT_L2 : VT_LINF, 0.2);
}

/* A script, and the steps after which the authors' rules halve the step and go back to the best point. */
static const struct {
    const char *what;
    float l0, l1;
    int falls[9];
    float drop[9], rise[9];
    int fires[10];
} scripts[] = {
#define SAME(v)                                                                                                        \
    { v, v, v, v, v, v, v, v, v }
    {"always rising", 1, 2, {0}, SAME(0.1f), SAME(1), {0}},
    /* nothing above the loss at the start in the first window: alone that is no reason at the first
       checkpoint */
    {"start is best", 1000, 1, {0}, SAME(0.1f), {1, 100, 1, 1, 1, 1, 1, 1, 1}, {0}},
    {"always falling", 9, 8, SAME(99), SAME(0.1f), SAME(1), {22, 41, 57, 70, 80, 87, 93, 99, 0}},
    /* the first comparison is with zero, not with the loss at the start: 16 rises and a first loss above zero
     * are 17 of 22 (more than 16.5) although that loss is below the start's; and 16 when it is below zero
     * though above it */
    {"wrap-around, positive", 3, 0.5f, {5}, SAME(0.1f), SAME(1), {0}},
    {"wrap-around, negative", -3, -0.5f, {5}, SAME(0.1f), SAME(1), {22, 0}},
    /* rho k = 14.25 of 19: 15 rises go on, 14 do not; = 12 of 16: 12 rises do not go on, 13 do */
    {"15 of 19", 1, 2, {0, 4}, SAME(0.1f), SAME(1), {0}},
    {"14 of 19", 1, 2, {0, 5}, SAME(0.1f), SAME(1), {41, 0}},
    {"13 of 16", 1, 2, {0, 0, 3}, SAME(0.1f), SAME(1), {0}},
    {"12 of 16", 1, 2, {0, 0, 4}, SAME(0.1f), SAME(1), {57, 0}},
    /* rising, but below the best of the last checkpoint: fires, except right after a checkpoint that fired */
    {"no new best", 1, 2, {0, 1}, SAME(100), {1, 1, 1, 1, 100, 100, 100, 100, 100}, {41, 70, 0}},
};

/* Points are float32 near 0.5 (3e-8), and the momentum's errors die out by 0.25 a step: 1e-5 is wide, while a
 * halved or unhalved step moves elements by eps/4 or more. */
static void test_apgd_schedule(void **state) {
    (void)state;
    for (size_t k = 0; k < 2 * COUNT(scripts); k++) {
        static script s;
        planted p;
        bench b;
        size_t row = k / 2;
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        script_losses(&s, scripts[row].l0, scripts[row].l1, scripts[row].falls, scripts[row].drop, scripts[row].rise);
        assert_int_equal(run_spec(&b, "apgd-ce:random_start=0"), VT_OK);
        assert_int_equal(p.forwards, MOST_CALLS);
        double off = replay(&b, &s, 100, scripts[row].fires);
        if (!(off <= 1e-5)) fail_msg("%s: a query is off by %g", scripts[row].what, off);
        bench_close(&b);
        planted_free(&p);
    }
}

/* 20 steps: windows 4, 3, 2, then 1 (each constant is at least 1). rho = 1 fires always, rho = 0 when nothing
 * rose. */
static void test_apgd_short(void **state) {
    (void)state;
    static const int all[] = {4, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0};
    static const int none[] = {0};
    static const struct {
        const char *spec;
        bool rising;
        const int *fires;
    } rows[] = {{"apgd-dlr:random_start=0,steps=20", false, all},
                {"apgd-dlr:random_start=0,steps=20", true, none},
                {"apgd-dlr:random_start=0,steps=20,rho=1", true, all},
                {"apgd-dlr:random_start=0,steps=20,rho=0", true, none}};
    for (size_t k = 0; k < COUNT(rows); k++) {
        static script s;
        planted p;
        bench b;
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        for (int c = 0; c < MOST_CALLS; c++) s.loss[c] = rows[k].rising ? (float)c : (float)-c;
        assert_int_equal(run_spec(&b, rows[k].spec), VT_OK);
        assert_true(replay(&b, &s, 20, rows[k].fires) <= 1e-5);
        bench_close(&b);
        planted_free(&p);
    }
}

/* The result is the latest misclassified query, whatever its loss and margin; without one, the point of the
 * greatest loss, the first among equals. */
static void test_apgd_result(void **state) {
    (void)state;
    static const int flips[][4] = {{5, 9, 30, -1}, {0, -1}, {100, -1}, {0, 99, -1}, {-1}};
    for (size_t k = 0; k < COUNT(flips); k++) {
        static script s;
        planted p;
        bench b;
        int want = 13; /* the greatest loss */
        memset(&s, 0, sizeof s);
        act(&b, &p, &s, k);
        for (int c = 0; c < MOST_CALLS; c++) s.loss[c] = c == 13 || c == 60 ? 50 : (float)(c % 7);
        for (const int *f = flips[k]; *f >= 0; f++) s.flipped[*f] = true, want = *f;
        assert_int_equal(run_spec(&b, "apgd-ce:random_start=0"), VT_OK);
        assert_memory_equal(b.x_adv, s.point[want], sizeof s.point[want]);
        assert_int_equal(b.o.has_found, flips[k][0] >= 0);
        bench_close(&b);
        planted_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apgd_schedule),
        cmocka_unit_test(test_apgd_short),
        cmocka_unit_test(test_apgd_result),
    };
    return cmocka_run_group_tests_name("apgd", tests, NULL, NULL);
}
