/* SPDX-License-Identifier: MIT */
/* Makes an operator that computes number by number, from expressions: of one input (v, and w for the result), of two
 * with numpy's broadcasting (a, b, w), or with a truth value as result. */
#pragma once

#include <tgmath.h>
#include <string.h>
#include "graph/op.h"

enum { VT_SIDES_MOST = 3 }; /* inputs that are broadcast together */

#ifndef VT_GRAPH_BROADCAST
#define VT_GRAPH_BROADCAST
/* Sides of the result, joined where every input allows it, and each input's strides; 0: broadcast. */
typedef struct vt_broadcast {
    int rank;
    int64_t d[VT_RANK], stride[VT_SIDES_MOST][VT_RANK];
} vt_broadcast;

/* The result's rows, of n numbers one after another: where each begins in result and inputs. */
typedef struct vt_rows {
    const vt_broadcast *b;
    int64_t i[VT_RANK];
    size_t n, y, at[VT_SIDES_MOST];
    bool begun;
} vt_rows;

/* Starts at the rows of a broadcast result; call vt_rows_next before the first. Each has n numbers. */
static inline vt_rows vt_rows_of(const vt_broadcast *b) {
    return (vt_rows){.b = b, .n = b->rank ? (size_t)b->d[b->rank - 1] : 1};
}

/* Moves to the next row: y and at[k] are its first numbers in the result and in input k. False past the last. */
static inline bool vt_rows_next(vt_rows *r) {
    const vt_broadcast *b = r->b;
    if (!r->begun) {
        for (int d = 0; d < b->rank; d++)
            if (b->d[d] == 0) return false;
        return r->begun = true;
    }
    r->y += r->n;
    for (int d = b->rank - 2; d >= 0; d--) {
        for (int k = 0; k < VT_SIDES_MOST; k++) r->at[k] += (size_t)b->stride[k][d];
        if (++r->i[d] < b->d[d]) return true;
        for (int k = 0; k < VT_SIDES_MOST; k++) r->at[k] -= (size_t)(b->stride[k][d] * b->d[d]);
        r->i[d] = 0;
    }
    return false;
}
/* Returns whether all inputs are one number, whose strides are 0 whatever they have. */
static inline bool vt_is_one_number(const vt_broadcast *b) { return b->rank == 0 || (b->rank == 1 && b->d[0] == 1); }
/* Returns the step of input k from number to number of a row: 1, or 0 if it is broadcast. */
static inline int64_t vt_rows_stride(const vt_rows *r, int k) {
    return r->b->rank ? r->b->stride[k][r->b->rank - 1] : 0;
}
#endif

/* Fills dx[k] of the node of call c with zeros, where backward sums into it; not if it is not wanted or is added to. */
static inline void VT_R(vt_zero)(const VT_R(vt_call) *c, int k) {
    if (c->dx[k] && !c->add[k]) memset(c->dx[k], 0, c->g->values[c->n->in[k]].n * sizeof(real));
}

/* F: of v and the attributes p, q. DF: its derivative, of v (keep X), w (keep Y), p, q. Then members of vt_op. */
#define VT_UNARY(id, name_, import_, keep_, F, DF, ...)                                                                \
    static void forward(const VT_R(vt_call) *c) {                                                                      \
        const size_t n = c->g->values[c->n->out].n;                                                                    \
        const double *with = c->n->with;                                                                               \
        const real p = with ? (real)with[0] : 0, q = with ? (real)with[1] : 0, *x = c->x[0];                           \
        real *y = c->y;                                                                                                \
        (void)p, (void)q;                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const real v = x[i];                                                                                       \
            y[i] = (F);                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void backward(const VT_R(vt_call) *c) {                                                                     \
        const size_t n = c->g->values[c->n->out].n;                                                                    \
        const double *with = c->n->with;                                                                               \
        const real p = with ? (real)with[0] : 0, q = with ? (real)with[1] : 0, *dy = c->dy;                            \
        const real *x = (keep_)&VT_KEEP_X ? c->x[0] : dy, *y = (keep_)&VT_KEEP_Y ? c->y : dy;                          \
        real *dx = c->dx[0];                                                                                           \
        (void)p, (void)q;                                                                                              \
        if (!dx) return;                                                                                               \
        for (size_t i = 0; !c->add[0] && i < n; i++) {                                                                 \
            const real v = x[i], w = y[i];                                                                             \
            (void)v, (void)w;                                                                                          \
            dx[i] = dy[i] * (DF);                                                                                      \
        }                                                                                                              \
        if (!c->add[0]) return;                                                                                        \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const real v = x[i], w = y[i];                                                                             \
            (void)v, (void)w;                                                                                          \
            dx[i] += dy[i] * (DF);                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_,                                                               \
                                          .import = import_,                                                           \
                                          .forward = forward,                                                          \
                                          .backward = backward,                                                        \
                                          .keep = keep_,                                                               \
                                          .each = VT_EACH_ONE,                                                         \
                                          __VA_ARGS__};

/* Sides are joined, so that an input's numbers of a row lie one after another or are one. */
#define VT_LOOP_AB(i0, i1, ...)                                                                                        \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        const real a = x0[i0], b = x1[i1];                                                                             \
        (void)a, (void)b;                                                                                              \
        __VA_ARGS__;                                                                                                   \
    }
