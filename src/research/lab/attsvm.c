/* SPDX-License-Identifier: MIT */
#include "research/lab/attsvm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SWEEPS = 200000 };
static const double enough = 1e-12;  /* relative gap at which to stop; rounding alone leaves 1e-15 */
static const double longest = 1e9;   /* |w|_p beyond which rows count as contradictory */
static const double at_least = 1e-6; /* what is accepted when the sweeps are used up */

typedef struct dual {
    const double *a; /* [m,n] */
    int m, n;
    double q;
    double *u, *lambda;  /* u = A^T lambda */
    double *bent, *next; /* [n] curvature at u, and at the last place where the slope was computed */
} dual;

/* |x|^(q-2), for phi(x) = x |x|^(q-2) and phi' = (q-1) |x|^(q-2); for q < 2, 1e-300 stands for x = 0. */
static double curvature_at(double x, double q) {
    if (q == 2) return 1;
    x = fabs(x) > 1e-300 ? fabs(x) : 1e-300;
    if (q == 1.5) return 1 / sqrt(x);
    if (fabs(q - 7 / 3.) < 1e-15) return cbrt(x);
    return pow(x, q - 2);
}

/* Dual's derivative by lambda_j at lambda_j + t, row a [n], curvatures c there; *bend: minus the second one. */
static double dual_slope(const dual *d, const double *a, double t, const double *c, double *bend) {
    double g = 1, h = 0;
    for (int k = 0; k < d->n; k++) g -= a[k] * ((d->u[k] + t * a[k]) * c[k]), h += a[k] * a[k] * c[k];
    *bend = h * (d->q - 1);
    return g;
}

/* c [n]: the curvatures at u + t a. */
static void curvatures_at(const dual *d, const double *a, double t, double *c) {
    for (int k = 0; k < d->n; k++) c[k] = curvature_at(d->u[k] + t * a[k], d->q);
}

/* Moves lambda_j, and u and bent with it, towards its optimum, until the slope is a tenth: the slope falls with t, so
 * that a zero lies between a place of positive slope and one of negative slope; Newton's step if it stays between them,
 * else the middle. Most coordinates rest at 0 with a negative slope, which costs no power: the curvatures at u are
 * kept. */
static void ascend_coordinate(dual *d, int j) {
    const double *a = d->a + (size_t)j * (size_t)d->n, least = -d->lambda[j];
    double low = least, high = INFINITY, t = 0, bend, first = 0;
    for (int k = 0; k < 60; k++) {
        if (k) curvatures_at(d, a, t, d->next);
        double g = dual_slope(d, a, t, k ? d->next : d->bent, &bend);
        if (k == 0) first = fabs(g);
        if ((k && fabs(g) <= 0.1 * first) || (g <= 0 && t == least) || g == 0) break;
        if (g > 0)
            low = t;
        else
            high = t;
        double to = t + g / bend;
        if (to <= low && g < 0 && low == least)
            to = least; /* the bound itself */
        else if (!(to > low && to < high))
            to = isinf(high) ? 2 * fabs(t) + d->lambda[j] + 1e-3 : 0.5 * (low + high);
        if (to == t) break;
        t = to;
        if (k == 59) curvatures_at(d, a, t, d->next);
    }
    if (t == 0) return;
    d->lambda[j] = t == least ? 0 : fmax(d->lambda[j] + t, 0);
    for (int k = 0; k < d->n; k++) d->u[k] += t * a[k];
    double *was = d->bent;
    d->bent = d->next, d->next = was;
}

/* u = A^T lambda and its curvatures anew: removes the rounding that sweeps add up. */
static void recompute_u(dual *d) {
    memset(d->u, 0, (size_t)d->n * sizeof *d->u);
    for (int j = 0; j < d->m; j++)
        if (d->lambda[j] != 0)
            for (int k = 0; k < d->n; k++) d->u[k] += d->lambda[j] * d->a[(size_t)j * (size_t)d->n + (size_t)k];
    curvatures_at(d, d->u, 0, d->bent);
}

/* Sets all lambda to the one number that is best for all, and u. */
static void init_lambda(dual *d) {
    for (int j = 0; j < d->m; j++) d->lambda[j] = 1;
    recompute_u(d);
    double norm = vt_lp_norm(d->u, (size_t)d->n, d->q);
    double c = norm > 0 ? pow(d->m / pow(norm, d->q), 1 / (d->q - 1)) : 1;
    if (!isfinite(c) || !(c > 0)) c = 1;
    for (int j = 0; j < d->m; j++) d->lambda[j] = c;
    recompute_u(d);
}

/* w: the primal point of u, scaled to margin 1; sets margin before that, norm and relative gap (INFINITY:
 * infeasible). */
