/* SPDX-License-Identifier: MIT */
/* Affine operators: norms of their linear parts, by spectral.h or, for sparse ones, by the largest sums of rows and
 * columns (Schur's test), which the operator's own forward and backward give of ones. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "certify/relax.h"
#include "certify/spectral.h"
#include "certify/spread.h"
#include "graph/matmul.h"
#include "graph/move.h"
#include "graph/op.h"

/* Bound of the norm of |op| as a function of input k alone. */
static double sums_above(vt_spread *s, int node, int k) {
    const vt_node *n = &s->g->nodes[node];
    vt_node plain = *n;
    vt_move move;
    const bool factor = vt_spread_is(s, n, "MatMul") || vt_spread_is(s, n, "Conv") || vt_spread_is(s, n, "Mul") ||
                        vt_spread_is(s, n, "Div");
    if (vt_spread_is(s, n, "(move)")) move = *(const vt_move *)n->with, move.fill = 0, plain.with = &move;
    for (int i = 0; i < n->n_in; i++) {
        const bool constant = n->in[i] >= 0 && !vt_spread_moves(s, n->in[i]);
        s->x[i] = n->in[i] < 0 ? NULL : i == k ? s->ones : s->zero, s->dx[i] = i == k ? s->spare[1] : NULL;
        if (!constant || !factor || i > 1) continue;
        for (size_t j = 0; j < s->g->values[n->in[i]].n; j++) s->spare[0][j] = fabs(s->v[n->in[i]][j]);
        s->x[i] = s->spare[0];
    }
    double *y = s->v[n->out];
    vt_spread_forward(s, &plain, s->x, y);
    const double rows = vt_spread_top(y, s->g->values[n->out].n);
    vt_spread_backward(s, &plain, s->x, s->ones);
    return sqrt(rows * vt_spread_top(s->spare[1], s->g->values[n->in[k]].n)) * (1 + 1e-9);
}

/* Bound of the norm of a product with constant matrices, input k being the other one. */
static vt_status matrices_above(const vt_spread *s, const vt_node *n, int k, double *out, vt_err *e) {
    const vt_matmul *p = n->with;
    const int rows = k ? (p->ta ? p->k : p->m) : (p->tb ? p->n : p->k),
              cols = k ? (p->ta ? p->m : p->k) : (p->tb ? p->k : p->n);
    const size_t *at = k ? p->a : p->b;
    double *work = vt_alloc((vt_norm_above_work(rows, cols) + 1) * sizeof *work), most = 0;
    if (!work) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the norm of a matrix", s->g->path);
    for (size_t i = 0; i < p->count; i++) {
        if (i && at[i] == at[i - 1]) continue;
        const double here = vt_norm_above(s->v[n->in[1 - k]] + at[i], rows, cols, cols, 9, work);
        if (!(here <= most)) most = here;
    }
    free(work);
    /* a matrix that several products share moves all of them */
    *out = most * fabs(p->alpha) * (p->apart[k] ? 1 : sqrt((double)p->count)) * (1 + 1e-15);
    return VT_OK;
}

/* Sets the norms of the operator by each input (like: another's), and the length of its value at 0. VT_E_NUMERIC: a
 * norm is not finite. VT_E_MEMORY. */
static vt_status open_affine(vt_spread *s, int node, vt_err *e) {
    const vt_node *n = &s->g->nodes[node];
    vt_spread_node *at = &s->at[node];
    at->gain = vt_heap_take(&s->heap, (size_t)n->n_in, sizeof *at->gain);
    at->most = vt_heap_take(&s->heap, (size_t)n->n_in, sizeof *at->most);
    if (!at->gain || !at->most) return vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", s->g->path);
    if (s->like) {
        memcpy(at->gain, s->like->at[node].gain, (size_t)n->n_in * sizeof *at->gain);
        memcpy(at->most, s->like->at[node].most, (size_t)n->n_in * sizeof *at->most);
    }
    for (int k = 0; !s->like && k < n->n_in; k++) {
        double norm = INFINITY;
        if (!vt_spread_moves(s, n->in[k])) continue;
        at->most[k] = at->gain[k] = sums_above(s, node, k);
        if (vt_spread_is(s, n, "MatMul")) VT_TRY(matrices_above(s, n, k, &norm, e));
        if (vt_spread_is(s, n, "Conv")) VT_TRY(vt_conv_norm_above(&norm, n->with, s->v[n->in[1]], e));
        if (norm < at->gain[k]) at->gain[k] = norm;
        if (!isfinite(at->gain[k]))
            return vt_fail(e, VT_E_NUMERIC, "%s: the norm of operator %s (node %s) is %g: there is no bound",
                           s->g->path, vt_op_at_f64(n->op)->name, *n->name ? n->name : "without name", at->gain[k]);
    }
    for (int k = 0; k < n->n_in; k++)
        s->x[k] = n->in[k] < 0 ? NULL : vt_spread_moves(s, n->in[k]) ? s->zero : s->v[n->in[k]];
    vt_spread_forward(s, n, s->x, s->v[n->out]);
    at->kept[0] = vt_spread_length(s->v[n->out], s->g->values[n->out].n); /* of its value at 0 */
    return VT_OK;
}

/* Returns how far the result may move: each input's distance times the operator's norm, and float32's error. */
static double spread_affine(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_spread_node *at = &s->at[node];
    const bool parts = vt_spread_is(s, n, "Concat");
    const double terms = vt_relax_terms(s->g, n), tiles = vt_relax_tile_terms(n);
    double size = at->kept[0], moved = 0;
    for (int k = 0; k < n->n_in; k++) {
        if (!vt_spread_moves(s, n->in[k])) continue;
        const double d = s->d[n->in[k]];
        size += at->most[k] * (s->len[n->in[k]] + d);
        moved = parts ? hypot(moved, d) : moved + at->gain[k] * d;
    }
    s->err[n->out] = vt_spread_lost(s, n, terms, size);
    if (tiles > 0) s->err[n->out] = fmax(s->err[n->out], vt_spread_lost(s, n, tiles, VT_TILE_SIZE * size));
    return moved + (s->exact ? 0 : s->err[n->out]);
}

const vt_spread_rule vt_spread_affine = {.open = open_affine, .spread = spread_affine, .affine = true};
