/* SPDX-License-Identifier: MIT */
/* The 8-bit threat's points: rounding and steps stay inside by a count of their own here, lose little against brute
 * force, and the judge takes exactly those points. */
#include "t.h"

#include "attacks/grid8.h"
#include "attacks/patch.h"
#include "eval/verify.h"

enum { MOST_N = 300 };

/* One ball around an image of bytes, and a float point in it. */
typedef struct scene {
    size_t n;
    vt_norm norm;
    double eps;
    uint8_t clean[MOST_N], q[MOST_N];
    float x[MOST_N], v[MOST_N], x8[MOST_N], lo[MOST_N], hi[MOST_N];
    vt_ball ball;
    vt_grid8 l;
} scene;

static vt_rng key(uint64_t k, uint32_t run) { return (vt_rng){.seed = k, .purpose = 0x8B17, .run = run}; }

static void scene_open(scene *s, size_t n, vt_norm norm, double eps, uint64_t k) {
    memset(s, 0, sizeof *s);
    s->n = n, s->norm = norm, s->eps = eps;
    vt_rng r = key(k, 0);
    for (size_t i = 0; i < n; i++) {
        s->clean[i] = (uint8_t)(vt_rng_bits(&r, i) >> 24);
        s->x[i] = (float)s->clean[i] / 255;
    }
    vt_ball_init(&s->ball, norm, eps, s->x, n, s->lo, s->hi);
    r.run = 1;
    vt_ball_start_surface(&s->ball, &r, s->v);
    assert_int_equal(vt_grid8_open(&s->l, n, NULL), VT_OK);
    assert_int_equal(vt_grid8_aim(&s->l, &s->ball), VT_OK);
}

static void scene_close(scene *s) { vt_grid8_close(&s->l); }

/* This file's own count: numerator of eps given as num/den, so that the bound is a whole number's. */
static bool counted_inside(const scene *s, const uint8_t *q, long num, long den) {
    long most = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        long d = labs((long)q[i] - (long)s->clean[i]);
        most = d > most ? d : most, sum += d, squares += d * d;
    }
    long levels = 255 * num; /* over den */
    if (s->norm == VT_LINF) return most * den <= levels;
    return s->norm == VT_L1 ? sum * den <= levels : squares * den * den <= levels * levels;
}

static bool judged_inside(scene *s, const float *x_adv) {
    vt_verdict v = {.inside = true, .broken = true};
    vt_verify_eight_bit(&v, s->x, x_adv, s->n, s->norm, s->eps);
    assert_int_equal(v.inside, v.broken);
    return v.inside;
}

/* ---- 10^4 roundings: inside by two counts, and in linf the nearest level of the ball ---- */

static void test_rounding_inside(void **state) {
    (void)state;
    static const long dens[] = {255, 255, 1000, 10, 3};
    static scene s;
    int reduced = 0, strict = 0;
    for (uint64_t k = 0; k < 10000; k++) {
        vt_rng r = key(k, 7);
        size_t n = 1 + vt_rng_bits(&r, 0) % (k % 50 ? 40 : MOST_N);
        vt_norm norm = (vt_norm)(k % VT_L0);
        long den = dens[vt_rng_bits(&r, 1) % 5], num = 1 + (long)(vt_rng_bits(&r, 2) % (uint32_t)(den == 3 ? 6 : 20));
        if (num > den && norm == VT_LINF) num = den;
        scene_open(&s, n, norm, (double)num / (double)den, k);
        for (int how = VT_ROUND_NEAREST; how <= VT_ROUND_DRAWN; how++) {
            vt_rng draw = key(k, 3);
            vt_grid8_round(&s.l, s.q, s.v, (vt_rounding)how, &draw);
            assert_true(counted_inside(&s, s.q, num, den));
            assert_true(vt_grid8_contains(&s.l, s.q));
            vt_grid8_floats(&s.l, s.x8, s.q);
            assert_true(judged_inside(&s, s.x8));
            strict += !vt_ball_contains(&s.ball, s.x8);
            long reach = 255 * num / den, away = 0;
            for (size_t i = 0; i < n; i++) {
                double v = 255 * (double)s.v[i], d = (double)s.q[i] - v;
                away += fabs(d) > 0.5 + 1e-9;
                if (norm != VT_LINF) continue;
                bool border = labs((long)s.q[i] - (long)s.clean[i]) == reach;
                assert_true(fabs(d) <= (how ? 1 : 0.5) + 1e-4 || border); /* 1e-4: a level is 2^-24 * 255 wide */
            }
            reduced += norm != VT_LINF && away > 0;
        }
        scene_close(&s);
    }
    assert_true(reduced > 1000); /* the balls did bind */
    assert_true(strict > 100);   /* points that a count in float32's own rounding would have thrown out */
}

