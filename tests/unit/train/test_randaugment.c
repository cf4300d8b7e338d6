/* SPDX-License-Identifier: MIT */
/* train/randaugment: every operation against Pillow's bytes (tests/fixtures/gen_randaugment.py), the settings against
 * torchvision's, the draws of both augmentations, and where in the order of things they stand. */
#include "reference.h"

#include "train/augment.h"

enum { DRAWS = 20000, SIDE = 32, PIXELS = 3 * SIDE * SIDE };

/* ---- operations ---- */

static int operation(const char *name) {
    for (int k = 0; vt_randaugment_name(k); k++)
        if (!strcmp(vt_randaugment_name(k), name)) return k;
    fail_msg("no operation %s", name);
    return -1;
}

/* The caller frees. */
static int64_t *numbers(const vt_tensors *ref, const char *key, int n) {
    int64_t *v = malloc((size_t)n * sizeof *v);
    vt_err e = {0};
    if (vt_tensor_i64(ref, vt_tensors_find(ref, key), v, (size_t)n, &e) != VT_OK) fail_msg("%s: %s", key, e.text);
    return v;
}

static void bytes(uint8_t *out, const int64_t *in, int n) {
    for (int i = 0; i < n; i++) out[i] = (uint8_t)in[i];
}

/* Equal bytes: Pillow's arithmetic is that of float and of whole numbers. */
static void check(const vt_tensors *ref, int side, int op) {
    static const int magnitudes[] = {3, 9, 14, 30};
    const char *name = vt_randaugment_name(op);
    char key[60];
    int n = 3 * side * side, settings;
    uint8_t in[PIXELS], out[PIXELS], want[PIXELS];
    snprintf(key, sizeof key, "%d.%s.settings", side, name);
    const vt_tensor *t = vt_tensors_find(ref, key);
    assert_non_null(t);
    settings = (int)t->numel;
    double *values = reference(ref, t->numel, "%s", key);
    snprintf(key, sizeof key, "%d.image", side);
    int64_t *image = numbers(ref, key, n);
    snprintf(key, sizeof key, "%d.%s", side, name);
    int64_t *all = numbers(ref, key, settings * n);
    bytes(in, image, n);
    for (int k = 0; k < settings; k++) {
        memset(out, 77, sizeof out);
        vt_randaugment_apply(out, in, side, op, values[k]);
        bytes(want, all + k * n, n);
        for (int i = 0; i < n; i++)
            if (out[i] != want[i])
                fail_msg("%s(%g), side %d, number %d: %d, not %d", name, values[k], side, i, out[i], want[i]);
        bool has_sign;
        double v = vt_randaugment_setting(op, magnitudes[settings > 4 ? k / 2 : k % 4], side, &has_sign);
        if (settings > 1) t_le(fabs(v - fabs(values[k])), 1e-12 * fabs(values[k]), "%s, setting", name);
        assert_true(has_sign == (settings == 8));
    }
    free(image), free(values), free(all);
}

static void test_operations(void **state) {
    (void)state;
    vt_tensors *ref = reference_open("tests/fixtures/golden/randaugment.safetensors");
    int n = 0;
    for (; vt_randaugment_name(n); n++) check(ref, 12, n), check(ref, 15, n), check(ref, 24, n);
    assert_int_equal(n, 14);
    vt_tensors_close(ref);
}

/* One colour: nothing to stretch or equalise. */
static void test_flat(void **state) {
    (void)state;
    uint8_t in[75], out[75];
    memset(in, 200, sizeof in);
    static const char *const names[] = {"AutoContrast", "Equalize", "Sharpness", "Contrast", "Color"};
    for (size_t k = 0; k < T_COUNT(names); k++) {
        vt_randaugment_apply(out, in, 5, operation(names[k]), 0.9);
        assert_memory_equal(in, out, sizeof in);
    }
}

/* ---- draws ---- */

static void picture(float *x) {
    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i * 7 % 251) / 255;
}

/* All operations come equally often: with one operation of the greatest strength its picture says which it was; signs
 * too. What is no op of the list is never seen. */
