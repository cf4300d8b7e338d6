/* SPDX-License-Identifier: MIT */
#include "attacks/grid8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

vt_status vt_grid8_open(vt_grid8 *l, size_t n, vt_err *e) {
    *l = (vt_grid8){.n = n,
                    .clean = vt_alloc(n),
                    .lo = vt_alloc(n),
                    .hi = vt_alloc(n),
                    .point = vt_alloc(n),
                    .q = vt_alloc(n),
                    .p = vt_alloc(n),
                    .best = vt_alloc(n * sizeof(float)),
                    .x = vt_alloc(n * sizeof(float)),
                    .slope = vt_alloc(n * sizeof(float)),
                    .moves = vt_alloc(n * sizeof(vt_level_move))};
    if (l->clean && l->lo && l->hi && l->point && l->q && l->p && l->best && l->x && l->slope && l->moves) return VT_OK;
    vt_grid8_close(l);
    return vt_fail(e, VT_E_MEMORY, "no memory for 8-bit points of %zu values", n);
}

void vt_grid8_close(vt_grid8 *l) {
    free(l->clean), free(l->lo), free(l->hi), free(l->point), free(l->q), free(l->p);
    free(l->best), free(l->x), free(l->slope), free(l->moves);
    memset(l, 0, sizeof *l);
}

int64_t vt_grid8_most(vt_norm norm, double eps) {
    double levels = 255 * eps, sum = norm == VT_L2 ? levels * levels : levels;
    return (int64_t)floor(sum * (1 + VT_LEVELS_SLACK));
}

/* Returns grey level k as data sets make it: float32(k) / 255. */
static inline float level_to_float(uint8_t k) { return (float)k / 255; }

vt_status vt_grid8_aim(vt_grid8 *l, const vt_ball *b) {
    l->norm = b->norm, l->most = vt_grid8_most(b->norm, b->eps);
    l->has_best = l->has_point = l->searching = false;
    double most = l->norm == VT_L2 ? sqrt((double)l->most) : (double)l->most; /* of one entry */
    l->reach = most < 255 ? (int)most : 255;
    for (size_t i = 0; i < l->n; i++) {
        long k = lrintf(255 * b->x[i]), reach = l->reach;
        if (!(k >= 0 && k <= 255 && level_to_float((uint8_t)k) == b->x[i])) return VT_E_RANGE;
        if (b->squares && b->lo[i] == b->hi[i]) reach = 0; /* outside of the squares */
        l->clean[i] = (uint8_t)k;
        l->lo[i] = (uint8_t)(k > reach ? k - reach : 0), l->hi[i] = (uint8_t)(k + reach < 255 ? k + reach : 255);
    }
    return VT_OK;
}

/* Returns what an entry at distance d adds to the norm's sum. */
static inline int64_t size_of(vt_norm norm, int64_t d) { return norm == VT_L2 ? d * d : d; }
/* Returns by how much the norm's sum falls if an entry d levels away from the centre goes one level back. */
static inline int64_t decrease_per_level(vt_norm norm, int64_t d) { return norm == VT_L2 ? 2 * d - 1 : 1; }

/* Returns the norm's sum of q [n] around the centre: squared levels in l2, levels in l1. */
static int64_t norm_sum(const vt_grid8 *l, const uint8_t *q) {
    int64_t sum = 0;
    for (size_t i = 0; i < l->n; i++) sum += size_of(l->norm, labs((long)q[i] - (long)l->clean[i]));
    return sum;
}

bool vt_grid8_contains(const vt_grid8 *l, const uint8_t *q) {
    for (size_t i = 0; i < l->n; i++)
        if (q[i] < l->lo[i] || q[i] > l->hi[i]) return false;
    return l->norm == VT_LINF || norm_sum(l, q) <= l->most;
}

void vt_grid8_floats(const vt_grid8 *l, float *x, const uint8_t *q) {
    for (size_t i = 0; i < l->n; i++) x[i] = level_to_float(q[i]);
}

/* ---- back into the ball: a heap of the moves towards the centre, the cheapest on top ---- */

/* Returns whether move a comes before b: by key, of equal ones by position. */
static inline bool has_smaller_key(vt_level_move a, vt_level_move b) {
    return a.key != b.key ? a.key < b.key : a.at < b.at;
}

/* Restores the heap h [n], the smallest key on top, below position i. */
static void sift_down(vt_level_move *h, size_t n, size_t i) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && has_smaller_key(h[child + 1], h[child])) child++;
        if (!has_smaller_key(h[child], h[i])) return;
        vt_level_move t = h[i];
        h[i] = h[child], h[child] = t;
    }
}

