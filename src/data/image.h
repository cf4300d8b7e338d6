/* SPDX-License-Identifier: MIT */
/* Pictures: RGB, planar CHW (all red rows, then green, then blue), row-major; as bytes, or as the floats of a file that
 * holds floats, which are kept as they are. An image out of an array may have other channels; it is read, and never
 * resized, cropped or written. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

#define VT_IMAGE_MAX_SIDE 16384 /* larger claims are refused before any memory is taken */
#define VT_IMAGE_MAX_PIXELS (64 << 20)
#define VT_IMAGE_FILE_MAX ((size_t)1 << 30) /* bytes of a file: twice the raw bytes of the largest picture */

typedef struct vt_image {
    vt_shape shape;
    uint8_t *rgb; /* [channels,height,width], owned: free(); NULL: floats */
    float *f;     /* the same in [0,1], owned; NULL: bytes */
} vt_image;

vt_status vt_image_make(vt_image *im, vt_shape s, const char *path, vt_err *e); /* room for bytes; path: for errors */
void vt_image_free(vt_image *im);                                               /* safe twice */
/* Value i in [0,1]; a byte is float32(u8) / 255, as torchvision's ToTensor has it. */
static inline float vt_image_at(const vt_image *im, size_t i) { return im->f ? im->f[i] : (float)im->rgb[i] / 255; }
/* Replaces im's floats, if it has them, by bytes, on which resizes and crops work. VT_E_SHAPE: a value is no grey level
 * k/255 (up to float32's rounding): it would have to be rounded, and the picture be another one. */
vt_status vt_image_to_bytes(vt_image *im, const char *path, vt_err *e);
/* VT_E_RANGE unless the sides are within the limits above. path: what errors name. */
vt_status vt_image_check_size(int64_t width, int64_t height, const char *path, vt_err *e);

/* Decodes a PNG or JPEG file into *out (allocated; on failure empty), told apart by the first bytes: file names lie
 * (ImageNet has a PNG called .JPEG). VT_E_IO; VT_E_FORMAT: neither, or damaged; VT_E_RANGE: too large. */
vt_status vt_image_read(const char *path, vt_image *out, vt_err *e);
/* Checks what can be said of a file without decoding it: VT_E_FORMAT: no PNG or JPEG, or a JPEG that ends too early;
 * VT_E_RANGE: above the limits of size. */
vt_status vt_image_inspect(const uint8_t *bytes, size_t n, const char *path, vt_err *e);

/* Returns whether an image of shape s has a picture: of three planes, or of one, in grey. */
static inline bool vt_picture_is(vt_shape s) { return s.channels == 3 || s.channels == 1; }
/* Allocates an RGB picture for an image of shape s; VT_E_USAGE if that has neither one channel nor three. */
vt_status vt_picture_open(vt_image *im, vt_shape s, const char *path, vt_err *e);
/* Sets the picture's bytes to x [channels,height,width], clipped to [0,1] and rounded to grey levels. */
void vt_picture_fill(vt_image *im, const float *x, vt_shape s);
/* Copies the first plane of the picture to those that s lacks. */
void vt_picture_spread(vt_image *im, vt_shape s);

/* Reads a picture of size x size pixels as floats k/255 [channels,size,size], to be freed. VT_E_USAGE: it has other
 * sides; channels is neither 3 nor 1, or 1 and it has colours. Else as vt_image_read. */
vt_status vt_picture_read(float **out, const char *path, int size, int channels, vt_err *e);

/* Decodes a PNG of any colour type and depth, converted as Pillow's Image.convert('RGB') does: palette looked up, grey
 * replicated, alpha (and tRNS) dropped without blending, 16-bit samples keep the high byte; but 16-bit grey without
 * alpha is clipped at 255, as by mode I -> RGB in the Pillow 9.4.0 of Debian 12. */
vt_status vt_png_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e);
/* Sets *width and *height by signature and IHDR alone; VT_E_FORMAT: they are none, VT_E_RANGE: too large. */
vt_status vt_png_inspect(const uint8_t *bytes, size_t n, const char *path, int *width, int *height, vt_err *e);
/* Encodes 8-bit RGB in memory: *bytes [*n], to be freed, NULL on failure; path: what errors name. */
vt_status vt_png_encode(uint8_t **bytes, size_t *n, const vt_image *im, const char *path, vt_err *e);
/* Writes a picture as a PNG file, complete or not at all (vt_file_replace). */
vt_status vt_png_write(const char *path, const vt_image *im, vt_err *e);

/* JPEG, decoded by libjpeg-turbo with Pillow's settings, which gives Pillow's bytes. */
extern const char vt_jpeg_decoder[], vt_jpeg_version[]; /* "libjpeg-turbo", "2.1.5" */
/* What the markers say, without decoding. */
typedef struct vt_jpeg_outline {
    int width, height;
    int components; /* 1 grey, 3 colour, 4 CMYK or YCCK */
} vt_jpeg_outline;
/* Returns whether the bytes begin as a JPEG file does. */
bool vt_is_jpeg(const uint8_t *bytes, size_t n);
/* Reads a JPEG's outline into *o and refuses what cannot be decoded: 8 bits a sample; 1, 3 or 4 components; baseline,
 * extended or progressive, Huffman or arithmetic coding; ends with EOI. A claim of more pixels than n bytes can hold is
 * refused, so memory is bounded by the file's size. */
vt_status vt_jpeg_inspect(vt_jpeg_outline *o, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
/* Decodes a JPEG file into *out (allocated); VT_E_FORMAT for one that is damaged. */
vt_status vt_jpeg_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e);
