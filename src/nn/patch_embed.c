/* SPDX-License-Identifier: MIT */
/* Pixels into rows of patches, normalised on the way. */
#include "nn/nn.h"

/* The first of the ps pixels in row y of channel c that belong to the patch at column px, in the rows of patches. */
static size_t patch_row(int c, int y, int px, int w, int ps) {
    return (size_t)(y / ps * (w / ps) + px) * (size_t)(3 * ps * ps) + (size_t)((c * ps + y % ps) * ps);
}

/* patches[(py,px), (c,ky,kx)] = (x[c, py ps + ky, px ps + kx] - mean_c) / std_c, in this order of operations, mean and
 * std rounded to `real` first: what torchvision's Normalize does. */
void VT_R(vt_patchify_forward)(real *patches, const real *x, const double mean[3], const double std[3], int images,
                               int h, int w, int ps) {
    for (int i = 0; i < 3 * images; i++, patches += i % 3 ? 0 : 3 * h * w) {
        real mu = (real)mean[i % 3], sd = (real)std[i % 3];
        for (int y = 0; y < h; y++)
            for (int px = 0; px < w / ps; px++, x += ps) {
                real *dst = patches + patch_row(i % 3, y, px, w, ps);
                for (int k = 0; k < ps; k++) dst[k] = (x[k] - mu) / sd;
            }
    }
}

void VT_R(vt_patchify_backward)(real *dx, const real *dpatches, const double std[3], int images, int h, int w, int ps) {
    for (int i = 0; i < 3 * images; i++, dpatches += i % 3 ? 0 : 3 * h * w) {
        real sd = (real)std[i % 3];
        for (int y = 0; y < h; y++)
            for (int px = 0; px < w / ps; px++, dx += ps) {
                const real *src = dpatches + patch_row(i % 3, y, px, w, ps);
                for (int k = 0; k < ps; k++) dx[k] = src[k] / sd;
            }
    }
}
