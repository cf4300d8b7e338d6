/* SPDX-License-Identifier: MIT */
/* MNIST's format: what is read is what was written, and what no such file holds is refused. */
#include "io_fixture.h"

#include <sys/stat.h>
#include "base/hash.h"
#include "data/records.h"

enum { N = 5, H = 3, W = 2 };

/* An idx file of images or labels: value k is first + k; `more` bytes at its end, or as many fewer. */
static void put_idx(const char *path, unsigned magic, int n, int first, int more) {
    uint8_t b[200] = {0, 0, (uint8_t)(magic >> 8), (uint8_t)magic, 0, 0, 0, (uint8_t)n, 0, 0, 0, H, 0, 0, 0, W};
    size_t head = magic == VT_IDX_IMAGES ? 16 : 8, values = magic == VT_IDX_IMAGES ? (size_t)(n * H * W) : (size_t)n;
    for (size_t k = 0; k < values; k++) b[head + k] = (uint8_t)(first + (int)k);
    put(path, b, (size_t)((int)(head + values) + more));
}

static void put_split(const char *folder, const char *split, int n, int first) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, split);
    put_idx(path, VT_IDX_IMAGES, n, first, 0);
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, split);
    put_idx(path, VT_IDX_LABELS, n, 1, 0);
}

static void check(const char *path, vt_split split, int n, int first) {
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open(&d, path, split, &e) != VT_OK) fail_msg("%s", e.text);
    assert_string_equal(d->def->name, "idx");
    assert_int_equal(d->count, n);
    assert_true(d->classes == n + 1 && d->classes_open);
    for (int i = 0; i < n; i++) {
        vt_image im;
        int label;
        assert_int_equal(vt_dataset_read(d, i, &im, &label, &e), VT_OK);
        assert_true(im.shape.channels == 1 && im.shape.height == H && im.shape.width == W && label == i + 1);
        assert_int_equal(d->def->class_of(d, i), label);
        for (int k = 0; k < H * W; k++) assert_int_equal(im.rgb[k], first + i * H * W + k);
        vt_image_free(&im);
    }
    vt_dataset_close(d);
}

static void test_folder(void **state) {
    (void)state;
    char hex[65];
    size_t n, m;
    vt_dataset *d;
    assert_int_equal(mkdir(at("mnist"), 0700), 0);
    put_split(at("mnist"), "train", N, 10);
    refuse_set(at("mnist"), VT_SPLIT_TEST, VT_E_USAGE, "no test images", "t10k-images-idx3-ubyte");
    put_split(at("mnist"), "t10k", 2, 90);
    check(at("mnist"), VT_SPLIT_TRAIN, N, 10);
    check(at("mnist"), VT_SPLIT_TEST, 2, 90);
    check(at("mnist/t10k-images-idx3-ubyte"), VT_SPLIT_TRAIN, 2, 90); /* one file is what it is */
    refuse_set(at("mnist"), VT_SPLIT_VAL, VT_E_USAGE, "train and test", "no val");
    assert_int_equal(vt_dataset_open(&d, at("mnist"), VT_SPLIT_TEST, NULL), VT_OK);
    uint8_t *a = get(at("mnist/t10k-images-idx3-ubyte"), &n), *b = get(at("mnist/t10k-labels-idx1-ubyte"), &m);
    memcpy(a + n, b, m);
    vt_sha_hex(a, n + m, hex);
    assert_string_equal(d->hash, hex);
    vt_dataset_close(d);
    free(a), free(b);
    put_split(at("mnist"), "emnist-letters-test", 2, 9);
    refuse_set(at("mnist"), VT_SPLIT_TEST, VT_E_USAGE, "2 files of test images",
               "emnist-letters-test-images-idx3-ubyte");
}

/* The names of Kaggle's copy have a dot. */
static void test_dotted(void **state) {
    (void)state;
    assert_int_equal(mkdir(at("dots"), 0700), 0);
    put_idx(at("dots/t10k-images.idx3-ubyte"), VT_IDX_IMAGES, 3, 5, 0);
    put_idx(at("dots/t10k-labels.idx1-ubyte"), VT_IDX_LABELS, 3, 1, 0);
    check(at("dots"), VT_SPLIT_TEST, 3, 5);
}

static void test_refused(void **state) {
    (void)state;
    char images[300], labels[300];
    assert_int_equal(mkdir(at("bad"), 0700), 0);
    snprintf(images, sizeof images, "%s/bad/test-images-idx3-ubyte", tmp);
    snprintf(labels, sizeof labels, "%s/bad/test-labels-idx1-ubyte", tmp);
    put_idx(images, VT_IDX_IMAGES, 4, 0, 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_IO, labels, "No such file");
    put_idx(labels, VT_IDX_LABELS, 3, 0, 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "3 labels", "4 images");
    put_idx(labels, VT_IDX_LABELS, 4, 0, -1);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "is cut short", "4 bytes after the head, 3 are there");
    put_idx(images, VT_IDX_IMAGES, 4, 0, -7);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "is cut short", "4 images of 2 x 3 are 24 bytes");
    put_idx(images, VT_IDX_IMAGES, 4, 0, 1);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "is too long", "25 are there");
    put_idx(images, VT_IDX_IMAGES, 0, 0, -5);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "is cut short",
               "11 bytes are there, the head of idx images has 16");
    put_idx(images, VT_IDX_LABELS, 4, 0, 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "0x00000801", "idx images begin with 0x00000803");
    put(images, "\0\0\010", 3);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, images, "3 bytes are there");
    put(images, "", 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, images, "0 bytes are there");
    put(images, "\0\0\010\003\0\0\0\1\0\0\0\0\0\0\0\1", 16);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, "1 x 0", "between 1 and 16384");
    put_idx(images, VT_IDX_IMAGES, 0, 0, 0);
    put_idx(labels, VT_IDX_LABELS, 0, 0, 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_USAGE, images, "has no images");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_dotted),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("idx", tests, make_tmp, remove_tmp);
}
