/* SPDX-License-Identifier: MIT */
/* Square (Andriushchenko et al. 2020, algorithms 1 to 3): its windows, its start, its optimum on a linear margin. */
#include "attack_fixture.h"

/* Square on a linear margin whose weights vanish in the last row and column (its windows never reach them).
 * 80 % of the closed form is what 5,000 queries leave easily on 8 x 8 pixels: 4,000 of them change single
 * pixels. */
static void linear_profile(double s, double *z, double *slope) {
    for (int k = 0; k < 3; k++) z[k] = k == 0 ? 2 : k == 1 ? s : -50, slope[k] = k == 1;
}

static void test_square_optimum(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        planted p;
        bench b;
        assert_true(planted_init(&p, 3, 8, 8));
        bench_open(&b, &p, i, true);
        bench_ball(&b, VT_LINF, 0.1);
        free(p.kept);
        assert_true(planted_ridge(&p, 3, 8, 8, i, linear_profile, &b.ball));
        assert_int_equal(run_spec(&b, "square"), VT_OK);
        assert_int_equal(b.o.forwards, 5001);
        assert_true(margin_at(&p, b.x_adv) + 2 >= 0.8);
        bench_close(&b);
        planted_free(&p);
    }
}

/* ---- Square's windows: a classifier that never changes its mind, so that every query differs from the start
 * by one proposal ---- */

typedef struct windows_seen {
    size_t side;       /* of the image */
    const int *expect; /* window sides by level */
    vt_norm norm;
    const float *x;                    /* clean image */
    float *start;                      /* first query */
    int most[10], exact[10], seen[10]; /* by level: longest extent, extents equal to expect, queries */
    int lowest, highest;               /* origins; highest relative to the forbidden last one */
    int too_wide;                      /* extents beyond expect */
    float eps;
    bool unbalanced;
    bool halfway;   /* a linf step short of 2 eps */
    bool forbidden; /* last row or column touched */
} windows_seen;

/* Rows and columns of the pixels that the proposal touched: for linf those of which any channel changed; for
 * l2 those of the second window, which is emptied (in every channel the clean pixel, where the start had
 * moved it). */
static void extent(windows_seen *v, const float *x, int lo[2], int hi[2]) {
    size_t area = v->side * v->side;
    lo[0] = lo[1] = 1 << 20, hi[0] = hi[1] = -1;
    for (size_t i = 0; i < area; i++) {
        int changed = 0, emptied = 0;
        for (size_t c = i; c < 3 * area; c += area) {
            changed += x[c] != v->start[c];
            if (v->norm == VT_LINF && x[c] != v->start[c]) /* steps of 2 eps lead from border to border */
                v->halfway |= fabsf(x[c] - v->start[c]) < 1.999f * v->eps;
            emptied += x[c] == v->x[c] && v->start[c] != v->x[c];
        }
        if (v->norm == VT_LINF ? changed == 0 : emptied != 3) continue;
        int at[2] = {(int)(i / v->side), (int)(i % v->side)};
        for (int k = 0; k < 2; k++) {
            lo[k] = at[k] < lo[k] ? at[k] : lo[k];
            hi[k] = at[k] > hi[k] ? at[k] : hi[k];
        }
    }
}

/* l2, on the sphere and inside the box: what the second window loses the first one gains, channel by channel.
 * Float32 pixels (3e-8) of differences of about 0.25 / sqrt(n): 1e-4 relative is wide. */
static bool balanced(const windows_seen *v, const float *x) {
    size_t area = v->side * v->side;
    bool good = true;
    for (size_t c = 0; c < 3; c++) {
        double before = distance(VT_L2, v->start + c * area, v->x + c * area, area);
        good &= fabs(distance(VT_L2, x + c * area, v->x + c * area, area) / before - 1) <= 1e-4;
    }
    return good;
}

static void watch_windows(void *arg, const float *x, int64_t call, float *z) {
    windows_seen *v = arg;
    (void)z;
    if (call == 0) {
        memcpy(v->start, x, 3 * v->side * v->side * sizeof(float));
        return;
    }
    static const int until[] = {10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000}; /* p halves after these iterations */
    int level = 0, lo[2], hi[2];
    while (level < 9 && call - 1 > until[level]) level++;
    extent(v, x, lo, hi);
    v->unbalanced |= v->norm == VT_L2 && !balanced(v, x);
    if (hi[0] < 0) return; /* all three signs pushed against the ball's border */
    int s = v->expect[level], rows = hi[0] - lo[0] + 1, columns = hi[1] - lo[1] + 1;
    if (rows > s || columns > s) {
        v->too_wide++;
        return;
    }
    v->most[level] = columns > v->most[level] ? columns : v->most[level];
    v->exact[level] += rows == s, v->seen[level]++;
    if (hi[0] > (int)v->side - 2 || hi[1] > (int)v->side - 2) v->forbidden = true; /* origin H - s is never drawn */
    if (rows == s && lo[0] < v->lowest) v->lowest = lo[0];
    if (rows == s && lo[0] - ((int)v->side - s - 1) > v->highest) v->highest = lo[0] - ((int)v->side - s - 1);
}

