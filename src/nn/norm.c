/* SPDX-License-Identifier: MIT */
/* The norm that a configuration names, behind one call: LayerNorm, frozen BatchNorm or centring. */
#include <math.h>
#include <string.h>
#include "nn/nn.h"

/* Frozen BatchNorm, y = (x - mean_j) / sqrt(var_j + eps) g_j + b_j, by pieces of a row, so that the roots are taken
 * once for all rows without memory of their own. */
enum { PIECE = 256 };

static int compute_inverse_std(real *r, const VT_R(vt_norm) *n, int at, int c) {
    int len = c - at < PIECE ? c - at : PIECE;
    for (int j = 0; j < len; j++) r[j] = (real)(1 / sqrt((double)n->var[at + j] + n->eps));
    return len;
}

static void batch_forward(real *y, const real *x, const VT_R(vt_norm) *n, int m, int c) {
    real r[PIECE];
    for (int at = 0; at < c; at += PIECE) {
        int len = compute_inverse_std(r, n, at, c);
        for (int i = 0; i < m; i++) {
            const real *xi = x + (size_t)i * (size_t)c + at;
            real *yi = y + (size_t)i * (size_t)c + at;
            for (int j = 0; j < len; j++) yi[j] = (xi[j] - n->mean[at + j]) * r[j] * n->g[at + j] + n->b[at + j];
        }
    }
}

/* dx_j = dy_j g_j / sqrt(var_j + eps): the statistics are constants. */
static void batch_backward(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                           const VT_R(vt_norm) *n, int m, int c) {
    real r[PIECE];
    for (int at = 0; at < c; at += PIECE) {
        int len = compute_inverse_std(r, n, at, c);
        for (int i = 0; i < m; i++) {
            size_t row = (size_t)i * (size_t)c + (size_t)at;
            for (int j = 0; j < len; j++) {
                real d = dy[row + (size_t)j];
                if (dg) dg[at + j] += d * (x[row + (size_t)j] - n->mean[at + j]) * r[j];
                if (db) db[at + j] += d;
                if (dx) dx[row + (size_t)j] = (res ? res[row + (size_t)j] : 0) + d * n->g[at + j] * r[j];
            }
        }
    }
}

/* CenterNorm, y = g D/(D-1) (x - mean) + b (LipsFormer's code: no division by the deviation). */
static void center_forward(real *y, real *mean, const real *x, const VT_R(vt_norm) *n, int m, int c) {
    real f = (real)c / (real)(c - 1);
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)c;
        real *yi = y + (size_t)i * (size_t)c, sum = 0;
        for (int j = 0; j < c; j++) sum += xi[j];
        mean[i] = sum / (real)c;
        for (int j = 0; j < c; j++) yi[j] = (xi[j] - mean[i]) * f * n->g[j] + n->b[j];
    }
}

/* With h = dy g:  dx = f (h - mean_j(h)). The sum has a loop of its own: beside dg and db it would be compiled once
 * with and once without them, rounded in two ways, and dx would depend on who asks for gradients of parameters. */
static void center_backward(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                            const real *mean, const VT_R(vt_norm) *n, int m, int c) {
    real f = (real)c / (real)(c - 1);
    for (int i = 0; i < m; i++) {
        size_t row = (size_t)i * (size_t)c;
        real sum = 0;
        for (int j = 0; j < c; j++) sum += dy[row + (size_t)j] * n->g[j];
        sum /= (real)c;
        for (int j = 0; dg && j < c; j++) dg[j] += dy[row + (size_t)j] * (x[row + (size_t)j] - mean[i]) * f;
        for (int j = 0; db && j < c; j++) db[j] += dy[row + (size_t)j];
        for (int j = 0; dx && j < c; j++) {
            real d = f * (dy[row + (size_t)j] * n->g[j] - sum);
            dx[row + (size_t)j] = res ? res[row + (size_t)j] + d : d;
        }
    }
}

void VT_R(vt_norm_forward)(real *y, real *mean, real *rstd, const real *x, const VT_R(vt_norm) *n, int m, int c) {
    switch (n->kind) {
    case VT_NORM_LAYER:
        VT_R(vt_layernorm_forward)(y, mean, rstd, x, n->g, n->b, m, c, n->eps);
        break;
    case VT_NORM_BATCH:
        batch_forward(y, x, n, m, c);
        break;
    case VT_NORM_CENTER:
        center_forward(y, mean, x, n, m, c);
        break;
    case VT_NORM_NONE:
        if (y != x) memcpy(y, x, (size_t)m * (size_t)c * sizeof *y);
        break;
    }
}

void VT_R(vt_norm_again)(real *y, const real *mean, const real *rstd, const real *x, const VT_R(vt_norm) *n, int m,
                         int c) {
    if (n->kind == VT_NORM_BATCH) batch_forward(y, x, n, m, c);
    if (n->kind == VT_NORM_NONE) memcpy(y, x, (size_t)m * (size_t)c * sizeof *y);
    if (n->kind != VT_NORM_LAYER && n->kind != VT_NORM_CENTER) return;
    for (int i = 0; i < m; i++) {
        real r = n->kind == VT_NORM_LAYER ? rstd[i] : (real)c / (real)(c - 1);
        for (int j = 0; j < c; j++) {
            size_t at = (size_t)i * (size_t)c + (size_t)j;
            y[at] = (x[at] - mean[i]) * r * n->g[j] + n->b[j];
        }
    }
}

void VT_R(vt_norm_backward)(real *dx, real *dg, real *db, const real *res, const real *dy, const real *x,
                            const real *mean, const real *rstd, const VT_R(vt_norm) *n, int m, int c) {
    switch (n->kind) {
    case VT_NORM_LAYER:
        VT_R(vt_layernorm_backward)(dx, dg, db, res, dy, x, n->g, mean, rstd, m, c);
        break;
    case VT_NORM_BATCH:
        batch_backward(dx, dg, db, res, dy, x, n, m, c);
        break;
    case VT_NORM_CENTER:
        center_backward(dx, dg, db, res, dy, x, mean, n, m, c);
        break;
    case VT_NORM_NONE:
        for (size_t k = 0, end = (size_t)m * (size_t)c; dx && k < end; k++) dx[k] = res ? res[k] + dy[k] : dy[k];
        break;
    }
}
