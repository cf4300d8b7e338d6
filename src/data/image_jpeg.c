/* SPDX-License-Identifier: MIT */
/* JPEG: the markers, judged before the decoder sees the file; then libjpeg-turbo as Pillow's JpegDecode.c drives it:
 * libjpeg's defaults (integer "slow" DCT, fancy upsampling, block smoothing), grey replicated, four components taken as
 * inverted CMYK (Adobe's convention, which Pillow assumes of every file) and converted to RGB by Pillow's integer rule;
 * EXIF orientation and colour profiles are ignored. Pillow shows grey for damaged entropy-coded data; here the file is
 * refused. */
#include "data/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after stdio.h, which it needs */
#include <jpeglib.h>
#include <jerror.h>

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x
#ifdef LIBJPEG_TURBO_VERSION
const char vt_jpeg_decoder[] = "libjpeg-turbo", vt_jpeg_version[] = TEXT(LIBJPEG_TURBO_VERSION);
#else /* from version 7 on its upsampling is another one */
const char vt_jpeg_decoder[] = "libjpeg", vt_jpeg_version[] = TEXT(JPEG_LIB_VERSION);
#endif

/* ---- markers ---- */

/* A Huffman-coded block of 8 x 8 samples takes at least one bit, the code of its DC difference. */
#define PIXELS_A_BYTE (64 * 8)

enum { SOF0 = 0xC0, DHT = 0xC4, RST0 = 0xD0, RST7 = 0xD7, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA, TEM = 0x01 };

bool vt_is_jpeg(const uint8_t *b, size_t n) { return n >= 3 && b[0] == 0xFF && b[1] == SOI && b[2] == 0xFF; }

/* Returns the code of the next marker from *at on, and moves *at past it, as libjpeg searches it: entropy-coded data,
 * its stuffed zeros and restart markers are passed over. 0, with *at = n, at the end of the bytes. */
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

/* Sets *o by a start of frame, s [len] from its precision byte on, of a file of n bytes; VT_E_FORMAT: a second one, a
 * kind not read, or more than n bytes can hold; VT_E_RANGE: too large. */
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
        scan = scan || code == SOS;
        at += len;
    }
    if (o->components && scan) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: it holds no picture", path);
}

/* ---- decoding ---- */

/* Limit of a progressive file; usual ones have about ten, and each costs a pass over the picture. */
#define SCANS_MAX 500

/* Everything decode() touches lives here, not in its locals: longjmp may lose those. */
typedef struct jpeg_job {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const uint8_t *bytes;
    size_t n;
    vt_image *out; /* of the size that the markers say */
    uint8_t *row;
    int code; /* of the error */
    char text[JMSG_LENGTH_MAX];
} jpeg_job;

/* libjpeg's error handler: keeps code and text, and leaves decode_jpeg. */
_Noreturn static void on_error(j_common_ptr c) {
    jpeg_job *j = c->client_data;
    j->code = c->err->msg_code;
    c->err->format_message(c, j->text);
    longjmp(j->back, 1);
}

/* libjpeg's message handler: treats warnings that mean lost or invented pixels as errors (on_error), and ignores others
 * (bytes between markers, odd versions). */
static void on_message(j_common_ptr c, int level) {
    static const int damage[] = {JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE,     JWRN_MUST_RESYNC,
                                 JWRN_JPEG_EOF,   JWRN_BOGUS_PROGRESSION, JWRN_ARITH_BAD_CODE};
    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (c->err->msg_code == damage[i]) on_error(c);
}

/* libjpeg's progress monitor: leaves decode_jpeg, with a text, for a file of more than SCANS_MAX scans. */
static void on_progress(j_common_ptr c) {
    jpeg_job *j = c->client_data;
    if (j->c.input_scan_number <= SCANS_MAX) return;
    snprintf(j->text, sizeof j->text, "more than %d scans", SCANS_MAX);
    longjmp(j->back, 1);
}

/* Returns Pillow's MULDIV255: a * b / 255, rounded */
static int product_over_255(int a, int b) {
    int t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Copies row y, j->c.output_components interleaved samples (1 grey, 3 RGB, 4 CMYK), to j->out's three planes as RGB. */
static void row_to_planes(const jpeg_job *j, const uint8_t *row, size_t y) {
    size_t w = j->c.output_width, plane = w * j->c.output_height;
    int k = j->c.output_components;
    for (size_t x = 0; x < w; x++, row += k) {
        uint8_t *out = j->out->rgb + y * w + x;
        for (int c = 0; c < 3; c++) {
            int v = row[k == 1 ? 0 : c];
            if (k == 4) { /* row holds 255 - ink; Pillow: (255 - K) - C (255 - K) / 255 */
                v = row[3] - product_over_255(255 - v, row[3]);
                v = v < 0 ? 0 : v;
            }
            out[(size_t)c * plane] = (uint8_t)v;
        }
    }
}

/* Decodes j->bytes into the planes of j->out; false on an error, whose text is in j->text. */
static bool decode_jpeg(jpeg_job *j) {
    if (setjmp(j->back)) return false;
    jpeg_create_decompress(&j->c);
    j->c.progress = &j->progress;
    jpeg_mem_src(&j->c, j->bytes, (unsigned long)j->n);
    jpeg_read_header(&j->c, TRUE);
    int k = j->c.num_components;
    j->c.out_color_space = k == 1 ? JCS_GRAYSCALE : k == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_start_decompress(&j->c);
    const vt_shape *s = &j->out->shape;
    if (j->c.output_width != (unsigned)s->width || j->c.output_height != (unsigned)s->height) {
        snprintf(j->text, sizeof j->text, "%u x %u pixels were decoded of %d x %d", j->c.output_width,
                 j->c.output_height, s->width, s->height);
        return false;
    }
    j->row = malloc((size_t)j->c.output_width * (size_t)j->c.output_components);
    if (!j->row) ERREXIT1(&j->c, JERR_OUT_OF_MEMORY, 0);
    for (size_t y = 0; y < j->c.output_height; y++) {
        jpeg_read_scanlines(&j->c, &j->row, 1);
        row_to_planes(j, j->row, y);
    }
    jpeg_finish_decompress(&j->c); /* up to EOI: a file cut there is refused, too */
    return true;
}

vt_status vt_jpeg_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e) {
    vt_jpeg_outline o;
    *out = (vt_image){0};
    VT_TRY(vt_jpeg_inspect(&o, bytes, n, path, e));
    VT_TRY(vt_image_make(out, (vt_shape){3, o.height, o.width}, path, e));
    jpeg_job *j = calloc(1, sizeof *j);
    bool good = false;
    if (j) {
        j->c.err = jpeg_std_error(&j->errors);
        j->errors.error_exit = on_error;
        j->errors.emit_message = on_message;
        j->progress.progress_monitor = on_progress;
        j->c.client_data = j;
        j->bytes = bytes, j->n = n, j->out = out;
        good = decode_jpeg(j);
        jpeg_destroy_decompress(&j->c);
        free(j->row);
    }
    vt_status r = good ? VT_OK
                  : !j || j->code == JERR_OUT_OF_MEMORY
                      ? vt_fail(e, VT_E_MEMORY, "%s: no memory to decode it", path)
                      : vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %s", path, j->text);
    if (!good) vt_image_free(out);
    free(j);
    return r;
}
