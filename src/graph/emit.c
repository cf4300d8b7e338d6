/* SPDX-License-Identifier: MIT */
/* What operators' imports emit (graph/import.h, graph/reduce.h): elementwise nodes with their broadcasting, moves of
 * numbers from place to place, sides put last for reductions. */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "graph/elementwise.h"
#include "graph/move.h"
#include "graph/op.h"
#include "graph/reduce.h"

static vt_dims dims_of(const vt_import *im, int v) { return vt_import_value(im, v)->dims; }

/* Sets stride [d->rank] to the strides of a value of sides x beside sides d, 0 where it is broadcast; false: it does
 * not fit. */
static bool take_strides(int64_t *stride, const vt_dims *d, const vt_dims *x) {
    int64_t step = 1;
    for (int k = 0; k < d->rank; k++) stride[k] = 0;
    for (int k = x->rank - 1; k >= 0; k--) {
        int to = k + d->rank - x->rank;
        if (x->d[k] != d->d[to] && x->d[k] != 1) return false;
        stride[to] = x->d[k] == 1 ? 0 : step;
        step *= x->d[k];
    }
    return true;
}

/* Sets *d to the sides of n values broadcast together; VT_E_FORMAT if they do not fit or one is left out. */
static vt_status common_dims(vt_import *im, const int *in, int n, vt_dims *d, vt_err *e) {
    char a[200], b[200];
    *d = (vt_dims){0};
    for (int k = 0; k < n; k++) {
        if (in[k] < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
        const vt_dims x = dims_of(im, in[k]), old = *d;
        d->rank = x.rank > old.rank ? x.rank : old.rank;
        for (int i = 0; i < d->rank; i++) {
            int64_t p = i < d->rank - old.rank ? 1 : old.d[i - d->rank + old.rank];
            int64_t q = i < d->rank - x.rank ? 1 : x.d[i - d->rank + x.rank];
            if (p != q && p != 1 && q != 1)
                return vt_import_fail(im, e, "has inputs of sides %s and %s, which do not fit",
                                      vt_dims_text(&old, a, sizeof a), vt_dims_text(&x, b, sizeof b));
            d->d[i] = p == 1 ? q : p;
        }
    }
    return VT_OK;
}

/* Joins neighbouring sides that lie one after another in every input, and drops those of length 1. */
static void join_sides(vt_broadcast *b) {
    int to = 0;
    for (int d = 0; d < b->rank; d++) {
        if (b->d[d] == 1 && b->rank > 1) continue;
        bool joins = to > 0;
        for (int k = 0; joins && k < VT_SIDES_MOST; k++) joins = b->stride[k][to - 1] == b->stride[k][d] * b->d[d];
        if (joins)
            b->d[to - 1] *= b->d[d];
        else
            b->d[to] = b->d[d], to++;
        for (int k = 0; k < VT_SIDES_MOST; k++) b->stride[k][to - 1] = b->stride[k][d];
    }
    b->rank = to;
}

vt_status vt_emit_broadcast(vt_import *im, int op, const int *in, int n, bool integer, int *y, vt_err *e) {
    vt_dims d;
    VT_TRY(common_dims(im, in, n, &d, e));
    vt_broadcast *b = vt_import_take(im, 1, sizeof *b);
    if (!b) return vt_import_memory(im, e);
    b->rank = d.rank;
    memcpy(b->d, d.d, sizeof b->d);
    for (int k = 0; k < n; k++) {
        const vt_dims x = dims_of(im, in[k]);
        take_strides(b->stride[k], &d, &x);
    }
    join_sides(b);
    return vt_emit(im, op, in, n, &d, integer, b, y, e);
}

vt_status vt_emit_binary(vt_import *im, const char *op, int a, int b, int *y, vt_err *e) {
    const int in[2] = {a, b};
    bool integer = vt_import_value(im, a)->integer && vt_import_value(im, b)->integer;
    return vt_emit_broadcast(im, vt_op_find_f32(op), in, 2, integer, y, e);
}

vt_status vt_emit_unary(vt_import *im, const char *op, int x, const double *with, int *y, vt_err *e) {
    const vt_dims d = dims_of(im, x);
    double *p = NULL;
    if (with) {
        if (!(p = vt_import_take(im, 2, sizeof *p))) return vt_import_memory(im, e);
        memcpy(p, with, 2 * sizeof *p);
    }
    return vt_emit(im, vt_op_find_f32(op), &x, 1, &d, vt_import_value(im, x)->integer, p, y, e);
}

vt_status vt_import_unary(vt_import *im, vt_err *e) {
    const vt_op_f32 *op = vt_op_at_f32(vt_import_op(im));
    int x = vt_input(im, 0), y;
    double with[2] = {0};
    VT_TRY(vt_input_count(im, 1, 1, e));
    for (int k = 0; k < 2 && op->attr[k].name; k++) with[k] = vt_attr_real(im, op->attr[k].name, op->attr[k].value);
    VT_TRY(vt_emit_unary(im, op->name, x, with, &y, e));
    return vt_output(im, 0, y, e);
}

/* Sets *b to itself with sides of length 1 added, if the file is older than opset 7 and says from which side of a on
 * b's stand; later ones: the last. */
static vt_status place_sides(vt_import *im, int a, int *b, vt_err *e) {
    int64_t named;
    int axis;
    if (vt_import_opset(im) >= 7 || !vt_onnx_int(vt_import_node(im), "axis", &named)) return VT_OK;
    vt_dims d = dims_of(im, *b);
    const int rank = dims_of(im, a).rank;
    VT_TRY(vt_axis(im, named, rank, &axis, e));
    while (d.rank < rank - axis) d.d[d.rank++] = 1;
    return vt_emit_reshape(im, *b, &d, b, e);
}

vt_status vt_import_binary(vt_import *im, vt_err *e) {
    int y, b = vt_input(im, 1);
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(place_sides(im, vt_input(im, 0), &b, e));
    VT_TRY(vt_emit_binary(im, vt_op_at_f32(vt_import_op(im))->name, vt_input(im, 0), b, &y, e));
    return vt_output(im, 0, y, e);
}

vt_status vt_import_truth(vt_import *im, vt_err *e) {
    const int in[2] = {vt_input(im, 0), vt_input(im, 1)};
    int y;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_emit_broadcast(im, vt_import_op(im), in, 2, true, &y, e));
    return vt_output(im, 0, y, e);
}

