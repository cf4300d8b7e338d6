/* SPDX-License-Identifier: MIT */
/* Data sets of NumPy's files against NumPy (tests/fixtures/gen_npy.py). Runs from the repository root. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "data/dataset.h"
#include "tensors/npy.h"
#include "tensors/zip.h"
#include "scratch.h"
#include "train/augment.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define CORPUS "tests/fuzz/corpus/npy/"

static vt_tensors *judge;

static void same_set(const char *path, vt_split split, int64_t count, int classes) {
    static const int labels[] = {3, 0, 9, 1, 2};
    const vt_tensor *want = vt_tensors_find(judge, "pixels");
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, path, split, &e) != VT_OK) fail_msg("%s", e.text);
    assert_string_equal(d->def->name, "npy");
    assert_int_equal(d->count, count);
    assert_int_equal(d->classes, classes);
    assert_int_equal(d->classes_open, classes != 12);
    for (int64_t i = 0; i < count; i++) {
        vt_image im;
        int label;
        if (vt_dataset_read(d, i, &im, &label, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(im.shape.height, 4);
        assert_int_equal(im.shape.width, 6);
        assert_int_equal(label, labels[i]);
        assert_true(d->floats ? im.f && !im.rgb : im.rgb && !im.f);
        if (vt_image_to_bytes(&im, path, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(im.rgb && !im.f);
        for (size_t k = 0; k < 72; k++) {
            double w;
            memcpy(&w, (const char *)want->data + 8 * ((size_t)i * 72 + k), 8);
            if (im.rgb[k] != w) fail_msg("%s: image %d, byte %zu is %d, must be %g", path, (int)i, k, im.rgb[k], w);
        }
        vt_image_free(&im);
    }
    assert_int_equal(strlen(d->hash), 64);
    vt_dataset_close(d);
}

/* Floats that no bytes stand for come out with the bits that NumPy has: float32 and float16 as they are, double rounded
 * once. */
