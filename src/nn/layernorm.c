/* SPDX-License-Identifier: MIT */
/* LayerNorm over the channels of a token. */
#include "nn/nn.h"

#include <math.h>
#include "nn/lanes.h"
#include "nn/sums.h"

/* A row's mean and the mean of its squared distances from it, in 32 lanes. */
#ifdef VT_DOUBLE
static real sum_of_row(const real *x, int c) {
    real s[VT_SUM_LANES] = {0};
    for (int j = 0; j < c; j++) s[j % VT_SUM_LANES] += x[j];
    return vt_sum_fold(s);
}

static real sum_sq(const real *x, real mean, int c) {
    real s[VT_SUM_LANES] = {0};
    for (int j = 0; j < c; j++) s[j % VT_SUM_LANES] += (x[j] - mean) * (x[j] - mean);
    return vt_sum_fold(s);
}

static void normalize_row(real *y, const real *x, real mean, real rstd, const real *g, const real *b, int c) {
    for (int j = 0; j < c; j++) y[j] = (x[j] - mean) * rstd * g[j] + b[j];
}
#else
/* Sixteen channels, or the first n where there are fewer. */
static vt_lanes load_channels(const float *x, int n) { return n >= 16 ? vt_lanes_load(x) : vt_lanes_load_some(x, n); }
static void store_channels(float *y, vt_lanes v, int n) {
    if (n >= 16)
        vt_lanes_store(y, v);
    else
        vt_lanes_store_some(y, v, n);
}

static float sum_of_row(const float *x, int c) {
    vt_lanes even = {0}, odd = {0};
    for (int j = 0; j < c; j += 32) {
        even = vt_lanes_add(even, load_channels(x + j, c - j));
        if (c - j > 16) odd = vt_lanes_add(odd, load_channels(x + j + 16, c - j - 16));
    }
    return vt_lanes_sum(vt_lanes_add(even, odd));
}

static vt_lanes distances_from_mean(const float *x, float mean, int n) {
    vt_lanes d = vt_lanes_less(load_channels(x, n), mean);
    return n >= 16 ? d : vt_lanes_first(d, n, 0);
}

static float sum_sq(const float *x, float mean, int c) {
    vt_lanes even = {0}, odd = {0};
    for (int j = 0; j < c; j += 32) {
        vt_lanes d = distances_from_mean(x + j, mean, c - j);
        even = vt_lanes_product_add(d, d, even);
        if (c - j <= 16) break;
        d = distances_from_mean(x + j + 16, mean, c - j - 16);
        odd = vt_lanes_product_add(d, d, odd);
    }
    return vt_lanes_sum(vt_lanes_add(even, odd));
}

static void normalize_row(float *y, const float *x, float mean, float rstd, const float *g, const float *b, int c) {
    for (int j = 0; j < c; j += 16) {
        int n = c - j;
        vt_lanes xh = vt_lanes_times(vt_lanes_less(load_channels(x + j, n), mean), rstd);
        vt_lanes v = vt_lanes_product_add(xh, load_channels(g + j, n), load_channels(b + j, n));
        store_channels(y + j, v, n);
    }
}
#endif

enum { AT_ONCE = 8 }; /* rows, pass by pass, so that none waits for another's sums */

void VT_R(vt_layernorm_forward)(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b, int m,
                                int c, double eps) {
    size_t ld = (size_t)c;
    for (int from = 0; from < m; from += AT_ONCE) {
        int to = m - from < AT_ONCE ? m : from + AT_ONCE;
        for (int i = from; i < to; i++) mean[i] = sum_of_row(x + (size_t)i * ld, c) / (real)c;
        for (int i = from; i < to; i++)
            rstd[i] = 1 / (real)sqrt((double)(sum_sq(x + (size_t)i * ld, mean[i], c) / (real)c) + eps);
        for (int i = from; i < to; i++)
            normalize_row(y + (size_t)i * ld, x + (size_t)i * ld, mean[i], rstd[i], g, b, c);
    }
}

static void add_parameter_gradients(real *dg, real *db, const real *dy, const real *x, real mean, real rstd, int c) {
    for (int j = 0; j < c; j++) {
        if (dg) dg[j] += dy[j] * (x[j] - mean) * rstd;
        if (db) db[j] += dy[j];
    }
}

/* One token's dx; res may be NULL. */
#ifdef VT_DOUBLE
static void backward(real *dx, const real *res, const real *dy, const real *x, const real *g, real mean, real rstd,
                     int c) {
    real s1 = 0, s2 = 0;
    for (int j = 0; j < c; j++) {
        real h = dy[j] * g[j];
        s1 += h, s2 += h * ((x[j] - mean) * rstd);
    }
    s1 /= (real)c, s2 /= (real)c;
    for (int j = 0; j < c; j++) dx[j] = (res ? res[j] : 0) + rstd * (dy[j] * g[j] - s1 - (x[j] - mean) * rstd * s2);
}
#else
/* xh and h of sixteen channels, or of the first n */
static void compute_backward_terms(vt_lanes *xh, vt_lanes *h, const float *dy, const float *x, const float *g,
                                   float mean, float rstd, int n) {
    *h = vt_lanes_product(load_channels(dy, n), load_channels(g, n));
    *xh = vt_lanes_times(vt_lanes_less(load_channels(x, n), mean), rstd);
}

static void backward(float *dx, const float *res, const float *dy, const float *x, const float *g, float mean,
                     float rstd, int c) {
    vt_lanes s1 = {0}, s2 = {0}, xh, h;
    for (int j = 0; j < c; j += 16) {
        compute_backward_terms(&xh, &h, dy + j, x + j, g + j, mean, rstd, c - j);
        s1 = vt_lanes_add(s1, h), s2 = vt_lanes_product_add(h, xh, s2);
    }
    float a = vt_lanes_sum(s1) / (float)c, q = vt_lanes_sum(s2) / (float)c;
    for (int j = 0; j < c; j += 16) {
        compute_backward_terms(&xh, &h, dy + j, x + j, g + j, mean, rstd, c - j);
        vt_lanes v = vt_lanes_times(vt_lanes_less(vt_lanes_product_add(xh, vt_lanes_all(-q), h), a), rstd);
        int n = c - j;
        if (res) v = vt_lanes_add(v, load_channels(res + j, n));
        store_channels(dx + j, v, n);
    }
}
#endif

/* With xh = (x - mean) rstd and h = dy g:  dx = rstd (h - mean_j(h) - xh mean_j(h xh)). */
void VT_R(vt_layernorm_backward)(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                                 const real *g, const real *mean, const real *rstd, int m, int c) {
    for (int i = 0; i < m; i++) {
        size_t at = (size_t)i * (size_t)c;
        if (dg || db) add_parameter_gradients(dg, db, dy + at, x + at, mean[i], rstd[i], c);
        if (dx) backward(dx + at, res ? res + at : NULL, dy + at, x + at, g, mean[i], rstd[i], c);
    }
}
