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

/* Parses a .npy file in memory, whose n bytes must outlive the array, into *out. VT_E_FORMAT: it is none, not exactly
 * as long as its shape takes, or of a type not read; *out is then untouched. */
vt_status vt_npy_parse(vt_npy *out, const uint8_t *bytes, size_t n, const char *path, vt_err *e);
bool vt_npy_is_real(const vt_npy *a);             /* f2, f4, f8; else whole numbers */
double vt_npy_real(const vt_npy *a, size_t at);   /* item at sum of index * stride; also of whole numbers */
int64_t vt_npy_whole(const vt_npy *a, size_t at); /* item at that place, of whole numbers */

bool vt_npy_dtype(vt_dtype *out, const char *code, size_t n); /* "f4", n characters; false: another type */
/* Sets a->stride from its shape, which is known to fit; fortran: the first side is the fastest, else the last. */
void vt_npy_set_strides(vt_npy *a, bool fortran);
/* Turns [N,H,W] into [N,1,H,W], the images of one channel; other arrays stay as they are. */
void vt_npy_grey(vt_npy *a);

/* Writes a row-major array as a .npy file, complete or not at all. VT_E_FORMAT: its dtype is BF16 or F8, which NumPy
 * has not; VT_E_IO. */
vt_status vt_npy_write(const char *path, const vt_tensor *t, vt_err *e);
/* Writes n row-major arrays as a .npz archive, stored, each under its name; complete or not at all. Fails as
 * vt_npy_write. */
vt_status vt_npz_write(const char *path, const vt_tensor *t, int n, vt_err *e);
