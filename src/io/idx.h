/* SPDX-License-Identifier: MIT */
/* The idx format of MNIST (yann.lecun.com/exdb/mnist): 4 bytes (0, 0, type, number of sides), the sides as big-endian
 * 32-bit numbers, the values. Unsigned bytes alone (type 8). */
#ifndef VT_IO_IDX_H
#define VT_IO_IDX_H

#include <stddef.h>
#include <stdint.h>
#include "core/status.h"

enum { VT_IDX_LABELS = 0x801, VT_IDX_IMAGES = 0x803 }; /* magic numbers: bytes with one side, with three */

typedef struct vt_idx {
    int64_t n;           /* images or labels */
    int height, width;   /* of an image; 1 and 1 of a label */
    const uint8_t *data; /* [n, height, width], within the bytes that were parsed */
} vt_idx;

/* VT_E_USAGE, with a sentence on path: another magic number, a size that no file has, bytes that lack or are too many.
 */
vt_status vt_idx_parse(vt_idx *x, const uint8_t *bytes, size_t n, unsigned magic, const char *path, vt_err *e);

#endif
