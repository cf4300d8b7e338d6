/* SPDX-License-Identifier: MIT */
/* JPEG. Two decoders: libjpeg-turbo with Pillow's settings, which gives Pillow's bytes, and stb_image, whose samples
 * differ by up to a few grey levels (docs/images.md has the measurement). The first that is compiled in is used: the
 * Makefile defines VT_JPEG_turbo where libjpeg's header is installed (`make JPEG=stb` leaves it out). */
#ifndef VT_IO_IMAGE_JPEG_H
#define VT_IO_IMAGE_JPEG_H

#include <stdbool.h>
#include "io/image.h"

#if __has_include(<stb/stb_image.h>)
#define VT_JPEG_STB
#endif

/* What the markers say, without decoding. */
typedef struct vt_jpeg_outline {
    int width, height;
    int components; /* 1 grey, 3 colour, 4 CMYK or YCCK */
} vt_jpeg_outline;

typedef struct vt_jpeg_decoder {
    const char *name, *version;
    /* rgb [3*h*w] of a file whose outline is o; the sentence of a failure names path. */
    vt_status (*decode)(uint8_t *rgb, const vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path,
                        vt_err *e);
} vt_jpeg_decoder;

extern const vt_jpeg_decoder vt_jpeg_decoder_turbo, vt_jpeg_decoder_stb; /* each where it is compiled in */
/* Those compiled in, the one in use first; at least one. */
const vt_jpeg_decoder *const *vt_jpeg_decoders(int *n);

bool vt_is_jpeg(const uint8_t *bytes, size_t n);
/* 8 bits a sample; 1, 3 or 4 components; baseline, extended or progressive, Huffman or arithmetic coding; ends with
 * EOI. A claim of more pixels than n bytes can hold is refused, so memory is bounded by the file's size. */
vt_status vt_jpeg_inspect(vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
vt_status vt_jpeg_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e);
vt_status vt_jpeg_parse_by(const vt_jpeg_decoder *by, const uint8_t *bytes, size_t n, const char *path, vt_image *out,
                           vt_err *e);

#endif