static void test_floats(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"free", "pixels_free"},
                                           {"free_big", "pixels_free"},
                                           {"free_double", "pixels_wide"},
                                           {"free_half", "pixels_half"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const vt_tensor *want = vt_tensors_find(judge, cases[i][1]);
        vt_dataset *d;
        vt_err e = {0};
        char path[300];
        snprintf(path, sizeof path, CORPUS "%s.npz", cases[i][0]);
        if (vt_dataset_open(&d, path, VT_SPLIT_TEST, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(d->count, 5);
        assert_true(d->floats);
        for (size_t at = 0; at < 5; at++) {
            vt_image im;
            int label;
            float trained[48];
            static const vt_recipe_augment as_it_is = {.crop = 0};
            if (vt_dataset_read_as(d, (int64_t)at, vt_shape_rgb(4), &im, &label, &e) != VT_OK) fail_msg("%s", e.text);
            assert_int_equal(vt_augment_image(trained, &label, d, (int64_t)at, 4, &as_it_is, 0, 0, &e), VT_OK);
            assert_memory_equal(trained, im.f, sizeof trained);
            for (size_t k = 0; k < 48; k++) {
                double w;
                memcpy(&w, (const char *)want->data + 8 * (at * 48 + k), 8);
                float value = vt_image_at(&im, k), exact = (float)w;
                if (memcmp(&value, &exact, 4)) fail_msg("%s: value %zu is %.9g, must be %.9g", path, k, value, w);
            }
            vt_image_free(&im);
        }
        vt_dataset_close(d);
    }
}

static vt_status transformed(vt_dataset *d, int64_t i, int side, const char *transform, vt_image *im, vt_err *e) {
    int label;
    assert_int_equal(vt_transform_parse(&d->transform, transform, NULL), VT_OK);
    vt_status s = vt_dataset_read_as(d, i, vt_shape_rgb(side), im, &label, e);
    if (s != VT_OK) assert_true(!im->rgb && !im->f);
    return s;
}

/* Resizes and crops take grey levels for the bytes that they are, refuse other floats with the first of them, and leave
 * alone what has its size already. */
static void test_floats_resized(void **state) {
    (void)state;
    static const char *const grey[] = {CORPUS "set_float.npz", CORPUS "set_product.npz", CORPUS "set_double.npz"};
    vt_dataset *d, *bytes;
    vt_image im, want;
    vt_err e = {0};
    assert_int_equal(vt_dataset_open(&bytes, CORPUS "set.npz", VT_SPLIT_TEST, &e), VT_OK);
    for (size_t k = 0; k < COUNT(grey); k++) {
        assert_int_equal(vt_dataset_open(&d, grey[k], VT_SPLIT_TEST, &e), VT_OK);
        for (int crop = 0; crop < 2; crop++) {
            const char *text = crop ? "crop:3" : "squash:3,bicubic";
            assert_int_equal(transformed(d, 1, 3, text, &im, &e), VT_OK);
            assert_int_equal(transformed(bytes, 1, 3, text, &want, &e), VT_OK);
            assert_memory_equal(im.rgb, want.rgb, 27);
            assert_null(im.f);
            vt_image_free(&im), vt_image_free(&want);
        }
        vt_dataset_close(d);
    }
    vt_dataset_close(bytes);
    assert_int_equal(vt_dataset_open(&d, CORPUS "free.npz", VT_SPLIT_TEST, &e), VT_OK);
    static const char *const changes[] = {"squash:3,nearest", "squash:8,bicubic", "crop:3", "crop:6", "short:3,crop:3"};
    for (size_t k = 0; k < COUNT(changes); k++) {
        int side = changes[k][strcspn(changes[k], "0123456789")] - '0';
        assert_int_equal(transformed(d, 0, side, changes[k], &im, &e), VT_E_SHAPE);
        assert_string_equal(e.text, CORPUS "free.npz: image 0 has the value 0.751856387 at channel 0, row 2, column 2, "
                                           "0.0011 away from 192/255: pictures are resized and cropped as bytes, so "
                                           "floats must have the model's size already");
    }
    assert_int_equal(transformed(d, 0, 4, "short:4,bicubic,crop:4", &im, &e), VT_OK);
    assert_true(im.f && !im.rgb);
    vt_image_free(&im);
    vt_dataset_close(d);
}

/* Labels 0 to 9 and no number of classes: a model may have more, not fewer. */
static void test_open_classes(void **state) {
    (void)state;
    vt_dataset *d;
    vt_err e = {0};
    assert_int_equal(vt_dataset_open(&d, CORPUS "set.npz", VT_SPLIT_TEST, &e), VT_OK);
    assert_int_equal(vt_dataset_fit_head(d, 9, false, "m", &e), VT_E_SHAPE);
    assert_int_equal(vt_dataset_fit_head(d, 1000, false, "m", &e), VT_OK);
    assert_int_equal(d->classes, 1000);
    vt_dataset_close(d);
    assert_int_equal(vt_dataset_open(&d, CORPUS "set_classes.npz", VT_SPLIT_TEST, &e), VT_OK);
    assert_int_equal(vt_dataset_fit_head(d, 1000, false, "m", &e), VT_E_SHAPE);
    vt_dataset_close(d);
}

static void copy_entry(const char *npz, const char *entry, const char *to) {
    char path[300];
    size_t n, m;
    const uint8_t *in;
    vt_zip *z;
    char *all;
    assert_int_equal(vt_file_load(npz, 1 << 20, &all, &n, NULL), VT_OK);
    assert_int_equal(vt_zip_open(&z, (const uint8_t *)all, n, npz, NULL), VT_OK);
    assert_int_equal(vt_zip_entry(z, vt_zip_find(z, entry), &in, &m, NULL), VT_OK);
    snprintf(path, sizeof path, "%s/%s", tmp, to);
    FILE *f = fopen(path, "wb");
    fwrite(in, 1, m, f);
    fclose(f);
    vt_zip_close(z);
    free(all);
}

static void test_sets(void **state) {
    (void)state;
    static const char *const names[] = {"set",         "set_xy",     "set_arr",     "set_float",
                                        "set_product", "set_double", "set_fortran", "set_zip64"};
    char path[300];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, CORPUS "%s.npz", names[i]);
        same_set(path, VT_SPLIT_TEST, 5, 10);
    }
    same_set(CORPUS "set.npz", VT_SPLIT_TRAIN, 5, 10); /* one file, either split */
    same_set(CORPUS "set_splits.npz", VT_SPLIT_TEST, 5, 10);
    same_set(CORPUS "set_splits.npz", VT_SPLIT_TRAIN, 2, 4);
    same_set(CORPUS "set_classes.npz", VT_SPLIT_TEST, 5, 12);
    snprintf(path, sizeof path, "%s/set", tmp);
    assert_int_equal(mkdir(path, 0777), 0);
    copy_entry(CORPUS "set.npz", "images.npy", "set/images.npy");
    copy_entry(CORPUS "set.npz", "labels.npy", "set/labels.npy");
    same_set(path, VT_SPLIT_TEST, 5, 10);
    copy_entry(CORPUS "set_classes.npz", "classes.npy", "set/classes.npy");
    same_set(path, VT_SPLIT_TEST, 5, 12);
}

