/* SPDX-License-Identifier: MIT */
/* The l1 ball inside the box: the projection against bisection in long double and against the law of nearest points,
 * sparse steps against sorting, starts, and the judge's own norm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/ball.h"
#include "base/rand.h"
#include "t.h"

enum { N = 192 };
#define t_near(got, want, tol, ...) t_le(fabs((got) - (want)), tol, __VA_ARGS__)

/* Centres: a quarter of the pixels exactly 0, a quarter exactly 1; or all within [0.3, 0.7]. */
static void paint(float *x, const vt_rng *r, bool interior) {
    for (int i = 0; i < N; i++) {
        float u = vt_rng_uniform(r, 5000 + (uint64_t)i);
        x[i] = interior ? 0.3f + 0.4f * u : u < 0.25f ? 0 : u < 0.5f ? 1 : (float)(int)(u * 255) / 255.0f;
    }
}

static long double l1_of(const float *a, const float *b) {
    long double s = 0;
    for (int i = 0; i < N; i++) s += fabsl((long double)a[i] - (long double)b[i]);
    return s;
}

/* The projection in closed form (Croce and Hein 2021, proposition 2.1): r = clip(lambda, lo, hi), sum r = T,
 * by bisection. */
static void project_slowly(long double *out, const float *y, const float *x, long double eps) {
    long double lo[N], hi[N], sum = 0, least = 0, low = 0, high = 1e4L;
    for (int i = 0; i < N; i++) {
        long double v = y[i];
        lo[i] = fmaxl(0, fmaxl(v - 1, -v)), hi[i] = fabsl(v - (long double)x[i]);
        sum += hi[i], least += lo[i];
    }
    for (int k = 0; k < 300; k++) {
        long double middle = (low + high) / 2, r = 0;
        for (int i = 0; i < N; i++) r += fminl(fmaxl(middle, lo[i]), hi[i]);
        *(r < sum - eps ? &low : &high) = middle;
    }
    if (least >= sum - eps) low = 0;
    for (int i = 0; i < N; i++) {
        long double r = fminl(fmaxl(low, lo[i]), hi[i]);
        out[i] = (long double)y[i] - (y[i] > x[i] ? r : -r);
    }
}

/* Nearest points: (y - v).(p - v) <= 0 for every feasible p; here p = random sparse and dense ones, the centre, and
 * shares of them. */
static void assert_nearest(const float *y, const float *v, const float *x, double eps, const vt_rng *r) {
    for (uint64_t k = 0; k < 8; k++) {
        float p[N];
        double product = 0, length = 0;
        for (uint64_t i = 0; i < N; i++) {
            float u = 2 * vt_rng_uniform(r, 9000 + 1000 * k + i) - 1;
            p[i] = k == 0 || (k % 2 && i % 31 != k) ? x[i] : fminf(1, fmaxf(0, x[i] + u));
        }
        double d = (double)l1_of(p, x), f = d > eps ? eps / d : 1;
        for (int i = 0; i < N; i++) {
            double at = (double)x[i] + f * ((double)p[i] - (double)x[i]), away = (double)y[i] - (double)v[i];
            product += away * (at - (double)v[i]), length += fabs(away);
        }
        /* v is off its real place by half a unit in the last place of 1 in every entry, or one whole where shaved */
        t_le(product, 0x1p-23 * (length + 2 * eps + 1), "(y - v).(p - v) at eps %g, point %d", eps, (int)k);
    }
}

static void check_projection(double eps, uint32_t seed, bool interior) {
    float x[N], y[N], v[N], lo[N], hi[N];
    long double want[N];
    vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("l1")};
    vt_ball b;
    paint(x, &r, interior);
    vt_ball_init(&b, VT_L1, eps, x, N, lo, hi);
    vt_rng_normals(&r, y, N);
    for (int i = 0; i < N; i++) {
        y[i] = x[i] + y[i] * powf(10, (float)(seed % 5) - 3);
        if (seed % 3 == 0 && i % 4) y[i] = x[i]; /* most entries untouched */
    }
    memcpy(v, y, sizeof v);
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v));
    assert_true(vt_distance(VT_L1, v, x, N) <= eps && l1_of(v, x) <= (long double)eps);
    project_slowly(want, y, x, eps);
    for (int i = 0; i < N; i++) {
        assert_true(v[i] >= 0 && v[i] <= 1);
        /* one float rounding, one unit shaved, and lambda's share of the latter */
        t_le(fabs((double)((long double)v[i] - want[i])), 0x1p-23, "entry %d at eps %g, seed %u", i, eps, seed);
    }
    assert_nearest(y, v, x, eps, &r);
    float again[N];
    memcpy(again, v, sizeof v);
    vt_ball_project(&b, again);
    assert_memory_equal(again, v, sizeof v);
    memcpy(again, x, sizeof x);
    vt_ball_project(&b, again);
    assert_memory_equal(again, x, sizeof x);
    /* whatever an attack computes, the result is feasible */
    v[5] = NAN, v[6] = INFINITY, v[7] = -INFINITY, v[8] = 3e38f;
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v));
}

static void test_projection(void **state) {
    (void)state;
    static const double eps[] = {0, 1e-4, 0.1, 0.7, 3, 12, 60, 500};
    for (uint32_t seed = 0; seed < 300; seed++)
        for (size_t k = 0; k < sizeof eps / sizeof *eps; k++) check_projection(eps[k], seed, seed % 2);
}

