/* SPDX-License-Identifier: MIT */
/* The k largest or least numbers of a side, in order; the first of equal ones comes first. */
#include <string.h>
#include "graph/reduce.h"

typedef struct best {
    size_t rows, cols, k;
    bool least;
} best;

/* Writes the places of the k best of a row to at [k], best first, by insertion. */
static void find_best(const best *b, const real *x, real *at) {
    for (size_t i = 0, n = 0; i < b->cols; i++) {
        size_t to = n;
        while (to && (b->least ? x[i] < x[(size_t)at[to - 1]] : x[i] > x[(size_t)at[to - 1]])) to--;
        if (to >= b->k) continue;
        if (n < b->k) n++;
        memmove(at + to + 1, at + to, (n - to - 1) * sizeof *at);
        at[to] = (real)i;
    }
}

static void forward(const VT_R(vt_call) *c) {
    const best *b = c->n->with;
    for (size_t r = 0; r < b->rows; r++) {
        find_best(b, c->x[0] + r * b->cols, c->work);
        for (size_t i = 0; i < b->k; i++) c->y[r * b->k + i] = c->x[0][r * b->cols + (size_t)c->work[i]];
    }
}

static void backward(const VT_R(vt_call) *c) {
    const best *b = c->n->with;
    if (!c->dx[0]) return;
    if (!c->add[0]) memset(c->dx[0], 0, b->rows * b->cols * sizeof(real));
    for (size_t r = 0; r < b->rows; r++) {
        find_best(b, c->x[0] + r * b->cols, c->work);
        for (size_t i = 0; i < b->k; i++) c->dx[0][r * b->cols + (size_t)c->work[i]] += c->dy[r * b->k + i];
    }
}

static size_t work(const vt_graph *g, const vt_node *n, bool back) {
    (void)g, (void)back;
    return ((const best *)n->with)->k + 1;
}

/* Emits output 1, the places of the k best, if the node has one and x, rows of the side, is constant; otherwise VT_OK
 * and no output. d: of the places; back: their transposition. */
static vt_status emit_places(vt_import *im, int x, const best *b, const vt_dims *d, const int *back, vt_err *e) {
    const vt_value v = *vt_import_value(im, x);
    if (vt_import_node(im)->n_out < 2) return VT_OK;
    if (!vt_value_is_constant(&v)) return VT_OK; /* what reads them names them: nothing writes them */
    int y;
    int64_t *p = vt_import_take(im, b->rows * b->k + 1, sizeof *p);
    real *row = vt_import_take(im, b->cols + b->k + 1, sizeof *row);
    if (!p || !row) return vt_import_memory(im, e);
    for (size_t r = 0; r < b->rows; r++) {
        for (size_t i = 0; i < b->cols; i++) row[i] = (real)vt_value_real(&v, r * b->cols + i);
        find_best(b, row, row + b->cols);
        for (size_t i = 0; i < b->k; i++) p[r * b->k + i] = (int64_t)row[b->cols + i];
    }
    VT_TRY(vt_emit_integers(im, d, p, &y, e));
    VT_TRY(vt_emit_transpose(im, y, back, &y, e));
    return vt_output(im, 1, y, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    int64_t k = vt_attr_int(im, "k", -1);
    int axis, count, x, y, back[VT_RANK], n = 0;
    bool has, reduced[VT_RANK] = {false};
    best *b = vt_import_take(im, 1, sizeof *b);
    if (!b) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    if (vt_import_opset(im) >= 10) VT_TRY(vt_integer_input(im, 1, &k, 1, &count, &has, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", -1), d.rank, &axis, e));
    if (k < 1 || k > d.d[axis])
        return vt_import_fail(im, e, "takes %lld of a side of %lld", (long long)k, (long long)d.d[axis]);
    if (d.d[axis] > 1 << 24 || k * d.d[axis] > (int64_t)VT_GRAPH_VALUES)
        return vt_import_fail(im, e, "takes %lld of a side of %lld, which is too much", (long long)k,
                              (long long)d.d[axis]);
    reduced[axis] = true;
    VT_TRY(vt_emit_last(im, x, reduced, &x, e));
    vt_dims last = vt_import_value(im, x)->dims;
    *b = (best){.cols = (size_t)d.d[axis], .k = (size_t)k, .least = !vt_attr_int(im, "largest", 1)};
    b->rows = vt_import_value(im, x)->n / b->cols;
    last.d[d.rank - 1] = k;
    for (int s = 0; s < d.rank; s++) back[s] = s == axis ? d.rank - 1 : n++;
    VT_TRY(vt_emit(im, vt_import_op(im), &x, 1, &last, false, b, &y, e));
    VT_TRY(vt_emit_transpose(im, y, back, &y, e));
    VT_TRY(vt_output(im, 0, y, e));
    return emit_places(im, x, b, &last, back, e);
}

extern const VT_R(vt_op) VT_R(vt_op_topk);
const VT_R(vt_op) VT_R(vt_op_topk) = {.name = "TopK",
                                      .summary = "places of constants alone",
                                      .import = import,
                                      .forward = forward,
                                      .backward = backward,
                                      .work = work,
                                      .keep = VT_KEEP_X};
