/* SPDX-License-Identifier: MIT */
#include "attacks/fab.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "attacks/target_order.h"

/* Returns the room from u to the face of [0,1] in the direction -sign(w). */
static double room_to_face(float w, float u) { return w > 0 ? (double)u : 1 - (double)u; }

/* Sets *value to how far along the path of lambda the plane value of flip w falls, and its slope: linf: sum |w|
 * min(lambda, r); l2: sum |w| min(lambda |w|, r). Both are concave in lambda. */
static void decrease_along_path(vt_norm norm, const float *u, const float *w, double flip, size_t n, double lambda,
                                double *value, double *slope) {
    double v[4] = {0}, s[4] = {0};
    for (size_t i = 0; i < n; i++) {
        float wi = (float)flip * w[i];
        double a = fabs((double)wi), r = room_to_face(wi, u[i]), m = norm == VT_LINF ? lambda : lambda * a;
        bool is_free = m < r;
        v[i % 4] += a * (is_free ? m : r);
        s[i % 4] += is_free ? (norm == VT_LINF ? a : a * a) : 0;
    }
    *value = (v[0] + v[1]) + (v[2] + v[3]);
    *slope = (s[0] + s[1]) + (s[2] + s[3]);
}

/* Returns the sum of |w| r over the entries with |w| above tau: the plane value's fall when they move all the way. */
static double reach_above(const float *u, const float *w, double flip, size_t n, float tau) {
    double v[4] = {0};
    for (size_t i = 0; i < n; i++) {
        float wi = (float)flip * w[i];
        v[i % 4] += fabsf(wi) > tau ? fabs((double)wi) * room_to_face(wi, u[i]) : 0;
    }
    return (v[0] + v[1]) + (v[2] + v[3]);
}

/* Entries that are this much smaller than the largest stay where they are (l2, l1): the authors' 1e-8, as a share. */
#define NOTHING 1e-8

/* Returns max |w[i]| of w [n]. */
static double largest_magnitude(const float *w, size_t n) { return vt_length(VT_LINF, w, n); }

/* Sets d [n] in l1: entries move all the way in the order of decreasing |w|, the last as far as needed. Without
 * sorting: the smallest tau with reach_above(tau) < c, by bisection on its bits, which order floats above 0. */
static void project_l1(float *d, const float *u, const float *w, double flip, double c, size_t n, bool reachable) {
    uint32_t low = 0, high = 0x7f800000; /* infinity */
    while (reachable && low < high) {
        uint32_t middle = low + (high - low) / 2;
        float tau;
        memcpy(&tau, &middle, sizeof tau);
        if (reach_above(u, w, flip, n, tau) < c)
            high = middle;
        else
            low = middle + 1;
    }
    float tau = -1; /* not reachable: all */
    if (reachable) memcpy(&tau, &low, sizeof tau);
    double left = reachable ? c - reach_above(u, w, flip, n, tau) : 0, least = NOTHING * largest_magnitude(w, n);
    for (size_t i = 0; i < n; i++) {
        float wi = (float)flip * w[i], a = fabsf(wi);
        double m = a > tau             ? room_to_face(wi, u[i])
                   : a == tau && a > 0 ? fmin(left / (double)a, room_to_face(wi, u[i]))
                                       : 0;
        if (a == tau) left -= (double)a * m;
        if ((double)a <= least) m = 0;
        d[i] = wi > 0 ? -(float)m : (float)m;
    }
}

/* Uses, in linf and l2, Newton's method from lambda = 0: the function is concave and piecewise linear, so the iterates
 * rise to the root and end on the piece that holds it. */
void vt_fab_project(vt_norm norm, float *d, const float *u, const float *w, double b, size_t n) {
    double c = -b;
    for (size_t i = 0; i < n; i++) c += (double)w[i] * (double)u[i];
    double flip = c < 0 ? -1 : 1, lambda = 0, value, slope, reach = 0;
    c = fabs(c);
    for (size_t i = 0; i < n; i++) reach += fabs((double)w[i]) * room_to_face((float)flip * w[i], u[i]);
    bool reachable = reach > c;
    if (norm == VT_L1) {
        project_l1(d, u, w, flip, c, n, reachable);
        return;
    }
    for (int k = 0; reachable && k < 200; k++) {
        decrease_along_path(norm, u, w, flip, n, lambda, &value, &slope);
        if (!(slope > 0) || value >= c) break;
        double next = lambda + (c - value) / slope;
        if (!(next > lambda)) break;
        lambda = next;
    }
    double least = NOTHING * largest_magnitude(w, n);
    for (size_t i = 0; i < n; i++) {
        float wi = (float)flip * w[i];
        double a = fabs((double)wi), r = room_to_face(wi, u[i]), m = norm == VT_LINF ? lambda : lambda * a;
        if (!reachable) m = r;
        if (m > r) m = r;
        if (norm == VT_L2 && a <= least) m = 0;
        d[i] = wi > 0 ? -(float)m : wi < 0 ? (float)m : 0;
    }
}

