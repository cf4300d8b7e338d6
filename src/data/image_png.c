/* SPDX-License-Identifier: MIT */
/* PNG through libpng. Samples are read raw and converted to RGB here, because Pillow's convert('RGB') (9.4.0, Debian
 * 12), which the published pipelines use, differs from libpng's own transformations: 16-bit grey is clipped at 255
 * (mode I), other 16-bit samples keep their high byte, a palette index past PLTE is a shade of grey. */
#include "data/image.h"

#include <endian.h>
#include <errno.h>
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"

/* What reading or writing touches lives here, not in locals: longjmp may lose those. */
typedef struct png_job {
    png_structp png;
    png_infop info;
    char text[160]; /* libpng's message */
    uint8_t *raw;   /* one row, or all rows of an interlaced picture that is read */
    size_t n;       /* bytes of the file; that have been written */
    /* reading */
    const uint8_t *bytes;
    size_t pos, row_bytes;
    bool ended, no_memory; /* ended: libpng read past the end */
    png_colorp palette;
    int colors, type, depth, width, height;
    uint8_t *rgb;
    /* writing */
    const vt_image *im;
    uint8_t *out;
    size_t room;
} png_job;

/* libpng's error handler: keeps the text, and leaves decode_png or encode_png. */
_Noreturn static void on_error(png_structp png, png_const_charp text) {
    png_job *j = png_get_error_ptr(png);
    snprintf(j->text, sizeof j->text, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

/* ---- reading ---- */

/* libpng's reader: copies the next n bytes of the file; past its end sets j->ended and leaves decode_png. */
static void on_read(png_structp png, png_bytep out, size_t n) {
    png_job *j = png_get_io_ptr(png);
    j->ended = n > j->n - j->pos;
    if (j->ended) png_error(png, "ends too early");
    memcpy(out, j->bytes + j->pos, n);
    j->pos += n;
}

/* Copies one row of raw samples (bytes; 16-bit ones high byte first), as RGB, to row y of the three planes j->rgb. */
static void row_to_planes(const png_job *j, const uint8_t *row, int y) {
    bool grey = !(j->type & PNG_COLOR_MASK_COLOR), wide = j->depth == 16;
    size_t channels = (grey ? 1u : 3u) + !!(j->type & PNG_COLOR_MASK_ALPHA), step = channels << wide;
    size_t plane = (size_t)j->width * (size_t)j->height, at = (size_t)y * (size_t)j->width;
    for (int x = 0; x < j->width; x++, at++) {
        const uint8_t *p = row + (size_t)x * (j->type == PNG_COLOR_TYPE_PALETTE ? 1 : step);
        uint8_t r, g, b;
        if (j->type == PNG_COLOR_TYPE_PALETTE) {
            bool in = *p < j->colors;
            r = in ? j->palette[*p].red : *p;
            g = in ? j->palette[*p].green : *p;
            b = in ? j->palette[*p].blue : *p;
        } else if (grey) {
            r = *p;
            if (j->type == PNG_COLOR_TYPE_GRAY && wide) r = p[0] ? 255 : p[1];
            if (j->depth < 8) r = (uint8_t)(*p * 255 / ((1 << j->depth) - 1));
            g = b = r;
        } else
            r = p[0], g = p[(size_t)1 << wide], b = p[(size_t)2 << wide];
        j->rgb[at] = r;
        j->rgb[at + plane] = g;
        j->rgb[at + 2 * plane] = b;
    }
}

/* Prepares libpng, reads up to the pixels, and sets j->type, depth, palette and colors; an error leaves decode_png. */
static void read_png_header(png_job *j) {
    png_set_read_fn(j->png, j, on_read);
    png_set_user_limits(j->png, VT_IMAGE_MAX_SIDE, VT_IMAGE_MAX_SIDE);
    png_set_keep_unknown_chunks(j->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* colour profiles, texts, times */
    png_read_info(j->png, j->info);
    j->type = png_get_color_type(j->png, j->info);
    j->depth = png_get_bit_depth(j->png, j->info);
    if (j->depth < 8) png_set_packing(j->png); /* one sample a byte, not scaled */
    if (j->type == PNG_COLOR_TYPE_PALETTE) png_get_PLTE(j->png, j->info, &j->palette, &j->colors);
}

/* Decodes j->bytes into the planes j->rgb; false on an error, whose text is in j->text, with j->ended or
 * j->no_memory. */
static bool decode_png(png_job *j) {
    if (setjmp(png_jmpbuf(j->png))) return false;
    read_png_header(j);
    int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    j->row_bytes = png_get_rowbytes(j->png, j->info);
    j->raw = calloc(passes > 1 ? (size_t)j->height : 1, j->row_bytes);
    j->no_memory = !j->raw;
    if (j->no_memory) png_error(j->png, "no memory");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < j->height; y++) {
            uint8_t *row = j->raw + (passes > 1 ? (size_t)y * j->row_bytes : 0);
            png_read_row(j->png, row, NULL);
            if (pass == passes - 1) row_to_planes(j, row, y);
        }
    png_read_end(j->png, NULL); /* the checksums up to IEND: a file cut there is refused, too */
    return true;
}

/* The claimed size is judged before libpng takes memory for it. */
vt_status vt_png_inspect(const uint8_t *bytes, size_t n, const char *path, int *width, int *height, vt_err *e) {
    if (n < 8 || memcmp(bytes, "\x89PNG\r\n\x1a\n", 8)) return vt_fail(e, VT_E_FORMAT, "%s: is not a PNG file", path);
    if (n < 33) return vt_fail(e, VT_E_FORMAT, "%s: truncated PNG, it ends at byte %zu", path, n);
    if (memcmp(bytes + 8, "\0\0\0\15IHDR", 8))
        return vt_fail(e, VT_E_FORMAT, "%s: damaged PNG: it does not begin with its IHDR chunk", path);
    uint32_t sides[2];
    memcpy(sides, bytes + 16, sizeof sides);
    VT_TRY(vt_image_check_size(be32toh(sides[0]), be32toh(sides[1]), path, e));
    *width = (int)be32toh(sides[0]), *height = (int)be32toh(sides[1]);
    return VT_OK;
}

vt_status vt_png_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e) {
    png_job j = {.bytes = bytes, .n = n};
    *out = (vt_image){0};
    VT_TRY(vt_png_inspect(bytes, n, path, &j.width, &j.height, e));
    VT_TRY(vt_image_make(out, (vt_shape){3, j.height, j.width}, path, e));
    j.rgb = out->rgb;
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    j.no_memory = !j.info;
    errno = 0;
    bool ok = !j.no_memory && decode_png(&j);
    j.no_memory = j.no_memory || (!ok && errno == ENOMEM); /* libpng has only words for it */
    png_destroy_read_struct(&j.png, &j.info, NULL);
    free(j.raw);
    if (ok) return VT_OK;
    vt_image_free(out);
    if (j.no_memory) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %d x %d", path, j.width, j.height);
    if (j.ended) return vt_fail(e, VT_E_FORMAT, "%s: truncated PNG, it ends at byte %zu", path, n);
    return vt_fail(e, VT_E_FORMAT, "%s: damaged PNG: %s", path, j.text);
}

/* ---- writing ---- */

/* libpng's writer: appends n bytes to j->out [j->n]; without memory leaves encode_png. */
static void on_write(png_structp png, png_bytep data, size_t n) {
    png_job *j = png_get_io_ptr(png);
    if (n > j->room - j->n) {
        size_t room = 2 * j->room + n;
        uint8_t *out = realloc(j->out, room);
        if (!out) png_error(png, "no memory");
        j->out = out, j->room = room;
    }
    memcpy(j->out + j->n, data, n);
    j->n += n;
}

static void on_flush(png_structp png) { (void)png; }

/* Encodes j->im into j->out [j->n]; false on an error, whose text is in j->text. */
static bool encode_png(png_job *j) {
    if (setjmp(png_jmpbuf(j->png))) return false;
    size_t w = (size_t)j->im->shape.width, h = (size_t)j->im->shape.height;
    png_set_write_fn(j->png, j, on_write, on_flush);
    png_set_user_limits(j->png, VT_IMAGE_MAX_SIDE, VT_IMAGE_MAX_SIDE);
    png_set_IHDR(j->png, j->info, (png_uint_32)w, (png_uint_32)h, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(j->png, j->info);
    for (size_t y = 0; y < h; y++) {
        for (size_t c = 0; c < 3; c++)
            for (size_t x = 0; x < w; x++) j->raw[3 * x + c] = j->im->rgb[(c * h + y) * w + x];
        png_write_row(j->png, j->raw);
    }
    png_write_end(j->png, NULL);
    return true;
}

vt_status vt_png_encode(uint8_t **bytes, size_t *n, const vt_image *im, const char *path, vt_err *e) {
    *bytes = NULL, *n = 0;
    VT_TRY(vt_image_check_size(im->shape.width, im->shape.height, path, e));
    png_job j = {.im = im, .raw = malloc(3 * (size_t)im->shape.width)};
    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    bool good = j.raw && j.info && encode_png(&j);
    png_destroy_write_struct(&j.png, &j.info);
    free(j.raw);
    if (good) {
        *bytes = j.out, *n = j.n;
        return VT_OK;
    }
    free(j.out);
    return vt_fail(e, VT_E_MEMORY, "%s: cannot be encoded: %s", path, *j.text ? j.text : "no memory");
}

vt_status vt_png_write(const char *path, const vt_image *im, vt_err *e) {
    uint8_t *bytes;
    size_t n;
    VT_TRY(vt_png_encode(&bytes, &n, im, path, e));
    vt_status r = vt_file_replace(path, &(vt_span){bytes, n}, 1, e);
    free(bytes);
    return r;
}