static void test_draws(void **state) {
    (void)state;
    static uint8_t in[PIXELS], out[28][PIXELS];
    float x[PIXELS], want[PIXELS];
    int count[28] = {0};
    picture(x);
    for (int i = 0; i < PIXELS; i++) in[i] = (uint8_t)lrintf(x[i] * 255);
    for (int k = 0; k < 28; k++) {
        bool has_sign;
        double v = vt_randaugment_setting(k / 2, 30, SIDE, &has_sign);
        vt_randaugment_apply(out[k], in, SIDE, k / 2, has_sign && k % 2 ? -v : v);
    }
    enum { N = 7000 };
    for (int d = 0; d < N; d++) {
        vt_rng r = {.seed = 3, .purpose = vt_rng_purpose("randaugment"), .image = (uint32_t)d};
        picture(x);
        assert_int_equal(vt_randaugment(x, SIDE, 1, 30, &r, NULL), VT_OK);
        int found = -1;
        for (int k = 0; k < 28 && found < 0; k++) {
            for (int i = 0; i < PIXELS; i++) want[i] = (float)out[k][i] / 255;
            if (!memcmp(x, want, sizeof want)) found = k;
        }
        assert_true(found >= 0);
        count[found]++;
    }
    for (int op = 0; op < 14; op++) /* 4 standard deviations of a binomial */
        t_le(fabs(count[2 * op] + count[2 * op + 1] - N / 14.0), 4 * sqrt(N / 14.0 * 13 / 14), "%s",
             vt_randaugment_name(op));
    for (int op = 1; op < 10; op++)
        t_le(fabs(count[2 * op] - N / 28.0), 4 * sqrt(N / 28.0 * 27 / 28), "%s, sign", vt_randaugment_name(op));
    /* two operations are one after the other */
    int differ = 0;
    for (int d = 0; d < 50; d++) {
        vt_rng r = {.seed = 4, .image = (uint32_t)d};
        picture(x), memcpy(want, x, sizeof x);
        vt_randaugment(x, SIDE, 1, 30, &r, NULL), vt_randaugment(want, SIDE, 2, 30, &r, NULL);
        differ += memcmp(x, want, sizeof x) != 0;
    }
    assert_true(differ > 30); /* the second is the identity, or has nothing to do, in a few */
}

/* A rectangle of random pixels, with the given probability; area and sides within their bounds (rounded to pixels). */
static void test_erase(void **state) {
    (void)state;
    float x[PIXELS], before[PIXELS];
    int erased = 0, inside = 0, tall = 0, wide = 0;
    double area = 0, sum = 0, squares = 0;
    picture(before);
    for (int d = 0; d < DRAWS; d++) {
        vt_rng r = {.seed = 3, .purpose = vt_rng_purpose("erase"), .image = (uint32_t)d};
        int y0 = SIDE, y1 = 0, x0 = SIDE, x1 = 0, changed = 0;
        memcpy(x, before, sizeof x);
        vt_random_erase(x, SIDE, 0.25, &r);
        for (int i = 0; i < PIXELS; i++) {
            if (x[i] == before[i]) continue;
            int row = i / SIDE % SIDE, column = i % SIDE;
            y0 = row < y0 ? row : y0, y1 = row >= y1 ? row + 1 : y1;
            x0 = column < x0 ? column : x0, x1 = column >= x1 ? column + 1 : x1, changed++;
            assert_true(x[i] >= 0 && x[i] <= 1);
            sum += (double)x[i], squares += (double)x[i] * (double)x[i], inside++;
        }
        if (!changed) continue;
        int h = y1 - y0, w = x1 - x0;
        erased++, area += h * w / (double)(SIDE * SIDE), tall += h > w, wide += w > h;
        assert_true(changed >= 3 * h * w - 3); /* a random pixel may be what it was */
        /* sides are rounded: sqrt(0.02 * 0.3) of a side is 2.5, which is 2 */
        assert_true(h >= 2 && w >= 2 && h < SIDE && w < SIDE && h * w >= 12 && h * w <= 360);
    }
    t_le(fabs(erased - DRAWS * 0.25), 4 * sqrt(DRAWS * 0.25 * 0.75), "erased");
    /* the mean area is 0.175, of uniform areas from 0.02 to 0.33 (deviation 0.09); what does not fit (sides above 32,
     * from areas above 0.3 alone) is drawn again */
    t_le(fabs(area / erased - 0.175), 4 * 0.09 / sqrt(erased) + 0.004, "mean area");
    t_le(abs(tall - wide), 4 * sqrt(erased), "tall and wide");
    t_le(fabs(sum / inside - 0.5), 4 * sqrt(1 / 12.0 / inside), "mean of the pixels");
    t_le(fabs(squares / inside - 1 / 3.0), 4 * sqrt(4 / 45.0 / inside), "their mean square");
}

