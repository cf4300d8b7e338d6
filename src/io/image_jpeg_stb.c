/* SPDX-License-Identifier: MIT */
/* JPEG through stb_image, for systems without libjpeg. Its DCT, upsampling and colour conversion round in another way
 * than libjpeg's. Damaged entropy-coded data is not always noticed: what is missing becomes grey. */
#include "io/image_jpeg.h"

#ifdef VT_JPEG_STB

#include <stdlib.h>
#include <string.h>

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
/* what a damaged file leaves out is black, not memory that nobody wrote */
#define STBI_MALLOC(n) calloc(1, n)
#define STBI_REALLOC(p, n) realloc(p, n)
#define STBI_FREE(p) free(p)
#define STBI_ASSERT(x) ((void)0)
#define STBI_MAX_DIMENSIONS VT_IMAGE_MAX_SIDE
/* of the other formats; judged at the end of the file, so not to be popped. A system header's other warnings are
 * silent. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>

/* The file with empty Huffman tables before its own: stb_image 2.27 does not notice that a damaged file uses tables
 * which it never defined, and would search past their end. */
static uint8_t *with_tables(const uint8_t *bytes, size_t n, size_t *all) {
    enum { EACH = 4, SEGMENT = 2 + 2 * EACH * 17 }; /* DC 0 to 3, AC 0 to 3: number, 16 zero counts */
    *all = 2 + SEGMENT + n;
    uint8_t *b = calloc(*all, 1);
    if (!b) return NULL;
    memcpy(b, (uint8_t[]){0xFF, 0xD8, 0xFF, 0xC4, SEGMENT >> 8, SEGMENT & 255}, 6);
    for (int t = 0; t < 2 * EACH; t++) b[6 + 17 * t] = (uint8_t)(t % EACH | t / EACH << 4);
    memcpy(b + 2 + 2 + SEGMENT, bytes + 2, n - 2);
    return b;
}

static vt_status stb_decode(uint8_t *rgb, const vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path,
                            vt_err *e) {
    int w, h, components;
    size_t all;
    uint8_t *file = with_tables(bytes, n, &all);
    if (!file) return vt_fail(e, VT_E_MEMORY, "%s: no memory to decode it", path);
    uint8_t *px = stbi_load_from_memory(file, (int)all, &w, &h, &components, 3); /* about 2^30 at most */
    free(file);
    if (!px) return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %s", path, stbi_failure_reason());
    if (w != o->width || h != o->height) {
        stbi_image_free(px);
        return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %d x %d pixels were decoded of %d x %d", path, w, h, o->width,
                       o->height);
    }
    size_t plane = (size_t)w * (size_t)h;
    for (size_t i = 0; i < plane; i++)
        for (size_t c = 0; c < 3; c++) rgb[c * plane + i] = px[3 * i + c];
    stbi_image_free(px);
    return VT_OK;
}

const vt_jpeg_decoder vt_jpeg_decoder_stb = {.name = "stb_image", .version = "2", .decode = stb_decode};

#endif
