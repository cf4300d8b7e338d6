/* SPDX-License-Identifier: MIT */
/* Interval bounds of a network over boxes of images, and their gradients, for training (Gowal et al. 2018, section 3).
 * A value lies within its radius of its centre. Both pass through the network as one matrix: the rows of all centres,
 * then those of all radii. */
#pragma once

#include "models/net/session.h"

typedef struct VT_R(vt_bounds) {
    VT_R(vt_session) *s; /* whose weights they are, and the gradient */
    double eps;          /* images may move so far in every pixel, within [0,1] */
    int batch;           /* images of the last forward */
    real *box;           /* [2*b, 3, h, w] centres and radii of the pixels */
    real *patches;       /* [2*b*N, row] of the normalised patches */
    real *tokens;        /* [2*b*N, D] what runs through the blocks, or its gradient */
    real *moved;         /* [2*b*N, D] the gradient of a block's input */
    real **in, **slope;  /* [depth] inputs of the blocks' products; [b*N, D] of the activation */
    real *pooled;        /* [2*b, D] what the head reads, or its gradient */
    real *worst;         /* [b, K] upper bounds of z_k - z_y, y the label; 0 at y */
    real *size, *dsize;  /* a layer's absolute weights and their gradient */
    int *label;          /* [b] */
    void *block;         /* the memory of all */
} VT_R(vt_bounds);

/* VT_E_USAGE: the architecture has no interval bounds, or the model resizes its input. name: what asks, for the
 * sentence. */
vt_status VT_R(vt_bounds_check)(const vt_model *m, const char *name, vt_err *e);
/* Takes the memory for the images of a session, of a model that vt_bounds_check has passed. */
vt_status VT_R(vt_bounds_open)(VT_R(vt_bounds) *o, VT_R(vt_session) *s, vt_err *e);
void VT_R(vt_bounds_close)(VT_R(vt_bounds) *o); /* accepts a zeroed one */
size_t VT_R(vt_bounds_bytes)(const vt_model *m, int capacity);

/* Returns o->worst for b images x [b,3,h,w] with label distributions target [b,K]. The last layer is folded with the
 * label (section 3, eq. 9 and 10 there): one bound of each difference, not the difference of two bounds. */
const real *VT_R(vt_bounds_forward)(VT_R(vt_bounds) *o, const real *x, const float *target, int b);
/* Adds to grad [params.total] the gradient of the parameters, dworst [b,K] being that of the last forward's result. */
void VT_R(vt_bounds_backward)(VT_R(vt_bounds) *o, const real *dworst, real *grad);

/* ---- for architectures ---- */

/* Computes y [2m,n] of x [2m,k]: centres by w and b, radii by |w|. */
void VT_R(vt_bounds_linear_forward)(VT_R(vt_bounds) *o, real *y, const real *x, VT_R(vt_linear) l, int m);
/* Computes dx [2m,k] (or NULL) of dy [2m,n], and adds to dw and db. */
void VT_R(vt_bounds_linear_backward)(VT_R(vt_bounds) *o, real *dx, const real *dy, const real *x, VT_R(vt_linear) l,
                                     int m);
