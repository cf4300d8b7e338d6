/* SPDX-License-Identifier: MIT */
#include "research/lab/attgd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* ---- l_p ---- */

/* sgn(x) |x|^e, 0 at 0. */
static double sign_pow(double x, double e) { return x != 0 ? copysign(pow(fabs(x), e), x) : 0; }

void vt_lp_power(double *out, const double *x, size_t n, double e) {
    if (e == 1)
        memmove(out, x, n * sizeof *out);
    else if (e == 2)
        for (size_t i = 0; i < n; i++) out[i] = x[i] * fabs(x[i]);
    else if (e == 0.5)
        for (size_t i = 0; i < n; i++) out[i] = copysign(sqrt(fabs(x[i])), x[i]);
    else if (e == 0.75)
        for (size_t i = 0; i < n; i++) {
            double r = sqrt(fabs(x[i]));
            out[i] = copysign(r * sqrt(r), x[i]);
        }
    else if (fabs(e - 4 / 3.) < 1e-15)
        for (size_t i = 0; i < n; i++) out[i] = fabs(x[i]) * cbrt(x[i]);
    else
        for (size_t i = 0; i < n; i++) out[i] = sign_pow(x[i], e);
}

/* sum_i |x_i scale|^p, without pow for the exponents that the lab's runs use most. */
static double power_sum(const double *x, size_t n, double scale, double p) {
    double s = 0;
    if (p == 1)
        for (size_t i = 0; i < n; i++) s += fabs(x[i]) * scale;
    else if (p == 2)
        for (size_t i = 0; i < n; i++) s += x[i] * scale * (x[i] * scale);
    else if (p == 1.5)
        for (size_t i = 0; i < n; i++) s += fabs(x[i] * scale) * sqrt(fabs(x[i] * scale));
    else if (p == 3)
        for (size_t i = 0; i < n; i++) s += fabs(x[i] * scale) * (x[i] * scale) * (x[i] * scale);
    else if (fabs(p - 7 / 3.) < 1e-15)
        for (size_t i = 0; i < n; i++) s += x[i] * scale * (x[i] * scale) * cbrt(fabs(x[i] * scale));
    else
        for (size_t i = 0; i < n; i++) s += pow(fabs(x[i]) * scale, p);
    return s;
}

double vt_lp_norm(const double *x, size_t n, double p) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= most)) most = fabs(x[i]);
    if (!(most > 0) || !isfinite(most)) return most;
    /* a power of two, so that scaling rounds nothing */
    int k;
    frexp(most, &k);
    return ldexp(pow(power_sum(x, n, ldexp(1, -k < 1022 ? -k : 1022), p), 1 / p), k > -1022 ? k : -1022);
}

/* ((1 + r)^p - 1 - p r) / p: by its series if the terms would cancel; the first term left out is 1e-13 of the sum. */
static double bregman_ratio(double r, double p) {
    if (fabs(r) > 1e-3) return (pow(fabs(1 + r), p) - 1) / p - r;
    double c = (p - 2) * r;
    return (p - 1) * r * r * (0.5 + c / 6 * (1 + (p - 3) * r / 4 * (1 + (p - 4) * r / 5)));
}

/* Returns psi(u) - psi(w) - psi'(w) (u - w), psi = |x|^p / p: by its terms, which do not cancel, if w is 0 or far
 * smaller than u (its power may be 0). */
static double bregman_term(double u, double w, double p) {
    if (w == 0 || fabs(w) <= 1e-16 * fabs(u)) return pow(fabs(u), p) / p - sign_pow(w, p - 1) * u;
    return pow(fabs(w), p) * bregman_ratio((u - w) / w, p);
}

double vt_lp_bregman(const double *u, const double *w, size_t n, double p) {
    double d = 0;
    for (size_t i = 0; i < n; i++) d += bregman_term(u[i], w[i], p);
    return d;
}

double vt_lp_direction(const double *u, const double *w, size_t n, double p) {
    double nu = vt_lp_norm(u, n, p), nw = vt_lp_norm(w, n, p), d = 0;
    for (size_t i = 0; i < n; i++) /* and not 1 - sum, which would leave 1e-16 of any size */
        d += bregman_term(u[i] / nu, w[i] / nw, p);
    return d;
}

double vt_lp_sparsity(const double *w, size_t n) {
    double root = sqrt((double)n);
    return (root - vt_lp_norm(w, n, 1) / vt_lp_norm(w, n, 2)) / (root - 1);
}

/* ---- the problem ---- */