/* Returns entry i's move towards the centre, keyed by what it loses for what it gives back. slope [n]: the function's
 * growth by the level; curved: less the level's square (minus the squared distance to slope/2). */
static vt_level_move move_of(const vt_grid8 *l, const uint8_t *q, const float *slope, bool curved, size_t i) {
    long d = (long)q[i] - (long)l->clean[i], far = labs(d);
    double loss = (d > 0 ? 1 : -1) * (double)slope[i];
    if (curved) loss -= (double)(2 * far - 1);
    return (vt_level_move){.key = (float)(loss / (double)decrease_per_level(l->norm, far)), .at = (uint32_t)i};
}

/* Moves q [n] back towards the centre, level by level and cheapest first, until it is inside the norm's ball; linf: the
 * box is enough. slope, curved: as move_of. Uses l->moves. */
static void move_into_ball(vt_grid8 *l, uint8_t *q, const float *slope, bool curved) {
    int64_t sum = l->norm == VT_LINF ? 0 : norm_sum(l, q);
    if (sum <= l->most) return;
    vt_level_move *h = l->moves;
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (q[i] != l->clean[i]) h[n++] = move_of(l, q, slope, curved, i);
    for (size_t i = n / 2; i-- > 0;) sift_down(h, n, i);
    while (sum > l->most) { /* ends: the centre's sum is 0 */
        size_t i = h->at;
        sum -= decrease_per_level(l->norm, labs((long)q[i] - (long)l->clean[i]));
        q[i] = (uint8_t)(q[i] > l->clean[i] ? q[i] - 1 : q[i] + 1);
        if (q[i] != l->clean[i])
            h[0] = move_of(l, q, slope, curved, i);
        else
            h[0] = h[--n];
        sift_down(h, n, 0);
    }
}

/* ---- roundings ---- */

/* Values this near to a level, in levels, are it: float32 values of [0,1] lie 2^-24 apart, which is 1e-5 levels. */
#define ON_LEVEL 1e-4

/* Returns v, in levels, as a whole level; clean: the centre's level; rng, i: the draw of VT_ROUND_DRAWN. */
static double rounded_level(double v, double clean, vt_rounding how, const vt_rng *rng, size_t i) {
    double near = rint(v);
    if (how == VT_ROUND_NEAREST || fabs(v - near) <= ON_LEVEL) return near;
    if (how == VT_ROUND_AWAY) return v > clean ? ceil(v) : floor(v);
    return floor(v) + ((double)vt_rng_uniform(rng, i) < v - floor(v));
}

void vt_grid8_round(vt_grid8 *l, uint8_t *q, const float *x, vt_rounding how, const vt_rng *rng) {
    for (size_t i = 0; i < l->n; i++) {
        double v = 255 * (double)x[i], k = rounded_level(v, (double)l->clean[i], how, rng, i);
        if (!(k >= (double)l->lo[i])) k = (double)l->lo[i]; /* NaN goes there */
        if (k > (double)l->hi[i]) k = (double)l->hi[i];
        q[i] = (uint8_t)k;
        l->slope[i] = (float)(2 * (v - (double)l->clean[i]));
    }
    move_into_ball(l, q, l->slope, true);
}

/* ---- a step ---- */

/* Compares two moves for qsort: the smaller key first. */
static int by_size(const void *a, const void *b) {
    const vt_level_move *x = a, *y = b;
    return has_smaller_key(*x, *y) ? -1 : has_smaller_key(*y, *x);
}

bool vt_grid8_step(vt_grid8 *l, uint8_t *q, const uint8_t *p, const float *g, double t) {
    size_t can = 0;
    memcpy(q, p, l->n);
    for (size_t i = 0; i < l->n; i++)
        if ((g[i] > 0 && p[i] < l->hi[i]) || (g[i] < 0 && p[i] > l->lo[i]))
            l->moves[can++] = (vt_level_move){.key = -fabsf(g[i]), .at = (uint32_t)i};
    size_t some = t < 1 ? (size_t)ceil(t * (double)can) : can;
    if (some < can) qsort(l->moves, can, sizeof *l->moves, by_size);
    int levels = t < 1 ? 1 : t < 255 ? (int)t : 255;
    for (size_t k = 0; k < some; k++) {
        size_t i = l->moves[k].at;
        int to = (int)p[i] + (g[i] > 0 ? levels : -levels);
        q[i] = (uint8_t)(to < l->lo[i] ? l->lo[i] : to > l->hi[i] ? l->hi[i] : to);
    }
    move_into_ball(l, q, g, false);
    return memcmp(q, p, l->n) != 0;
}
