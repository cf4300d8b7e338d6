/* SPDX-License-Identifier: MIT */
/* The rotation threat: the grid, the transform against exact cases, the judge's own transform, and the attack against
 * brute force on planted classifiers. */
#include "attack_fixture.h"
#include "t.h"

#include "attacks/attacker.h"
#include "attacks/rotation.h"
#include "eval/verify.h"

#define ULP 0x1p-24 /* rounding to float32 below 1, and as much again for two computations in double */

static const vt_shape shapes[] = {{3, 8, 8}, {1, 7, 5}, {2, 4, 9}, {3, 6, 6}};

static vt_rotation grid_of(const char *text) {
    vt_rotation r;
    vt_err e = {0};
    if (vt_rotation_parse(&r, text, &e) != VT_OK) fail_msg("%s", e.text);
    return r;
}

static void draw(float *x, vt_shape s, uint64_t seed) {
    vt_rng_uniforms(&(vt_rng){.seed = seed, .purpose = 0x7E57}, x, vt_shape_values(s));
}

/* The value at a pixel, 0 outside. */
static float at(const float *x, vt_shape s, int c, int y, int i) {
    return y >= 0 && y < s.height && i >= 0 && i < s.width ? x[(c * s.height + y) * s.width + i] : 0;
}

static void test_grid(void **state) {
    (void)state;
    const vt_rotation r = grid_of("rotation"), two = grid_of("Rotation:angle=9,shift=1,angles=2,shifts=4");
    assert_int_equal(vt_rotation_points(&r), 775);
    for (int k = 0; k < 775; k++) {
        const vt_motion m = vt_rotation_point(&r, k);
        t_le(fabs(m.angle - (-30 + 2 * (k % 31))), 1e-14, "angle %d", k); /* a rounding of 30 */
        assert_true(m.down == -3 + 1.5 * (k / 31 % 5) && m.right == -3 + 1.5 * (k / 155));
    }
    assert_true(vt_rotation_point(&r, 387).angle == 0);
    assert_int_equal(vt_rotation_points(&two), 32);
    assert_true(vt_rotation_point(&two, 31).angle == 9 && vt_rotation_point(&two, 31).right == 1);
    const vt_rotation still = grid_of("rotation:angle=0,shifts=3"), turned = grid_of("rotation:shifts=1");
    assert_true(still.angles == 1 && vt_rotation_points(&still) == 9 && vt_rotation_point(&still, 4).right == 0);
    assert_true(turned.shift == 0 && vt_rotation_points(&turned) == 31 && vt_rotation_point(&turned, 0).down == 0);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"rotation:angle=181", "180"},
                                         {"rotation:angles=0", "1"},
                                         {"rotation:shift=-1", "0"},
                                         {"rotation:shifts=1001", "1000"},
                                         {"rotation:angle=nan", "nan"}};
    vt_rotation r;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(bad); i++)
        t_says(vt_rotation_parse(&r, bad[i][0], &e), VT_E_USAGE, &e, "threat rotation", bad[i][1]);
    t_says(vt_rotation_parse(&r, "rotation:turns=3", &e), VT_E_UNKNOWN, &e, "threat rotation", "'turns'");
    assert_false(vt_rotation_named("rotations") || vt_rotation_named("rotatio:n") || vt_rotation_named("patch:size=1"));
    r = grid_of("rotation:shift=5");
    t_says(vt_rotation_fit(&r, shapes[1], &e), VT_E_USAGE, &e, "shift is 5 pixels", "less than the images' 5");
    assert_int_equal(vt_rotation_fit(&r, shapes[0], &e), VT_OK);
    r = grid_of("rotation:angles=1000,shifts=32");
    t_says(vt_rotation_fit(&r, shapes[0], &e), VT_E_USAGE, &e, "1024000 points", "at most 1000000");
    vt_attack a;
    t_says(vt_attack_parse(&a, "pgd", VT_NORM_ROTATION, &e), VT_E_USAGE, &e, "attack pgd", "rotation");
    t_says(vt_attack_parse(&a, "square", VT_NORM_ROTATION, &e), VT_E_USAGE, &e, "attack square", "rotation");
    t_says(vt_attack_parse(&a, "grid", VT_LINF, &e), VT_E_USAGE, &e, "norm linf", "rotation");
    t_says(vt_attack_parse(&a, "grid", VT_NORM_PATCH, &e), VT_E_USAGE, &e, "attack grid", "patch");
    t_says(vt_attack_parse(&a, "grid", VT_NORM_BOX, &e), VT_E_USAGE, &e, "attack grid", "box");
}

