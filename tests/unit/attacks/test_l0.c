/* SPDX-License-Identifier: MIT */
/* l0: the ball counts values that differ; its projection keeps the largest changes. sigma-zero and PDPGD against the
 * fewest values that flip a linear classifier, which a sorted list gives; Sparse-RS against every choice of two values
 * of few; the judge counts for itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ask.h"
#include "attacks/attacker.h"
#include "eval/verify.h"
#include "planted.h"

enum { SIDE = 8, N = 3 * SIDE * SIDE };

static float x0[N], lo[N], hi[N];

static void paint(uint32_t image) {
    vt_rng r = {.seed = 11, .purpose = vt_rng_purpose("paint"), .image = image};
    for (size_t i = 0; i < N; i++) x0[i] = 0.2f + 0.6f * vt_rng_uniform(&r, i);
}

static size_t differ(const float *a, const float *b, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += a[i] != b[i];
    return k;
}

/* ---- the ball ---- */

static int downwards(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void test_project(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 400; k++) {
        vt_rng r = {.seed = 5, .purpose = vt_rng_purpose("project"), .image = k};
        float y[N], was[N];
        double size[N], kept = 0, best = 0;
        vt_ball b;
        size_t most = k % 7 == 0 ? 0 : k % 50, few = k % 3 ? N : 10;
        paint(k);
        vt_ball_init(&b, VT_L0, (double)most, x0, N, lo, hi);
        for (size_t i = 0; i < N; i++) /* many ties, and values outside of the box */
            y[i] = i < few ? x0[i] + (float)(vt_rng_bits(&r, i) % 9) * 0.25f - 1 : x0[i];
        for (size_t i = 0; i < N; i++)
            was[i] = fminf(fmaxf(y[i], 0), 1), size[i] = fabs((double)was[i] - (double)x0[i]);
        vt_ball_project(&b, y);
        assert_true(vt_ball_contains(&b, y) && differ(y, x0, N) <= most);
        qsort(size, N, sizeof *size, downwards);
        for (size_t i = 0; i < most && i < N; i++) best += size[i];
        for (size_t i = 0; i < N; i++) {
            assert_true(y[i] == x0[i] || y[i] == was[i]);
            kept += fabs((double)y[i] - (double)x0[i]);
        }
        assert_true(fabs(kept - best) <= 1e-9 * (1 + best)); /* the largest changes are kept */
    }
}

static void test_distance(void **state) {
    (void)state;
    float a[5] = {0, 1, 0.5f, 0.25f, 0.3f}, b[5] = {0, 1e-30f, 0.5f, 0.75f, 0.3f};
    assert_true(vt_distance(VT_L0, a, b, 5) == 2);
    assert_true(vt_length(VT_L0, b, 5) == 4);
    vt_norm n;
    assert_true(vt_norm_find("l0", &n) && n == VT_L0 && !strcmp(vt_norm_name(VT_L0), "l0"));
    vt_verdict v;
    planted p;
    assert_true(planted_linear(&p, 2, SIDE, SIDE, 3));
    float y[N], z[2];
    double z64[2];
    paint(1);
    memcpy(y, x0, sizeof y);
    for (int i = 0; i < 7; i++) y[i * 5] = 1;
    for (int most = 6; most <= 7; most++) {
        assert_int_equal(vt_verify(&v, &p.c, x0, y, 0, VT_L0, most, z, z64, NULL), VT_OK);
        assert_true(v.l0 == 7 && v.inside == (most == 7));
    }
    planted_free(&p);
}

/* ---- attacks ---- */

/* The point that an attack ends with, for a ball of eps values. */
static void attack(planted *p, const char *spec, int label, double eps, const float *x, float *out) {
    vt_attack a;
    vt_attacker by;
    vt_oracle o;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_L0, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task dims = vt_attacker_dims(p->shape, p->classes, NULL);

    assert_int_equal(vt_attacker_open(&by, p->shape, vt_attacker_work(&a, &dims), &e), VT_OK);
    assert_int_equal(vt_oracle_open(&o, &p->c, &e), VT_OK);
    vt_task t = {.clean = x, .label = label, .classes = p->classes, .norm = VT_L0, .eps = eps};
    t.mode = VT_ORACLE_EXHAUSTIVE, t.rng = (vt_rng){.seed = 1, .purpose = vt_rng_purpose(spec)};
    assert_int_equal(vt_attacker_run(&by, &o, &a.stages[0], &t), VT_OK);
    memcpy(out, by.x_adv, p->n * sizeof *out);
    vt_oracle_close(&o), vt_attacker_close(&by), vt_attack_free(&a);
}

static int top(planted *p, const float *x) {
    double z[PLANTED_MOST];
    int best = 0;
    p->logits(p, x, z);
    for (int k = 1; k < p->classes; k++)
        if (z[k] > z[best]) best = k;
    return best;
}

/* Two classes, z = W x + b: the values that move the difference most, to 0 or 1, until it turns. */
static size_t fewest(planted *p, int label) {
    double z[PLANTED_MOST], gain[N], gap;
    p->logits(p, x0, z);
    gap = z[label] - z[1 - label];
    for (size_t i = 0; i < N; i++) {
        double w = p->w[(size_t)(1 - label) * N + i] - p->w[(size_t)label * N + i];
        gain[i] = fabs(w) * (w > 0 ? 1 - (double)x0[i] : (double)x0[i]);
    }
    qsort(gain, N, sizeof *gain, downwards);
    size_t k = 0;
    for (; gap >= 0 && k < N; k++) gap -= gain[k];
    return k;
}