/* ---- entries that go back: no point of the ball is much nearer ---- */

static double far_from(const scene *s, const uint8_t *q) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += pow((double)q[i] - 255 * (double)s->v[i], 2);
    return sum;
}

/* f over every point within `reach` levels of an entry; the largest. */
static double best_of(scene *s, int reach, double (*f)(const scene *s, const uint8_t *q)) {
    double best = -INFINITY;
    int d[4];
    for (d[0] = -reach; d[0] <= reach; d[0]++)
        for (d[1] = -reach; d[1] <= reach; d[1]++)
            for (d[2] = -reach; d[2] <= reach; d[2]++)
                for (d[3] = -reach; d[3] <= reach; d[3]++) {
                    static uint8_t q[MOST_N];
                    bool box = true;
                    for (size_t i = 0; i < 4; i++) {
                        box = box && (int)s->clean[i] + d[i] >= 0 && (int)s->clean[i] + d[i] <= 255;
                        q[i] = (uint8_t)((int)s->clean[i] + d[i]);
                    }
                    if (box && counted_inside(s, q, (long)lrint(s->eps * 1020), 1020)) best = fmax(best, f(s, q));
                }
    return best;
}

static double minus_far(const scene *s, const uint8_t *q) { return -far_from(s, q); }

static float slope[4];
static double along(const scene *s, const uint8_t *q) {
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += (double)slope[i] * ((double)q[i] - (double)s->clean[i]);
    return sum;
}

/* eps of 1 to 5.75 levels on four entries. l1: all moves give back the same, so the cheapest first is the best there
 * is. l2: the last move may give back more than was needed; of the squared distance at most 2.5 times the best one's
 * (measured 2.19, and 1.03 on average; the share of one move vanishes with the number of entries). */
static void test_rounding_best(void **state) {
    (void)state;
    static scene s;
    double sum = 0, best_sum = 0;
    for (uint64_t k = 0; k < 2000; k++) {
        vt_norm norm = k % 2 ? VT_L1 : VT_L2;
        long quarters = 4 + (long)(k / 2 % 20);
        scene_open(&s, 4, norm, (double)quarters / 1020, k);
        vt_grid8_round(&s.l, s.q, s.v, VT_ROUND_NEAREST, NULL);
        double best = -best_of(&s, (int)(quarters / 4), minus_far), got = far_from(&s, s.q);
        if (norm == VT_L1) t_le(got - best, 1e-5, "l1, case %d", (int)k); /* slopes are float32 */
        if (norm == VT_L2) t_le(got / best, 2.5, "l2, case %d", (int)k);
        if (norm == VT_L2) sum += got, best_sum += best;
        scene_close(&s);
    }
    t_le(sum / best_sum, 1.05, "l2 on average");
}

/* A step across the ball is the best point of a linear function: in linf and l1 exactly; in l2 (the same last move) at
 * least 0.69 of it on four entries (measured 0.70, 0.958 on average), and on 300 nearly what the ball without a grid
 * would allow. */
