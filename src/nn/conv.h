/* SPDX-License-Identifier: MIT */
/* 3 x 3 convolutions with padding 1, as PyTorch's Conv2d computes them (cross-correlation), over maps whose channels
 * lie innermost: a map [h, w, c] is a matrix of h*w rows, which normalisations and linear maps take as it is. */
#pragma once

#include <stddef.h>
#include "nn/nn.h"

typedef struct vt_conv_shape {
    int h, w, in, out, stride;
} vt_conv_shape;

/* Returns the side of the output: floor((n + 2 - 3) / stride) + 1. */
static inline int vt_conv_side(int n, int stride) { return (n - 1) / stride + 1; }

/* Returns the reals of scratch: the patches [rows, 9 in] of a band of output rows, about a megabyte; whole maps would
 * take 9 times their size. */
size_t VT_R(vt_conv_col_len)(const vt_conv_shape *s);

/* Computes y [images, ho*wo, out] from x [images, h*w, in]; l: w [out, in, 3, 3] as a matrix; col: scratch. */
void VT_R(vt_conv_forward)(real *y, real *col, const real *x, VT_R(vt_linear) l, const vt_conv_shape *s, int images);
/* Computes dx [images, h*w, in] (NULL: not wanted) from dy [images, ho*wo, out] and adds to l's gradients; x NULL: dx
 * alone. */
void VT_R(vt_conv_backward)(real *dx, real *col, const real *dy, const real *x, VT_R(vt_linear) l,
                            const vt_conv_shape *s, int images);

/* Convolves each channel with its own kernel, stride 1: y, x [images, h*w, c]; l: w [c, 1, 3, 3], b [c]; taps: 9 c
 * reals of scratch. */
void VT_R(vt_depthwise_forward)(real *y, real *taps, const real *x, VT_R(vt_linear) l, int images, int h, int wd);
/* Computes dx [images, h*w, c] (NULL: not wanted) from dy and adds to l's gradients; x NULL: dx alone; taps: 9 c reals
 * of scratch. */
void VT_R(vt_depthwise_backward)(real *dx, real *taps, const real *dy, const real *x, VT_R(vt_linear) l, int images,
                                 int h, int wd);
