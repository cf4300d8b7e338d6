/* SPDX-License-Identifier: MIT */
/* a where the condition holds, else b, all broadcast together. */
#include "graph/elementwise.h"

static void forward(const VT_R(vt_call) *c) {
    for (vt_rows r = vt_rows_of(c->n->with); vt_rows_next(&r);) {
        const int64_t s0 = vt_rows_stride(&r, 0), s1 = vt_rows_stride(&r, 1), s2 = vt_rows_stride(&r, 2);
        const real *holds = c->x[0] + r.at[0], *a = c->x[1] + r.at[1], *b = c->x[2] + r.at[2];
        for (int64_t i = 0; i < (int64_t)r.n; i++) c->y[r.y + (size_t)i] = holds[i * s0] != 0 ? a[i * s1] : b[i * s2];
    }
}

static void backward(const VT_R(vt_call) *c) {
    VT_R(vt_zero)(c, 0), VT_R(vt_zero)(c, 1), VT_R(vt_zero)(c, 2);
    for (vt_rows r = vt_rows_of(c->n->with); vt_rows_next(&r);) {
        const real *holds = c->x[0] + r.at[0];
        for (int64_t i = 0; i < (int64_t)r.n; i++) {
            const int k = holds[i * vt_rows_stride(&r, 0)] != 0 ? 1 : 2;
            if (c->dx[k]) c->dx[k][(int64_t)r.at[k] + i * vt_rows_stride(&r, k)] += c->dy[r.y + (size_t)i];
        }
    }
}

static vt_status import(vt_import *im, vt_err *e) {
    const int in[3] = {vt_input(im, 0), vt_input(im, 1), vt_input(im, 2)};
    int y;
    VT_TRY(vt_input_count(im, 3, 3, e));
    const bool integer = vt_import_value(im, in[1])->integer && vt_import_value(im, in[2])->integer;
    VT_TRY(vt_emit_broadcast(im, vt_import_op(im), in, 3, integer, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_where);
const VT_R(vt_op) VT_R(vt_op_where) = {.name = "Where",
                                       .since = 9,
                                       .import = import,
                                       .forward = forward,
                                       .backward = backward,
                                       .keep = VT_KEEP_X,
                                       .each = VT_EACH_BROADCAST};
