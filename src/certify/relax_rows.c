/* SPDX-License-Identifier: MIT */
/* Operators that turn rows of numbers into rows or numbers: softmax, normalisation, the largest. */
#define VT_DOUBLE /* operators of their double copy */
#include <float.h>
#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "graph/reduce.h"
#include "graph/windows.h"

/* ---- softmax: p_i = 1 / sum_j exp(d_j), d_j = x_j - x_i ---- */

enum { PAIRS_MOST = 24 }; /* longer rows: differences from the numbers' intervals alone */

/* Returns the doubles kept of a softmax: for each p, two planes of its row's scores and its differences' lower
 * bounds. */
static size_t planes_softmax(const vt_graph *g, const vt_node *n) {
    const vt_row_size *s = n->with;
    (void)g;
    return s->rows * s->cols * (2 * (s->cols + 1) + s->cols);
}

/* Function (row, i, j): x_j - x_i. */
static void set_difference(const void *ctx, size_t k, double *a) {
    const size_t cols = ((const vt_row_size *)ctx)->cols, row = k / (cols * cols), i = k / cols % cols, j = k % cols;
    if (i != j) a[row * cols + j] = 1, a[row * cols + i] = -1;
}

/* Planes of p_i: low and up [cols + 1], the last the constant, from d_j in [l[j], u[j]]. Below: e^d <= its chord, so
 * that the sum is at most a linear S, and 1 / S lies above its tangent. Above: log p_i = -log sum e^d is concave and
 * below its tangent, and e^t on [log of p's ends] is below its chord. (Wei et al. 2023: linear and log-sum-exp bounds.)
 */
static void softmax_planes(const double *l, const double *u, size_t cols, size_t i, double *low, double *up, double *lo,
                           double *hi, double *size) {
    double sum = 1, least = 1, most = 1, s = 1, down = 0, t;
    for (size_t j = 0; j < cols; j++)
        if (j != i) sum += exp((l[j] + u[j]) / 2), least += exp(l[j]), most += exp(u[j]);
    *lo = 1 / most * (1 - 1e-12), *hi = 1 / least * (1 + 1e-12);
    if (*hi > 1) *hi = 1;
    memset(low, 0, (cols + 1) * sizeof *low), memset(up, 0, (cols + 1) * sizeof *up);
    for (size_t j = 0; j < cols; j++) { /* S = s + sum of k_j d_j */
        if (j == i) continue;
        const double wide = u[j] - l[j], k = wide > 1e-9 ? (exp(u[j]) - exp(l[j])) / wide : exp((l[j] + u[j]) / 2);
        low[j] = k, s += fmax(exp(l[j]) - k * l[j], exp(u[j]) - k * u[j]);
    }
    double at = s;
    for (size_t j = 0; j < cols; j++) at += low[j] * (l[j] + u[j]) / 2;
    low[cols] = 2 / at - s / (at * at);
    double all = 0;
    for (size_t j = 0; j < cols; j++) all += low[j] *= -1 / (at * at);
    low[i] -= all;
    t = -log(sum);
    for (size_t j = 0; j < cols; j++) {
        const double w = j == i ? 0 : exp((l[j] + u[j]) / 2) / sum;
        up[j] -= w, down += w, t += w * (l[j] + u[j]) / 2;
    }
    up[i] += down;
    const double tl = log(*lo), tu = log(*hi), k = tu - tl > 1e-9 ? (*hi - *lo) / (tu - tl) : *hi;
    for (size_t j = 0; j < cols; j++) up[j] *= k;
    up[cols] = k * t + fmax(*lo - k * tl, *hi - k * tu);
    /* Roundings above, of numbers no larger than these. */
    double large = fabs(k * t) + fabs(k * tl) + fabs(k * tu) + fabs(low[cols]) + s / (at * at) + 1;
    for (size_t j = 0; j < cols; j++)
        large += (fabs(low[j]) + fabs(up[j])) * (fabs(l[j]) + fabs(u[j])) + most / (at * at);
    low[cols] -= 1e-13 * large, up[cols] += 1e-13 * large;
    *size = large;
}