/* Two planes of 4 x 6: each layout is found by the shape that a model takes, and no other shape changes it. */
static void test_channels(void **state) {
    (void)state;
    static const struct {
        const char *file;
        vt_shape unasked;
    } sets[] = {{CORPUS "two_first.npz", {2, 4, 6}}, {CORPUS "two_last.npz", {4, 6, 2}}};
    const vt_tensor *want = vt_tensors_find(judge, "pixels_two");
    const vt_shape two = {2, 4, 6};
    for (size_t k = 0; k < COUNT(sets); k++) {
        vt_dataset *d;
        vt_image im;
        vt_err e = {0};
        int label;
        if (vt_dataset_open(&d, sets[k].file, VT_SPLIT_TEST, &e) != VT_OK) fail_msg("%s", e.text);
        for (int asked = 0; asked < 3; asked++) {
            if (asked) vt_dataset_expect(d, asked == 1 ? vt_shape_rgb(4) : two);
            assert_int_equal(vt_dataset_read(d, 3, &im, &label, &e), VT_OK);
            assert_true(vt_shape_same(im.shape, asked == 2 ? two : sets[k].unasked));
            vt_image_free(&im);
        }
        for (int i = 0; i < 5; i++) {
            assert_int_equal(vt_dataset_read_as(d, i, two, &im, &label, &e), VT_OK);
            for (size_t j = 0; j < 48; j++) {
                double v;
                memcpy(&v, (const char *)want->data + ((size_t)i * 48 + j) * sizeof v, sizeof v);
                assert_true(im.rgb[j] == v);
            }
            vt_image_free(&im);
        }
        assert_int_equal(vt_dataset_read_as(d, 0, vt_shape_rgb(4), &im, &label, &e), VT_E_SHAPE);
        if (!strstr(e.text, "image 0 is 2 x 4 x 6, the model wants 3 x 4 x 4")) fail_msg("%s", e.text);
        assert_int_equal(vt_transform_parse(&d->transform, "squash:4,bilinear", &e), VT_OK);
        assert_int_equal(vt_dataset_read_as(d, 0, vt_shape_rgb(4), &im, &label, &e), VT_E_SHAPE);
        if (!strstr(e.text, "is 2 x 4 x 6: only pictures of three channels")) fail_msg("%s", e.text);
        vt_dataset_close(d);
    }
}

