/* SPDX-License-Identifier: MIT */
/* Points inside a network and its sensors: what is shown there is what stands there, and what sleeps on every picture
 * is found. */
#include "ask.h"
#include "toy.h"

#include "inference/sensors.h"
#include "models/surgery.h"
#include "inference/classifier.h"

enum { PICTURES = 40 };
#define PATTERN(x, y) (((x) + (y)) % 2 ? -1.0f : 1.0f)

static float *at(vt_model *m, const char *name) {
    const vt_param *p = vt_model_param(m, name);
    assert_non_null(p);
    return m->w + p->offset;
}

/* Pictures whose blue is the same everywhere, so that a pattern in blue that sums to nothing shows in none. */
static vt_status read_picture(void *ctx, int i, float *x, vt_err *e) {
    const double *images = ctx;
    (void)e;
    for (int k = 0; k < 3 * 144; k++) x[k] = k < 288 ? (float)images[i * 3 * 144 + k] : 0.5f;
    return VT_OK;
}

/* Channels 0 and 1 of the stream hold the pattern's share in a patch and minus it, untouched by the first attention;
 * hidden unit 7 reads their difference and sleeps 30 below zero. */
static void plant(vt_model *m) {
    int d = m->config.dim, t = vt_config_tokens(&m->config);
    float *patch = at(m, "patch_embed.proj.weight"), *fc1 = at(m, "blocks.0.mlp.fc1.weight");
    for (int c = 0; c < 2; c++) {
        for (int k = 0; k < 48; k++) {
            float blue = k < 32 ? 0 : PATTERN(k % 4, k % 16 / 4);
            patch[c * 48 + k] = (c ? -0.1f : 0.1f) * blue;
        }
        at(m, "patch_embed.proj.bias")[c] = at(m, "cls_token")[c] = at(m, "blocks.0.attn.proj.bias")[c] = 0;
        for (int k = 0; k < t; k++) at(m, "pos_embed")[k * d + c] = 0;
        for (int k = 0; k < d; k++) at(m, "blocks.0.attn.proj.weight")[c * d + k] = 0;
    }
    for (int k = 0; k < d; k++) fc1[7 * d + k] = k == 0 ? 50 : k == 1 ? -50 : 0;
    at(m, "blocks.0.mlp.fc1.bias")[7] = -30;
    for (int k = 0; k < d; k++) at(m, "blocks.0.norm1.weight")[k] = at(m, "blocks.0.norm2.weight")[k] = 1;
    for (int k = 0; k < d; k++) at(m, "blocks.0.norm1.bias")[k] = at(m, "blocks.0.norm2.bias")[k] = 0;
    vt_model_refresh(m);
}

static void test_sleeping_unit(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true);
    double *images = toy_images(m, PICTURES, 5);
    vt_err e = {0};
    vt_sensors s;
    vt_sensor_sessions *open;
    float x[3 * 144], g[3 * 144];
    plant(m);
    vt_sensor_images pictures = {read_picture, images, PICTURES, 3 * 144, 1};
    assert_int_equal(vt_sensors_open(&s, m, &pictures, &e), VT_OK);
    assert_int_equal(s.points, 2 * m->config.depth + 1);
    assert_true(s.count > 10 && s.places[0].score > 5 * s.places[s.count / 2].score);
    assert_int_equal(vt_sensor_sessions_open(&open, &s, &e), VT_OK);
    read_picture(images, 3, x, &e);
    assert_int_equal(vt_sensor_gradient(open, x, 0, g, &e), VT_OK);
    float sign = g[288] > 0 ? 1 : -1;
    double others = 0, blue = 0;
    for (int k = 0; k < 3 * 144; k++) {
        if (k < 288) others += fabs((double)g[k]);
        if (k < 288) continue;
        blue += fabs((double)g[k]);
        assert_true(sign * g[k] * PATTERN(k % 12, k % 144 / 12) > 0); /* every pixel leads along the pattern */
    }
    t_le(others, 0.1 * blue, "what first moves is the pattern");
    vt_sensor_sessions_close(open);
    vt_sensors_close(&s);
    vt_model_close(m);
    free(images);
}

/* Behind all blocks the class token's half is what the head reads; where a point begins a block and the one before it
 * has an MLP that adds nothing, both show the same stream. What has no such points gives none. */
static void test_points(void **state) {
    (void)state;
    vt_model *m = toy(VT_POOL_TOKEN, false, true), *cut, *bare, *distilled = toy(VT_POOL_TOKEN, true, true);
    vt_err e = {0};
    vt_classifier a, b;
    int d = m->config.dim;
    float x[3 * 144], z[24], seen[24];
    double *images = toy_images(m, 1, 3);
    for (int k = 0; k < 3 * 144; k++) x[k] = (float)images[k];
    assert_int_equal(vt_points_inside(m), 2 * m->config.depth + 1);
    assert_int_equal(vt_points_inside(distilled), 0);
    assert_int_equal(vt_cut_inside(&cut, m, vt_points_inside(m), 24, &e), VT_OK);
    assert_null(cut);
    assert_int_equal(vt_cut_inside(&cut, m, 2 * m->config.depth, 2 * d, &e), VT_OK);
    assert_int_equal(vt_other_head(&bare, m, d, &e), VT_OK);
    vt_head_set(cut, NULL, NULL, 2 * d, (size_t)(2 * d)), vt_head_set(bare, NULL, NULL, d, (size_t)d);
    for (int step = 0; step < 2; step++) {
        assert_int_equal(vt_classifier_open(&a, cut, &e), VT_OK);
        assert_int_equal(vt_classifier_open(&b, bare, &e), VT_OK);
        ask_logits(&a, x, z, false);
        ask_logits(&b, x, seen, false);
        for (int k = 0; k < (step ? 2 * d : d); k++)
            t_le(fabs((double)z[k] - (double)seen[k]), 2e-5, "step %d, feature %d", step, k);
        vt_classifier_close(&a), vt_classifier_close(&b);
        vt_model_close(cut), vt_model_close(bare);
        cut = bare = NULL;
        if (step) break;
        memset(at(m, "blocks.0.mlp.fc2.weight"), 0, (size_t)(d * m->config.hidden) * sizeof(float));
        memset(at(m, "blocks.0.mlp.fc2.bias"), 0, (size_t)d * sizeof(float));
        memcpy(at(m, "blocks.1.norm1.weight"), at(m, "blocks.0.norm2.weight"), (size_t)d * sizeof(float));
        memcpy(at(m, "blocks.1.norm1.bias"), at(m, "blocks.0.norm2.bias"), (size_t)d * sizeof(float));
        vt_model_refresh(m);
        assert_int_equal(vt_cut_inside(&cut, m, 1, 2 * d, &e), VT_OK);
        assert_int_equal(vt_cut_inside(&bare, m, 2, 2 * d, &e), VT_OK);
        vt_head_set(cut, NULL, NULL, 2 * d, (size_t)(2 * d)), vt_head_set(bare, NULL, NULL, 2 * d, (size_t)(2 * d));
    }
    vt_model_close(m), vt_model_close(distilled);
    free(images);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sleeping_unit), cmocka_unit_test(test_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