vt_status vt_att_open(vt_att *a, int n, int t, int d, vt_err *e) {
    size_t sn = (size_t)n, st = (size_t)t, sd = (size_t)d;
    *a = (vt_att){.n = n, .t = t, .d = d};
    for (int pass = 0; pass < 2; pass++) { /* measure, then carve */
        vt_arena m = {.base = (char *)a->x, .size = 0};
        double *x = vt_arena_take(&m, sn * st * sd, sizeof *x);
        a->z = vt_arena_take(&m, sn * sd, sizeof *a->z);
        a->y = vt_arena_take(&m, sn, sizeof *a->y);
        a->v = vt_arena_take(&m, sd, sizeof *a->v);
        a->s = vt_arena_take(&m, sn * st, sizeof *a->s);
        a->work = vt_arena_take(&m, 3 * st + 2 * sd, sizeof *a->work);
        if (pass) return VT_OK;
        (void)x;
        a->x = vt_alloc(m.used);
        if (!a->x) return vt_fail(e, VT_E_MEMORY, "no memory for %d samples of %d tokens of width %d", n, t, d);
    }
    return VT_OK;
}

void vt_att_close(vt_att *a) {
    free(a->x);
    *a = (vt_att){0};
}

double vt_att_score(const vt_att *a, int i, int t) {
    const double *x = a->x + ((size_t)i * (size_t)a->t + (size_t)t) * (size_t)a->d;
    double s = 0;
    for (int k = 0; k < a->d; k++) s += x[k] * a->v[k];
    return a->y[i] * s;
}

int vt_att_chosen(const vt_att *a, int i) {
    const double *s = a->s + (size_t)i * (size_t)a->t;
    int best = 0;
    for (int t = 1; t < a->t; t++)
        if (s[t] > s[best]) best = t;
    return best;
}

/* Sets sample i's row of a->s to X_i W z_i (not yet softmax) and gamma [t] to its scores; returns the row's largest.
 * Overwrites a->work from 3 t on. */
static double compute_logits(const vt_att *a, const double *w, int i, double *gamma) {
    const double *x = a->x + (size_t)i * (size_t)a->t * (size_t)a->d, *z = a->z + (size_t)i * (size_t)a->d;
    double *s = a->s + (size_t)i * (size_t)a->t, *wz = a->work + 3 * a->t, most = -INFINITY;
    for (int r = 0; r < a->d; r++) {
        wz[r] = 0;
        for (int c = 0; c < a->d; c++) wz[r] += w[r * a->d + c] * z[c];
    }
    for (int t = 0; t < a->t; t++) {
        double h = 0, g = 0;
        for (int r = 0; r < a->d; r++) h += x[t * a->d + r] * wz[r], g += x[t * a->d + r] * a->v[r];
        s[t] = h, gamma[t] = a->y[i] * g;
        if (h > most) most = h;
    }
    return most;
}

/* Sets sample i's row of a->s to softmax(X_i W z_i) and gamma [t] to its scores; returns gamma^T s_i. Overwrites
 * a->work from 3 t on. */
static double compute_attention(const vt_att *a, const double *w, int i, double *gamma) {
    double *s = a->s + (size_t)i * (size_t)a->t, most = compute_logits(a, w, i, gamma), sum = 0, out = 0;
    for (int t = 0; t < a->t; t++) sum += s[t] = exp(s[t] - most);
    for (int t = 0; t < a->t; t++) s[t] /= sum, out += gamma[t] * s[t];
    return out;
}

/* log(1 + e^-u) */
static double logistic_loss(double u) { return u > 0 ? log1p(exp(-u)) : log1p(exp(u)) - u; }
/* -1 / (1 + e^u), the derivative of log(1 + e^-u) */
static double logistic_slope(double u) { return -1 / (1 + exp(u)); }

double vt_att_loss(const vt_att *a, const double *w) {
    double sum = 0;
    for (int i = 0; i < a->n; i++) sum += logistic_loss(compute_attention(a, w, i, a->work));
    return sum / a->n;
}

/* g [t] = (diag(s) - s s^T) gamma, mean = s^T gamma; EXACT forms gamma_t - mean from differences of scores. */
static void through_softmax(const vt_att *a, const double *s, const double *gamma, double mean, vt_att_form form,
                            double *g) {
    for (int t = 0; t < a->t; t++) {
        double diff = gamma[t] - mean;
        if (form == VT_ATT_EXACT) {
            diff = 0;
            for (int u = 0; u < a->t; u++) diff += s[u] * (gamma[t] - gamma[u]);
        }
        g[t] = s[t] * diff;
    }
}