/* A last side of one is grey, until a model says otherwise; without channels images are grey. */
static void test_grey(void **state) {
    (void)state;
    vt_dataset *d;
    vt_image im;
    int label;
    assert_int_equal(vt_dataset_open(&d, CORPUS "grey_last.npz", VT_SPLIT_TEST, NULL), VT_OK);
    assert_int_equal(vt_dataset_read(d, 0, &im, &label, NULL), VT_OK);
    assert_true(vt_shape_same(im.shape, (vt_shape){1, 4, 6}));
    vt_dataset *flat;
    assert_int_equal(vt_dataset_open(&flat, CORPUS "grey_without_channels.npz", VT_SPLIT_TEST, NULL), VT_OK);
    vt_dataset_expect(flat, (vt_shape){1, 4, 6});
    for (int64_t i = 0; i < 5; i++) {
        vt_image other;
        vt_image_free(&im);
        assert_int_equal(vt_dataset_read(d, i, &im, &label, NULL), VT_OK);
        assert_int_equal(vt_dataset_read(flat, i, &other, &label, NULL), VT_OK);
        assert_true(vt_shape_same(other.shape, im.shape));
        assert_memory_equal(other.rgb, im.rgb, 24);
        vt_image_free(&other);
    }
    vt_image_free(&im);
    vt_dataset_close(d), vt_dataset_close(flat);
}

