/* SPDX-License-Identifier: MIT */
/* PNG: every kind of pixel (tests/fixtures/gen_png.py), what a header may claim, writing. */
#include "io_fixture.h"

#include <fcntl.h>
#include <unistd.h>

static const char *const pngs[] = {"grey1",         "grey2",          "grey4",          "grey8",
                                   "grey16",        "grey16_low",     "grey8_trns",     "grey2_adam7",
                                   "grey16_adam7",  "palette1",       "palette2",       "palette4",
                                   "palette8",      "palette1_trns",  "palette2_trns",  "palette4_trns",
                                   "palette8_trns", "palette8_short", "palette4_adam7", "la8",
                                   "la16",          "rgb8",           "rgb16",          "rgb8_trns",
                                   "rgb8_gama",     "rgb8_adam7",     "rgba8",          "rgba16",
                                   "rgba16_adam7"};

/* Every colour type against Pillow; every prefix and every flipped pixel-data byte refused, silently. */
static void test_png_types(void **state) {
    (void)state;
    int saved = dup(2), sink = open(at("stderr"), O_RDWR | O_CREAT, 0600);
    dup2(sink, 2);
    for (size_t i = 0; i < T_COUNT(pngs); i++) {
        char path[100];
        size_t n, m;
        vt_image im;
        vt_err e = {0};
        snprintf(path, sizeof path, "tests/fixtures/png/%s.rgb", pngs[i]);
        uint8_t *want = get(path, &m);
        memcpy(path + strlen(path) - 3, "png", 3);
        if (vt_image_read(path, &im, &e) != VT_OK) fail_msg("%s", e.text);
        assert_true(im.shape.width == 5 && im.shape.height == 4 && m == 60);
        if (memcmp(im.rgb, want, m)) fail_msg("%s differs from Pillow", path);
        vt_image_free(&im);
        vt_image_free(&im);
        uint8_t *b = get(path, &n);
        for (size_t k = 0; k < n; k++) {
            uint8_t *cut = malloc(k ? k : 1);
            memcpy(cut, b, k);
            t_says(vt_png_parse(cut, k, path, &im, &e), VT_E_FORMAT, &e, path, k < 8 ? "not a PNG" : "truncated PNG");
            assert_null(im.rgb);
            free(cut);
        }
        b[n - 20] ^= 1; /* in IDAT's data or checksum */
        t_says(vt_png_parse(b, n, path, &im, &e), VT_E_FORMAT, &e, path, "damaged PNG: ");
        free(b);
        free(want);
    }
    size_t n;
    vt_image im;
    uint8_t *b = get("tests/fixtures/png/rgb8_gama.png", &n);
    b[33 + 8] ^= 1; /* a wrong checksum on a chunk that is not needed: libpng warns */
    assert_int_equal(vt_png_parse(b, n, "x.png", &im, NULL), VT_OK);
    vt_image_free(&im);
    free(b);
    assert_int_equal(lseek(sink, 0, SEEK_END), 0); /* libpng said nothing */
    dup2(saved, 2);
    close(saved);
    close(sink);
}

static void test_png_claims(void **state) {
    (void)state;
    static const struct {
        uint8_t size[8];
        const char *text;
    } bad[] = {{{0x7f, 255, 255, 255, 0x7f, 255, 255, 255}, "2147483647 x 2147483647"},
               {{0, 0, 0, 5, 0, 0, 0x40, 1}, "5 x 16385, sides must be from 1 to 16384"},
               {{0, 0, 0x40, 0, 0, 0, 0x40, 0}, "268435456 pixels, the limit is 67108864"},
               {{0, 0, 0, 0, 0, 0, 0, 4}, "0 x 4"},
               {{255, 255, 255, 255, 0, 0, 0, 1}, "4294967295 x 1"}};
    size_t n;
    vt_image im;
    vt_err e = {0};
    uint8_t *b = get("tests/fixtures/png/rgb8.png", &n);
    for (size_t i = 0; i < T_COUNT(bad); i++) {
        memcpy(b + 16, bad[i].size, 8);
        t_says(vt_png_parse(b, n, "x.png", &im, &e), VT_E_RANGE, &e, "x.png: ", bad[i].text);
    }
    free(b);
    t_says(vt_image_read(at("none.png"), &im, &e), VT_E_IO, &e, at("none.png"), "No such file");
    t_says(vt_image_read(tmp, &im, &e), VT_E_IO, &e, tmp, "regular");
}

static void test_png_write(void **state) {
    (void)state;
    vt_image im = {{3, 2, 3},
                   (uint8_t[]){0, 1, 2, 3, 4, 5, 60, 70, 80, 90, 100, 110, 255, 254, 253, 252, 251, 250},
                   NULL},
             back;
    vt_err e = {0};
    assert_int_equal(vt_png_write(at("w.png"), &im, &e), VT_OK);
    assert_int_equal(vt_image_read(at("w.png"), &back, &e), VT_OK);
    assert_true(back.shape.width == 3 && back.shape.height == 2);
    assert_memory_equal(back.rgb, im.rgb, 18);
    vt_image_free(&back);
    t_says(vt_png_write(at("no/w.png"), &im, &e), VT_E_IO, &e, at("no/w.png"), "No such file");
    im.shape.width = 0;
    t_says(vt_png_write(at("w0.png"), &im, &e), VT_E_RANGE, &e, at("w0.png"), "0 x 2");
    im.shape.width = -1;
    t_says(vt_png_write(at("w0.png"), &im, &e), VT_E_RANGE, &e, at("w0.png"), "sides");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_types),
        cmocka_unit_test(test_png_claims),
        cmocka_unit_test(test_png_write),
    };
    return cmocka_run_group_tests_name("png", tests, make_tmp, remove_tmp);
}
