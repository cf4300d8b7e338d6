/* SPDX-License-Identifier: MIT */
/* The ball: its bounds, its projection, the starts of attacks in it. */
#include "attack_fixture.h"

static void check_linf_bounds(double eps, const float *x, size_t n) {
    float lo[256], hi[256];
    vt_ball b;
    vt_ball_init(&b, VT_LINF, eps, x, n, lo, hi);
    assert_true(vt_ball_contains(&b, lo) && vt_ball_contains(&b, hi) && vt_ball_contains(&b, x));
    for (size_t i = 0; i < n; i++) {
        double up = (double)hi[i] - (double)x[i], down = (double)x[i] - (double)lo[i];
        assert_true(up >= 0 && up <= eps && hi[i] <= 1 && down >= 0 && down <= eps && lo[i] >= 0);
        /* and they are the outermost floats of which that is true; below 1e-8 floats are so dense that the
         * difference from x, in double, no longer tells neighbours apart */
        assert_true(hi[i] == 1 || (double)nextafterf(hi[i], 2) - (double)x[i] > eps);
        assert_true(lo[i] < 1e-8f || (double)x[i] - (double)nextafterf(lo[i], -1) > eps);
    }
    float out[256];
    for (size_t i = 0; i < n; i++) {
        memcpy(out, hi, n * sizeof *out);
        out[i] = nextafterf(hi[i], 2);
        assert_false(vt_ball_contains(&b, out));
        memcpy(out, lo, n * sizeof *out);
        out[i] = nextafterf(lo[i], -1);
        assert_false(vt_ball_contains(&b, out));
        out[i] = NAN;
        assert_false(vt_ball_contains(&b, out));
    }
}

/* All 256 grey levels with all radii k/255, and odd radii around odd values. */
static void test_ball_bounds(void **state) {
    (void)state;
    float x[256];
    for (int i = 0; i < 256; i++) x[i] = (float)i / 255.0f;
    for (int k = 0; k <= 255; k++) check_linf_bounds(k / 255.0, x, 256);
    static const double odd[] = {0, 1e-30, 1e-9, 1e-8, 0.0312345678901, 0.5, 1, 1.5};
    vt_rng_uniforms(&(vt_rng){.seed = 1}, x, 256);
    for (int i = 0; i < 32; i++) x[i] *= 1e-6f; /* near the border, where floats are dense */
    for (size_t k = 0; k < COUNT(odd); k++) check_linf_bounds(odd[k], x, 256);
}

/* Projection: feasible, idempotent byte for byte, the identity inside, and near the closed form. */
static void check_projection(vt_norm norm, double eps, uint32_t seed, bool interior) {
    enum { N = 192 };
    float x[N], lo[N], hi[N], v[N], again[N];
    vt_rng r = {.seed = seed, .purpose = 1};
    vt_ball b;
    paint(x, N, seed, interior);
    vt_ball_init(&b, norm, eps, x, N, lo, hi);
    vt_rng_normals(&r, v, N);
    double length = 0, d[N];
    for (size_t i = 0; i < N; i++) {
        v[i] = x[i] + (float)(v[i] * powf(10, (float)(seed % 5) - 3));
        d[i] = (double)v[i] - (double)x[i];
        length += d[i] * d[i];
    }
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v) && distance(norm, v, x, N) <= eps);
    for (size_t i = 0; i < N; i++) {
        double want = norm == VT_LINF ? fmax(-eps, fmin(eps, d[i])) : d[i] * fmin(1, eps / sqrt(length));
        want = fmax(0, fmin(1, (double)x[i] + want));
        assert_true(v[i] >= 0 && v[i] <= 1 && fabs((double)v[i] - want) <= 2e-7); /* a few float32 roundings */
    }
    memcpy(again, v, sizeof v);
    vt_ball_project(&b, again);
    assert_memory_equal(v, again, sizeof v);
    memcpy(again, x, sizeof x);
    vt_ball_project(&b, again);
    assert_memory_equal(x, again, sizeof x);
    v[5] = NAN, v[6] = INFINITY, v[7] = -INFINITY; /* whatever an attack computes, the result is feasible */
    vt_ball_project(&b, v);
    assert_true(vt_ball_contains(&b, v));
}

static void test_ball_projection(void **state) {
    (void)state;
    static const double eps[2][5] = {{0, 1.0 / 255, 8.0 / 255, 0.3, 2}, {0, 1e-4, 0.5, 3, 100}};
    for (uint32_t seed = 0; seed < 200; seed++)
        for (int k = 0; k < 5; k++)
            for (vt_norm norm = VT_LINF; norm <= VT_L2; norm++) check_projection(norm, eps[norm][k], seed, seed % 2);
}

static void test_ball_starts(void **state) {
    (void)state;
    enum { N = 192 };
    float x[N], lo[N], hi[N], v[N];
    for (uint32_t seed = 0; seed < 200; seed++) {
        vt_norm norm = seed % 2 ? VT_L2 : VT_LINF;
        double eps = norm == VT_L2 ? 0.25 : 0.1, far = 0;
        vt_rng r = {.seed = seed, .purpose = 2};
        vt_ball b;
        paint(x, N, seed, true);
        vt_ball_init(&b, norm, eps, x, N, lo, hi);
        vt_ball_start_surface(&b, &r, v);
        far = distance(norm, v, x, N);
        assert_true(far <= eps && far >= eps * (1 - 1e-5)); /* on the surface but for float32 rounding */
        vt_ball_start_inside(&b, &r, v);
        far = distance(norm, v, x, N);
        assert_true(far <= eps && far > 0);
        if (norm == VT_LINF) assert_true(far >= 0.9 * eps); /* the largest of 192 uniform draws */
        paint(x, N, seed, false);
        vt_ball_init(&b, norm, eps, x, N, lo, hi);
        vt_ball_start_surface(&b, &r, v);
        assert_true(distance(norm, v, x, N) <= eps && vt_ball_contains(&b, v));
        vt_ball_start_inside(&b, &r, v);
        assert_true(distance(norm, v, x, N) <= eps && vt_ball_contains(&b, v));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ball_bounds),
        cmocka_unit_test(test_ball_projection),
        cmocka_unit_test(test_ball_starts),
    };
    return cmocka_run_group_tests_name("ball", tests, NULL, NULL);
}
