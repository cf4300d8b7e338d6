/* SPDX-License-Identifier: MIT */
/* src/io: pictures on their way to the model, against what Pillow and torchvision make of them
 * (tests/fixtures/gen_images.py): JPEG, resize, transforms, ImageNet's class numbers. Runs from the repository's root.
 */
#include "t.h"

#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/files.h"
#include "data/image.h"
#include "data/dataset.h"
#include "scratch.h"

#define FIXTURES "tests/fixtures/images/"

static uint8_t *get(const char *path, size_t *n) {
    char *bytes;
    vt_err e = {0};
    if (vt_file_load(path, VT_IMAGE_FILE_MAX, &bytes, n, &e) != VT_OK) fail_msg("%s", e.text);
    return (uint8_t *)bytes;
}

/* pixels() of gen_images.py, from interleaved to planes */
static vt_image drawn(uint32_t seed, int width, int height) {
    size_t plane = (size_t)width * (size_t)height;
    vt_image im = {{3, height, width}, malloc(3 * plane), NULL};
    assert_non_null(im.rgb);
    uint32_t x = seed;
    for (size_t i = 0; i < 3 * plane; i++) {
        x = x * 1664525u + 1013904223u;
        im.rgb[i % 3 * plane + i / 3] = (uint8_t)(seed % 3 ? x >> 24 : 255 * (x >> 31));
    }
    return im;
}

static void is_sha(const vt_image *im, const char *want, const char *what) {
    size_t plane = vt_shape_plane(im->shape);
    char hex[65];
    vt_sha sha;
    vt_sha_begin(&sha);
    for (size_t i = 0; i < 3 * plane; i++) vt_sha_update(&sha, &im->rgb[i % 3 * plane + i / 3], 1);
    vt_sha_end(&sha, hex);
    if (strcmp(hex, want)) fail_msg("%s: other bytes than Pillow's", what);
}

/* ---- resize ---- */

static vt_filter filter_named(const char *name) {
    for (int f = 0; f < VT_FILTER_COUNT; f++)
        if (!strcmp(name, vt_filter_names[f])) return (vt_filter)f;
    fail_msg("no filter %s", name);
    return (vt_filter)0;
}

static void test_resize_rows(void **state) {
    (void)state;
    static const uint8_t row[10] = {0, 10, 250, 255, 3, 128, 77, 200, 31, 90};
    static const struct {
        vt_filter filter;
        int width;
        uint8_t want[16];
    } cases[] = {
        {VT_FILTER_BILINEAR, 4, {72, 158, 105, 90}},
        {VT_FILTER_BILINEAR, 16, {0, 4, 25, 175, 252, 255, 113, 26, 105, 106, 85, 162, 147, 42, 64, 90}},
        {VT_FILTER_BICUBIC, 4, {71, 164, 104, 91}},
        {VT_FILTER_BICUBIC, 16, {0, 0, 19, 185, 255, 255, 101, 6, 110, 109, 80, 177, 161, 36, 58, 94}},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++)
        for (int upright = 0; upright < 2; upright++) { /* the same numbers down a column */
            vt_image im = {{3, upright ? 10 : 1, upright ? 1 : 10}, malloc(30), NULL};
            int n = cases[i].width;
            for (int c = 0; c < 3; c++) memcpy(im.rgb + 10 * c, row, 10);
            assert_int_equal(vt_image_resize(&im, upright ? 1 : n, upright ? n : 1, cases[i].filter, "x", NULL), VT_OK);
            assert_true(im.shape.width * im.shape.height == n);
            for (int c = 0; c < 3; c++) assert_memory_equal(im.rgb + n * c, cases[i].want, (size_t)n);
            vt_image_free(&im);
        }
}

static void test_resize_pillow(void **state) {
    (void)state;
    FILE *f = fopen(FIXTURES "resize.txt", "r");
    assert_non_null(f);
    int seed, w, h, x, y, cases = 0;
    char filter[16], sha[65], what[100];
    for (; fscanf(f, "%d %d %d %d %d %15s %64s", &seed, &w, &h, &x, &y, filter, sha) == 7; cases++) {
        vt_image im = drawn((uint32_t)seed, w, h);
        snprintf(what, sizeof what, "%d x %d to %d x %d, %s", w, h, x, y, filter);
        assert_int_equal(vt_image_resize(&im, x, y, filter_named(filter), "x", NULL), VT_OK);
        assert_true(im.shape.width == x && im.shape.height == y);
        is_sha(&im, sha, what);
        vt_image_free(&im);
    }
    assert_true(feof(f) && cases == 402);
    fclose(f);
}