static void measure_gap(const dual *d, double *w, vt_svm *out, double p) {
    double total = 0;
    vt_lp_power(w, d->u, (size_t)d->n, d->q - 1);
    out->margin = INFINITY;
    for (int j = 0; j < d->m; j++) {
        double s = 0;
        for (int k = 0; k < d->n; k++) s += d->a[(size_t)j * (size_t)d->n + (size_t)k] * w[k];
        if (!(s >= out->margin)) out->margin = s;
        total += d->lambda[j];
    }
    out->gap = INFINITY;
    if (!(out->margin > 0)) return;
    for (int k = 0; k < d->n; k++) w[k] /= out->margin;
    out->norm = vt_lp_norm(w, (size_t)d->n, p);
    double primal = pow(out->norm, p) / p, below = total - pow(vt_lp_norm(d->u, (size_t)d->n, d->q), d->q) / d->q;
    out->gap = fabs(primal - below) / primal;
}

/* Sweeps until the gap is 1e-12, |w| is above 1e9, or MOST_SWEEPS. VT_E_NUMERIC if the gap stays above 1e-6. */
static vt_status solve_dual(dual *d, double *w, vt_svm *out, double p, vt_err *e) {
    init_lambda(d);
    for (out->sweeps = 0; out->sweeps < MOST_SWEEPS;) {
        for (int j = 0; j < d->m; j++) ascend_coordinate(d, j);
        out->sweeps++;
        if (out->sweeps % 100 == 0) recompute_u(d);
        if (out->sweeps % 5) continue; /* judging costs a third of a sweep */
        measure_gap(d, w, out, p);
        if (out->gap <= enough) return VT_OK;
        /* lambda^T 1 <= lambda^T A w = u^T w <= |u|_q |w|_p: no shorter w is feasible */
        double total = 0;
        for (int j = 0; j < d->m; j++) total += d->lambda[j];
        if (!(total < longest * vt_lp_norm(d->u, (size_t)d->n, d->q))) break;
    }
    if (out->gap <= at_least) return VT_OK;
    if (!(out->margin > 0))
        return vt_fail(e, VT_E_NUMERIC,
                       "lp-SVM, p %g: no w satisfies the %d rows (smallest margin %.3g after %d sweeps)", p, d->m,
                       out->margin, out->sweeps);
    return vt_fail(e, VT_E_NUMERIC, "lp-SVM, p %g: duality gap %.3g after %d sweeps, must be at most %.0e", p, out->gap,
                   out->sweeps, at_least);
}

vt_status vt_svm_solve(double *w, double *lambda, vt_svm *out, const double *a, int m, int n, double p, vt_err *e) {
    *out = (vt_svm){.gap = INFINITY};
    if (!(p >= VT_SVM_LEAST_P && p <= VT_SVM_MOST_P))
        return vt_fail(e, VT_E_RANGE, "lp-SVM: p is %g, must be between %g and %g", p, VT_SVM_LEAST_P, VT_SVM_MOST_P);
    double *own = malloc(((size_t)m + 3 * (size_t)n) * sizeof *own);
    if (!own) return vt_fail(e, VT_E_MEMORY, "lp-SVM: no memory for %d rows of %d numbers", m, n);
    dual d = {.a = a,
              .m = m,
              .n = n,
              .q = p / (p - 1),
              .lambda = own,
              .u = own + m,
              .bent = own + m + n,
              .next = own + m + 2 * n};
    vt_status s = solve_dual(&d, w, out, p, e);
    if (lambda) memcpy(lambda, own, (size_t)m * sizeof *lambda);
    free(own);
    return s;
}

void vt_attsvm_rows(double *a, const vt_att *problem, const int *alpha) {
    int d = problem->d;
    for (int i = 0; i < problem->n; i++) {
        const double *x = problem->x + (size_t)i * (size_t)problem->t * (size_t)d,
                     *z = problem->z + (size_t)i * (size_t)d;
        for (int t = 0; t < problem->t; t++) {
            if (t == alpha[i]) continue;
            for (int r = 0; r < d; r++)
                for (int c = 0; c < d; c++) *a++ = (x[alpha[i] * d + r] - x[t * d + r]) * z[c];
        }
    }
}

vt_status vt_attsvm(double *w, vt_svm *out, const vt_att *problem, const int *alpha, double p, vt_err *e) {
    int m = problem->n * (problem->t - 1), n = problem->d * problem->d;
    double *a = malloc((size_t)m * (size_t)n * sizeof *a + 1);
    if (!a) return vt_fail(e, VT_E_MEMORY, "lp-AttSVM: no memory for %d rows of %d numbers", m, n);
    vt_attsvm_rows(a, problem, alpha);
    vt_status s = vt_svm_solve(w, NULL, out, a, m, n, p, e);
    free(a);
    return s;
}