static void test_fewest(void **state) {
    (void)state;
    static const char *const specs[] = {"sigma-zero", "sigma-zero:by=gradient", "pdpgd"};
    size_t found[3] = {0}, least = 0;
    int images = 0;
    for (uint32_t c = 0; c < 40; c++) {
        planted p;
        float y[N];
        assert_true(planted_linear(&p, 2, SIDE, SIDE, 70 + c));
        paint(c);
        int label = top(&p, x0);
        size_t want = fewest(&p, label);
        for (int k = 0; k < 3 && want >= 2 && want < N / 2; k++) {
            attack(&p, specs[k], label, N, x0, y);
            size_t got = differ(x0, y, N);
            if (top(&p, y) == label || got < want || (double)got > 1.25 * (double)want + 1)
                fail_msg("%s, image %u: %zu values are enough, found %zu", specs[k], c, want, got);
            found[k] += got, images += k == 2, least += k == 2 ? want : 0;
        }
        planted_free(&p);
    }
    assert_true(images > 20);
    for (int k = 0; k < 3; k++) {
        print_message("%s, %d images: %zu values in all, %zu are enough\n", specs[k], images, found[k], least);
        assert_true((double)found[k] <= 1.1 * (double)least);
    }
}

/* A 2 x 2 image, 12 values: every choice of two, every pair of colours. */
static void test_sparse_rs(void **state) {
    (void)state;
    enum { FEW = 12 };
    for (uint32_t c = 0; c < 20; c++) {
        planted p;
        float y[FEW], at[FEW];
        double best = -INFINITY, z[PLANTED_MOST];
        assert_true(planted_mlp(&p, 4, 2, 2, 40 + c));
        paint(c);
        int label = top(&p, x0);
        for (int i = 0; i < FEW; i++)
            for (int k = 0; k < i; k++)
                for (int colours = 0; colours < 4; colours++) {
                    memcpy(at, x0, sizeof at);
                    at[i] = (float)(colours & 1), at[k] = (float)(colours >> 1);
                    p.logits(&p, at, z);
                    for (int j = 0; j < 4; j++)
                        if (j != label) best = fmax(best, z[j] - z[label]);
                }
        attack(&p, "sparse-rs:queries=4000", label, 2, x0, y);
        assert_true(differ(x0, y, FEW) <= 2);
        p.logits(&p, y, z);
        double got = -INFINITY;
        for (int j = 0; j < 4; j++)
            if (j != label) got = fmax(got, z[j] - z[label]);
        if (best <= 0 && !(got >= best - 1e-6)) fail_msg("image %u: margin %g, the best of all is %g", c, got, best);
        if (best > 1e-3) assert_true(got > 0);
        planted_free(&p);
    }
}

/* Ten of 192 values against a linear classifier that no ten flip: the best ten are known, and a search that keeps what
 * is better, and nothing else, comes near them. */
static void test_climbs(void **state) {
    (void)state;
    for (uint32_t c = 0; c < 6; c++) {
        planted p;
        float y[N];
        double z[PLANTED_MOST], gain[N], best, got;
        assert_true(planted_linear(&p, 2, SIDE, SIDE, 500 + c));
        paint(c);
        int label = top(&p, x0);
        p.b[label] += 100;
        p.logits(&p, x0, z);
        best = got = z[1 - label] - z[label];
        for (size_t i = 0; i < N; i++) {
            double w = p.w[(size_t)(1 - label) * N + i] - p.w[(size_t)label * N + i];
            gain[i] = fabs(w) * (w > 0 ? 1 - (double)x0[i] : (double)x0[i]);
        }
        qsort(gain, N, sizeof *gain, downwards);
        double start = best;
        for (int i = 0; i < 10; i++) best += gain[i];
        attack(&p, "sparse-rs:queries=4000", label, 10, x0, y);
        p.logits(&p, y, z);
        got = z[1 - label] - z[label];
        if (!(got - start >= 0.9 * (best - start) && got <= best + 1e-4))
            fail_msg("%u: gained %g of %g", c, got - start, best - start);
        planted_free(&p);
    }
}

/* Pixels: three values each, so that eps 6 is two of them. */
static void test_pixels(void **state) {
    (void)state;
    planted p;
    float y[N];
    assert_true(planted_linear(&p, 4, SIDE, SIDE, 9));
    paint(2);
    int label = top(&p, x0), pixels = 0;
    attack(&p, "sparse-rs:queries=300,unit=pixel", label, 7, x0, y);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int changed = 0;
        for (int c = 0; c < 3; c++) changed += y[c * SIDE * SIDE + i] != x0[c * SIDE * SIDE + i];
        for (int c = 0; changed && c < 3; c++) assert_true(y[c * SIDE * SIDE + i] == 0 || y[c * SIDE * SIDE + i] == 1);
        pixels += changed > 0;
    }
    assert_int_equal(pixels, 2);
    attack(&p, "sparse-rs:queries=30,unit=pixel", label, 2, x0, y); /* less than a pixel */
    assert_memory_equal(x0, y, sizeof y);
    planted_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_project), cmocka_unit_test(test_distance),
                                       cmocka_unit_test(test_fewest),  cmocka_unit_test(test_sparse_rs),
                                       cmocka_unit_test(test_climbs),  cmocka_unit_test(test_pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