/* Bounds every p and sets its planes, from bounds of the differences of scores; VT_E_NUMERIC: one is not finite. */
static vt_status bound_softmax(vt_relax *r, int node, vt_err *e) {
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    const vt_ranges *x = &r->of[n->in[0]], *y = &r->of[n->out];
    const size_t c = s->cols, all = s->rows * c;
    double *planes = r->planes[node], *d = planes + all * 2 * (c + 1), u[PAIRS_MOST + 1],
           *most = c <= PAIRS_MOST ? u : r->spare[2];
    if (c <= PAIRS_MOST) VT_TRY(vt_relax_rows(r, n->in[0], all * c, set_difference, s, d, e));
    for (size_t k = 0; k < all * c; k++) {
        const size_t row = k / (c * c) * c, i = row + k / c % c, j = row + k % c;
        const double own = i == j ? 0 : x->lo[j] - x->hi[i];
        d[k] = c <= PAIRS_MOST && d[k] > own ? d[k] : own;
    }
    for (size_t k = 0; k < all; k++) {
        const size_t i = k % c, first = k - i;
        double far = 0, size, lo, hi, top = 0;
        for (size_t j = 0; j < c; j++) {
            most[j] = i == j ? 0 : -d[(first + j) * c + i];
            const double low = i == j ? 0 : d[k * c + j];
            if (!(low <= most[j]) || !isfinite(low) || !isfinite(most[j]))
                return vt_fail(e, VT_E_NUMERIC, "%s: bounds of scores are not finite or crossed", r->g->path);
            far = fmax(far, fmax(fabs(low), fabs(most[j]))), top = fmax(top, x->top[first + j]);
        }
        d[k * c + i] = 0;
        softmax_planes(d + k * c, most, c, i, planes + k * 2 * (c + 1), planes + (k * 2 + 1) * (c + 1), &lo, &hi,
                       &size);
        y->err[k] = hi * (2 * far + (double)c + 24) * VT_HALF_ULP32 * (1 + 1e-3) + (double)c * VT_TINY32 +
                    1e-14 * size * (1 + top) * (double)c;
        y->lo[k] = lo - y->err[k], y->hi[k] = hi + y->err[k];
    }
    return VT_OK;
}

/* Replaces each p by its lower plane where its coefficient is positive, by its upper one where it is negative. */
static void back_softmax(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    const size_t c = s->cols;
    const double *dy = row->a[n->out];
    double *dx = vt_row_at(r, row, n->in[0]);
    for (size_t k = 0; k < s->rows * c; k++) {
        if (dy[k] == 0) continue;
        const double *plane = r->planes[node] + (k * 2 + (dy[k] < 0)) * (c + 1);
        for (size_t j = 0; j < c; j++) dx[k - k % c + j] += dy[k] * plane[j];
        vt_row_add(row, dy[k] * plane[c]);
    }
}

/* Sets y to the planes that back_softmax took, at the input's y; no knobs. */
static void fore_softmax(const vt_relax *r, int node, vt_row *row, double *rise) {
    (void)rise;
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    const size_t c = s->cols;
    const double *dy = row->a[n->out], *x = row->y[n->in[0]];
    for (size_t k = 0; k < s->rows * c; k++) {
        const double *plane = r->planes[node] + (k * 2 + (dy[k] < 0)) * (c + 1);
        double y = plane[c];
        for (size_t j = 0; j < c; j++) y += plane[j] * x[k - k % c + j];
        row->y[n->out][k] = y;
    }
}

const vt_relaxation vt_relax_softmax = {.planes = planes_softmax,
                                        .bound = bound_softmax,
                                        .back = back_softmax,
                                        .curved = true,
                                        .fore = fore_softmax};

