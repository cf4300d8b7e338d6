/* SPDX-License-Identifier: MIT */
/* NumPy's files: one array (.npy, versions 1 to 3) and zip archives of them (.npz). Format: numpy/lib/format.py. Arrays
 * are used in place; object arrays, which are pickles, are refused. */
#pragma once

#include <stdbool.h>
#include "tensors/tensors.h"

typedef struct vt_npy {
    vt_dtype dtype;
    bool swap; /* stored big-endian */
    int ndim;
    int64_t shape[VT_ST_MAX_DIMS];
    size_t stride[VT_ST_MAX_DIMS]; /* items; Fortran order: the first side is the fastest */
    size_t numel;
    const uint8_t *data;
} vt_npy;

/* Parses a .npy file in memory, whose n bytes must outlive the array. VT_E_FORMAT: it is none, or of a type not read.
 */
vt_status vt_npy_parse(vt_npy *out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
bool vt_npy_is_real(const vt_npy *a);             /* f2, f4, f8; else whole numbers */
double vt_npy_real(const vt_npy *a, size_t at);   /* item at sum of index * stride; also of whole numbers */
int64_t vt_npy_whole(const vt_npy *a, size_t at); /* item at that place, of whole numbers */

bool vt_npy_dtype(vt_dtype *out, const char *code, size_t n); /* "f4", n characters; false: another type */
/* Sets the strides of an array whose shape is known to fit. */
void vt_npy_set_strides(vt_npy *a, bool fortran);
/* Turns [N,H,W] into [N,1,H,W], the images of one channel; other arrays stay as they are. */
void vt_npy_grey(vt_npy *a);

/* Writes a row-major array (any dtype but BF16 and F8) as a .npy file, complete or not at all. */
vt_status vt_npy_write(const char *path, const vt_tensor *t, vt_err *e);
/* Writes n such arrays as a .npz archive, stored, each under its name; complete or not at all. */
vt_status vt_npz_write(const char *path, const vt_tensor *t, int n, vt_err *e);