static void test_sets_refused(void **state) {
    (void)state;
    static const struct {
        const char *file;
        vt_status code;
        const char *text;
    } cases[] = {
        {"above", VT_E_RANGE,
         "image 2 has the value 1.0000000000000002 at channel 2, row 1, column 2; floats must lie"},
        {"below", VT_E_RANGE, "image 4 has the value -1.4012984643248171e-45 at channel 2, row 3, column 5; floats"},
        {"bytes_as_floats", VT_E_RANGE, "floats must lie in [0,1]"},
        {"nan", VT_E_RANGE, "image 0 has the value nan at channel 0, row 0, column 0; floats must lie in [0,1]"},
        {"flat", VT_E_SHAPE, "its images are [5,24], must be [N,C,H,W], [N,H,W,C] or [N,H,W]"},
        {"threes", VT_E_SHAPE, "[N,3,H,W] and [N,H,W,3] cannot be told apart"},
        {"cube", VT_E_SHAPE, "its images are [5,5,5,5], must be of sides that differ"},
        {"signed", VT_E_FORMAT, "its images are I32"},
        {"none", VT_E_FORMAT, "has no images"},
        {"count", VT_E_SHAPE, "its labels are [4], must be [5]"},
        {"real_labels", VT_E_FORMAT, "its labels are F32"},
        {"label", VT_E_RANGE, "label -1 of image 1"},
        {"large_label", VT_E_RANGE, "label -9223372036854775808 of image 2"},
        {"classes", VT_E_RANGE, "classes.npy: must be one whole number between 10"},
        {"keys", VT_E_FORMAT, "has no arrays named images and labels"},
        {"entry", VT_E_FORMAT, "images.npy: is not a NumPy array"},
        {"bomb", VT_E_FORMAT, "claims to inflate to 50331776 bytes"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[200];
        vt_dataset *d;
        vt_err e = {0};
        snprintf(path, sizeof path, CORPUS "bad_%s.npz", cases[i].file);
        vt_status s = vt_dataset_open(&d, path, VT_SPLIT_TEST, &e);
        if (s != cases[i].code) fail_msg("%s: status %d: %s", path, s, e.text);
        if (!strstr(e.text, cases[i].text) || strncmp(e.text, path, strlen(path)))
            fail_msg("'%s' does not mention '%s'", e.text, cases[i].text);
        assert_null(d);
    }
}

/* Images and labels as two files. */
static void test_pair(void **state) {
    (void)state;
    static const struct {
        const char *pair, *text;
        vt_status code;
    } bad[] = {
        {"u1.npy,i8.npy", "its images are [", VT_E_SHAPE},
        {"u1.npy,nowhere.npy", "nowhere.npy: cannot be opened", VT_E_IO},
        {"u1.npy", "name the images and the labels, as in --data x.npy,y.npy", VT_E_USAGE},
        {"u1.npy,labels", "cannot be opened", VT_E_IO},
    };
    uint8_t x[2 * 3 * 4 * 6];
    int64_t y[2] = {3, 0};
    char pair[1000];
    const vt_tensor *want = vt_tensors_find(judge, "pixels");
    for (size_t k = 0; k < sizeof x; k++) {
        double w;
        memcpy(&w, (const char *)want->data + 8 * k, 8);
        x[k] = (uint8_t)w;
    }
    vt_tensor tx = {.name = "x", .dtype = VT_U8, .ndim = 4, .shape = {2, 3, 4, 6}, .numel = sizeof x, .data = x};
    vt_tensor ty = {.name = "y", .dtype = VT_I64, .ndim = 1, .shape = {2}, .numel = 2, .data = y};
    assert_int_equal(vt_npy_write(at("mine.npy"), &tx, NULL), VT_OK);
    assert_int_equal(vt_npy_write(at("truth.npy"), &ty, NULL), VT_OK);
    snprintf(pair, sizeof pair, "%s,%s", at("mine.npy"), at("truth.npy"));
    same_set(pair, VT_SPLIT_TEST, 2, 4);
    same_set(pair, VT_SPLIT_TRAIN, 2, 4); /* they have no splits */
    for (size_t i = 0; i < COUNT(bad); i++) {
        vt_dataset *d;
        vt_err e = {0};
        char full[1000], *comma;
        snprintf(full, sizeof full, CORPUS "%s", bad[i].pair);
        if ((comma = strstr(full, ".npy,"))) snprintf(full, sizeof full, CORPUS "u1.npy," CORPUS "%s", bad[i].pair + 7);
        if (vt_dataset_open(&d, full, VT_SPLIT_TEST, &e) != bad[i].code || !strstr(e.text, bad[i].text))
            fail_msg("%s: %s", full, e.text);
    }
}

/* ---- CIFAR-10-C: NAME.npy of five severities, one after another, and labels.npy ---- */

enum { EACH = 4, SIDE = 2, IMAGE = 3 * SIDE * SIDE };

/* Value `value`(severity, image) at every channel-last place k, plus k; labels repeat. */
static void put_corruptions(const char *dir, int count) {
    uint8_t x[(VT_SEVERITIES * EACH + 1) * IMAGE], y[VT_SEVERITIES * EACH + 1];
    char path[600];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < IMAGE; k++) x[i * IMAGE + k] = (uint8_t)(10 * i + k), y[i] = (uint8_t)(i % EACH);
    vt_tensor tx = {.name = "x", .dtype = VT_U8, .ndim = 4, .shape = {count, SIDE, SIDE, 3}, .data = x};
    vt_tensor ty = {.name = "y", .dtype = VT_U8, .ndim = 1, .shape = {count}, .numel = (size_t)count, .data = y};
    tx.numel = (size_t)count * IMAGE;
    mkdir(dir, 0700);
    static const char *const names[] = {"fog", "snow", "labels"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s.npy", dir, names[i]);
        assert_int_equal(vt_npy_write(path, i == 2 ? &ty : &tx, NULL), VT_OK);
        for (int k = 0; k < count * IMAGE; k++) x[k] ^= 0xff; /* snow is fog's negative */
    }
}

static void refuse_corruption(const char *path, vt_split split, const char *name, vt_status want, const char *text) {
    vt_dataset *d;
    vt_err e = {0};
    vt_corruption c = {.severity = 1};
    snprintf(c.name, sizeof c.name, "%s", name);
    vt_status s = vt_dataset_open_asked(&d, path, split, &c, NULL, &e);
    if (s != want || !strstr(e.text, text)) fail_msg("status %d: '%s' does not mention '%s'", s, e.text, text);
    assert_null(d);
}

