/* SPDX-License-Identifier: MIT */
#include "research/lab/attcone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

/* Token t [d] of sample i. */
static const double *token_at(const vt_att *a, int i, int t) {
    return a->x + ((size_t)i * (size_t)a->t + (size_t)t) * (size_t)a->d;
}

/* (X_it - X_iu)^T W z_i */
static double token_margin(const vt_att *a, const double *w, int i, int t, int u) {
    const double *x = token_at(a, i, t), *y = token_at(a, i, u), *z = a->z + (size_t)i * (size_t)a->d;
    double m = 0;
    for (int r = 0; r < a->d; r++)
        for (int c = 0; c < a->d; c++) m += (x[r] - y[r]) * w[r * a->d + c] * z[c];
    return m;
}

/* Largest |(X_it - X_iu) z_i^T|_q over pairs of tokens (the norm of an outer product is the product of the norms); q
 * is dual to the norm in which W is bounded, 2 for p < 2 by Lemma 13. Uses a->work. */
static double largest_pair_norm(const vt_att *a, double q) {
    double most = 0, *diff = a->work;
    for (int i = 0; i < a->n; i++)
        for (int t = 0; t < a->t; t++)
            for (int u = 0; u < t; u++) {
                for (int r = 0; r < a->d; r++) diff[r] = token_at(a, i, t)[r] - token_at(a, i, u)[r];
                double z = vt_lp_norm(a->z + (size_t)i * (size_t)a->d, (size_t)a->d, q);
                most = fmax(most, vt_lp_norm(diff, (size_t)a->d, q) * z);
            }
    return most;
}

/* Sets far and least (Lemma 20). In the cone, -<grad L, V> = (1/n) sum_i |l'| sum_{t<u} s_t s_u (V's margin of t over
 * u) (gamma_t - gamma_u). Pairs (alpha, t in T): at least s_alpha s_t (1 - delta/2) gap, s_alpha >= 1 / T, s_t >=
 * s_alpha e^{-k (1 + delta/2)}, k = a / |W_mm|. All others together at most T^2/2 scores width e^{-k (1 + 3
 * delta/2)}: less than half of the former once e^{k delta} exceeds what `far` is computed from. l' at the largest
 * score is the smallest. */
static void set_lemma20_bounds(vt_cone *c, const vt_att *a, const int *alpha, const double *w_mm) {
    double gap = INFINITY, scores = 0, width = 0, most = 0, tokens = a->t;
    for (int i = 0; i < a->n; i++)
        for (int t = 0; t < a->t; t++) {
            double own = vt_att_score(a, i, alpha[i]) - vt_att_score(a, i, t);
            if (c->held[i * a->t + t]) gap = fmin(gap, own);
            for (int u = 0; u < a->t; u++) {
                scores = fmax(scores, fabs(vt_att_score(a, i, t) - vt_att_score(a, i, u)));
                width = fmax(width, fabs(token_margin(a, w_mm, i, t, u)) + c->delta / 2);
            }
            most = fmax(most, vt_att_score(a, i, t));
        }
    double good = (1 - c->delta / 2) * gap / (tokens * tokens);
    c->far = good > 0 ? log(fmax(tokens * tokens * scores * width / good, 1)) / c->delta : INFINITY;
    /* only samples with support are counted: at least one has it, since W_mm is not 0 */
    c->least = good / 2 / a->n / (1 + exp(most));
}

vt_status vt_cone_open(vt_cone *c, const vt_att *a, const int *alpha, const double *w_mm, double p, vt_err *e) {
    size_t size = (size_t)a->d * (size_t)a->d;
    *c = (vt_cone){.p = p, .norm = vt_lp_norm(w_mm, size, p), .delta = 0.25};
    c->held = vt_alloc((size_t)a->n * (size_t)a->t * sizeof *c->held);
    if (!c->held) return vt_fail(e, VT_E_MEMORY, "no memory for a cone of %d samples", a->n);
    for (int i = 0; i < a->n; i++)
        for (int t = 0; t < a->t; t++) {
            if (t == alpha[i]) continue;
            double m = token_margin(a, w_mm, i, alpha[i], t);
            /* a duality gap of 1e-12 leaves 1e-6 in w */
            if (m < 1 + 1e-5)
                c->held[i * a->t + t] = true;
            else
                c->delta = fmin(c->delta, (m - 1) / 2);
        }
    double q = p < 2 ? 2 : p / (p - 1), r = c->delta / (2 * largest_pair_norm(a, q) * c->norm);
    c->mu = p < 2 ? (p - 1) / 2 * r * r : pow(r / 2, p) / p;
    set_lemma20_bounds(c, a, alpha, w_mm);
    return VT_OK;
}

