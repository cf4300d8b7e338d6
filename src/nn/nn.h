/* SPDX-License-Identifier: MIT */
/* Kernels of the network, each forward beside its backward. House order of arguments: outputs, saved for backward,
 * inputs, parameters, dims. In backward functions input gradients (dx) overwrite, parameter gradients (dw, db, dg)
 * accumulate, and a NULL gradient is not computed. Matrices are row-major; m counts rows (tokens). No function
 * allocates. Every file here is compiled for float and for double (core/real.h). */
#ifndef VT_NN_NN_H
#define VT_NN_NN_H

#include <stddef.h>
#include "core/products.h"
#include "core/real.h"
#include "nn/kinds.h"

/* y[m,n] = x[m,k] w^T + b; w is [n,k] as PyTorch stores it, wt is its transpose [k,n] or NULL (faster when there);
 * b [n] may be NULL. */
void VT_R(vt_linear_forward)(const vt_products *by, real *y, const real *x, const real *w, const real *wt,
                             const real *b, int m, int n, int k);
/* y = res + x w^T + b: a residual branch's last product; res [m,n], y may be res. */
void VT_R(vt_linear_residual)(const vt_products *by, real *y, const real *res, const real *x, const real *w,
                              const real *wt, const real *b, int m, int n, int k);
/* dx[m,k] = dy[m,n] w;  dw[n,k] += dy^T x;  db[n] += column sums of dy. */
void VT_R(vt_linear_backward)(const vt_products *by, real *dx, real *dw, real *db, const real *dy, const real *x,
                              const real *w, int m, int n, int k);

/* A classifier's last product, z[m,n] = x w^T + b, of every stride-th row of x (k columns); an image's logits do not
 * depend on its neighbours. */
void VT_R(vt_head_forward)(real *z, const real *x, const real *w, const real *b, int m, int stride, int n, int k);
/* dx rows overwritten with scale dz w; dw, db accumulate, or NULL. */
void VT_R(vt_head_backward)(real *dx, real *dw, real *db, const real *dz, const real *x, const real *w, real scale,
                            int m, int stride, int n, int k);

/* y = (x - mean) / sqrt(var + eps) * g + b over rows of c, biased variance; mean, rstd [m] saved. */
void VT_R(vt_layernorm_forward)(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b, int m,
                                int c, double eps);
/* dx = res + the gradient through the normalisation; res [m,c] (the residual path's gradient) may be NULL or dx; dy may
 * be dx too. */
void VT_R(vt_layernorm_backward)(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                                 const real *g, const real *mean, const real *rstd, int m, int c);

/* A normalisation of any kind, eps inside the root. g, b [c]: scale and shift; mean, var [c]: running statistics of
 * VT_NORM_BATCH, which are constants. What a kind does not have may be NULL. */
typedef struct VT_R(vt_norm) {
    vt_norm_kind kind;
    double eps;
    const real *g, *b, *mean, *var;
} VT_R(vt_norm);
/* y [m,c]; y may be x. mean, rstd [m] are saved by the kinds that look at a row. */
void VT_R(vt_norm_forward)(real *y, real *mean, real *rstd, const real *x, const VT_R(vt_norm) *n, int m, int c);
/* y once more, from what was saved: the weight gradients of the product that reads it want it. */
void VT_R(vt_norm_again)(real *y, const real *mean, const real *rstd, const real *x, const VT_R(vt_norm) *n, int m,
                         int c);
/* dx = res + the gradient through it, as vt_layernorm_backward; dg, db accumulate. */
void VT_R(vt_norm_backward)(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                            const real *mean, const real *rstd, const VT_R(vt_norm) *n, int m, int c);

/* y = (x + b) Phi(x + b), GELU by the error function; x [m,n], b [n] or NULL. slope [m,n] = dy/dx is saved for
 * backward, or NULL. y may be x. */
void VT_R(vt_gelu_forward)(real *y, real *slope, const real *x, const real *b, int m, int n);
/* The same with any activation. */
void VT_R(vt_act_forward)(vt_act kind, real *y, real *slope, const real *x, const real *b, int m, int n);
/* dx = dy * slope, whatever the activation; dx may be dy. */
void VT_R(vt_act_backward)(real *dx, const real *dy, const real *slope, size_t count);

/* p[i,:] = softmax(scale * s[i,:]); p may be s. Rows have stride ld. */
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld);
/* ds[i,:] = scale * p (dp - <p,dp>); ds may be dp. */
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld);

/* Image [3,h,w] in [0,1] -> rows of patches [(h/ps)*(w/ps), 3*ps*ps], normalised (x - mean) / std, channels outermost
 * as a convolution weight [D,3,ps,ps] expects; patches row-major (y outer). */
void VT_R(vt_patchify_forward)(real *patches, const real *x, const double mean[3], const double std[3], int h, int w,
                               int ps);
/* dx[c,y,x] = dpatch / std_c */
void VT_R(vt_patchify_backward)(real *dx, const real *dpatches, const double std[3], int h, int w, int ps);

/* a += b */
void VT_R(vt_add_to)(real *a, const real *b, size_t n);

#endif