/* Nothing, quarter turns, whole and half pixels: images that need no interpolation, or half of two neighbours. */
static void test_exact_cases(void **state) {
    (void)state;
    for (size_t k = 0; k < T_COUNT(shapes); k++) {
        const vt_shape s = shapes[k];
        float *x = floats(vt_shape_values(s)), *y = floats(vt_shape_values(s));
        draw(x, s, k);
        vt_rotation_apply(y, x, s, (vt_motion){0});
        assert_memory_equal(x, y, vt_shape_values(s) * sizeof *x);
        for (int right = -3; right <= 3; right++) {
            vt_rotation_apply(y, x, s, (vt_motion){0, right, 2});
            for (int i = 0; i < (int)vt_shape_values(s); i++)
                assert_true(y[i] ==
                            at(x, s, i / (s.height * s.width), i / s.width % s.height - 2, i % s.width - right));
        }
        vt_rotation_apply(y, x, s, (vt_motion){0, 1.5, 0});
        for (int i = 0; i < (int)vt_shape_values(s); i++) {
            const int c = i / (s.height * s.width), row = i / s.width % s.height, col = i % s.width;
            const double mean = ((double)at(x, s, c, row, col - 2) + (double)at(x, s, c, row, col - 1)) / 2;
            assert_true(y[i] == (float)mean);
        }
        /* counterclockwise: the last column becomes the first row; then one to the right, so in this order */
        vt_rotation_apply(y, x, s, (vt_motion){90, 1, 0});
        for (int i = 0; s.height == s.width && i < (int)vt_shape_values(s); i++) {
            const int c = i / (s.height * s.width), row = i / s.width % s.height, col = i % s.width - 1;
            const float want = col < 0 ? 0 : at(x, s, c, col, s.width - 1 - row);
            t_le(fabs((double)y[i] - (double)want), ULP, "a quarter turn");
        }
        free(x), free(y);
    }
}

/* A white image: 0 where only the outside is in reach, 1 where the inside alone is, and never beyond. */
static void test_outside_is_zero(void **state) {
    (void)state;
    const vt_shape s = {1, 32, 32};
    float x[1024], y[1024];
    for (int i = 0; i < 1024; i++) x[i] = 1;
    vt_rotation_apply(y, x, s, (vt_motion){45, 0.5, 0});
    int none = 0, whole = 0;
    for (int i = 0; i < 1024; i++) {
        const double across = fabs(i % 32 - 16.0), down = fabs(i / 32 - 15.5), far = (across + down) / sqrt(2);
        assert_true(y[i] >= 0 && y[i] <= 1);
        if (far >= 16.5 + 1.5) assert_true(y[i] == 0), none++; /* 1.5: what two interpolations reach */
        if (far <= 15.5 - 1.5) t_le(fabs(1 - (double)y[i]), ULP, "inside"), whole++;
    }
    assert_true(none > 50 && whole > 500);
}

static bool judged_inside(const float *x, const float *y, vt_shape s, const vt_rotation *r) {
    vt_verdict v = {.inside = true, .broken = true, .borderline = true};
    vt_verify_rotation(&v, x, y, s, r);
    assert_true(v.broken == v.inside && v.borderline == v.inside);
    return v.inside;
}

