/* SPDX-License-Identifier: MIT */
/* LayerNorm over the channels of a token. */
#include "nn/nn.h"

#include <math.h>
#include "nn/sums.h"

static real sum(const real *x, int c) {
    real s[VT_SUM_LANES] = {0};
    int j = 0;
    for (; j + VT_SUM_LANES <= c; j += VT_SUM_LANES)
        for (int l = 0; l < VT_SUM_LANES; l++) s[l] += x[j + l];
    for (; j < c; j++) s[j % VT_SUM_LANES] += x[j];
    return vt_sum_fold(s);
}

static real sum_sq(const real *x, real mean, int c) {
    real s[VT_SUM_LANES] = {0};
    int j = 0;
    for (; j + VT_SUM_LANES <= c; j += VT_SUM_LANES)
        for (int l = 0; l < VT_SUM_LANES; l++) s[l] += (x[j + l] - mean) * (x[j + l] - mean);
    for (; j < c; j++) s[j % VT_SUM_LANES] += (x[j] - mean) * (x[j] - mean);
    return vt_sum_fold(s);
}

void VT_R(vt_layernorm_forward)(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b, int m,
                                int c, double eps) {
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)c;
        real *yi = y + (size_t)i * (size_t)c;
        real mu = sum(xi, c) / (real)c;
        real r = 1 / (real)sqrt((double)(sum_sq(xi, mu, c) / (real)c) + eps);
        for (int j = 0; j < c; j++) yi[j] = (xi[j] - mu) * r * g[j] + b[j];
        mean[i] = mu, rstd[i] = r;
    }
}

/* With xh = (x - mean) rstd and h = dy g:  dx = rstd (h - mean_j(h) - xh mean_j(h xh)). */
void VT_R(vt_layernorm_backward)(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                                 const real *g, const real *mean, const real *rstd, int m, int c) {
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)c, *di = dy + (size_t)i * (size_t)c;
        real mu = mean[i], r = rstd[i];
        if (dg || db)
            for (int j = 0; j < c; j++) {
                if (dg) dg[j] += di[j] * (xi[j] - mu) * r;
                if (db) db[j] += di[j];
            }
        if (!dx) continue;
        real s1[8] = {0}, s2[8] = {0};
        int j = 0;
        for (; j + 8 <= c; j += 8)
            for (int l = 0; l < 8; l++) {
                real h = di[j + l] * g[j + l];
                s1[l] += h, s2[l] += h * ((xi[j + l] - mu) * r);
            }
        for (; j < c; j++) {
            real h = di[j] * g[j];
            s1[0] += h, s2[0] += h * ((xi[j] - mu) * r);
        }
        real a = 0, q = 0;
        for (int l = 0; l < 8; l++) a += s1[l], q += s2[l];
        a /= (real)c, q /= (real)c;
        real *oi = dx + (size_t)i * (size_t)c;
        const real *ri = res ? res + (size_t)i * (size_t)c : NULL;
        if (ri)
            for (int k = 0; k < c; k++) oi[k] = ri[k] + r * (di[k] * g[k] - a - (xi[k] - mu) * r * q);
        else
            for (int k = 0; k < c; k++) oi[k] = r * (di[k] * g[k] - a - (xi[k] - mu) * r * q);
    }
}