/* Computes the boundary to project on: *df = z_k - z_y and its gradient w, for the target or the nearest class in the
 * dual norm; for the oracle's goal its own. z [K]: x1's logits; the oracle shares one forward among all. */
static vt_status linearise_boundary(vt_oracle *o, const vt_task *t, int target, const float *x1, float *z, float *w,
                                    float *trial, float *cotangent, double *df) {
    double nearest = INFINITY;
    vt_norm dual = vt_norm_dual(t->ball->norm);
    if (o->goal >= 0) { /* of the goal and the largest of all others */
        vt_loss margin = vt_oracle_loss(o, VT_LOSS_MARGIN);
        float value;
        VT_TRY(vt_oracle_gradient(o, x1, &margin, z, &value, w));
        *df = (double)value;
        return VT_OK;
    }
    for (int k = 0; k < t->classes; k++) {
        if (k == t->label || (target >= 0 && k != target)) continue;
        vt_loss loss = vt_target_difference(t, k, cotangent);
        float value;
        VT_TRY(vt_oracle_gradient(o, x1, &loss, z, &value, trial));
        double diff = (double)z[k] - (double)z[t->label];
        double length = vt_length(dual, trial, t->n), distance = length > 0 ? fabs(diff) / length : DBL_MAX;
        if (target < 0 && !(distance < nearest)) continue;
        nearest = distance, *df = diff;
        memcpy(w, trial, t->n * sizeof(float));
    }
    return VT_OK;
}

vt_status vt_fab_run(vt_oracle *o, const vt_fab_params *p, const vt_task *t, int target, bool random_start,
                     const vt_rng *rng, float *best, double *distance) {
    size_t n = t->n;
    vt_norm norm = t->ball->norm;
    float *x1 = t->work, *w = x1 + n, *trial = w + n, *d1 = trial + n, *d2 = d1 + n, *z = d2 + n;
    float *cotangent = z + t->classes;
    *distance = INFINITY;
    memcpy(x1, t->x, n * sizeof(float));
    if (random_start) {
        vt_ball half = *t->ball; /* half the radius; the full ball's bounds only clip to [0,1] there */
        half.eps /= 2;
        vt_ball_start_surface(&half, rng, x1);
    }
    for (int it = 0; it < p->steps; it++) {
        double df = 0;
        VT_TRY(linearise_boundary(o, t, target, x1, z, w, trial, cotangent, &df));
        double b = -df;
        for (size_t i = 0; i < n; i++) b += (double)w[i] * (double)x1[i];
        vt_fab_project(norm, d1, x1, w, b, n);
        vt_fab_project(norm, d2, t->x, w, b, n);
        double a1 = fmax(vt_length(norm, d1, n), 1e-8), a2 = fmax(vt_length(norm, d2, n), 1e-8);
        float alpha = (float)fmin(a1 / (a1 + a2), p->alpha_max), eta = (float)p->eta;
        for (size_t i = 0; i < n; i++) {
            float v = (x1[i] + eta * d1[i]) * (1 - alpha) + (t->x[i] + eta * d2[i]) * alpha;
            x1[i] = v > 0 ? (v < 1 ? v : 1) : 0;
        }
        VT_TRY(vt_oracle_logits_first(o, x1, z));
        if (!vt_oracle_reached(o, z)) continue;
        double r = vt_distance(norm, x1, t->x, n);
        if (r < *distance) {
            *distance = r;
            memcpy(best, x1, n * sizeof(float));
        }
        for (size_t i = 0; i < n; i++) x1[i] = t->x[i] + (x1[i] - t->x[i]) * (float)p->beta;
    }
    return VT_OK;
}

vt_status vt_fab_runs(vt_oracle *o, const vt_fab_params *p, const vt_task *t, const float *merit, int targets) {
    float *best = t->work + 5 * t->n + 2 * (size_t)t->classes;
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    for (int k = 0; k < targets * p->restarts; k++) {
        int target = merit ? vt_target_at(o, t, merit, k / p->restarts + 1) : -1;
        vt_rng rng = t->rng;
        rng.run = (uint32_t)k;
        double distance;
        VT_TRY(vt_fab_run(o, p, t, target, k % p->restarts > 0, &rng, best, &distance));
        if (!(distance <= t->ball->eps)) continue;
        memcpy(t->x_adv, best, t->n * sizeof(float));
        if (vt_oracle_may_end(o, true)) return VT_OK;
    }
    return VT_OK;
}
