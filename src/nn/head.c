/* SPDX-License-Identifier: MIT */
/* The classification head. */
#include <string.h>
#include "nn/nn.h"

/* Its own loop: a product with N = 10 columns sums in an order that depends on its neighbours in BLAS's small kernels,
 * and then an image's logits on its batch. */
void VT_R(vt_head_forward)(real *z, const real *x, const real *w, const real *b, int m, int stride, int n, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const real *xi = x + (size_t)(i * stride) * (size_t)k, *wj = w + (size_t)j * (size_t)k;
            real lane[16] = {0}, sum = 0;
            int l = 0;
            for (; l + 16 <= k; l += 16)
                for (int q = 0; q < 16; q++) lane[q] += xi[l + q] * wj[l + q];
            for (; l < k; l++) lane[0] += xi[l] * wj[l];
            for (int q = 0; q < 16; q++) sum += lane[q];
            z[i * n + j] = sum + b[j];
        }
}

/* z = scale (x w^T + b):  dx = scale dz w,  dw += scale dz^T x,  db += scale dz */
void VT_R(vt_head_backward)(real *dx, real *dw, real *db, const real *dz, const real *x, const real *w, real scale,
                            int m, int stride, int n, int k) {
    for (int i = 0; i < m; i++) {
        real *out = dx + (size_t)(i * stride) * (size_t)k;
        const real *xi = x + (size_t)(i * stride) * (size_t)k;
        memset(out, 0, (size_t)k * sizeof(real));
        for (int j = 0; j < n; j++) {
            real g = scale * dz[i * n + j];
            const real *wj = w + (size_t)j * (size_t)k;
            for (int l = 0; l < k; l++) out[l] += g * wj[l];
            if (dw)
                for (int l = 0; l < k; l++) dw[(size_t)j * (size_t)k + (size_t)l] += g * xi[l];
            if (db) db[j] += g;
        }
    }
}