static void test_resize_refused(void **state) {
    (void)state;
    vt_err e = {0};
    vt_image im = drawn(1, 3, 2);
    t_says(vt_image_resize(&im, 0, 2, VT_FILTER_BOX, "p.jpg", &e), VT_E_RANGE, &e, "p.jpg: ", "0 x 2");
    t_says(vt_image_resize(&im, 16385, 2, VT_FILTER_BOX, "p.jpg", &e), VT_E_RANGE, &e,
           "p.jpg: ", "16385 x 2, sides must be");
    assert_true(im.shape.width == 3 && im.shape.height == 2 && im.rgb); /* as it was */
    vt_image_free(&im);
    im = drawn(1, 1, 9000);
    t_says(vt_image_resize(&im, 16000, 1, VT_FILTER_BOX, "p.jpg", &e), VT_E_RANGE, &e, "16000 x 9000", "pixels");
    vt_image_free(&im);
}

/* ---- transforms ---- */

static void test_transform_torchvision(void **state) {
    (void)state;
    FILE *f = fopen(FIXTURES "transform.txt", "r");
    assert_non_null(f);
    int seed, w, h, cases = 0;
    char text[64], again[64], sha[65], what[160];
    for (; fscanf(f, "%d %d %d %63s %64s", &seed, &w, &h, text, sha) == 5; cases++) {
        vt_image im = drawn((uint32_t)seed, w, h);
        vt_transform t;
        vt_err e = {0};
        if (vt_transform_parse(&t, text, &e) != VT_OK) fail_msg("%s", e.text);
        if (vt_transform_apply(&im, &t, "x", &e) != VT_OK) fail_msg("%s", e.text);
        snprintf(what, sizeof what, "%d x %d, %s", w, h, text);
        is_sha(&im, sha, what);
        vt_image_free(&im);
        assert_true(vt_transform_text(&t, again, sizeof again) < (int)sizeof again);
        vt_transform u;
        assert_int_equal(vt_transform_parse(&u, again, &e), VT_OK);
        assert_memory_equal(&t, &u, sizeof t);
    }
    assert_true(feof(f) && cases == 160);
    fclose(f);
}

static void test_transform_text(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } good[] = {{"none", "none"},
                {"short:248,bicubic,crop:224", "short:248,bicubic,crop:224"},
                {"crop:224,bicubic,short:248", "short:248,bicubic,crop:224"},
                {"squash:224", "squash:224,bilinear"},
                {"crop:32", "crop:32"},
                {"none,crop:32", "crop:32"}};
    static const struct {
        const char *in, *text;
    } bad[] = {{"", "'' is not one of"},
               {"short:248,", "'' is not one of"},
               {"short", "'short' is not one of"},
               {"bicubic:3", "'bicubic' is not one of"},
               {"cubic,short:3", "'cubic' is not one of"},
               {"short:x", "short is 'x', which is not a whole number"},
               {"short:0", "short is 0, must be from 1 to 16384"},
               {"squash:16385", "squash is 16385, must be"},
               {"crop:", "crop is ''"},
               {"crop:3,crop:4", "crop is given twice"},
               {"short:3,squash:4", "the resize is given twice"},
               {"short:3,box,nearest", "the filter is given twice"},
               {"bicubic,crop:3", "no short:N or squash:N"}};
    vt_transform t;
    vt_err e = {0};
    char text[64];
    for (size_t i = 0; i < T_COUNT(good); i++) {
        assert_int_equal(vt_transform_parse(&t, good[i].in, &e), VT_OK);
        vt_transform_text(&t, text, sizeof text);
        assert_string_equal(text, good[i].out);
        assert_true(vt_transform_is_none(&t) == (i == 0));
    }
    for (size_t i = 0; i < T_COUNT(bad); i++)
        t_says(vt_transform_parse(&t, bad[i].in, &e), VT_E_USAGE, &e, "preprocessing: ", bad[i].text);
    char lengthy[300];
    memset(lengthy, 'x', 299);
    lengthy[299] = 0;
    t_says(vt_transform_parse(&t, lengthy, &e), VT_E_USAGE, &e, "preprocessing: ", "too long");
}