/* The judge knows every point of the grid, and neither an altered one nor one between the grid's. */
static void test_judge(void **state) {
    (void)state;
    const vt_rotation r = grid_of("rotation:angle=40,shift=2,angles=7,shifts=4");
    for (size_t k = 0; k < T_COUNT(shapes); k++) {
        const vt_shape s = shapes[k];
        const size_t n = vt_shape_values(s);
        float *x = floats(n), *y = floats(n);
        draw(x, s, 10 + k);
        for (int p = 0; p < vt_rotation_points(&r); p++) {
            vt_motion m = vt_rotation_point(&r, p);
            vt_rotation_apply(y, x, s, m);
            assert_true(judged_inside(x, y, s, &r));
            const size_t i = (size_t)p * 7 % n;
            const float was = y[i], moved[] = {was + 0x1p-22f, was - 0x1p-22f, NAN};
            for (int q = 0; q < 3; q++) y[i] = moved[q], assert_false(judged_inside(x, y, s, &r));
            m.angle += 0.01;
            vt_rotation_apply(y, x, s, m);
            assert_false(judged_inside(x, y, s, &r));
            m.angle -= 0.01, m.down += 0.01;
            vt_rotation_apply(y, x, s, m);
            assert_false(judged_inside(x, y, s, &r));
        }
        vt_verdict v = {.inside = false};
        vt_verify_rotation(&v, x, x, s, &r);
        assert_false(v.inside);
        free(x), free(y);
    }
}

/* One run of the attack on image x of a planted classifier, as an evaluation makes it. */
static vt_status run_grid(vt_attacker *w, vt_oracle *o, planted *p, const char *spec, const vt_task *t) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, VT_NORM_ROTATION, &e) != VT_OK) fail_msg("%s", e.text);
    vt_task dims = vt_attacker_dims(p->shape, p->classes, NULL);
    dims.rotation = t->rotation;
    assert_int_equal(vt_attacker_open(w, p->shape, vt_attacker_work(&a, &dims), &e), VT_OK);
    assert_int_equal(vt_oracle_open(o, &p->c, &e), VT_OK);
    const vt_status s = vt_attacker_run(w, o, &a.stages[0], t);
    const vt_cost_dims d = {.classes = p->classes, .points = vt_rotation_points(t->rotation)};
    if (!o->has_found) assert_true(vt_attack_cost(&a, &d).forwards == (double)o->forwards);
    assert_int_equal(o->gradients, 0);
    vt_attack_free(&a);
    return s;
}

/* An image falls exactly if a point of the grid does, after fewer queries than points; one that stands was asked about
 * all, and the point of the largest margin is left. */
static void test_attack_is_exact(void **state) {
    (void)state;
    const vt_rotation r = grid_of("rotation:angle=6,shift=0.5,angles=5,shifts=3");
    const int points = vt_rotation_points(&r);
    int fell = 0, stood = 0, early = 0;
    for (uint32_t image = 0; image < 60; image++) {
        planted p;
        assert_true(planted_linear_of(&p, 3, shapes[0], image));
        const size_t n = p.n;
        float *x = floats(n), *y = floats(n), *worst = floats(n);
        draw(x, p.shape, 100 + image);
        const int label = predicted(&p, x);
        double z[PLANTED_MOST], most = -INFINITY;
        for (int k = 0; k < points; k++) {
            vt_rotation_apply(y, x, p.shape, vt_rotation_point(&r, k));
            p.logits(&p, y, z);
            double margin = -INFINITY;
            for (int c = 0; c < 3; c++)
                if (c != label) margin = fmax(margin, z[c] - z[label]);
            if (margin > most) most = margin, memcpy(worst, y, n * sizeof *y);
        }
        const vt_task t = {.clean = x,
                           .classes = 3,
                           .label = label,
                           .eps = 1,
                           .rotation = &r,
                           .mode = VT_ORACLE_SEARCH,
                           .rng = {.seed = 3, .image = image}};
        vt_attacker w;
        vt_oracle o;
        assert_int_equal(run_grid(&w, &o, &p, "grid", &t), VT_OK);
        assert_true(o.has_found == (most > 0));
        assert_true(judged_inside(x, w.at, p.shape, &r));
        if (o.has_found)
            assert_int_not_equal(predicted(&p, w.at), label), fell++, early += o.forwards < points / 2;
        else
            assert_memory_equal(w.at, worst, n * sizeof *worst), assert_int_equal(o.forwards, points), stood++;
        vt_oracle_close(&o), vt_attacker_close(&w);
        vt_task all = t;
        all.mode = VT_ORACLE_EXHAUSTIVE;
        assert_int_equal(run_grid(&w, &o, &p, "grid", &all), VT_OK);
        assert_int_equal(o.forwards, points);
        assert_memory_equal(w.at, worst, n * sizeof *worst);
        vt_oracle_close(&o), vt_attacker_close(&w);
        assert_int_equal(run_grid(&w, &o, &p, "grid:tries=4", &t), VT_OK);
        assert_true(o.forwards <= 4 && (most > 0 || !o.has_found) && judged_inside(x, w.at, p.shape, &r));
        vt_oracle_close(&o), vt_attacker_close(&w);
        free(x), free(y), free(worst);
        planted_free(&p);
    }
    assert_true(fell > 10 && stood > 10 && early > 3);
}

