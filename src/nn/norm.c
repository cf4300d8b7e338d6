/* SPDX-License-Identifier: MIT */
/* The norm that a configuration names: LayerNorm over the channels of a token, frozen BatchNorm, or centring. */
#include <math.h>
#include <string.h>
#include "nn/lanes.h"
#include "nn/nn.h"

/* ---- LayerNorm ---- */

/* sum_of_row returns the sum of a row's c numbers, sum_sq that of their squared distances from `mean`, both in 32
 * lanes; normalize_row computes y = (x - mean) rstd g + b. In double plain loops, in float by vt_lanes. */
#ifdef VT_DOUBLE
static real sum_of_row(const real *x, int c) {
    real s[VT_SUM_LANES] = {0};
    for (int j = 0; j < c; j++) s[j % VT_SUM_LANES] += x[j];
    return VT_R(vt_sum_fold)(s);
}

static real sum_sq(const real *x, real mean, int c) {
    real s[VT_SUM_LANES] = {0};
    for (int j = 0; j < c; j++) s[j % VT_SUM_LANES] += (x[j] - mean) * (x[j] - mean);
    return VT_R(vt_sum_fold)(s);
}

static void normalize_row(real *y, const real *x, real mean, real rstd, const real *g, const real *b, int c) {
    for (int j = 0; j < c; j++) y[j] = (x[j] - mean) * rstd * g[j] + b[j];
}
#else
/* Returns sixteen channels, or the first n where there are fewer; lanes beyond them are 0. */
static vt_lanes load_channels(const float *x, int n) { return n >= 16 ? vt_lanes_load(x) : vt_lanes_load_some(x, n); }
/* Stores the first n of 16 numbers, all if n is larger. */
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

/* Returns x - mean of n numbers, 0 beyond them. */
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

/* Computes LayerNorm of m rows of c channels; stat: mean and 1/deviation of each. */
static void layer_forward(real *y, real *stat, const real *x, VT_R(vt_norm) n, int m, int c) {
    size_t ld = (size_t)c;
    for (int from = 0; from < m; from += AT_ONCE) {
        int to = m - from < AT_ONCE ? m : from + AT_ONCE;
        for (int i = from; i < to; i++) stat[2 * i] = sum_of_row(x + (size_t)i * ld, c) / (real)c;
        for (int i = from; i < to; i++) {
            real variance = sum_sq(x + (size_t)i * ld, stat[2 * i], c) / (real)c;
            stat[2 * i + 1] = 1 / (real)sqrt((double)variance + n.eps);
        }
        for (int i = from; i < to; i++)
            normalize_row(y + (size_t)i * ld, x + (size_t)i * ld, stat[2 * i], stat[2 * i + 1], n.g, n.b, c);
    }
}

/* Adds a row's gradients of gain and bias. */
static void add_parameter_gradients(real *dg, real *db, const real *dy, const real *x, real mean, real rstd, int c) {
    for (int j = 0; j < c; j++) {
        if (dg) dg[j] += dy[j] * (x[j] - mean) * rstd;
        if (db) db[j] += dy[j];
    }
}