#define VT_LOOPS_AB(...)                                                                                               \
    do {                                                                                                               \
        if (s0 && s1)                                                                                                  \
            VT_LOOP_AB(i, i, __VA_ARGS__)                                                                              \
        else if (s0)                                                                                                   \
            VT_LOOP_AB(i, 0, __VA_ARGS__)                                                                              \
        else                                                                                                           \
            VT_LOOP_AB(0, s1 ? i : 0, __VA_ARGS__)                                                                     \
    } while (0)

#define VT_BINARY_FORWARD(F)                                                                                           \
    static void forward(const VT_R(vt_call) *c) {                                                                      \
        const bool whole = c->g->values[c->n->out].integer;                                                            \
        (void)whole;                                                                                                   \
        for (vt_rows r = vt_rows_of(c->n->with); vt_rows_next(&r);) {                                                  \
            const size_t n = r.n;                                                                                      \
            const int64_t s0 = vt_rows_stride(&r, 0), s1 = vt_rows_stride(&r, 1);                                      \
            const real *x0 = c->x[0] + r.at[0], *x1 = c->x[1] + r.at[1];                                               \
            real *y = c->y + r.y;                                                                                      \
            VT_LOOPS_AB(y[i] = (F));                                                                                   \
        }                                                                                                              \
    }

/* F of a, b and `whole` (integers); DA, DB: its derivatives, of a, b (keep X) and w, the result (keep Y). An input
 * whose gradient is no sum is written, not added to: `set`. */
#define VT_BINARY_SIDE(d, s, set, D)                                                                                   \
    if (d && s == 0) {                                                                                                 \
        real sum = 0;                                                                                                  \
        VT_LOOPS_AB(const real w = y[i]; (void)w; sum += dy[i] * (D));                                                 \
        d[0] += sum;                                                                                                   \
    } else if (d && set)                                                                                               \
        VT_LOOPS_AB(const real w = y[i]; (void)w; d[i] = dy[i] * (D));                                                 \
    else if (d)                                                                                                        \
        VT_LOOPS_AB(const real w = y[i]; (void)w; d[i] += dy[i] * (D));
#define VT_BINARY(id, name_, import_, keep_, F, DA, DB, ...)                                                           \
    VT_BINARY_FORWARD(F)                                                                                               \
    static void backward_row(real *d0, real *d1, const bool *set, const real *dy, const real *y, const real *x0,       \
                             const real *x1, size_t n, int64_t s0, int64_t s1) {                                       \
        (void)y;                                                                                                       \
        VT_BINARY_SIDE(d0, s0, set[0], DA)                                                                             \
        VT_BINARY_SIDE(d1, s1, set[1], DB)                                                                             \
    }                                                                                                                  \
    static void backward(const VT_R(vt_call) *c) {                                                                     \
        bool set[2];                                                                                                   \
        for (int k = 0; k < 2; k++) {                                                                                  \
            set[k] = !c->add[k] && c->g->values[c->n->in[k]].n == c->g->values[c->n->out].n;                           \
            if (!set[k] || vt_is_one_number(c->n->with)) VT_R(vt_zero)(c, k);                                          \
        }                                                                                                              \
        for (vt_rows r = vt_rows_of(c->n->with); vt_rows_next(&r);) {                                                  \
            const bool x_kept = (keep_)&VT_KEEP_X;                                                                     \
            const real *dy = c->dy + r.y, *y = (keep_)&VT_KEEP_Y ? c->y + r.y : dy;                                    \
            backward_row(c->dx[0] ? c->dx[0] + r.at[0] : NULL, c->dx[1] ? c->dx[1] + r.at[1] : NULL, set, dy, y,       \
                         x_kept ? c->x[0] + r.at[0] : dy, x_kept ? c->x[1] + r.at[1] : dy, r.n, vt_rows_stride(&r, 0), \
                         vt_rows_stride(&r, 1));                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_,                                                               \
                                          .import = import_,                                                           \
                                          .forward = forward,                                                          \
                                          .backward = backward,                                                        \
                                          .keep = keep_,                                                               \
                                          .each = VT_EACH_BROADCAST,                                                   \
                                          __VA_ARGS__};

/* Of a and b, a truth value: nothing passes backward. */
#define VT_TRUTH(id, name_, F, ...)                                                                                    \
    VT_BINARY_FORWARD(F)                                                                                               \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_,                                                               \
                                          .import = vt_import_truth,                                                   \
                                          .forward = forward,                                                          \
                                          .each = VT_EACH_BROADCAST,                                                   \
                                          __VA_ARGS__};

/* Of constant integers a and b. */
#define VT_BITS(id, name_, import_, F, ...)                                                                            \
    VT_BINARY_FORWARD(F)                                                                                               \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_, .import = import_, .forward = forward, __VA_ARGS__};