static void test_corruptions(void **state) {
    (void)state;
    vt_err e = {0};
    char root[400], hashes[2 * VT_SEVERITIES][65], folder[420];
    snprintf(root, sizeof root, "%s", at("above"));
    mkdir(root, 0700);
    snprintf(folder, sizeof folder, "%s/CIFAR-10-C", root);
    put_corruptions(folder, VT_SEVERITIES * EACH);
    for (int n = 0; n < 2; n++)
        for (int s = 1; s <= VT_SEVERITIES; s++) {
            vt_dataset *d;
            vt_corruption c = {.severity = s};
            snprintf(c.name, sizeof c.name, n ? "snow" : "fog");
            if (vt_dataset_open_asked(&d, n ? root : folder, VT_SPLIT_TEST, &c, NULL, &e) != VT_OK)
                fail_msg("%s", e.text);
            assert_int_equal(d->count, EACH);
            for (int i = 0; i < EACH; i++) {
                vt_image im;
                int label;
                assert_int_equal(vt_dataset_read(d, i, &im, &label, &e), VT_OK);
                assert_int_equal(label, i);
                for (int k = 0; k < IMAGE; k++) { /* planes, from pixels that hold their channels */
                    int from = k % (SIDE * SIDE) * 3 + k / (SIDE * SIDE);
                    uint8_t v = (uint8_t)(10 * ((s - 1) * EACH + i) + from);
                    assert_int_equal(im.rgb[k], (uint8_t)(n ? ~v : v));
                }
                vt_image_free(&im);
            }
            memcpy(hashes[n * VT_SEVERITIES + s - 1], d->hash, 65);
            for (int k = 0; k < n * VT_SEVERITIES + s - 1; k++) assert_string_not_equal(hashes[k], d->hash);
            vt_dataset_close(d);
        }
    refuse_corruption(folder, VT_SPLIT_TEST, "fogg", VT_E_USAGE, "has fog, snow; did you mean 'fog'?");
    refuse_corruption(folder, VT_SPLIT_TEST, "labels", VT_E_USAGE, "has fog, snow");
    refuse_corruption(folder, VT_SPLIT_TEST, "../CIFAR-10-C/fog", VT_E_USAGE, "has fog, snow");
    refuse_corruption(folder, VT_SPLIT_TRAIN, "fog", VT_E_USAGE, "there is no train split");
    refuse_corruption(CORPUS "set.npz", VT_SPLIT_TEST, "fog", VT_E_USAGE, "wants a folder of NAME.npy");
    refuse_corruption("datasets/shapes10", VT_SPLIT_TEST, "fog", VT_E_USAGE, "wants a folder of NAME.npy");
    vt_dataset *d;
    if (vt_dataset_open(&d, folder, VT_SPLIT_TEST, &e) != VT_E_USAGE ||
        !strstr(e.text, "--corruption, one of fog, snow, or all"))
        fail_msg("%s", e.text);
    put_corruptions(at("odd"), VT_SEVERITIES * EACH + 1);
    refuse_corruption(at("odd"), VT_SPLIT_TEST, "fog", VT_E_SHAPE, "[21,2,2,3], which are not 5 equal parts");
    vt_folders names;
    assert_int_equal(vt_corruptions_list(&names, root, &e), VT_OK);
    assert_int_equal(names.n, 2);
    assert_string_equal(names.name[0], "fog");
    assert_string_equal(names.name[1], "snow");
    vt_folders_free(&names);
}

static int start(void **state) {
    vt_err e;
    return make_tmp(state) == 0 && vt_tensors_open(&judge, "tests/fixtures/npy.safetensors", &e) == VT_OK ? 0 : -1;
}

static int end(void **state) {
    vt_tensors_close(judge);
    return remove_tmp(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),         cmocka_unit_test(test_channels), cmocka_unit_test(test_grey),
        cmocka_unit_test(test_sets_refused), cmocka_unit_test(test_floats),   cmocka_unit_test(test_floats_resized),
        cmocka_unit_test(test_open_classes), cmocka_unit_test(test_pair),     cmocka_unit_test(test_corruptions),
    };
    return cmocka_run_group_tests(tests, start, end);
}