vt_status vt_import_variadic(vt_import *im, vt_err *e) {
    int y = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 1, 1000, e));
    for (int k = 1; k < vt_import_node(im)->n_in; k++)
        VT_TRY(vt_emit_binary(im, vt_op_at_f32(vt_import_op(im))->name, y, vt_input(im, k), &y, e));
    return vt_output(im, 0, y, e);
}

/* Sets *y to a constant of integers x moved by map, exact, of sides dims. */
static vt_status move_integers(vt_import *im, const int64_t *x, const vt_dims *dims, const int32_t *map, double fill,
                               int *y, vt_err *e) {
    size_t n;
    if (!vt_dims_count(dims, &n)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    int64_t *p = vt_import_take(im, n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < n; i++) p[i] = map[i] < 0 ? (int64_t)fill : x[map[i]];
    return vt_emit_integers(im, dims, p, y, e);
}

vt_status vt_emit_map(vt_import *im, int x, const vt_dims *dims, int32_t *map, double fill, int *y, vt_err *e) {
    const vt_value *v = vt_import_value(im, x);
    vt_graph *g = vt_import_graph(im);
    if (v->integers) return move_integers(im, v->integers, dims, map, fill, y, e);
    size_t n;
    if (!vt_dims_count(dims, &n)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    bool same = n == v->n;
    for (size_t i = 0; same && i < n; i++) same = map[i] == (int32_t)i;
    if (same) return vt_emit_reshape(im, x, dims, y, e);
    vt_move *m = vt_import_take(im, 1, sizeof *m);
    if (!m) return vt_import_memory(im, e);
    /* a move of a move is one, unless both fill with different numbers */
    const int root = v->alias >= 0 ? v->alias : x, move = vt_op_find_f32("(move)");
    if (g->values[root].node >= 0 && g->nodes[g->values[root].node].op == move) {
        const vt_node *first = &g->nodes[g->values[root].node];
        const vt_move *before = first->with;
        bool fills = false;
        for (size_t i = 0; i < n; i++) fills = fills || map[i] < 0;
        if (!fills || before->fill == fill) {
            for (size_t i = 0; i < n; i++)
                if (map[i] >= 0) map[i] = before->map[map[i]];
            return vt_emit_map(im, first->in[0], dims, map, fills ? fill : before->fill, y, e);
        }
    }
    *m = (vt_move){.map = map, .n = n, .run = 1, .fill = fill};
    vt_move_runs(m);
    return vt_emit(im, move, &x, 1, dims, false, m, y, e);
}

vt_status vt_emit_move(vt_import *im, int x, const vt_dims *dims, int64_t *const *table, double fill, int *y,
                       vt_err *e) {
    size_t n;
    if (!vt_dims_count(dims, &n)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    int32_t *map = vt_import_take(im, n + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    int64_t at[VT_RANK] = {0};
    for (size_t i = 0; i < n; i++) {
        int64_t from = 0;
        for (int d = 0; d < dims->rank && from >= 0; d++) {
            const int64_t part = table[d][at[d]];
            from = part == VT_MOVE_FILL ? -1 : from + part;
        }
        map[i] = (int32_t)from;
        for (int d = dims->rank - 1; d >= 0 && ++at[d] == dims->d[d]; d--) at[d] = 0;
    }
    return vt_emit_map(im, x, dims, map, fill, y, e);
}

/* Tables of offsets for each side of the result, freed together. */
typedef struct tables {
    int64_t *of[VT_RANK];
    int64_t *block;
} tables;

/* Sets t->of to an uninitialised table for each side of d, in t->block, which the caller frees. */
static vt_status take_tables(vt_import *im, tables *t, const vt_dims *d, vt_err *e) {
    size_t n = 1, at = 0;
    for (int k = 0; k < d->rank; k++) n += (size_t)(d->d[k] > 0 ? d->d[k] : 0);
    t->block = vt_heap_fits(&vt_import_graph(im)->heap, n * sizeof *t->block) ? vt_alloc(n * sizeof *t->block) : NULL;
    if (!t->block) return vt_import_memory(im, e);
    for (int k = 0; k < d->rank; k++) t->of[k] = t->block + at, at += (size_t)d->d[k];
    return VT_OK;
}

/* Sets step to the stride of each side, in numbers. */
static void steps_of(const vt_dims *d, int64_t step[VT_RANK]) {
    int64_t n = 1;
    for (int k = d->rank - 1; k >= 0; k--) step[k] = n, n *= d->d[k];
}

/* The result's side k is x's side from[k] (-1: none, broadcast), its number i x's first[k] + i step[k]. */
vt_status vt_emit_affine(vt_import *im, int x, const vt_dims *dims, const int *from, const int64_t *first,
                         const int64_t *step, int *y, vt_err *e) {
    const vt_dims d = dims_of(im, x);
    int64_t steps[VT_RANK];
    size_t n;
    tables t;
    if (!vt_dims_count(dims, &n)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    steps_of(&d, steps);
    VT_TRY(take_tables(im, &t, dims, e));
    for (int k = 0; k < dims->rank; k++)
        for (int64_t i = 0; i < dims->d[k]; i++)
            t.of[k][i] = from[k] < 0 ? 0 : ((first ? first[k] : 0) + i * (step ? step[k] : 1)) * steps[from[k]];
    vt_status s = vt_emit_move(im, x, dims, t.of, 0, y, e);
    free(t.block);
    return s;
}

vt_status vt_emit_transpose(vt_import *im, int x, const int *order, int *y, vt_err *e) {
    const vt_dims d = dims_of(im, x);
    vt_dims to = {.rank = d.rank};
    for (int k = 0; k < d.rank; k++) to.d[k] = d.d[order[k]];
    return vt_emit_affine(im, x, &to, order, NULL, NULL, y, e);
}

vt_status vt_emit_slice(vt_import *im, int x, int axis, int64_t from, int64_t n, int64_t step, int *y, vt_err *e) {
    vt_dims d = dims_of(im, x);
    int same[VT_RANK];
    int64_t first[VT_RANK] = {0}, steps[VT_RANK];
    for (int k = 0; k < d.rank; k++) same[k] = k, steps[k] = 1;
    if (from == 0 && n == d.d[axis] && step == 1) {
        *y = x;
        return VT_OK;
    }
    first[axis] = from, steps[axis] = step, d.d[axis] = n;
    return vt_emit_affine(im, x, &d, same, first, steps, y, e);
}

vt_status vt_emit_expand(vt_import *im, int x, const vt_dims *dims, int *y, vt_err *e) {
    const vt_dims d = dims_of(im, x);
    char a[200], b[200];
    int from[VT_RANK];
    for (int k = 0; k < dims->rank; k++) {
        int at = k - dims->rank + d.rank;
        from[k] = at < 0 || d.d[at] == 1 ? -1 : at;
        if (from[k] >= 0 && d.d[at] != dims->d[k])
            return vt_import_fail(im, e, "expands sides %s to %s", vt_dims_text(&d, a, sizeof a),
                                  vt_dims_text(dims, b, sizeof b));
    }
    return vt_emit_affine(im, x, dims, from, NULL, NULL, y, e);
}

vt_status vt_emit_concat(vt_import *im, const int *in, int n, int axis, int *y, vt_err *e) {
    char a[200], b[200];
    vt_dims d = dims_of(im, in[0]);
    bool integer = true;
    size_t count;
    for (int k = 0; k < n; k++) {
        vt_dims x = dims_of(im, in[k]);
        integer = integer && vt_import_value(im, in[k])->integers;
        if (k == 0) continue;
        int64_t side = x.rank == d.rank ? x.d[axis] : 0;
        if (x.rank == d.rank) x.d[axis] = d.d[axis];
        if (!vt_dims_equal(&x, &d))
            return vt_import_fail(im, e, "joins sides %s and %s", vt_dims_text(&d, a, sizeof a),
                                  vt_dims_text(&x, b, sizeof b));
        d.d[axis] += side;
        if (!vt_dims_count(&d, &count)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    }
    if (n == 1) {
        *y = in[0];
        return VT_OK;
    }
    vt_concat *c = vt_import_take(im, 1, sizeof *c);
    size_t *part = vt_import_take(im, (size_t)n, sizeof *part);
    if (!c || !part) return vt_import_memory(im, e);
    size_t inner = 1;
    *c = (vt_concat){.outer = 1, .part = part};
    for (int k = 0; k < axis; k++) c->outer *= (size_t)d.d[k];
    for (int k = axis + 1; k < d.rank; k++) inner *= (size_t)d.d[k];
    for (int k = 0; k < n; k++) part[k] = inner * (size_t)dims_of(im, in[k]).d[axis];
    if (!integer) return vt_emit(im, vt_op_find_f32("Concat"), in, n, &d, false, c, y, e);
    if (!vt_dims_count(&d, &count)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    int64_t *p = vt_import_take(im, count + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    size_t at = 0;
    for (size_t o = 0; o < c->outer; o++)
        for (int k = 0; k < n; k++)
            for (size_t i = 0; i < part[k]; i++) p[at++] = vt_import_value(im, in[k])->integers[o * part[k] + i];
    return vt_emit_integers(im, &d, p, y, e);
}

vt_status vt_emit_last(vt_import *im, int x, const bool reduced[VT_RANK], int *y, vt_err *e) {
    const vt_dims d = dims_of(im, x);
    int order[VT_RANK], n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < d.rank; k++)
            if (reduced[k] == (pass == 1)) order[n++] = k;
    return vt_emit_transpose(im, x, order, y, e);
}

/* Returns rows and columns if the sides in `reduced` are last; eps and scale 0. */
static vt_row_size row_size(const vt_dims *d, const bool reduced[VT_RANK]) {
    vt_row_size s = {.rows = 1, .cols = 1};
    for (int k = 0; k < d->rank; k++) *(reduced[k] ? &s.cols : &s.rows) *= (size_t)d->d[k];
    return s;
}

vt_status vt_emit_reduce(vt_import *im, const char *op, int x, const bool reduced[VT_RANK], bool keep, int *y,
                         vt_err *e) {
    const vt_dims d = dims_of(im, x);
    vt_dims to = {0};
    for (int k = 0; k < d.rank; k++)
        if (!reduced[k] || keep) to.d[to.rank++] = reduced[k] ? 1 : d.d[k];
    vt_row_size *s = vt_import_take(im, 1, sizeof *s);
    if (!s) return vt_import_memory(im, e);
    *s = row_size(&d, reduced);
    if (!s->cols) return vt_import_fail(im, e, "reduces a side of length 0");
    const bool integer = vt_import_value(im, x)->integer;
    VT_TRY(vt_emit_last(im, x, reduced, &x, e));
    return vt_emit(im, vt_op_find_f32(op), &x, 1, &to, integer, s, y, e);
}

vt_status vt_emit_along(vt_import *im, const char *op, int x, const bool reduced[VT_RANK], const double *eps, int *y,
                        vt_err *e) {
    const vt_dims d = dims_of(im, x);
    int back[VT_RANK], n = 0;
    vt_row_size *s = vt_import_take(im, 1, sizeof *s);
    if (!s) return vt_import_memory(im, e);
    *s = row_size(&d, reduced);
    if (eps) s->eps = *eps;
    if (!s->cols) return vt_import_fail(im, e, "works along a side of length 0");
    VT_TRY(vt_emit_last(im, x, reduced, &x, e));
    const vt_dims last = dims_of(im, x);
    VT_TRY(vt_emit(im, vt_op_find_f32(op), &x, 1, &last, false, s, &x, e));
    for (int pass = 0; pass < 2; pass++) /* side k went to place back[k] */
        for (int k = 0; k < d.rank; k++)
            if (reduced[k] == (pass == 1)) back[k] = n++;
    return vt_emit_transpose(im, x, back, y, e);
}

vt_status vt_import_reduce(vt_import *im, vt_err *e) {
    const vt_op_f32 *op = vt_op_at_f32(vt_import_op(im));
    int64_t axes[VT_RANK];
    int n, x = vt_input(im, 0), y;
    bool has, reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_integers(im, "axes", 1, axes, VT_RANK, &n, &has, e));
    const int rank = dims_of(im, x).rank;
    const bool each = n == 0 && vt_attr_int(im, "noop_with_empty_axes", 0); /* number is reduced by itself */
    for (int k = 0; k < (each ? 0 : n ? n : rank); k++) {
        int a = k;
        if (n) VT_TRY(vt_axis(im, axes[k], rank, &a, e));
        reduced[a] = true;
    }
    VT_TRY(vt_emit_reduce(im, op->name, x, reduced, vt_attr_int(im, "keepdims", 1) != 0, &y, e));
    return vt_output(im, 0, y, e);
}

vt_status vt_import_pool_all(vt_import *im, const char *op, vt_err *e) {
    int x, y;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = dims_of(im, x).rank;
    if (rank < 3) return vt_import_fail(im, e, "has an input of %d sides", rank);
    for (int k = 2; k < rank; k++) reduced[k] = true;
    VT_TRY(vt_emit_reduce(im, op, x, reduced, true, &y, e));
    return vt_output(im, 0, y, e);
}

vt_status vt_emit_beside_channels(vt_import *im, int v, int rank, int *y, vt_err *e) {
    vt_dims d = {.rank = rank - 1, .d = {(int64_t)vt_import_value(im, v)->n}};
    for (int k = 1; k < d.rank; k++) d.d[k] = 1;
    return vt_emit_reshape(im, v, &d, y, e);
}