/* math.floor(size / crop_pct) of timm/data/transforms_factory.py, for the values its models have */
static void test_transform_timm(void **state) {
    (void)state;
    static const struct {
        int size, side;
        double pct;
    } cases[] = {{224, 248, 0.9}, {224, 256, 0.875}, {224, 224, 1}, {224, 235, 0.95}, {384, 384, 1}, {240, 252, 0.95}};
    for (size_t i = 0; i < T_COUNT(cases); i++)
        for (int squash = 0; squash < 2; squash++) {
            vt_transform t = vt_transform_timm(cases[i].size, cases[i].pct, VT_FILTER_BICUBIC, squash);
            assert_true(t.size == cases[i].side && t.crop == cases[i].size && t.filter == VT_FILTER_BICUBIC);
            assert_true(t.fit == (squash ? VT_FIT_SQUASH : VT_FIT_SHORT));
        }
}

/* ---- JPEG ---- */

static const char *const jpegs[] = {"444",  "422",           "420",    "440",
                                    "grey", "one_pixel",     "narrow", "progressive",
                                    "exif", "missing_scans", "cmyk",   "cmyk_no_adobe",
                                    "ycck", "rgb",           "junk",   "progressive_grey"};

static void test_jpeg_pillow(void **state) {
    (void)state;
    if (strcmp(vt_jpeg_decoder, "libjpeg-turbo")) skip(); /* another libjpeg upsamples in its own way */
    for (size_t i = 0; i < T_COUNT(jpegs); i++) {
        char path[100];
        size_t n;
        vt_image im;
        vt_err e = {0};
        snprintf(path, sizeof path, FIXTURES "%s.jpg", jpegs[i]);
        if (vt_image_read(path, &im, &e) != VT_OK) fail_msg("%s", e.text);
        memcpy(path + strlen(path) - 3, "rgb", 3);
        uint8_t *want = get(path, &n);
        assert_int_equal(n, 3 * im.shape.width * im.shape.height);
        if (memcmp(im.rgb, want, n)) fail_msg("%s differs from Pillow", jpegs[i]);
        free(want);
        vt_image_free(&im);
    }
}

static void test_jpeg_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
        vt_status status;
    } bad[] = {{"cut", "truncated JPEG, it ends at byte", VT_E_FORMAT},
               {"no_eoi", "truncated JPEG, it ends at byte", VT_E_FORMAT},
               {"header_only", "holds no picture", VT_E_FORMAT},
               {"early_end", "premature end of data", VT_E_FORMAT},
               {"huge", "claims 4095 x 16383 pixels, which its", VT_E_FORMAT},
               {"too_wide", "65535 x 1, sides must be from 1 to 16384", VT_E_RANGE},
               {"no_lines", "37 x 0", VT_E_RANGE},
               {"bits12", "12 bits a sample", VT_E_FORMAT},
               {"lossless", "process SOF3", VT_E_FORMAT},
               {"two_components", "2 components", VT_E_FORMAT},
               {"two_frames", "two start-of-frame markers", VT_E_FORMAT},
               {"no_tables", "damaged JPEG: ", VT_E_FORMAT},
               {"bad_code", "damaged JPEG: ", VT_E_FORMAT}};
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        char path[100];
        size_t n;
        vt_image im = {.rgb = (uint8_t *)path};
        vt_err e = {0};
        snprintf(path, sizeof path, FIXTURES "%s.bad", bad[i].file);
        uint8_t *b = get(path, &n);
        t_says(vt_jpeg_parse(b, n, path, &im, &e), bad[i].status, &e, path, bad[i].text);
        assert_null(im.rgb);
        free(b);
    }
}

/* No prefix is a picture; a changed byte is refused or decoded, and never more is read than there is. */
static void test_jpeg_damage(void **state) {
    (void)state;
    static const char *const files[] = {"420", "progressive", "cmyk"};
    for (size_t i = 0; i < T_COUNT(files); i++) {
        char path[100];
        size_t n;
        snprintf(path, sizeof path, FIXTURES "%s.jpg", files[i]);
        uint8_t *b = get(path, &n);
        for (size_t k = 0; k < n; k++) {
            uint8_t *copy = malloc(n); /* exact sizes, for the sanitizer */
            uint8_t *cut = malloc(k ? k : 1);
            vt_image im;
            vt_err e = {0};
            memcpy(cut, b, k);
            t_says(vt_jpeg_parse(cut, k, path, &im, &e), VT_E_FORMAT, &e, path, k < 3 ? "is not a JPEG" : "truncated");
            assert_null(im.rgb);
            memcpy(copy, b, n);
            copy[k] ^= (uint8_t)(1 + k % 255);
            if (vt_jpeg_parse(copy, n, path, &im, &e) != VT_OK && (im.rgb || strncmp(e.text, path, strlen(path))))
                fail_msg("byte %zu: '%s'", k, e.text);
            vt_image_free(&im);
            free(copy), free(cut);
        }
        free(b);
    }
}