/* Points that a classifier was asked about, one mark each, by brute force over the grid. */
typedef struct marks {
    const float *x;
    const vt_rotation *r;
    int seen[64], order[64], n;
} marks;

static void mark(void *arg, const float *v, int64_t call, float *z) {
    marks *m = arg;
    float y[192];
    (void)call, (void)z;
    for (int k = 0; k < vt_rotation_points(m->r); k++) {
        vt_rotation_apply(y, m->x, shapes[0], vt_rotation_point(m->r, k));
        if (memcmp(y, v, sizeof y)) continue;
        m->seen[k]++, m->order[m->n++] = k;
        return;
    }
    fail_msg("a query is no point of the grid");
}

/* Every point once, in an order that the seed decides; so many of them if asked, and not the same ones each time. */
static void test_order(void **state) {
    (void)state;
    const vt_rotation r = grid_of("rotation:angle=20,shift=1,angles=5,shifts=3");
    float x[192];
    draw(x, shapes[0], 5);
    planted p;
    assert_true(planted_linear_of(&p, 3, shapes[0], 9));
    marks m[4];
    for (int i = 0; i < 4; i++) {
        vt_attacker w;
        vt_oracle o;
        m[i] = (marks){.x = x, .r = &r};
        p.watch = mark, p.arg = &m[i];
        const vt_task t = {.clean = x,
                           .classes = 3,
                           .label = predicted(&p, x),
                           .eps = 1,
                           .rotation = &r,
                           .mode = VT_ORACLE_EXHAUSTIVE,
                           .rng = {.seed = (uint64_t)(i % 2)}};
        assert_int_equal(run_grid(&w, &o, &p, i < 3 ? "grid" : "grid:tries=9", &t), VT_OK);
        for (int k = 0; k < 45; k++) assert_in_range(m[i].seen[k], i < 3, 1);
        assert_int_equal(m[i].n, i < 3 ? 45 : 9);
        vt_oracle_close(&o), vt_attacker_close(&w);
    }
    assert_memory_equal(m[0].order, m[2].order, sizeof m[0].order);
    assert_memory_not_equal(m[0].order, m[1].order, 45 * sizeof(int));
    assert_memory_equal(m[1].order, m[3].order, 9 * sizeof(int)); /* the first of the same shuffle */
    planted_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grid),        cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_exact_cases), cmocka_unit_test(test_outside_is_zero),
                                       cmocka_unit_test(test_judge),       cmocka_unit_test(test_attack_is_exact),
                                       cmocka_unit_test(test_order)};
    return cmocka_run_group_tests_name("rotation", tests, NULL, NULL);
}
