/* SPDX-License-Identifier: MIT */
/* Any bytes are refused with a sentence or give a picture; a picture can be written and reads back the same.
 * Every input is also tried with its chunk checksums made right, or hardly any would get past the first
 * chunk. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/image.h"
#include "scratch.h"

#define PIXELS_MAX (1 << 18) /* larger claims inside the reader's limits only make fuzzing slow */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *file;

static uint32_t get32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc(const uint8_t *p, size_t n) {
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (0xedb88320 & -(c & 1));
    }
    return ~c;
}

static void fix_checksums(uint8_t *b, size_t n) {
    for (size_t at = 8; at + 12 <= n && get32(b + at) <= n - at - 12; at += 12 + get32(b + at)) {
        uint32_t len = get32(b + at), c = crc(b + at + 4, 4 + (size_t)len);
        for (int i = 0; i < 4; i++) b[at + 8 + len + (size_t)i] = (uint8_t)(c >> (24 - 8 * i));
    }
}

static void one(const uint8_t *bytes, size_t n) {
    vt_image im, back;
    vt_err e = {0};
    if (vt_png_parse(bytes, n, "fuzz", &im, &e) != VT_OK) {
        if (im.rgb || e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        return;
    }
    size_t size = 3 * (size_t)im.shape.width * (size_t)im.shape.height;
    if (vt_png_write(file, &im, &e) != VT_OK || vt_image_read(file, &back, &e) != VT_OK) abort();
    if (back.shape.width != im.shape.width || back.shape.height != im.shape.height || memcmp(back.rgb, im.rgb, size))
        abort();
    vt_image_free(&im);
    vt_image_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (!file) file = scratch("w.png");
    if (n >= 24) {
        uint32_t w = get32(bytes + 16), h = get32(bytes + 20);
        if (w <= VT_IMAGE_MAX_SIDE && h <= VT_IMAGE_MAX_SIDE && w * h > PIXELS_MAX) return 0;
    }
    one(bytes, n);
    uint8_t *b = malloc(n + 1);
    if (n) memcpy(b, bytes, n);
    fix_checksums(b, n);
    one(b, n);
    free(b);
    return 0;
}
