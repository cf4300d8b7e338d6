/* SPDX-License-Identifier: MIT */
/* Linear layers and the classification head: y = x W^T + b, and their gradients. */
#include "nn/nn.h"

#include <string.h>

void VT_R(vt_linear_forward)(real *y, const real *res, const real *x, VT_R(vt_linear) l, int m) {
    const int n = l.n, k = l.k;
    for (int i = 0; res && i < m; i++)
        for (int j = 0; j < n; j++)
            y[(size_t)i * (size_t)n + (size_t)j] = res[(size_t)i * (size_t)n + (size_t)j] + (l.b ? l.b[j] : 0);
    for (int i = 0; !res && l.b && i < m; i++) memcpy(y + (size_t)i * (size_t)n, l.b, (size_t)n * sizeof(real));
    VT_GEMM(l.by, false, !l.wt, m, n, k, 1, x, k, l.wt ? l.wt : l.w, l.wt ? n : k, res || l.b ? 1 : 0, y, n);
}

/* y = x w^T:  dx = dy w,  dw += dy^T x */
void VT_R(vt_linear_backward)(real *dx, const real *res, const real *dy, const real *x, VT_R(vt_linear) l, int m) {
    const int n = l.n, k = l.k;
    if (dx) VT_GEMM(l.by, false, false, m, k, n, 1, dy, n, l.w, k, res ? 1 : 0, dx, k);
    if (x && l.dw) VT_GEMM(l.by, true, false, n, k, m, 1, dy, n, x, k, 1, l.dw, k);
    for (int i = 0; x && l.db && i < m; i++) VT_R(vt_add_to)(l.db, dy + (size_t)i * (size_t)n, (size_t)n);
}

/* Its own loop: a product with N = 10 columns sums in an order that depends on its neighbours in BLAS's small kernels,
 * and then an image's logits on its batch. */
void VT_R(vt_head_forward)(real *z, const real *x, VT_R(vt_linear) l, int m, int stride) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < l.n; j++)
            z[i * l.n + j] =
                VT_R(vt_row_dot)(x + (size_t)(i * stride) * (size_t)l.k, l.w + (size_t)j * (size_t)l.k, l.k) + l.b[j];
}

/* z = scale (x w^T + b):  dx = scale dz w,  dw += scale dz^T x,  db += scale dz */
void VT_R(vt_head_backward)(real *dx, const real *dz, const real *x, VT_R(vt_linear) l, real scale, int m, int stride) {
    const int n = l.n, k = l.k;
    for (int i = 0; i < m; i++) {
        real *out = dx + (size_t)(i * stride) * (size_t)k;
        const real *xi = x + (size_t)(i * stride) * (size_t)k;
        memset(out, 0, (size_t)k * sizeof(real));
        for (int j = 0; j < n; j++) {
            real g = scale * dz[i * n + j];
            const real *wj = l.w + (size_t)j * (size_t)k;
            for (int at = 0; at < k; at++) out[at] += g * wj[at];
            for (int at = 0; l.dw && at < k; at++) l.dw[(size_t)j * (size_t)k + (size_t)at] += g * xi[at];
            if (l.db) l.db[j] += g;
        }
    }
}

void VT_R(vt_add_to)(real *a, const real *b, size_t n) {
    for (size_t i = 0; i < n; i++) a[i] += b[i];
}