/* ---- (x - mean) / sqrt(var + eps): centred numbers c, their squares, var, its inverse root q, products c q ---- */

enum { C_MID, C_RAD, SQ_KL, SQ_BL, SQ_KU, SQ_BU, Y_MID, Y_RAD, S_PARTS };
enum { Q_KL, Q_BL, Q_KU, Q_BU, Q_MID, Q_RAD, Q_SIZE, Q_PARTS };

/* Returns the doubles kept of standardised rows: parts of each number (C_MID ...) and of each row (Q_KL ...). */
static size_t planes_standardise(const vt_graph *g, const vt_node *n) {
    return S_PARTS * g->values[n->out].n + Q_PARTS * ((const vt_row_size *)n->with)->rows;
}

/* Function k: number k / 2 less its row's mean, or minus that. */
static void set_centred(const void *ctx, size_t k, double *a) {
    const vt_row_size *s = ctx;
    const size_t i = k / 2, first = i - i % s->cols;
    const double sign = k % 2 ? -1 : 1;
    for (size_t j = 0; j < s->cols; j++) a[first + j] = -sign / (double)s->cols;
    a[i] += sign;
}

/* Bounds one row from c, lower bounds of its centred numbers and of their negatives, and sets its parts.
 * VT_E_NUMERIC: bounds are crossed, or the variance may be 0. */
static vt_status bound_row(vt_relax *r, int node, size_t row, const double *c, vt_err *e) {
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    const vt_ranges *x = &r->of[n->in[0]], *y = &r->of[n->out];
    const size_t cols = s->cols, all = s->rows * cols;
    double *p = r->planes[node], *q = p + S_PARTS * all + row * Q_PARTS, low = 0, high = 0, top = 0, far = 0;
    for (size_t i = row * cols; i < (row + 1) * cols; i++) {
        const double slack = 1e-12 * (fabs(c[2 * i]) + fabs(c[2 * i + 1]));
        const double lo = c[2 * i] - slack, hi = -c[2 * i + 1] + slack;
        if (!(lo <= hi)) return vt_fail(e, VT_E_NUMERIC, "%s: bounds are crossed", r->g->path);
        const vt_lines l = vt_scalar_lines(&vt_scalar_square, NULL, lo, hi, 0);
        p[C_MID * all + i] = (lo + hi) / 2, p[C_RAD * all + i] = (hi - lo) / 2 * (1 + 1e-12);
        p[SQ_KL * all + i] = l.kl, p[SQ_BL * all + i] = l.bl, p[SQ_KU * all + i] = l.ku, p[SQ_BU * all + i] = l.bu;
        low += fmax(l.lo, 0), high += l.hi;
        top = fmax(top, x->top[i]), far = fmax(far, fmax(fabs(lo), fabs(hi)));
    }
    low = low / (double)cols * (1 - 1e-12) + s->eps, high = high / (double)cols * (1 + 1e-12) + s->eps;
    if (!(low > 0)) return vt_fail(e, VT_E_NUMERIC, "%s: a variance may be 0", r->g->path);
    const vt_lines l = vt_scalar_lines(&vt_scalar_rsqrt, NULL, low, high, 0);
    q[Q_KL] = l.kl, q[Q_BL] = l.bl, q[Q_KU] = l.ku, q[Q_BU] = l.bu;
    q[Q_MID] = (l.lo + l.hi) / 2, q[Q_RAD] = (l.hi - l.lo) / 2 * (1 + 1e-12) + 1e-15 * l.hi;
    /* float32: the mean is off by `off`, so is each centred number; then the variance's sum, the root, the product */
    const double u = VT_HALF_ULP32 * ((double)cols + 8) * 1.001, off = u * (top + far);
    const double spread = 2 * off * far + off * off + u * (far + off) * (far + off), rest = low - spread;
    if (!(rest > 0) || low < VT_LEAST_SQUARE32 || 4 * (double)cols * fmax(top, far * far) > VT_LARGEST32)
        return vt_fail(e, VT_E_NUMERIC, "%s: float32 may lose a variance", r->g->path);
    const double root = 1 / sqrt(rest), change = spread / rest / 2 + 8 * VT_HALF_ULP32;
    for (size_t i = row * cols; i < (row + 1) * cols; i++) {
        const double cm = p[C_MID * all + i], cr = p[C_RAD * all + i], size = fabs(cm) + cr;
        p[Y_MID * all + i] = cm * q[Q_MID], p[Y_RAD * all + i] = cr * q[Q_RAD];
        y->err[i] = (root * off + size * root * change) * 1.001 +
                    1e-13 * (double)cols * (size * root * (1 + far * far / rest) + root * top);
        const double wide = fabs(cm) * q[Q_RAD] + cr * q[Q_MID] + cr * q[Q_RAD] + y->err[i];
        y->lo[i] = cm * q[Q_MID] - wide, y->hi[i] = cm * q[Q_MID] + wide;
    }
    return VT_OK;
}