static void still_profile(double s, double *z, double *slope) {
    (void)s;
    for (int k = 0; k < 3; k++) z[k] = -k, slope[k] = 0;
}

static void watch_square(vt_norm norm, int side, int queries, int levels, const int *expect) {
    planted p;
    bench b;
    char spec[40];
    assert_true(planted_init(&p, 3, side, side));
    bench_open(&b, &p, 3, true);
    bench_ball(&b, norm, norm == VT_LINF ? 0.1 : 0.25); /* the box never binds */
    free(p.kept);
    assert_true(planted_ridge(&p, 3, side, side, 1, still_profile, &b.ball));
    windows_seen v = {.side = (size_t)side, .expect = expect, .norm = norm, .x = b.x, .start = floats(p.n)};
    v.lowest = 1 << 20, v.highest = -(1 << 20), v.eps = (float)b.ball.eps;
    p.watch = watch_windows, p.arg = &v;
    snprintf(spec, sizeof spec, "square:queries=%d", queries);
    assert_int_equal(run_spec(&b, spec), VT_OK);
    assert_false(v.forbidden || v.halfway || v.unbalanced);
    /* l2: a pixel of the first window may cancel to the clean value in all channels, whose starts are equal
     * up to sign */
    assert_in_range(v.too_wide, 0, norm == VT_LINF ? 0 : 5);
    for (int level = 0; level < levels; level++) {
        if (norm == VT_L2 && side - expect[level] < 2) continue; /* one origin: both windows coincide */
        assert_true(v.seen[level] > 0);
        assert_int_equal(v.most[level], expect[level]); /* across: some proposal shows its whole width */
        /* linf: rows change together, so the height shows whenever anything does. l2: the first window hides
         * parts of the second, and the start is empty in the outermost rows. */
        if (norm == VT_LINF)
            assert_int_equal(v.exact[level], v.seen[level]);
        else
            assert_true(v.exact[level] > 0);
    }
    if (queries >= 5000) { /* long enough to have drawn the first and the last of the origins that can be */
        assert_in_range(v.lowest, 0, norm == VT_LINF ? 0 : 1);
        assert_int_equal(v.highest, 0);
    }
    free(v.start);
    bench_close(&b);
    planted_free(&p);
}

static void test_square_windows(void **state) {
    (void)state;
    static const int linf32[] = {29, 20, 14, 10, 7, 5, 4, 3}, l2_32[] = {29, 21, 15, 11, 7, 5, 5, 3};
    static const int linf8[] = {7, 5, 4, 3, 2, 1, 1, 1}, l2_8[] = {7, 5, 5, 3, 3, 3, 3, 3};
    static const int linf224[] = {200, 142, 100}, l2_224[] = {201, 143, 101};
    watch_square(VT_LINF, 32, 5000, 8, linf32);
    watch_square(VT_L2, 32, 5000, 8, l2_32);
    watch_square(VT_LINF, 8, 5000, 8, linf8);
    watch_square(VT_L2, 8, 5000, 8, l2_8);
    watch_square(VT_LINF, 224, 120, 3, linf224);
    watch_square(VT_L2, 224, 120, 3, l2_224);
}

/* The start of linf is eps times a sign, constant down each column; that of l2 lies on the sphere. */
static void test_square_start(void **state) {
    (void)state;
    for (int norm = VT_LINF; norm <= VT_L2; norm++) {
        planted p;
        assert_true(planted_linear(&p, 3, 32, 32, 5));
        bench b;
        bench_open(&b, &p, 1, true);
        bench_ball(&b, (vt_norm)norm, norm == VT_LINF ? 0.1 : 0.5);
        windows_seen v = {.side = 32, .expect = (int[10]){32}, .norm = (vt_norm)norm, .x = b.x, .start = floats(p.n)};
        p.watch = watch_windows, p.arg = &v;
        run_spec(&b, "square:queries=1");
        int ups = 0;
        for (size_t i = 0; norm == VT_LINF && i < p.n; i++) {
            double d = (double)v.start[i] - (double)b.x[i], top = (double)v.start[i % 32 + i / 1024 * 1024];
            assert_true(fabs(fabs(d) - 0.1) <= 1e-7); /* rounded inwards to float32 */
            assert_true((d > 0) == (top > (double)b.x[i % 32 + i / 1024 * 1024]));
            ups += d > 0;
        }
        int equal = 0; /* channels have stripes of their own */
        for (size_t k = 0; k < 32; k++) equal += (v.start[k] > b.x[k]) == (v.start[1024 + k] > b.x[1024 + k]);
        if (norm == VT_LINF) assert_in_range(equal, 4, 28);
        if (norm == VT_LINF) assert_in_range(ups, 32 * 24, 32 * 72); /* of 96 signs */
        double length = distance((vt_norm)norm, v.start, b.x, p.n);
        assert_true(fabs(length / b.ball.eps - 1) <= 1e-6); /* float32 rounding */
        free(v.start);
        bench_close(&b);
        planted_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_square_optimum),
        cmocka_unit_test(test_square_windows),
        cmocka_unit_test(test_square_start),
    };
    return cmocka_run_group_tests_name("square", tests, NULL, NULL);
}
