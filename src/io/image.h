/* Pictures as bytes: u8 RGB, planar CHW (all red rows, then green, then blue), row-major. */
#ifndef VT_IO_IMAGE_H
#define VT_IO_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

#define VT_IMAGE_MAX_SIDE 16384 /* larger claims are refused before any memory is taken */

typedef struct vt_image {
    int width, height;
    uint8_t *rgb; /* [3*height*width], owned: free() */
} vt_image;

void vt_image_free(vt_image *im); /* safe twice */

/* PNG of any colour type and depth, converted as Pillow's Image.convert('RGB') does: palette looked up, grey
 * replicated, alpha (and tRNS) dropped without blending, 16-bit RGB keeps the high byte; 16-bit grey as Pillow's
 * mode I;16 -> RGB does in the Pillow of Debian 12. */
vt_status vt_png_read(const char *path, vt_image *out, vt_err *e);
vt_status vt_png_parse(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e);
/* 8-bit RGB. */
vt_status vt_png_write(const char *path, const vt_image *im, vt_err *e);

#endif
