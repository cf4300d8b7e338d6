/* SPDX-License-Identifier: MIT */
/* Linear layers: y = x W^T + b, and their gradients. */
#include "nn/nn.h"

#include <string.h>

void VT_R(vt_linear_forward)(const vt_products *by, real *y, const real *x, const real *w, const real *wt,
                             const real *b, int m, int n, int k) {
    if (b)
        for (int i = 0; i < m; i++) memcpy(y + (size_t)i * (size_t)n, b, (size_t)n * sizeof(real));
    /* y = x w^T + b */
    if (wt)
        VT_GEMM(by, false, false, m, n, k, 1, x, k, wt, n, b ? 1 : 0, y, n);
    else
        VT_GEMM(by, false, true, m, n, k, 1, x, k, w, k, b ? 1 : 0, y, n);
}

void VT_R(vt_linear_residual)(const vt_products *by, real *y, const real *res, const real *x, const real *w,
                              const real *wt, const real *b, int m, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            y[(size_t)i * (size_t)n + (size_t)j] = res[(size_t)i * (size_t)n + (size_t)j] + (b ? b[j] : 0);
    if (wt)
        VT_GEMM(by, false, false, m, n, k, 1, x, k, wt, n, 1, y, n);
    else
        VT_GEMM(by, false, true, m, n, k, 1, x, k, w, k, 1, y, n);
}

void VT_R(vt_linear_backward)(const vt_products *by, real *dx, real *dw, real *db, const real *dy, const real *x,
                              const real *w, int m, int n, int k) {
    if (dx) VT_GEMM(by, false, false, m, k, n, 1, dy, n, w, k, 0, dx, k); /* y = x w^T  =>  dx = dy w */
    if (dw) VT_GEMM(by, true, false, n, k, m, 1, dy, n, x, k, 1, dw, k);  /*            =>  dw += dy^T x */
    if (db)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) db[j] += dy[(size_t)i * (size_t)n + (size_t)j];
}

void VT_R(vt_add_to)(real *a, const real *b, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] += b[i];
}
