/* SPDX-License-Identifier: MIT */
/* Kernels of the network, each forward beside its backward. House order of arguments: outputs, saved for backward,
 * inputs, parameters, dims. In backward functions input gradients (dx) overwrite, parameter gradients (in the handle
 * of the parameters) accumulate, and a NULL gradient is not computed. Matrices are row-major; m counts rows (tokens).
 * No function allocates. Every file here is compiled for float and for double (base/real.h). */
#pragma once

#include <stddef.h>
#include "linalg/products.h"
#include "base/real.h"
#include "nn/kinds.h"

/* The tensors of a linear map: w [n,k] as PyTorch stores it; wt, its transpose [k,n],
 * makes forwards faster; b [n]; wt, b and gradients may be NULL. `by`: how its products are formed. */
typedef struct VT_R(vt_linear) {
    const real *w, *wt, *b;
    real *dw, *db;
    int n, k;
    const vt_products *by;
} VT_R(vt_linear);
/* Computes y[m,n] = res + x[m,k] w^T + b; res [m,n] (a residual branch's last product) may be NULL or y. */
void VT_R(vt_linear_forward)(real *y, const real *res, const real *x, VT_R(vt_linear) l, int m);
/* Computes dx[m,k] = res + dy[m,n] w, res NULL or dx;  dw += dy^T x;  db += column sums of dy. x NULL: dx alone. */
void VT_R(vt_linear_backward)(real *dx, const real *res, const real *dy, const real *x, VT_R(vt_linear) l, int m);

/* Computes a classifier's last product, z[m,n] = x w^T + b, of every stride-th row of x (k columns); an image's logits
 * do not depend on its neighbours. */
void VT_R(vt_head_forward)(real *z, const real *x, VT_R(vt_linear) l, int m, int stride);
/* Computes dx, every stride-th row of it, = scale dz w, and adds to dw and db. */
void VT_R(vt_head_backward)(real *dx, const real *dz, const real *x, VT_R(vt_linear) l, real scale, int m, int stride);

/* A normalisation, eps inside the root. g, b [c]: scale and shift; mean, var [c]: running statistics of VT_NORM_BATCH,
 * which are constants. What a kind does not have may be NULL. */
typedef struct VT_R(vt_norm) {
    vt_norm_kind kind;
    double eps;
    const real *g, *b, *mean, *var;
    real *dg, *db;
} VT_R(vt_norm);
/* Normalises: y [m,c]; y may be x. stat [m,2], each row's mean and factor, is saved by the kinds that look at a row
 * (LayerNorm has the biased variance). */
void VT_R(vt_norm_forward)(real *y, real *stat, const real *x, VT_R(vt_norm) n, int m, int c);
/* Computes y once more, from what was saved: the weight gradients of the product that reads it want it. */
void VT_R(vt_norm_again)(real *y, const real *stat, const real *x, VT_R(vt_norm) n, int m, int c);
/* Computes dx = res + the gradient through it; res [m,c] (the residual path's gradient) may be NULL or dx; dy may be dx
 * too. */
void VT_R(vt_norm_backward)(real *dx, const real *res, const real *dy, const real *x, const real *stat, VT_R(vt_norm) n,
                            int m, int c);

/* Computes y = the activation of x + b; x [m,n], b [n] or NULL. slope [m,n] = dy/dx is saved for backward, or NULL. y
 * may be x. */
void VT_R(vt_act_forward)(vt_act kind, real *y, real *slope, const real *x, const real *b, int m, int n);
/* Computes dx = dy * slope, whatever the activation; dx may be dy. */
void VT_R(vt_act_backward)(real *dx, const real *dy, const real *slope, size_t count);

/* Computes p[i,:] = softmax(scale * s[i,:]); p may be s. Rows [n] have stride ld. */
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld);
/* Computes ds[i,:] = scale * p (dp - <p,dp>); ds may be dp. */
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld);

/* Images [3,h,w] in [0,1] -> rows of patches [(h/ps)*(w/ps), 3*ps*ps], normalised (x - mean) / std, channels outermost
 * as a convolution weight [D,3,ps,ps] expects; patches row-major (y outer). */
void VT_R(vt_patchify_forward)(real *patches, const real *x, const double mean[3], const double std[3], int images,
                               int h, int w, int ps);
/* Computes the image's gradient dx[c,y,x] = dpatch / std_c. */
void VT_R(vt_patchify_backward)(real *dx, const real *dpatches, const double std[3], int images, int h, int w, int ps);

/* Adds b [n] to a. */
void VT_R(vt_add_to)(real *a, const real *b, size_t n);

/* Long sums are formed in so many parts, which the compiler may vectorise without the reordering of -ffast-math, and
 * those by halves. */
enum { VT_SUM_LANES = 32 };
/* Returns the sum of VT_SUM_LANES parts, which it overwrites, by halves. */
static inline real VT_R(vt_sum_fold)(real *lane) {
    for (int w = VT_SUM_LANES / 2; w >= 4; w /= 2)
        for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* Returns <a, b> of short rows, sixteen partial sums at a time. */
static inline real VT_R(vt_row_dot)(const real *a, const real *b, int n) {
    real lane[16] = {0}, sum = 0;
    int j = 0;
    for (; j + 16 <= n; j += 16)
        for (int l = 0; l < 16; l++) lane[l] += a[j + l] * b[j + l];
    for (; j < n; j++) lane[0] += a[j] * b[j];
    for (int l = 0; l < 16; l++) sum += lane[l];
    return sum;
}