/* A case on paper: centre (0.5, 0.5, 0.9), y = centre + (0.4, 0.1, 0.6), eps 0.35. The third entry is stopped by the
 * box at 0.1, the others share 0.25: lambda 0.15 empties the second. */
static void test_projection_by_hand(void **state) {
    (void)state;
    float x[3] = {0.5f, 0.5f, 0.9f}, y[3] = {0.9f, 0.6f, 1.5f}, lo[3], hi[3];
    vt_ball b;
    vt_ball_init(&b, VT_L1, 0.35, x, 3, lo, hi);
    vt_ball_project(&b, y);
    /* decimals as floats are off by 3e-8 each, and eps is met by the sum of them */
    t_near((double)y[0], 0.75, 2e-7, "first");
    assert_true(y[1] == 0.5f && y[2] == 1);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void test_sparse_step(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 1000; seed++) {
        vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("sparse")};
        size_t n = 1 + vt_rng_bits(&r, 9999) % N, count = 1 + vt_rng_bits(&r, 9998) % n;
        float g[N], sorted[N], out[N];
        vt_rng_normals(&r, g, n);
        for (size_t i = 0; i < n; i++) {
            if (seed % 4 == 1) g[i] = roundf(2 * g[i]);          /* ties and zeros */
            if (seed % 4 == 2 && i % 3) g[i] = 0;                /* fewer entries than are asked for */
            if (seed % 4 == 3) g[i] = (float)i - (float)(n / 3); /* in order */
            sorted[i] = fabsf(g[i]);
        }
        qsort(sorted, n, sizeof *sorted, by_size);
        float least = sorted[n - count];
        int chosen = 0;
        for (size_t i = 0; i < n; i++) chosen += fabsf(g[i]) >= least && g[i] != 0;
        vt_l1_sparse_step(out, g, n, count, 3);
        for (size_t i = 0; i < n; i++) {
            double want = fabsf(g[i]) >= least && g[i] != 0 ? (g[i] > 0 ? 3.0 : -3.0) / chosen : 0;
            t_near((double)out[i], want, 3 * 0x1p-24, "entry %zu", i); /* rounded to float */
        }
    }
    float g[3] = {NAN, 1, -2}, out[3];
    vt_l1_sparse_step(out, g, 3, 3, 1);
    assert_true(out[0] == 0 && out[1] == 0.5f && out[2] == -0.5f);
    float x[6] = {0, 1, 0.5f, 0, 1, 1}, d[6] = {-1, 1, -1, 1, -1, 0};
    vt_l1_drop_blocked(d, x, 6);
    static const float kept[6] = {0, 0, -1, 1, -1, 0};
    assert_memory_equal(d, kept, sizeof d);
}

static void test_starts(void **state) {
    (void)state;
    float x[N], lo[N], hi[N], v[N], w[N];
    for (uint32_t seed = 0; seed < 100; seed++) {
        vt_rng r = {.seed = seed, .purpose = 2};
        vt_ball b;
        paint(x, &r, seed % 2);
        vt_ball_init(&b, VT_L1, 6, x, N, lo, hi);
        vt_ball_start_surface(&b, &r, v);
        assert_true(vt_ball_contains(&b, v));
        /* eps |t_i| / |t|_1 stays below 0.3: only the border of the other centres cuts it */
        if (seed % 2) t_near(vt_distance(VT_L1, v, x, N), 6, 1e-5, "surface"); /* 192 float roundings */
        vt_ball_start_inside(&b, &r, v);
        assert_true(vt_ball_contains(&b, v));
        assert_true(vt_distance(VT_L1, v, x, N) > 0);
        vt_ball_start_projected(&b, &r, v);
        t_near(vt_distance(VT_L1, v, x, N), 6, 1e-5, "projected"); /* 192 normals sum to about 150 */
        vt_rng_normals(&r, w, N);
        for (int i = 0; i < N; i++) w[i] += x[i];
        vt_ball_project(&b, w);
        assert_memory_equal(v, w, sizeof v);
    }
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        vt_norm norm, dual;
    } rows[] = {{"linf", VT_LINF, VT_L1}, {"l2", VT_L2, VT_L2}, {"l1", VT_L1, VT_LINF}};
    static const float a[3] = {0.5f, 0.25f, 1}, zero[3] = {0};
    static const double length[] = {1, 1.1456439237389600016, 1.75}; /* sqrt(0.25 + 0.0625 + 1) */
    for (size_t i = 0; i < 3; i++) {
        vt_norm n = VT_NORM_COUNT;
        assert_true(vt_norm_find(rows[i].name, &n) && n == rows[i].norm);
        assert_string_equal(vt_norm_name(n), rows[i].name);
        assert_int_equal(vt_norm_dual(n), rows[i].dual);
        assert_true(vt_length(n, a, 3) == length[i] && vt_distance(n, zero, a, 3) == length[i]);
        float bad[3] = {0, NAN, 0};
        assert_true(isnan(vt_length(n, bad, 3)) && isnan(vt_distance(n, zero, bad, 3)));
    }
    vt_norm n = VT_L2;
    assert_false(vt_norm_find("l3", &n) || vt_norm_find("", &n));
    assert_int_equal(n, VT_L2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_projection),  cmocka_unit_test(test_projection_by_hand),
        cmocka_unit_test(test_sparse_step), cmocka_unit_test(test_starts),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("l1", tests, NULL, NULL);
}
