/* SPDX-License-Identifier: MIT */
/* JPEG: the markers, judged once before a decoder sees the file, and the choice of decoder. */
#include "io/image_jpeg.h"

#include <stdlib.h>
#include <string.h>

/* A Huffman-coded block of 8 x 8 samples takes at least one bit, the code of its DC difference. */
#define PIXELS_A_BYTE (64 * 8)

enum { SOF0 = 0xC0, DHT = 0xC4, RST0 = 0xD0, RST7 = 0xD7, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, TEM = 0x01 };

const vt_jpeg_decoder *const *vt_jpeg_decoders(int *n) {
    static const vt_jpeg_decoder *const all[] = {
#ifdef VT_JPEG_turbo
        &vt_jpeg_decoder_turbo,
#endif
#ifdef VT_JPEG_STB
        &vt_jpeg_decoder_stb,
#endif
    };
    _Static_assert(sizeof all > 0, "JPEG needs libjpeg-turbo (libjpeg-dev) or stb_image (libstb-dev)");
    *n = (int)(sizeof all / sizeof *all);
    return all;
}

bool vt_is_jpeg(const uint8_t *b, size_t n) { return n >= 3 && b[0] == 0xFF && b[1] == SOI && b[2] == 0xFF; }

/* The next marker's code and the position after it, as libjpeg searches it: entropy-coded data, its stuffed zeros and
 * restart markers are passed over. 0 at the end of the bytes. */
static int next_marker(const uint8_t *b, size_t n, size_t *at) {
    while (*at < n) {
        const uint8_t *ff = memchr(b + *at, 0xFF, n - *at);
        if (!ff) break;
        *at = (size_t)(ff - b);
        while (*at < n && b[*at] == 0xFF) ++*at;
        if (*at == n) break;
        int code = b[(*at)++];
        if (code && code != TEM && !(code >= RST0 && code <= RST7)) return code;
    }
    *at = n;
    return 0;
}

/* A start of frame: s [len] from its precision byte on. */
static vt_status read_frame_header(vt_jpeg_outline *o, int code, const uint8_t *s, size_t len, size_t n,
                                   const char *path, vt_err *e) {
    static const char *const kinds[16] =
        {[0] = "huffman", [1] = "huffman", [2] = "huffman", [9] = "arithmetic", [10] = "arithmetic"};
    const char *kind = kinds[code - SOF0];
    if (o->components) return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: two start-of-frame markers", path);
    if (!kind)
        return vt_fail(e, VT_E_FORMAT, "%s: a JPEG of process SOF%d; baseline, extended and progressive are read", path,
                       code - SOF0);
    if (len < 6) return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: a frame header of %zu bytes", path, len);
    if (s[0] != 8) return vt_fail(e, VT_E_FORMAT, "%s: a JPEG of %d bits a sample, 8 are read", path, s[0]);
    if (s[5] != 1 && s[5] != 3 && s[5] != 4)
        return vt_fail(e, VT_E_FORMAT, "%s: a JPEG of %d components, 1, 3 and 4 are read", path, s[5]);
    *o = (vt_jpeg_outline){s[3] << 8 | s[4], s[1] << 8 | s[2], s[5]};
    VT_TRY(vt_image_check_size(o->width, o->height, path, e));
    if (*kind == 'h' && (size_t)o->width * (size_t)o->height / PIXELS_A_BYTE > n)
        return vt_fail(e, VT_E_FORMAT, "%s: claims %d x %d pixels, which its %zu bytes cannot hold", path, o->width,
                       o->height, n);
    return VT_OK;
}

/* Whole Huffman tables of at most 256 codes. stb_image 2.27 does not check that and writes past its own. */
static vt_status check_huffman_tables(const uint8_t *s, size_t len, const char *path, vt_err *e) {
    while (len > 0) {
        size_t codes = 0;
        for (size_t i = 1; i <= 16 && i < len; i++) codes += s[i];
        if (codes > 256 || len < 17 + codes)
            return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: a Huffman table of %zu codes", path, codes);
        s += 17 + codes, len -= 17 + codes;
    }
    return VT_OK;
}

vt_status vt_jpeg_inspect(vt_jpeg_outline *o, const uint8_t *b, size_t n, const char *path, vt_err *e) {
    *o = (vt_jpeg_outline){0};
    if (!vt_is_jpeg(b, n)) return vt_fail(e, VT_E_FORMAT, "%s: is not a JPEG file", path);
    bool scan = false;
    size_t at = 2;
    for (int code; (code = next_marker(b, n, &at)) != EOI;) {
        size_t len = n - at >= 2 ? (size_t)b[at] << 8 | b[at + 1] : 0;
        if (!code || n - at < 2 || len > n - at)
            return vt_fail(e, VT_E_FORMAT, "%s: truncated JPEG, it ends at byte %zu", path, n);
        if (code == SOI || len < 2)
            return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: marker %02X with length %zu at byte %zu", path, code, len,
                           at - 2);
        /* SOF0 to SOF15, but for DHT, JPG and DAC */
        if (code >= SOF0 && code < RST0 && code != DHT && code != 0xC8 && code != 0xCC)
            VT_TRY(read_frame_header(o, code, b + at + 2, len - 2, n, path, e));
        if (code == DHT) VT_TRY(check_huffman_tables(b + at + 2, len - 2, path, e));
        scan = scan || code == SOS;
        at += len;
    }
    if (o->components && scan) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: it holds no picture", path);
}

vt_status vt_jpeg_parse_by(const vt_jpeg_decoder *by, const uint8_t *bytes, size_t n, const char *path, vt_image *out,
                           vt_err *e) {
    vt_jpeg_outline o;
    *out = (vt_image){0};
    VT_TRY(vt_jpeg_inspect(&o, bytes, n, path, e));
    uint8_t *rgb = malloc(3 * (size_t)o.width * (size_t)o.height);
    if (!rgb) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %d x %d", path, o.width, o.height);
    vt_status r = by->decode(rgb, &o, bytes, n, path, e);
    if (r == VT_OK)
        *out = (vt_image){{3, o.height, o.width}, rgb, NULL};
    else
        free(rgb);
    return r;
}

vt_status vt_jpeg_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e) {
    int count;
    return vt_jpeg_parse_by(vt_jpeg_decoders(&count)[0], bytes, n, path, out, e);
}