/* Keyed by (seed, image, epoch) like crop and flip, which stay as they are; crop and flip first, then the operations,
 * then the rectangle. */
static void test_order(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, "datasets/shapes10", VT_SPLIT_TRAIN, &e) != VT_OK) fail_msg("%s", e.text);
    const vt_recipe_augment plain = {.crop = 4, .flip = 0.5};
    const vt_recipe_augment both = {.crop = 4, .flip = 0.5, .randaugment = 2, .magnitude = 9, .erase = 0.5};
    float x[PIXELS], y[PIXELS];
    int label, differ = 0, again = 0;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(vt_augment_image(x, &label, d, i, SIDE, &both, 5, 2, &e), VT_OK);
        assert_int_equal(vt_augment_image(y, &label, d, i, SIDE, &plain, 5, 2, &e), VT_OK);
        differ += memcmp(x, y, sizeof x) != 0;
        vt_rng r = {.seed = 5, .image = (uint32_t)i, .step = 2};
        r.purpose = vt_rng_purpose("randaugment");
        vt_randaugment(y, SIDE, 2, 9, &r, NULL);
        r.purpose = vt_rng_purpose("erase");
        vt_random_erase(y, SIDE, 0.5, &r);
        assert_memory_equal(x, y, sizeof x);
        assert_int_equal(vt_augment_image(y, &label, d, i, SIDE, &both, 5, 3, &e), VT_OK);
        again += memcmp(x, y, sizeof x) != 0;
    }
    assert_true(differ > 30 && again > 35);
    vt_dataset_close(d);
}

/* Mean 0, the deviation asked for, the same for the same key alone; 4 deviations of the estimates of 3072 x 20 draws.
 */
static void test_gaussian(void **state) {
    (void)state;
    float x[PIXELS], first[PIXELS], noise[PIXELS];
    double sum = 0, squares = 0;
    for (int at = 0; at < 20; at++) {
        for (int i = 0; i < PIXELS; i++) x[i] = 0.5f;
        vt_augment_gaussian(x, noise, PIXELS, 0.25, 3, 7, at);
        if (at == 0) memcpy(first, x, sizeof x);
        if (at > 0) assert_memory_not_equal(first, x, sizeof x);
        for (int i = 0; i < PIXELS; i++) sum += (double)x[i] - 0.5, squares += pow((double)x[i] - 0.5, 2);
    }
    t_le(fabs(sum / (20 * PIXELS)), 4 * 0.25 / sqrt(20 * PIXELS), "mean");
    t_le(fabs(sqrt(squares / (20 * PIXELS)) / 0.25 - 1), 4 / sqrt(2 * 20 * PIXELS), "deviation");
    for (int other = 0; other < 3; other++) { /* the key again, another seed, a step beyond 32 bits */
        for (int i = 0; i < PIXELS; i++) x[i] = 0.5f;
        vt_augment_gaussian(x, noise, PIXELS, 0.25, other == 1 ? 4 : 3, other == 2 ? 7 + (INT64_C(1) << 32) : 7, 0);
        assert_int_equal(memcmp(first, x, sizeof x) != 0, other > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_flat),  cmocka_unit_test(test_draws),
        cmocka_unit_test(test_erase),      cmocka_unit_test(test_order), cmocka_unit_test(test_gaussian),
    };
    return cmocka_run_group_tests_name("randaugment", tests, NULL, NULL);
}
