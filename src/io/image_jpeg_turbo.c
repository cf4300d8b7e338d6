/* SPDX-License-Identifier: MIT */
/* JPEG through libjpeg-turbo as Pillow's JpegDecode.c drives it: libjpeg's defaults (integer "slow" DCT, fancy
 * upsampling, block smoothing), grey replicated, four components taken as inverted CMYK (Adobe's convention, which
 * Pillow assumes of every file) and turned to RGB by Pillow's integer rule, EXIF orientation and colour profiles not
 * looked at. Pillow goes on after damaged entropy-coded data and shows grey; here the file is refused. */
#include "io/image_jpeg.h"

#ifdef VT_JPEG_turbo

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after stdio.h, which it needs */
#include <jpeglib.h>
#include <jerror.h>

/* Of a progressive file; sensible ones have about ten, and each costs a pass over the picture. */
#define SCANS_MAX 500

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

/* Everything decode() touches lives here, not in its locals: longjmp may lose those. */
typedef struct jpeg_job {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const uint8_t *bytes;
    size_t n;
    const vt_jpeg_outline *outline; /* what rgb has room for */
    uint8_t *rgb, *row;
    int code; /* of the error */
    char text[JMSG_LENGTH_MAX];
} jpeg_job;

_Noreturn static void on_error(j_common_ptr c) {
    jpeg_job *j = c->client_data;
    j->code = c->err->msg_code;
    c->err->format_message(c, j->text);
    longjmp(j->back, 1);
}

/* Warnings that mean lost or invented pixels are errors; the others (bytes between markers, odd versions) are not. */
static void on_message(j_common_ptr c, int level) {
    static const int damage[] = {JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE,     JWRN_MUST_RESYNC,
                                 JWRN_JPEG_EOF,   JWRN_BOGUS_PROGRESSION, JWRN_ARITH_BAD_CODE};
    for (size_t i = 0; level < 0 && i < sizeof damage / sizeof *damage; i++)
        if (c->err->msg_code == damage[i]) on_error(c);
}

static void on_progress(j_common_ptr c) {
    jpeg_job *j = c->client_data;
    if (j->c.input_scan_number <= SCANS_MAX) return;
    snprintf(j->text, sizeof j->text, "more than %d scans", SCANS_MAX);
    longjmp(j->back, 1);
}

/* Pillow's MULDIV255: a * b / 255, rounded */
static int product_over_255(int a, int b) {
    int t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Row y, `components` interleaved samples, to the three planes. */
static void row_to_planes(const jpeg_job *j, const uint8_t *row, size_t y) {
    size_t w = j->c.output_width, plane = w * j->c.output_height;
    int k = j->c.output_components;
    for (size_t x = 0; x < w; x++, row += k) {
        uint8_t *out = j->rgb + y * w + x;
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

/* False on an error, whose text is in j->text. */
static bool decode_jpeg(jpeg_job *j) {
    if (setjmp(j->back)) return false;
    jpeg_create_decompress(&j->c);
    j->c.progress = &j->progress;
    jpeg_mem_src(&j->c, j->bytes, (unsigned long)j->n);
    jpeg_read_header(&j->c, TRUE);
    int k = j->c.num_components;
    j->c.out_color_space = k == 1 ? JCS_GRAYSCALE : k == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_start_decompress(&j->c);
    if (j->c.output_width != (unsigned)j->outline->width || j->c.output_height != (unsigned)j->outline->height) {
        snprintf(j->text, sizeof j->text, "%u x %u pixels were decoded of %d x %d", j->c.output_width,
                 j->c.output_height, j->outline->width, j->outline->height);
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

static vt_status turbo_decode(uint8_t *rgb, const vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path,
                              vt_err *e) {
    jpeg_job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "%s: no memory to decode it", path);
    j->c.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->progress.progress_monitor = on_progress;
    j->c.client_data = j;
    j->bytes = bytes, j->n = n, j->outline = o, j->rgb = rgb;
    vt_status r = VT_OK;
    if (!decode_jpeg(j))
        r = j->code == JERR_OUT_OF_MEMORY ? vt_fail(e, VT_E_MEMORY, "%s: no memory to decode it", path)
                                          : vt_fail(e, VT_E_FORMAT, "%s: damaged JPEG: %s", path, j->text);
    jpeg_destroy_decompress(&j->c);
    free(j->row);
    free(j);
    return r;
}

const vt_jpeg_decoder vt_jpeg_decoder_turbo = {
#ifdef LIBJPEG_TURBO_VERSION
    .name = "libjpeg-turbo",
    .version = TEXT(LIBJPEG_TURBO_VERSION),
#else
    .name = "libjpeg", /* from version 7 on its upsampling is another one */
    .version = TEXT(JPEG_LIB_VERSION),
#endif
    .decode = turbo_decode,
};

#endif
