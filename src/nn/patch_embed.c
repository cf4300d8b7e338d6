/* SPDX-License-Identifier: MIT */
/* Pixels into rows of patches, normalised on the way. */
#include "nn/nn.h"

/* patches[(py,px), (c,ky,kx)] = (x[c, py ps + ky, px ps + kx] - mean_c) / std_c, in this order of operations, mean and
 * std rounded to `real` first: what torchvision's Normalize does. */
void VT_R(vt_patchify_forward)(real *patches, const real *x, const double mean[3], const double std[3], int h, int w,
                               int ps) {
    int nx = w / ps, row = 3 * ps * ps;
    for (int c = 0; c < 3; c++) {
        real mu = (real)mean[c], sd = (real)std[c];
        for (int y = 0; y < h; y++)
            for (int px = 0; px < nx; px++) {
                const real *src = x + ((size_t)c * (size_t)h + (size_t)y) * (size_t)w + (size_t)(px * ps);
                real *dst = patches + (size_t)((y / ps) * nx + px) * (size_t)row + (size_t)((c * ps + y % ps) * ps);
                for (int k = 0; k < ps; k++) dst[k] = (src[k] - mu) / sd;
            }
    }
}

void VT_R(vt_patchify_backward)(real *dx, const real *dpatches, const double std[3], int h, int w, int ps) {
    int nx = w / ps, row = 3 * ps * ps;
    for (int c = 0; c < 3; c++) {
        real sd = (real)std[c];
        for (int y = 0; y < h; y++)
            for (int px = 0; px < nx; px++) {
                real *dst = dx + ((size_t)c * (size_t)h + (size_t)y) * (size_t)w + (size_t)(px * ps);
                const real *src =
                    dpatches + (size_t)((y / ps) * nx + px) * (size_t)row + (size_t)((c * ps + y % ps) * ps);
                for (int k = 0; k < ps; k++) dst[k] = src[k] / sd;
            }
    }
}