void vt_cone_close(vt_cone *c) {
    free(c->held);
    *c = (vt_cone){0};
}

void vt_cone_member(double *w, const double *w_mm, const double *noise, size_t size, double p, double mu,
                    double length) {
    double norm = vt_lp_norm(w_mm, size, p), low = 0, high = 1;
    for (int k = 0; k < 200; k++) { /* the largest r found with a divergence of at most mu */
        double r = k < 199 ? (low + high) / 2 : low;
        for (size_t i = 0; i < size; i++) w[i] = w_mm[i] / norm + r * noise[i];
        if (vt_lp_direction(w_mm, w, size, p) <= mu)
            low = r;
        else
            high = r;
    }
    double by = length / vt_lp_norm(w, size, p);
    for (size_t i = 0; i < size; i++) w[i] *= by;
}

/* D_{psi - eta L}(u, w) = D_psi(u, w) - eta (L(u) - L(w) - <grad L(w), u - w>), which Lemmas 24 and 25 need >= 0; g =
 * grad L(w), rise = L(u) - L(w). */
static double bregman_excess(const vt_att *a, const double *u, const double *w, const double *g, double rise, double p,
                             double eta) {
    size_t n = (size_t)a->d * (size_t)a->d;
    double along = 0;
    for (size_t i = 0; i < n; i++) along += g[i] * (u[i] - w[i]);
    return vt_lp_bregman(u, w, n, p) - eta * (rise - along);
}

/* Sets gm, moved (both 0 before), pi and bracket, along the direction W_mm; pi is infinite unless gm < 0. g: the
 * gradient; theta [2, n]: grad psi of the old and of the new W. */
static void measure_along_direction(vt_onestep *o, const double *g, const double *theta, const double *w_mm, size_t n,
                                    double p, double eta) {
    double norm = vt_lp_norm(w_mm, n, p);
    for (size_t i = 0; i < n; i++) {
        o->gm += g[i] * w_mm[i] / norm;
        o->moved += (theta[n + i] - theta[i]) * w_mm[i] / norm;
    }
    /* both are negative where Lemma 20 holds */
    o->pi = o->gm < 0 ? fmax(o->gw / o->a / o->gm - 1, 0) : INFINITY;
    o->bracket = pow(o->b, p - 1) - pow(o->a, p - 1) + eta / o->a * (o->next - o->loss);
}

vt_status vt_att_onestep(vt_onestep *o, const vt_att *a, const double *w, double *next, const int *alpha,
                         const double *w_mm, double p, double eta, double shift, vt_err *e) {
    size_t n = (size_t)a->d * (size_t)a->d;
    double *g = malloc(3 * n * sizeof *g), *theta = g + n;
    if (!g) return vt_fail(e, VT_E_MEMORY, "no memory for a step of %d x %d", a->d, a->d);
    vt_mirror m = {.p = p, .eta = eta};
    *o = (vt_onestep){.a = vt_lp_norm(w, n, p)};
    o->loss = vt_att_near(a, w, alpha, shift, g);
    vt_lp_power(theta, w, n, p - 1);
    memcpy(theta + n, theta, n * sizeof *theta);
    vt_mirror_step(&m, theta + n, next, g, n);
    o->next = vt_att_near(a, next, alpha, shift, NULL);
    o->b = vt_lp_norm(next, n, p);
    for (size_t i = 0; i < n; i++) o->gw += g[i] * w[i];
    o->excess = bregman_excess(a, next, w, g, o->next - o->loss, p, eta);
    o->cost = (p - 1) / p * (pow(o->b, p) - pow(o->a, p)) + eta * (o->next - o->loss);
    /* some ten operations on terms of these sizes */
    o->slack = 1e-14 * (pow(o->a, p) + pow(o->b, p) + eta * (fabs(o->loss) + fabs(o->next)) + eta * fabs(o->gw));
    if (w_mm) measure_along_direction(o, g, theta, w_mm, n, p, eta);
    free(g);
    return VT_OK;
}
