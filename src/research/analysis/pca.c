/* SPDX-License-Identifier: MIT */
#include "research/analysis/pca.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "linalg/svd.h"

enum { ROWS = 256 }; /* that are centred at a time */

/* LAPACK's own copy, vectors and workspace: 4 d^2 and little more (linalg/svd). */
size_t vt_pca_bytes(size_t d) { return (7 * d * d + (ROWS + 16) * d) * sizeof(double); }

/* to [rows, d] = x - mean, row by row. */
static void centre_rows(double *to, const double *x, const double *mean, size_t rows, size_t d) {
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < d; k++) to[i * d + k] = x[i * d + k] - mean[k];
}

/* cov [d, d] = (x - mean)^T (x - mean) / (n - 1) */
static vt_status compute_covariance(double *cov, const vt_pca *p, const double *x, size_t n, vt_err *e) {
    size_t d = p->d;
    double *rows = vt_alloc(ROWS * d * sizeof *rows);
    if (!rows) return vt_fail(e, VT_E_MEMORY, "no memory for the covariance of %zu features", d);
    for (size_t i = 0; i < n; i += ROWS) {
        size_t m = n - i < ROWS ? n - i : ROWS;
        centre_rows(rows, x + i * d, p->mean, m, d);
        vt_gemm_f64(true, false, (int)d, (int)d, (int)m, 1 / ((double)n - 1), rows, (int)d, rows, (int)d, i > 0, cov,
                    (int)d);
    }
    free(rows);
    return VT_OK;
}

/* Negates an axis [d] if its largest entry in absolute value is negative: LAPACK leaves the sign open. */
static void fix_axis_sign(double *axis, size_t d) {
    size_t most = 0;
    for (size_t k = 1; k < d; k++)
        if (fabs(axis[k]) > fabs(axis[most])) most = k;
    for (size_t k = 0; axis[most] < 0 && k < d; k++)
        if (k != most) axis[k] = -axis[k];
    axis[most] = fabs(axis[most]);
}

/* Fills mean, values and axes from x [n, d]; VT_E_MEMORY, or LAPACK's failure. */
static vt_status compute_components(vt_pca *p, const double *x, size_t n, vt_err *e) {
    size_t d = p->d;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++) p->mean[k] += x[i * d + k];
    for (size_t k = 0; k < d; k++) p->mean[k] /= (double)n;
    double *cov = vt_alloc(d * d * sizeof *cov);
    vt_status s = cov ? compute_covariance(cov, p, x, n, e)
                      : vt_fail(e, VT_E_MEMORY, "no memory for the covariance of %zu features", d);
    if (s == VT_OK) s = vt_eigen_symmetric(p->values, p->axes, cov, (int)d, e);
    free(cov);
    for (size_t k = 0; s == VT_OK && k < d; k++) {
        p->values[k] = fmax(p->values[k], 0); /* rounding of a variance that is none */
        fix_axis_sign(p->axes + k * d, d);
    }
    return s;
}

vt_status vt_pca_open(vt_pca *p, const double *x, size_t n, size_t d, vt_err *e) {
    *p = (vt_pca){.d = d};
    if (n < 2 || n > INT32_MAX || d > INT32_MAX)
        return vt_fail(e, VT_E_RANGE, "principal components of %zu x %zu numbers", n, d);
    p->mean = calloc(d, sizeof *p->mean), p->values = calloc(d, sizeof *p->values);
    p->axes = vt_alloc(d * d * sizeof *p->axes);
    vt_status s = p->mean && p->values && p->axes
                      ? compute_components(p, x, n, e)
                      : vt_fail(e, VT_E_MEMORY, "no memory for the components of %zu features", d);
    if (s != VT_OK) vt_pca_close(p);
    return s;
}

void vt_pca_close(vt_pca *p) {
    free(p->mean), free(p->values), free(p->axes);
    *p = (vt_pca){0};
}

void vt_pca_project(double *y, int k, const vt_pca *p, const double *x, size_t n) {
    for (int a = 0; a < k; a++)
        for (size_t i = 0; i < n; i++) {
            double s = 0;
            for (size_t j = 0; j < p->d; j++) s += (x[i * p->d + j] - p->mean[j]) * p->axes[(size_t)a * p->d + j];
            y[(size_t)a * n + i] = s;
        }
}

double vt_pca_share(const vt_pca *p, size_t k) {
    double first = 0, all = 0;
    for (size_t i = 0; i < p->d; i++) all += p->values[i], first += i < k ? p->values[i] : 0;
    return all > 0 ? first / all : NAN;
}
