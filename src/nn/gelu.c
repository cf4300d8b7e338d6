/* SPDX-License-Identifier: MIT */
/* The exact GELU and its slope. */
#include "nn/nn.h"
#include "nn/vecmath.h"

/* y = v Phi(v), dy/dv = Phi(v) + v phi(v), v = x + b. */
void VT_R(vt_gelu_forward)(real *y, real *slope, const real *x, const real *b, int m, int n) {
    const real density = (real)0.39894228040143267794; /* 1/sqrt(2 pi) */
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)n;
        real *yi = y + (size_t)i * (size_t)n;
        real *si = slope ? slope + (size_t)i * (size_t)n : NULL;
        if (si && b)
            for (int j = 0; j < n; j++) {
                real v = xi[j] + b[j], e, cdf = vt_normcdf(v, &e);
                yi[j] = v * cdf;
                si[j] = cdf + v * (density * e);
            }
        else
            for (int j = 0; j < n; j++) {
                real v = b ? xi[j] + b[j] : xi[j], e, cdf = vt_normcdf(v, &e);
                yi[j] = v * cdf;
                if (si) si[j] = cdf + v * (density * e);
            }
    }
}