/* row_backward computes a row's dx = res + the gradient through LayerNorm of dy; res may be NULL. */
#ifdef VT_DOUBLE
/* Sets dx [c] = res (or 0) + rstd (h - mean(h) - xh mean(h xh)), h = dy g, xh = (x - mean) rstd. */
static void row_backward(real *dx, const real *res, const real *dy, const real *x, const real *g, real mean, real rstd,
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
/* Sets *xh = (x - mean) rstd and *h = dy g of the next sixteen channels; n: how many are left of the row. If fewer than
 * sixteen, the lanes beyond them have h = 0, but xh = -mean rstd. */
static void compute_backward_terms(vt_lanes *xh, vt_lanes *h, const float *dy, const float *x, const float *g,
                                   float mean, float rstd, int n) {
    *h = vt_lanes_product(load_channels(dy, n), load_channels(g, n));
    *xh = vt_lanes_times(vt_lanes_less(load_channels(x, n), mean), rstd);
}

static void row_backward(float *dx, const float *res, const float *dy, const float *x, const float *g, float mean,
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

/* Through LayerNorm, dg and db accumulate. With xh = (x - mean) rstd and h = dy g:  dx = res (or 0) + rstd (h -
 * mean_j(h) - xh mean_j(h xh)). */
static void layer_backward(real *dx, const real *res, const real *dy, const real *x, const real *stat, VT_R(vt_norm) n,
                           int m, int c) {
    for (int i = 0; i < m; i++, stat += 2) {
        size_t at = (size_t)i * (size_t)c;
        if (n.dg || n.db) add_parameter_gradients(n.dg, n.db, dy + at, x + at, stat[0], stat[1], c);
        if (dx) row_backward(dx + at, res ? res + at : NULL, dy + at, x + at, n.g, stat[0], stat[1], c);
    }
}

/* ---- BatchNorm ---- */

/* Frozen BatchNorm, y = (x - mean_j) / sqrt(var_j + eps) g_j + b_j, by pieces of a row, so that the roots are taken
 * once for all rows without memory of their own. */
enum { PIECE = 256 };

/* Writes 1/deviation of up to PIECE channels from `at` on. Returns how many. */
static int compute_inverse_std(real *r, VT_R(vt_norm) n, int at, int c) {
    int len = c - at < PIECE ? c - at : PIECE;
    for (int j = 0; j < len; j++) r[j] = (real)(1 / sqrt((double)n.var[at + j] + n.eps));
    return len;
}

/* Computes BatchNorm by running statistics of m rows of c channels. */
static void batch_forward(real *y, const real *x, VT_R(vt_norm) n, int m, int c) {
    real r[PIECE];
    for (int at = 0; at < c; at += PIECE) {
        int len = compute_inverse_std(r, n, at, c);
        for (int i = 0; i < m; i++) {
            const real *xi = x + (size_t)i * (size_t)c + at;
            real *yi = y + (size_t)i * (size_t)c + at;
            for (int j = 0; j < len; j++) yi[j] = (xi[j] - n.mean[at + j]) * r[j] * n.g[at + j] + n.b[at + j];
        }
    }
}

/* dx_j = res_j (or 0) + dy_j g_j / sqrt(var_j + eps): the statistics are constants. dg and db accumulate. */
static void batch_backward(real *dx, const real *res, const real *dy, const real *x, VT_R(vt_norm) n, int m, int c) {
    real r[PIECE];
    for (int at = 0; at < c; at += PIECE) {
        int len = compute_inverse_std(r, n, at, c);
        for (int i = 0; i < m; i++) {
            size_t row = (size_t)i * (size_t)c + (size_t)at;
            for (int j = 0; j < len; j++) {
                real d = dy[row + (size_t)j];
                if (n.dg) n.dg[at + j] += d * (x[row + (size_t)j] - n.mean[at + j]) * r[j];
                if (n.db) n.db[at + j] += d;
                if (dx) dx[row + (size_t)j] = (res ? res[row + (size_t)j] : 0) + d * n.g[at + j] * r[j];
            }
        }
    }
}

/* ---- CenterNorm ---- */

/* y = g f (x - mean) + b, f = D / (D - 1), which stands where the deviation's inverse would (LipsFormer's code: no
 * division by it); stat [m, 2]: mean and f. */
static void center_forward(real *y, real *stat, const real *x, VT_R(vt_norm) n, int m, int c) {
    for (int i = 0; i < m; i++, x += c, y += c, stat += 2) {
        real sum = 0;
        for (int j = 0; j < c; j++) sum += x[j];
        stat[0] = sum / (real)c, stat[1] = (real)c / (real)(c - 1);
        for (int j = 0; j < c; j++) y[j] = (x[j] - stat[0]) * stat[1] * n.g[j] + n.b[j];
    }
}

/* With h = dy g:  dx = f (h - mean_j(h)). The sum has a loop of its own: beside dg and db it would be compiled once
 * with and once without them, rounded in two ways, and dx would depend on who asks for gradients of parameters. */
static void center_backward(real *dx, const real *res, const real *dy, const real *x, const real *stat, VT_R(vt_norm) n,
                            int m, int c) {
    for (int i = 0; i < m; i++, stat += 2) {
        const size_t row = (size_t)i * (size_t)c;
        const real mean = stat[0], f = stat[1];
        real sum = 0;
        for (int j = 0; j < c; j++) sum += dy[row + (size_t)j] * n.g[j];
        sum /= (real)c;
        for (int j = 0; n.dg && j < c; j++) n.dg[j] += dy[row + (size_t)j] * (x[row + (size_t)j] - mean) * f;
        for (int j = 0; n.db && j < c; j++) n.db[j] += dy[row + (size_t)j];
        for (int j = 0; dx && j < c; j++) {
            real d = f * (dy[row + (size_t)j] * n.g[j] - sum);
            dx[row + (size_t)j] = res ? res[row + (size_t)j] + d : d;
        }
    }
}

/* ---- any of them ---- */

void VT_R(vt_norm_forward)(real *y, real *stat, const real *x, VT_R(vt_norm) n, int m, int c) {
    if (n.kind == VT_NORM_LAYER) layer_forward(y, stat, x, n, m, c);
    if (n.kind == VT_NORM_BATCH) batch_forward(y, x, n, m, c);
    if (n.kind == VT_NORM_CENTER) center_forward(y, stat, x, n, m, c);
    if (n.kind == VT_NORM_NONE && y != x) memcpy(y, x, (size_t)m * (size_t)c * sizeof *y);
}

void VT_R(vt_norm_again)(real *y, const real *stat, const real *x, VT_R(vt_norm) n, int m, int c) {
    if (n.kind == VT_NORM_BATCH) batch_forward(y, x, n, m, c);
    if (n.kind == VT_NORM_NONE) memcpy(y, x, (size_t)m * (size_t)c * sizeof *y);
    if (n.kind != VT_NORM_LAYER && n.kind != VT_NORM_CENTER) return;
    for (int i = 0; i < m; i++, stat += 2)
        for (int j = 0; j < c; j++) {
            size_t at = (size_t)i * (size_t)c + (size_t)j;
            y[at] = (x[at] - stat[0]) * stat[1] * n.g[j] + n.b[j];
        }
}

void VT_R(vt_norm_backward)(real *dx, const real *res, const real *dy, const real *x, const real *stat, VT_R(vt_norm) n,
                            int m, int c) {
    if (n.kind == VT_NORM_LAYER) layer_backward(dx, res, dy, x, stat, n, m, c);
    if (n.kind == VT_NORM_BATCH) batch_backward(dx, res, dy, x, n, m, c);
    if (n.kind == VT_NORM_CENTER) center_backward(dx, res, dy, x, stat, n, m, c);
    if (n.kind == VT_NORM_NONE)
        for (size_t k = 0, end = (size_t)m * (size_t)c; dx && k < end; k++) dx[k] = res ? res[k] + dy[k] : dy[k];
}