/* ---- folders ---- */

static void copy(const char *from, const char *to) {
    size_t n;
    uint8_t *b = get(from, &n);
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b, 1, n, f), n);
    fclose(f);
    free(b);
}

#define TENCH "n01440764"
#define CHURCH "n03028079"

/* A split of two of ImageNet's classes: 2 pictures of its validation set, one that is not, one a PNG by content. */
static vt_dataset *open_two(void) {
    static bool made;
    if (!made) {
        assert_int_equal(mkdir(at("val"), 0700) | mkdir(at("val/" TENCH), 0700) | mkdir(at("val/" CHURCH), 0700), 0);
        copy(FIXTURES "420.jpg", at("val/" CHURCH "/ILSVRC2012_val_00000001.JPEG"));
        copy("tests/fixtures/png/rgb8.png", at("val/" CHURCH "/" CHURCH "_22.JPEG"));
        copy(FIXTURES "grey.jpg", at("val/" TENCH "/ILSVRC2012_val_00000009.JPEG"));
        copy(FIXTURES "cut.bad", at("val/" TENCH "/.hidden.JPEG"));
        made = true;
    }
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, tmp, VT_SPLIT_TEST, &e) != VT_OK) fail_msg("%s", e.text);
    return d;
}

static void test_folder_jpeg(void **state) {
    (void)state;
    vt_dataset *d = open_two();
    static const struct {
        const char *name;
        int label, width;
    } want[] = {{TENCH "/ILSVRC2012_val_00000009.JPEG", 0, 37},
                {CHURCH "/ILSVRC2012_val_00000001.JPEG", 1, 37},
                {CHURCH "/" CHURCH "_22.JPEG", 1, 5}};
    assert_true(d->count == 3 && d->classes == 2 && d->jpeg);
    assert_string_equal(d->names[1], CHURCH);
    assert_int_equal(vt_imagenet_val_count(d), 2);
    vt_err e = {0};
    vt_image im;
    int label;
    for (int i = 0; i < 3; i++) {
        if (vt_dataset_read(d, i, &im, &label, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(label == want[i].label && im.shape.width == want[i].width);
        assert_string_equal(vt_dataset_image_name(d, i), want[i].name);
        vt_image_free(&im);
    }
    t_says(vt_dataset_read_as(d, 1, vt_shape_rgb(24), &im, &label, &e), VT_E_SHAPE, &e, want[1].name,
           "37 x 29 pixels, the model wants 24 x 24 (--preprocess short:27,bicubic,crop:24");
    assert_null(im.rgb);
    d->transform = (vt_transform){.fit = VT_FIT_SHORT, .size = 30, .filter = VT_FILTER_BOX, .crop = 25};
    t_says(vt_dataset_read_as(d, 1, vt_shape_rgb(24), &im, &label, &e), VT_E_SHAPE, &e, want[1].name,
           "makes it 25 x 25");
    d->transform.crop = 24;
    assert_int_equal(vt_dataset_read_as(d, 1, vt_shape_rgb(24), &im, &label, &e), VT_OK);
    assert_true(im.shape.width == 24 && im.shape.height == 24);
    vt_image_free(&im);
    vt_dataset_close(d);
}

static void test_folder_heads(void **state) {
    (void)state;
    vt_dataset *d = open_two();
    vt_err e = {0};
    vt_image im;
    int label;
    assert_int_equal(vt_dataset_fit_head(d, 1000, false, "m", &e), VT_OK);
    assert_true(d->head[0] == 0 && d->head[1] == 497 && !d->restricted);
    assert_int_equal(vt_dataset_read(d, 1, &im, &label, &e), VT_OK);
    assert_int_equal(label, 497);
    vt_image_free(&im);
    assert_int_equal(vt_dataset_fit_head(d, 1000, true, "m", &e), VT_OK);
    assert_true(d->head[1] == 497 && d->restricted);
    assert_int_equal(vt_dataset_read(d, 1, &im, &label, &e), VT_OK);
    assert_int_equal(label, 1);
    vt_image_free(&im);
    assert_int_equal(vt_dataset_fit_head(d, 2, true, "m", &e), VT_OK);
    assert_true(!d->head && !d->restricted);
    t_says(vt_dataset_fit_head(d, 10, false, "m.st", &e), VT_E_SHAPE, &e, "2 classes", "the model m.st has 10");
    vt_dataset_close(d);
    assert_int_equal(rename(at("val/" CHURCH), at("val/church")), 0);
    assert_int_equal(vt_dataset_open(&d, tmp, VT_SPLIT_TEST, &e), VT_OK);
    t_says(vt_dataset_fit_head(d, 1000, false, "m.st", &e), VT_E_SHAPE, &e, "2 classes",
           "not named by ImageNet's wnids");
    assert_int_equal(vt_imagenet_val_count(d), -1);
    vt_dataset_close(d);
    assert_int_equal(rename(at("val/church"), at("val/" CHURCH)), 0);
}

static void test_folder_bad_jpeg(void **state) {
    (void)state;
    vt_dataset *d = open_two();
    vt_dataset_close(d);
    vt_err e = {0};
    copy(FIXTURES "cut.bad", at("val/" CHURCH "/x.jpg"));
    t_says(vt_dataset_open(&d, tmp, VT_SPLIT_TEST, &e), VT_E_FORMAT, &e, at("val/" CHURCH "/x.jpg"), "truncated JPEG");
    assert_int_equal(unlink(at("val/" CHURCH "/x.jpg")), 0);
}

/* Every 9-character wnid there can be: exactly the 1000 are found, in order, and they are the public list. */
static void test_imagenet(void **state) {
    (void)state;
    static const struct {
        const char *wnid;
        int index;
    } known[] = {{"n01440764", 0},   {"n02102040", 217}, {"n02979186", 482}, {"n03000684", 491},
                 {"n03028079", 497}, {"n03394916", 566}, {"n03417042", 569}, {"n03425413", 571},
                 {"n03445777", 574}, {"n03888257", 701}, {"n15075141", 999}, {"n02123045", 281},
                 {"n01440765", -1},  {"church", -1},     {"", -1},           {"n014407640", -1}};
    for (size_t i = 0; i < T_COUNT(known); i++) assert_int_equal(vt_imagenet_index(known[i].wnid), known[i].index);
    char wnid[16], hex[65];
    int found = 0;
    vt_sha sha;
    vt_sha_begin(&sha);
    for (int k = 1000000; k < 16000000; k++) {
        for (int d = 8, rest = k; d > 0; d--, rest /= 10) wnid[d] = (char)('0' + rest % 10);
        wnid[0] = 'n', wnid[9] = '\n', wnid[10] = 0;
        char keep = wnid[9];
        wnid[9] = 0;
        int index = vt_imagenet_index(wnid);
        wnid[9] = keep;
        if (index < 0) continue;
        assert_int_equal(index, found++);
        vt_sha_update(&sha, wnid, 10);
    }
    vt_sha_end(&sha, hex);
    assert_int_equal(found, VT_IMAGENET_CLASSES);
    /* of timm's imagenet_synsets.txt */
    assert_string_equal(hex, "70002b0ff5de60a3a17a82dbfcff291931f96225ddf941ad2e182fc39e183d15");
    assert_true(vt_imagenet_is_val("n01440764/ILSVRC2012_val_00000293.JPEG") && vt_imagenet_is_val("ILSVRC2012_val_1"));
    assert_true(!vt_imagenet_is_val("ILSVRC2012_val_x/n01440764_10026.JPEG") && !vt_imagenet_is_val("x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_rows),    cmocka_unit_test(test_resize_pillow),
        cmocka_unit_test(test_resize_refused), cmocka_unit_test(test_transform_torchvision),
        cmocka_unit_test(test_transform_text), cmocka_unit_test(test_transform_timm),
        cmocka_unit_test(test_jpeg_pillow),    cmocka_unit_test(test_jpeg_refused),
        cmocka_unit_test(test_jpeg_damage),    cmocka_unit_test(test_folder_jpeg),
        cmocka_unit_test(test_folder_heads),   cmocka_unit_test(test_folder_bad_jpeg),
        cmocka_unit_test(test_imagenet),
    };
    return cmocka_run_group_tests_name("image", tests, make_tmp, remove_tmp);
}
