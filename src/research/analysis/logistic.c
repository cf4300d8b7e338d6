/* SPDX-License-Identifier: MIT */
#include "research/analysis/logistic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "linalg/svd.h"

enum { ROWS = 256, MOST = 200 }; /* rows weighted at a time; steps */

/* log(1 + e^-t) without overflow */
static double logistic_loss(double t) { return t > 0 ? log1p(exp(-t)) : log1p(exp(t)) - t; }
/* 1 / (1 + e^-t) without overflow */
static double sigmoid(double t) { return t > 0 ? 1 / (1 + exp(-t)) : exp(t) / (1 + exp(t)); }

double vt_logistic_objective(double *gradient, double *f, const vt_logistic *l, const double *w) {
    int n = (int)l->n, m = (int)l->m;
    double sum = 0, penalty = 0;
    vt_gemm_f64(false, false, n, 1, m, 1, l->x, m, w, 1, 0, f, 1);
    for (size_t i = 0; i < l->n; i++) {
        sum += logistic_loss(l->yes[i] ? f[i] : -f[i]);
        f[i] = sigmoid(f[i]) - (l->yes[i] ? 1 : 0);
    }
    for (size_t k = 0; k + 1 < l->m; k++) penalty += w[k] * w[k];
    if (gradient) {
        vt_gemm_f64(true, false, m, 1, n, 1 / (double)l->n, l->x, m, f, 1, 0, gradient, 1);
        for (size_t k = 0; k + 1 < l->m; k++) gradient[k] += l->lambda * w[k];
    }
    return sum / (double)l->n + l->lambda / 2 * penalty;
}

typedef struct fit {
    double *g, *step, *next, *f, *hessian, *rows; /* [m] three times, [n], [m, m], [ROWS, m] */
} fit;

/* Takes Newton's arrays for n rows of m columns from r; an arena without base only counts the bytes. */
static void lay_out_buffers(fit *s, vt_arena *r, size_t n, size_t m) {
    s->g = vt_arena_take(r, m, sizeof *s->g), s->step = vt_arena_take(r, m, sizeof *s->step);
    s->next = vt_arena_take(r, m, sizeof *s->next), s->f = vt_arena_take(r, n, sizeof *s->f);
    s->hessian = vt_arena_take(r, m * m, sizeof *s->hessian);
    s->rows = vt_arena_take(r, ROWS * m, sizeof *s->rows);
}

size_t vt_logistic_bytes(size_t n, size_t m) {
    fit s;
    vt_arena r = {0};
    lay_out_buffers(&s, &r, n, m);
    return r.used;
}

/* hessian [m, m] = X^T diag(s (1 - s)) X / n + lambda I (not for the bias); f holds s less the answers. */
static void compute_hessian(fit *s, const vt_logistic *l) {
    int m = (int)l->m;
    for (size_t i = 0; i < l->n; i += ROWS) {
        size_t rows = l->n - i < ROWS ? l->n - i : ROWS;
        for (size_t r = 0; r < rows; r++) {
            double p = s->f[i + r] + (l->yes[i + r] ? 1 : 0), c = sqrt(p * (1 - p));
            for (size_t k = 0; k < l->m; k++) s->rows[r * l->m + k] = c * l->x[(i + r) * l->m + k];
        }
        vt_gemm_f64(true, false, m, m, (int)rows, 1 / (double)l->n, s->rows, m, s->rows, m, i > 0, s->hessian, m);
    }
    for (size_t k = 0; k + 1 < l->m; k++) s->hessian[k * l->m + k] += l->lambda;
}

/* max |g_k|; NaN if the last entries are NaN. */
static double largest_magnitude(const double *g, size_t m) {
    double most = 0;
    for (size_t k = 0; k < m; k++)
        if (!(fabs(g[k]) <= most)) most = fabs(g[k]);
    return most;
}

/* w -= t step, t halved until the objective falls (Armijo) or differs by rounding alone. False: it never does. */
static bool line_search(fit *s, double *w, double at, const vt_logistic *l) {
    double slope = 0;
    for (size_t k = 0; k < l->m; k++) slope += s->g[k] * s->step[k];
    for (double t = 1; t > 1e-12; t /= 2) {
        for (size_t k = 0; k < l->m; k++) s->next[k] = w[k] - t * s->step[k];
        double value = vt_logistic_objective(NULL, s->f, l, s->next);
        if (value <= at - 1e-4 * t * slope + 1e-14 * fabs(at)) {
            memcpy(w, s->next, l->m * sizeof *w);
            return true;
        }
    }
    return false;
}

/* w from 0 to the minimum; *gradient: largest partial derivative left. VT_E_NUMERIC if it does not converge. */
static vt_status run_newton_steps(fit *s, double *w, double *gradient, const vt_logistic *l, vt_err *e) {
    memset(w, 0, l->m * sizeof *w);
    for (int k = 0; k < MOST; k++) {
        double at = vt_logistic_objective(s->g, s->f, l, w);
        *gradient = largest_magnitude(s->g, l->m);
        if (*gradient <= VT_LOGISTIC_TOL) return VT_OK;
        compute_hessian(s, l);
        memcpy(s->step, s->g, l->m * sizeof *s->step);
        VT_TRY(vt_solve_positive(s->step, s->hessian, (int)l->m, e));
        if (!line_search(s, w, at, l)) break;
    }
    return vt_fail(e, VT_E_NUMERIC,
                   "logistic regression of %zu x %zu did not converge: gradient %.3g, must be at most %g", l->n, l->m,
                   *gradient, VT_LOGISTIC_TOL);
}

vt_status vt_logistic_fit(double *w, double *gradient, const vt_logistic *l, vt_err *e) {
    fit s;
    vt_arena r = {0};
    lay_out_buffers(&s, &r, l->n, l->m);
    r = (vt_arena){.base = vt_alloc(r.used), .size = r.used};
    if (!r.base) return vt_fail(e, VT_E_MEMORY, "no memory for a regression of %zu x %zu", l->n, l->m);
    lay_out_buffers(&s, &r, l->n, l->m);
    vt_status st = run_newton_steps(&s, w, gradient, l, e);
    free(r.base);
    return st;
}
