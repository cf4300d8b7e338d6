/* SPDX-License-Identifier: MIT */
/* 3 x 3 convolutions with padding 1, as PyTorch's Conv2d computes them (cross-correlation), over maps whose channels
 * lie innermost: a map [h, w, c] is a matrix of h*w rows, which normalisations and linear maps take as it is. One map a
 * call. */
#ifndef VT_NN_CONV_H
#define VT_NN_CONV_H

#include <stddef.h>
#include "core/products.h"
#include "core/real.h"

#ifndef VT_NN_CONV_SHAPE
#define VT_NN_CONV_SHAPE
typedef struct vt_conv_shape {
    int h, w, in, out, stride;
} vt_conv_shape;

/* Side of the output: floor((n + 2 - 3) / stride) + 1. */
static inline int vt_conv_side(int n, int stride) { return (n - 1) / stride + 1; }
#endif

/* Reals of scratch: the patches [rows, 9 in] of a band of output rows, about a megabyte; whole maps would take 9 times
 * their size. */
size_t VT_R(vt_conv_col_len)(const vt_conv_shape *s);

/* y [ho*wo, out] from x [h*w, in]; w [out, in, 3, 3], wt its transpose [in*9, out] or NULL; b [out] or NULL; col:
 * scratch. */
void VT_R(vt_conv_forward)(const vt_products *by, real *y, real *col, const real *x, const real *w, const real *wt,
                           const real *b, const vt_conv_shape *s);
/* dx overwritten, dw, db accumulate, each may be NULL; x is needed for dw alone. */
void VT_R(vt_conv_backward)(const vt_products *by, real *dx, real *dw, real *db, real *col, const real *dy,
                            const real *x, const real *w, const vt_conv_shape *s);

/* Each channel with its own kernel, stride 1: y [h*w, c] from x [h*w, c]; w [c, 1, 3, 3], b [c]; taps: 9 c reals of
 * scratch. */
void VT_R(vt_depthwise_forward)(real *y, real *taps, const real *x, const real *w, const real *b, int h, int wd, int c);
/* dx overwritten; dw, db accumulate; NULL: not wanted. x is needed for dw alone. */
void VT_R(vt_depthwise_backward)(real *dx, real *dw, real *db, real *taps, const real *dy, const real *x, const real *w,
                                 int h, int wd, int c);

#endif
