/* SPDX-License-Identifier: MIT */
/* Data sets that are folders of pictures: order, splits, what is refused. */
#include "io_fixture.h"

#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"

static void copy_png(const char *name, const char *to) {
    char path[100];
    size_t n;
    snprintf(path, sizeof path, "tests/fixtures/png/%s.png", name);
    uint8_t *b = get(path, &n);
    put(to, b, n);
    free(b);
}

static void make_dirs(const char *const *names) {
    for (; *names; names++) assert_int_equal(mkdir(at("%s", *names), 0700), 0);
}

static void test_folder_order(void **state) {
    (void)state;
    make_dirs((const char *const[]){"f", "f/b", "f/a", "f/Z", "f/a/sub", "f/a/sub-1", "f/a/sub/deep", "f/empty",
                                    "f/.git", NULL});
    static const struct {
        const char *file, *png;
        int label;
    } want[] = {/* ImageFolder's order: Z < a < b < empty, folder by folder */
                {"Z/2.png", "rgb8", 0},        {"a/x.png", "grey8", 1},          {"a/sub/0.PNG", "la8", 1},
                {"a/sub-1/0.png", "rgb16", 1}, {"a/sub/deep/0.png", "grey2", 1}, {"b/10.png", "grey4", 2},
                {"b/9.png", "palette8", 2}};
    char hex[65];
    vt_dataset *d;
    vt_err e = {0};
    for (size_t i = T_COUNT(want); i-- > 0;) copy_png(want[i].png, at("f/%s", want[i].file));
    put(at("f/b/notes.txt"), "x", 1);
    put(at("f/b/._9.png"), "x", 1);
    put(at("f/b/1.gif"), "x", 1);
    vt_sha sha;
    vt_sha_begin(&sha);
    vt_sha_update(&sha, "Z/\0a/\0b/\0empty/", 16);
    assert_int_equal(vt_dataset_open(&d, at("f"), VT_SPLIT_TEST, &e), VT_OK);
    assert_true(d->count == 7 && d->classes == 4);
    for (size_t i = 0; i < T_COUNT(want); i++) {
        char path[100];
        size_t n, m;
        int label;
        vt_image im;
        snprintf(path, sizeof path, "tests/fixtures/png/%s.rgb", want[i].png);
        uint8_t *rgb = get(path, &n), *b = get(at("f/%s", want[i].file), &m);
        assert_int_equal(vt_dataset_read(d, (int64_t)i, &im, &label, &e), VT_OK);
        assert_int_equal(label, want[i].label);
        if (memcmp(im.rgb, rgb, n)) fail_msg("image %zu is not %s", i, want[i].file);
        vt_sha_update(&sha, want[i].file, strlen(want[i].file) + 1);
        vt_sha_update(&sha, &(uint64_t){m}, 8);
        vt_sha_update(&sha, b, m);
        vt_image_free(&im);
        free(rgb);
        free(b);
    }
    vt_sha_end(&sha, hex);
    assert_string_equal(hex, d->hash);
    vt_dataset_close(d);
    assert_int_equal(symlink("..", at("f/a/loop")), 0); /* a circle */
    refuse_set(at("f"), VT_SPLIT_TEST, VT_E_IO, at("f/"), "16 folders deep");
}

static void test_folder_splits(void **state) {
    (void)state;
    static const struct {
        const char *folder;
        int test, train; /* classes, 0: refused */
    } steps[] = {{"s/c1", 1, 0}, {"s/train", 0, 2}, {"s/val", 3, 2}, {"s/test", 3, 2}, {"s/test/k", 1, 2}};
    make_dirs((const char *const[]){"s", NULL});
    for (size_t i = 0; i < T_COUNT(steps); i++) {
        make_dirs((const char *const[]){steps[i].folder, NULL});
        if (i == 0) copy_png("rgb8", at("s/c1/1.png"));
        int inside = i == 1 ? 2 : i == 2 ? 3 : 0;
        for (int k = 0; k < inside; k++) {
            assert_int_equal(mkdir(at("%s/%d", steps[i].folder, k), 0700), 0);
            copy_png("rgb8", at("%s/%d/1.png", steps[i].folder, k));
        }
        if (i == 4) copy_png("rgb8", at("s/test/k/1.png"));
        for (int train = 0; train < 2; train++) {
            vt_dataset *d;
            vt_err e = {0};
            int want = train ? steps[i].train : steps[i].test;
            vt_status s = vt_dataset_open(&d, at("s"), train ? VT_SPLIT_TRAIN : VT_SPLIT_TEST, &e);
            if (!want)
                t_says(s, VT_E_IO, &e, at("s"), train ? "no folder train" : "no folder test or val");
            else
                assert_true(s == VT_OK && d->classes == want);
            vt_dataset_close(d);
        }
    }
}

static void test_folder_bad(void **state) {
    (void)state;
    make_dirs((const char *const[]){"flat", "jpeg", "jpeg/c", "none", "none/c", "void", "bad", "bad/c", NULL});
    copy_png("rgb8", at("flat/1.png"));
    refuse_set(at("flat"), VT_SPLIT_TEST, VT_E_FORMAT, at("flat"),
               "one sub-folder of .png, .jpg or .jpeg files for each class");
    refuse_set(at("flat/1.png"), VT_SPLIT_TEST, VT_E_FORMAT, at("flat/1.png"), "has no label");
    put(at("jpeg/c/1.JPEG"), "x", 1);
    refuse_set(at("jpeg"), VT_SPLIT_TEST, VT_E_FORMAT, at("jpeg/c/1.JPEG"), "not a PNG or JPEG file");
    refuse_set(at("none"), VT_SPLIT_TEST, VT_E_FORMAT, at("none"), "1 class folders hold no .png, .jpg or .jpeg");
    refuse_set(at("void"), VT_SPLIT_TEST, VT_E_FORMAT, at("void"), "not a data set of a known format");
    put(at("bad/c/1.png"), "not a png", 9);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_FORMAT, at("bad/c/1.png"), "not a PNG");
    put(at("bad/c/1.png"), "", 0);
    refuse_set(at("bad"), VT_SPLIT_TEST, VT_E_FORMAT, at("bad/c/1.png"), "empty");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder_order),
        cmocka_unit_test(test_folder_splits),
        cmocka_unit_test(test_folder_bad),
    };
    return cmocka_run_group_tests_name("folder", tests, make_tmp, remove_tmp);
}
