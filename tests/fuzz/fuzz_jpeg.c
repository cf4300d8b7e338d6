/* SPDX-License-Identifier: MIT */
/* Any bytes are refused with a sentence or give a picture. An end-of-image marker is also put behind every input, or
 * few damaged ones would reach the decoder. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "data/image.h"

#define PIXELS_MAX (1 << 18) /* larger claims inside the reader's limits only make fuzzing slow */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void one(const uint8_t *bytes, size_t n) {
    vt_jpeg_outline o;
    vt_image im;
    vt_err e = {0};
    if (vt_jpeg_inspect(&o, bytes, n, "fuzz", &e) == VT_OK && o.width * o.height > PIXELS_MAX) return;
    e = (vt_err){0};
    if (vt_jpeg_parse(bytes, n, "fuzz", &im, &e) != VT_OK) {
        if (im.rgb || e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        return;
    }
    unsigned sum = 0; /* every sample is there */
    for (size_t i = 0; i < 3 * (size_t)im.shape.width * (size_t)im.shape.height; i++) sum += im.rgb[i];
    if (sum > 3u * 255 * PIXELS_MAX || im.shape.width != o.width || im.shape.height != o.height) abort();
    vt_image_free(&im);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    uint8_t *ended = malloc(n + 2);
    if (!ended) return 0;
    if (n) memcpy(ended, bytes, n);
    memcpy(ended + n, "\xff\xd9", 2);
    one(bytes, n);
    one(ended, n + 2);
    free(ended);
    return 0;
}