/* dw [d d] += slope X_i^T g z_i^T for g [t]; xg [d]: scratch */
static void add_outer(const vt_att *a, int i, double slope, const double *g, double *xg, double *dw) {
    int d = a->d;
    const double *x = a->x + (size_t)i * (size_t)a->t * (size_t)d, *z = a->z + (size_t)i * (size_t)d;
    memset(xg, 0, (size_t)d * sizeof *xg);
    for (int t = 0; t < a->t; t++)
        for (int r = 0; r < d; r++) xg[r] += x[t * d + r] * g[t];
    for (int r = 0; r < d; r++)
        for (int c = 0; c < d; c++) dw[r * d + c] += slope * xg[r] * z[c];
}

double vt_att_gradient(const vt_att *a, const double *w, vt_att_form form, double *dw, double *dv) {
    int d = a->d;
    double *gamma = a->work, *g = a->work + a->t, *xg = a->work + 3 * a->t + d, loss = 0;
    memset(dw, 0, (size_t)d * (size_t)d * sizeof *dw);
    if (dv) memset(dv, 0, (size_t)d * sizeof *dv);
    for (int i = 0; i < a->n; i++) {
        const double *x = a->x + (size_t)i * (size_t)a->t * (size_t)d;
        const double *s = a->s + (size_t)i * (size_t)a->t;
        double u = compute_attention(a, w, i, gamma), slope = logistic_slope(u) / a->n;
        loss += logistic_loss(u);
        through_softmax(a, s, gamma, u, form, g);
        add_outer(a, i, slope, g, xg, dw);
        for (int t = 0; dv && t < a->t; t++) /* u = y_i v^T X_i^T s_i */
            for (int r = 0; r < d; r++) dv[r] += slope * a->y[i] * s[t] * x[t * d + r];
    }
    return loss / a->n;
}

/* e^shift (log(1 + e^(x - best)) - log(1 + e^-best)), x = less e^-shift: a sample's loss above its limit. */
static double loss_above_limit(double less, double best, double shift) {
    double real = less * exp(-shift), part = 1 / (1 + exp(best));
    return fabs(real) < 1e-12 ? less * part : log1p(expm1(real) * part) * exp(shift);
}

/* Sets g [t] = (diag(s) - s s^T) gamma of sample i and *less = gamma_alpha - gamma^T s, both times e^shift, gamma [t],
 * and i's row of a->s to its attention s. Overwrites a->work from 3 t on. */
static void near_row(const vt_att *a, const double *w, int i, int alpha, double shift, double *gamma, double *g,
                     double *less) {
    double *s = a->s + (size_t)i * (size_t)a->t, most = compute_logits(a, w, i, gamma), sum = 0;
    for (int t = 0; t < a->t; t++) sum += exp(s[t] - most);
    *less = 0;
    for (int t = 0; t < a->t; t++) {
        g[t] = t == alpha ? 0 : exp(s[t] - most + shift) / sum;
        *less += g[t] * (gamma[alpha] - gamma[t]);
        s[t] = exp(s[t] - most) / sum;
    }
    double mean = gamma[alpha] - *less * exp(-shift);
    for (int t = 0; t < a->t; t++) g[t] = t == alpha ? s[t] * *less : g[t] * (gamma[t] - mean);
}

double vt_att_near(const vt_att *a, const double *w, const int *alpha, double shift, double *dw) {
    int d = a->d;
    double *gamma = a->work, *g = a->work + a->t, *xg = a->work + 3 * a->t + d, loss = 0, less;
    if (dw) memset(dw, 0, (size_t)d * (size_t)d * sizeof *dw);
    for (int i = 0; i < a->n; i++) {
        near_row(a, w, i, alpha[i], shift, gamma, g, &less);
        loss += loss_above_limit(less, gamma[alpha[i]], shift);
        if (dw) add_outer(a, i, logistic_slope(gamma[alpha[i]] - less * exp(-shift)) / a->n, g, xg, dw);
    }
    return loss / a->n;
}

/* ---- descent ---- */

double vt_mirror_step(const vt_mirror *m, double *theta, double *w, const double *g, size_t n) {
    double norm = m->normalised ? vt_lp_norm(g, n, m->p / (m->p - 1)) : 0;
    double by = m->normalised ? norm + m->floor : 1, rate = by > 0 ? m->eta / by : 0;
    /* near the smallest double eta / by overflows where (g / by) does not */
    if (isinf(rate))
        for (size_t i = 0; i < n; i++) theta[i] -= m->eta * (g[i] / by);
    else
        for (size_t i = 0; i < n; i++) theta[i] -= rate * g[i];
    vt_lp_power(w, theta, n, 1 / (m->p - 1));
    return norm;
}