static void test_step_best(void **state) {
    (void)state;
    static scene s;
    double sum = 0, best_sum = 0;
    for (uint64_t k = 0; k < 1500; k++) {
        vt_norm norm = (vt_norm)(k % VT_L0);
        long quarters = 4 + (long)(k / 3 % 20);
        scene_open(&s, 4, norm, (double)quarters / 1020, k);
        vt_rng r = key(k, 9);
        vt_rng_normals(&r, slope, 4);
        vt_grid8_step(&s.l, s.q, s.clean, slope, 2 * s.l.reach);
        assert_true(counted_inside(&s, s.q, quarters, 1020));
        double best = best_of(&s, (int)(quarters / 4), along), got = along(&s, s.q);
        if (norm != VT_L2) t_le(best - got, 1e-5, "%s, case %d", vt_norm_name(norm), (int)k);
        if (norm == VT_L2) t_le(0.69 * best - got, 0, "l2, case %d", (int)k);
        if (norm == VT_L2) sum += got, best_sum += best;
        scene_close(&s);
    }
    t_le(0.95 * best_sum - sum, 0, "l2 on average");
    for (uint64_t k = 0; k < 20; k++) {
        static float g[MOST_N];
        double square = 0, got = 0;
        scene_open(&s, MOST_N, VT_L2, 0.5, k);
        for (size_t i = 0; i < MOST_N; i++) s.clean[i] = 128, s.x[i] = 128.0f / 255;
        assert_int_equal(vt_grid8_aim(&s.l, &s.ball), VT_OK);
        vt_rng r = key(k, 9);
        vt_rng_normals(&r, g, MOST_N);
        vt_grid8_step(&s.l, s.q, s.clean, g, 2 * s.l.reach);
        for (size_t i = 0; i < MOST_N; i++) {
            square += (double)g[i] * (double)g[i];
            got += (double)g[i] * ((double)s.q[i] - 128);
        }
        t_le(0.995 * 127.5 * sqrt(square) - got, 0, "l2 of 300 entries, case %d", (int)k);
        scene_close(&s);
    }
}

/* A share of the entries, those of the largest slope that have room; none at a corner. */
static void test_step_share(void **state) {
    (void)state;
    static scene s;
    scene_open(&s, 8, VT_LINF, 2.0 / 255, 1);
    for (size_t i = 0; i < 8; i++) s.clean[i] = 100, s.x[i] = 100.0f / 255;
    s.clean[7] = 255, s.x[7] = 1;
    vt_ball_init(&s.ball, VT_LINF, s.eps, s.x, 8, s.lo, s.hi);
    assert_int_equal(vt_grid8_aim(&s.l, &s.ball), VT_OK);
    static const float g[8] = {1, -7, 3, 0, -5, 2, -4, 9}; /* the last one has no room */
    static const uint8_t two[8] = {100, 99, 100, 100, 99, 100, 100, 255},
                         all[8] = {102, 98, 102, 100, 98, 102, 98, 255};
    assert_true(vt_grid8_step(&s.l, s.q, s.clean, g, 0.25)); /* of six */
    assert_memory_equal(s.q, two, 8);
    assert_true(vt_grid8_step(&s.l, s.q, s.clean, g, 0.01)); /* at least one */
    assert_int_equal(s.q[1], 99);
    assert_int_equal(s.q[4], 100);
    assert_true(vt_grid8_step(&s.l, s.q, s.clean, g, 4));
    assert_memory_equal(s.q, all, 8);
    assert_false(vt_grid8_step(&s.l, s.q, all, g, 4));
    scene_close(&s);
}

/* ---- what a ball is in levels ---- */

static void test_levels(void **state) {
    (void)state;
    for (int n = 1; n <= 255; n++) {
        assert_int_equal(vt_grid8_most(VT_LINF, n / 255.0), n);
        assert_int_equal(vt_grid8_most(VT_L1, n / 255.0), n);
        assert_int_equal(vt_grid8_most(VT_L2, n / 255.0), n * n);
        assert_int_equal(vt_grid8_most(VT_LINF, (n - 1e-6) / 255.0), n - 1);
    }
    assert_int_equal(vt_grid8_most(VT_L2, 0.5), 16256); /* 127.5^2 = 16256.25 */
    assert_int_equal(vt_grid8_most(VT_LINF, 0.031), 7); /* 7.905 */
    assert_int_equal(vt_grid8_most(VT_L2, 0.0039), 0);
}

