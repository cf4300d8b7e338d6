/* SPDX-License-Identifier: MIT */
/* The least value of a linear function over the ball and the box together. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include "certify/relax.h"

/* Returns where a d + h s(d) is least for d in [lo, hi], s(d) = d^2 / 2 in l2, |d| in l1; any point for h = a = 0. */
static double least_step(vt_certify_norm norm, double a, double h, double lo, double hi) {
    if (norm == VT_CERTIFY_L1 && fabs(a) > h) return a > 0 ? lo : hi;
    const double d = norm == VT_CERTIFY_L1 ? 0 : -a / h;
    return d > hi ? hi : d > lo ? d : lo;
}

/* One value of the Lagrange dual: the least of a d + h (sum of s(d) - s(radius)) over the box, which bounds the least
 * a d over ball and box from below for every h >= 0. */
typedef struct dual {
    double low, over; /* the bound, its rounding taken off; sum of s(d) - s(radius) at its point, the bound's slope */
} dual;

/* Returns the dual's bound and slope at h, of the row's function. */
static dual dual_at(const vt_relax *r, const vt_row *row, double h) {
    const int in = r->g->input;
    const vt_ranges *x = &r->of[in];
    const double *a = row->a[in], limit = r->norm == VT_CERTIFY_L1 ? r->radius : r->radius * r->radius / 2;
    double sum = 0, size = 0, spread = 0;
    for (size_t k = 0; k < r->g->values[in].n; k++) {
        const double at = r->centre[k], d = least_step(r->norm, a[k], h, x->lo[k] - at, x->hi[k] - at);
        sum += a[k] * at + a[k] * d, size += fabs(a[k]) * (fabs(at) + fabs(d) + x->top[k]);
        spread += r->norm == VT_CERTIFY_L1 ? fabs(d) : d * d / 2;
    }
    const double terms = row->terms + (double)r->g->values[in].n + 16;
    const double loss = terms * 2 * VT_HALF_ULP64 * (size + row->size + h * (spread + limit));
    return (dual){row->c + sum + h * (spread - limit) - loss, spread - limit};
}

/* The bound of the box, and its point. */
static double least_of_box(const vt_relax *r, vt_row *row) {
    const int in = r->g->input;
    const vt_ranges *x = &r->of[in];
    double sum = 0, size = 0;
    for (size_t k = 0; k < r->g->values[in].n; k++) {
        const double a = row->touched[in] ? row->a[in][k] : 0;
        row->y[in][k] = a > 0 ? x->lo[k] : x->hi[k];
        sum += a * row->y[in][k];
        size += fabs(a) * x->top[k];
    }
    row->terms += (double)r->g->values[in].n;
    return row->c + sum - (row->terms + 16) * 2 * VT_HALF_ULP64 * (size + row->size);
}

/* Some h for which the dual's slope is not positive: that of the dual norm, for a box around the centre. */
static double steep_enough(const vt_relax *r, const vt_row *row) {
    double h = 0;
    for (size_t k = 0; k < r->g->values[r->g->input].n; k++) {
        const double a = fabs(row->a[r->g->input][k]);
        h = r->norm == VT_CERTIFY_L1 ? fmax(h, a) : hypot(h, a);
    }
    if (r->norm == VT_CERTIFY_L2) h /= r->radius;
    for (int i = 0; i < 60 && dual_at(r, row, h).over > 0; i++) h *= 2;
    return h;
}

double vt_row_least(const vt_relax *r, vt_row *row) {
    const int in = r->g->input, halvings = r->norm == VT_CERTIFY_L1 ? 32 : 16; /* in l2 their square is the error */
    double best = least_of_box(r, row), low = 0, high = 0, at = 0;
    if (r->norm == VT_CERTIFY_LINF || !row->touched[in] || !isfinite(best)) return best;
    if (!(r->radius * r->radius > 1e-300)) return best; /* a point, or so near it that squares are lost */
    const bool outside = dual_at(r, row, 0).over > 0;   /* of the ball: the box's point */
    if (outside) high = steep_enough(r, row);
    for (int i = 0; outside && i < halvings; i++) { /* the slope falls with h */
        const double h = i ? low / 2 + high / 2 : high;
        const dual d = dual_at(r, row, h);
        if (d.low > best) best = d.low, at = h;
        *(i && d.over > 0 ? &low : &high) = h;
    }
    if (outside && !(at > 0)) at = high; /* where the box's bound is nearly reached in the ball */
    for (size_t k = 0; k < r->g->values[in].n; k++) {
        const double c = r->centre[k];
        row->y[in][k] = c + least_step(r->norm, row->a[in][k], at, r->of[in].lo[k] - c, r->of[in].hi[k] - c);
    }
    return best;
}
