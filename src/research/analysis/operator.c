/* SPDX-License-Identifier: MIT */
#include "research/analysis/operator.h"

#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "linalg/svd.h"

double vt_dot64(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

double vt_length64(const double *a, size_t n) { return sqrt(vt_dot64(a, a, n)); }

/* v [n]: normals of `key` over their length; draw [n] is scratch. */
static void draw_unit_vector(double *v, float *draw, size_t n, const vt_rng *key) {
    vt_rng_normals(key, draw, n);
    for (size_t i = 0; i < n; i++) v[i] = (double)draw[i];
    double length = vt_length64(v, n);
    for (size_t i = 0; i < n; i++) v[i] /= length;
}

/* Whether sigma_k = |A v_k|, which rises, is within tol: if its changes shrink by a factor r a step, r / (1 - r) of
 * the last change is still to come. Updates last and change. */
static bool has_converged(double now, double *last, double *change, double tol) {
    double step = fabs(now - *last), r = *change > 0 ? step / *change : 1;
    *last = now, *change = step;
    return step <= tol * now && (step == 0 || (r < 1 && step * r / (1 - r) <= tol * now));
}

vt_status vt_operator_norm(vt_norm_found *out, const vt_operator *a, const vt_rng *key, int most, double tol,
                           vt_err *e) {
    double *v = vt_alloc((a->n + a->m) * sizeof *v), *u = v ? v + a->n : NULL, last = 0, change = 0;
    float *draw = vt_alloc(a->n * sizeof *draw);
    vt_status s = VT_OK;
    *out = (vt_norm_found){0};
    if (!v || !draw)
        s = vt_fail(e, VT_E_MEMORY, "no memory for the norm of a map of %zu to %zu numbers", a->n, a->m);
    else
        draw_unit_vector(v, draw, a->n, key);
    while (s == VT_OK && !out->converged && out->steps < most) {
        a->apply(a->ctx, u, v);
        out->sigma = vt_length64(u, a->m);
        out->steps++;
        if (!isfinite(out->sigma)) {
            s = vt_fail(e, VT_E_NUMERIC, "a linear map gave a number that is not finite");
        } else if (!(out->sigma > 0)) {
            out->converged = true; /* zero on a random vector: zero */
        } else {
            out->converged = has_converged(out->sigma, &last, &change, tol);
            for (size_t i = 0; i < a->m; i++) u[i] /= out->sigma;
            a->transposed(a->ctx, v, u);
            double length = vt_length64(v, a->n);
            for (size_t i = 0; i < a->n; i++) v[i] /= length;
        }
    }
    free(v), free(draw);
    return s;
}

vt_status vt_matrix_norm(double *sigma, const double *a, int rows, int cols, int ld, vt_err *e) {
    int k = rows < cols ? rows : cols;
    *sigma = 0;
    if (k < 1) return VT_OK;
    double *all = vt_alloc((size_t)k * sizeof *all);
    if (!all) return vt_fail(e, VT_E_MEMORY, "no memory for %d singular values", k);
    vt_status s = vt_svd_values(all, a, rows, cols, ld, e);
    *sigma = all[0];
    free(all);
    return s;
}