/* Bounds all rows, by back-substitution of each number less its row's mean. */
static vt_status bound_standardise(vt_relax *r, int node, vt_err *e) {
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    double *c = r->low;
    VT_TRY(vt_relax_rows(r, n->in[0], 2 * s->rows * s->cols, set_centred, s, c, e));
    for (size_t row = 0; row < s->rows; row++) VT_TRY(bound_row(r, node, row, c, e));
    return VT_OK;
}

/* Replaces c q by planes at the middles of c and q, q by a line of the variance, squares by lines of c, c by the
 * input. */
static void back_standardise(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const vt_row_size *s = n->with;
    const size_t cols = s->cols, all = s->rows * cols;
    const double *dy = row->a[n->out], *p = r->planes[node];
    double *dx = vt_row_at(r, row, n->in[0]), *dc = row->spare;
    for (size_t g = 0; g < s->rows; g++) {
        const double *q = p + S_PARTS * all + g * Q_PARTS;
        double dq = 0, mean = 0;
        for (size_t i = g * cols; i < (g + 1) * cols; i++) {
            vt_row_add(row, -dy[i] * p[Y_MID * all + i]), vt_row_add(row, -fabs(dy[i]) * p[Y_RAD * all + i]);
            dq += dy[i] * p[C_MID * all + i], dc[i] = dy[i] * q[Q_MID];
        }
        const int k = dq < 0 ? Q_KU : Q_KL;
        const double dv = dq * q[k] / (double)cols; /* of each square */
        vt_row_add(row, dq * q[k + 1]), vt_row_add(row, dq * q[k] * s->eps);
        for (size_t i = g * cols; i < (g + 1) * cols; i++) {
            const size_t m = dv < 0 ? SQ_KU : SQ_KL;
            dc[i] += dv * p[m * all + i], vt_row_add(row, dv * p[(m + 1) * all + i]);
            mean += dc[i] / (double)cols;
        }
        for (size_t i = g * cols; i < (g + 1) * cols; i++) dx[i] += dc[i] - mean;
    }
}

const vt_relaxation vt_relax_standardise = {.planes = planes_standardise,
                                            .bound = bound_standardise,
                                            .back = back_standardise,
                                            .curved = true};

/* ---- the largest of some: y >= any of them; y <= m + relu(x_k - m), m the others' largest bound ---- */

typedef struct largest {
    double k, slope, b; /* y >= x_k; y <= slope x_k + b */
} largest;
enum { L_PARTS = sizeof(largest) / sizeof(double) };

/* Returns the doubles kept of a maximum: one `largest` a result. */
static size_t planes_largest(const vt_graph *g, const vt_node *n) { return L_PARTS * g->values[n->out].n; }