/* A centre between two levels is refused; outside of squares nothing moves. */
static void test_aim(void **state) {
    (void)state;
    static scene s;
    scene_open(&s, 192, VT_LINF, 8.0 / 255, 3);
    float keep = s.x[100];
    s.x[100] = nextafterf(keep, 2);
    assert_int_equal(vt_grid8_aim(&s.l, &s.ball), VT_E_RANGE);
    s.x[100] = keep;
    vt_squares squares = {.size = 3, .n = 1, .at = {{2, 4}}};
    vt_ball_squares(&s.ball, &squares, vt_shape_rgb(8), s.x, s.lo, s.hi);
    assert_int_equal(vt_grid8_aim(&s.l, &s.ball), VT_OK);
    for (size_t i = 0; i < 192; i++) s.v[i] = 1 - s.x[i];
    vt_grid8_round(&s.l, s.q, s.v, VT_ROUND_NEAREST, NULL);
    for (size_t i = 0; i < 192; i++) {
        size_t y = i % 64 / 8, x = i % 8;
        bool in = y >= 2 && y < 5 && x >= 4 && x < 7;
        assert_int_equal(s.q[i], in ? 255 - s.clean[i] : s.clean[i]);
    }
    scene_close(&s);
}

/* ---- the judge ---- */

static void test_judge(void **state) {
    (void)state;
    static scene s;
    for (int e = 1; e <= 16; e++)
        for (int k = 0; k < 256; k++) { /* every level, up and down: e levels are inside, e + 1 are not */
            scene_open(&s, 1, VT_LINF, e / 255.0, 0);
            s.x[0] = (float)k / 255;
            for (int to = 0; to < 256; to++) {
                float y = (float)to / 255;
                assert_int_equal(judged_inside(&s, &y), abs(to - k) <= e);
            }
            scene_close(&s);
        }
    scene_open(&s, 3, VT_L2, 5.0 / 255, 0);
    static const uint8_t d[][3] = {{3, 4, 0}, {4, 3, 1}, {5, 0, 0}, {5, 1, 0}, {0, 0, 6}, {3, 3, 2}};
    static const bool in_l2[] = {true, false, true, false, false, true},
                      in_l1[] = {false, false, true, false, false, false};
    for (size_t c = 0; c < T_COUNT(d); c++) {
        for (size_t i = 0; i < 3; i++) s.x[i] = 100.0f / 255, s.x8[i] = (float)(100 + d[c][i]) / 255;
        s.norm = VT_L2;
        assert_int_equal(judged_inside(&s, s.x8), in_l2[c]);
        s.norm = VT_L1;
        assert_int_equal(judged_inside(&s, s.x8), in_l1[c]);
    }
    /* off the grid by one float, outside [0,1], not a number: whatever the ball */
    s.norm = VT_LINF, s.eps = 1;
    float off[] = {nextafterf(s.x8[0], 0), nextafterf(s.x8[0], 2), -1.0f / 255, 256.0f / 255, NAN, INFINITY, 0.5f};
    assert_true(judged_inside(&s, s.x8));
    for (size_t c = 0; c < T_COUNT(off); c++) {
        float y[3] = {s.x8[0], off[c], s.x8[2]};
        assert_false(judged_inside(&s, y));
        memcpy(s.x, y, sizeof y);
        assert_false(judged_inside(&s, s.x8)); /* nor may the clean image be */
        memcpy(s.x, s.x8, sizeof y);
    }
    scene_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),    cmocka_unit_test(test_rounding_inside), cmocka_unit_test(test_rounding_best),
        cmocka_unit_test(test_step_best), cmocka_unit_test(test_step_share),      cmocka_unit_test(test_aim),
        cmocka_unit_test(test_judge),
    };
    return cmocka_run_group_tests_name("lattice", tests, NULL, NULL);
}