/* at(ctx, i): place of candidate i < n of the input, or -1. */
static void bound_one(vt_relax *r, int node, size_t out, int64_t (*at)(const void *, int64_t), const void *ctx,
                      int64_t n) {
    const vt_node *v = &r->g->nodes[node];
    const vt_ranges *x = &r->of[v->in[0]], *y = &r->of[v->out];
    largest *p = (largest *)r->planes[node] + out;
    int64_t best = -1;
    for (int64_t i = 0, a; i < n; i++)
        if ((a = at(ctx, i)) >= 0 && (best < 0 || x->lo[a] > x->lo[best])) best = a;
    if (best < 0) { /* a window in the padding: 0 */
        *p = (largest){-1, 0, 0};
        y->lo[out] = y->hi[out] = y->err[out] = 0;
        return;
    }
    double others = -INFINITY;
    for (int64_t i = 0, a; i < n; i++)
        if ((a = at(ctx, i)) >= 0 && a != best) others = fmax(others, x->hi[a]);
    const double l = x->lo[best], u = x->hi[best];
    *p = (largest){(double)best, 1, 0};
    if (others > l) p->slope = others < u ? (u - others) / (u - l) : 0;
    if (others > l) p->b = fmax(others - p->slope * l, fmax(u, others) - p->slope * u);
    y->err[out] = 1e-14 * (x->top[best] + fabs(p->b));
    y->lo[out] = l - y->err[out], y->hi[out] = fmax(u, others) + y->err[out];
}

typedef struct one_window {
    const vt_windows *w;
    int64_t pixel, map;
} one_window;

/* Returns the place of tap i of a window in the input; -1: in the padding. */
static int64_t at_window(const void *ctx, int64_t i) {
    const one_window *o = ctx;
    const int64_t at = vt_windows_at(o->w, o->pixel, i);
    return at < 0 ? -1 : o->map * o->w->pixels_in + at;
}

/* Returns the place of number i of a row that begins at *ctx. */
static int64_t at_row(const void *ctx, int64_t i) { return *(const int64_t *)ctx + i; }

/* Bounds the largest number of every window of every map. */
static vt_status bound_windows(vt_relax *r, int node, vt_err *e) {
    (void)e;
    const vt_windows *w = r->g->nodes[node].with;
    for (int64_t m = 0; m < w->n * w->channels; m++)
        for (int64_t p = 0; p < w->pixels_out; p++)
            bound_one(r, node, (size_t)(m * w->pixels_out + p), at_window, &(one_window){w, p, m}, w->taps);
    return VT_OK;
}

/* Bounds the largest number of every row. */
static vt_status bound_largest(vt_relax *r, int node, vt_err *e) {
    (void)e;
    const vt_row_size *s = r->g->nodes[node].with;
    for (size_t i = 0; i < s->rows; i++)
        bound_one(r, node, i, at_row, &(int64_t){(int64_t)(i * s->cols)}, (int64_t)s->cols);
    return VT_OK;
}

/* Replaces a maximum by its best candidate (coefficient positive), or by that one's upper line (negative). */
static void back_largest(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const double *dy = row->a[n->out];
    double *dx = vt_row_at(r, row, n->in[0]);
    for (size_t i = 0; i < r->g->values[n->out].n; i++) {
        const largest *p = (const largest *)r->planes[node] + i;
        if (p->k < 0 || dy[i] == 0) continue;
        dx[(size_t)p->k] += dy[i] * (dy[i] < 0 ? p->slope : 1);
        if (dy[i] < 0) vt_row_add(row, dy[i] * p->b);
    }
}

const vt_relaxation vt_relax_largest = {.planes = planes_largest,
                                        .bound = bound_largest,
                                        .back = back_largest,
                                        .curved = true};
const vt_relaxation vt_relax_windows_largest = {.planes = planes_largest,
                                                .bound = bound_windows,
                                                .back = back_largest,
                                                .curved = true};
