/* SPDX-License-Identifier: MIT */
/* e^x over its sum, along a side (before opset 13: along all sides from the axis on). */
#include <string.h>
#include <tgmath.h>
#include "graph/reduce.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; r < s->rows; r++) {
        const real *x = c->x[0] + r * s->cols;
        real *y = c->y + r * s->cols, most = x[0], sum = 0;
        for (size_t i = 1; i < s->cols; i++) most = x[i] > most ? x[i] : most;
        for (size_t i = 0; i < s->cols; i++) y[i] = exp(x[i] - most), sum += y[i];
        for (size_t i = 0; i < s->cols; i++) y[i] /= sum;
    }
}

static void backward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; c->dx[0] && r < s->rows; r++) {
        const real *y = c->y + r * s->cols, *dy = c->dy + r * s->cols;
        real dot = 0;
        for (size_t i = 0; i < s->cols; i++) dot += y[i] * dy[i];
        for (size_t i = 0; i < s->cols; i++) VT_GIVE(c, 0, r * s->cols + i, y[i] * (dy[i] - dot));
    }
}

#ifndef VT_DOUBLE
vt_status vt_import_rows(vt_import *im, vt_err *e) {
    const vt_op_f32 *op = vt_op_at_f32(vt_import_op(im));
    const bool rest = vt_import_opset(im) < 13; /* flattened to a matrix at the axis */
    int axis, x, y;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", rest ? 1 : -1), d.rank, &axis, e));
    for (int k = axis; k < (rest ? d.rank : axis + 1); k++) reduced[k] = true;
    VT_TRY(vt_emit_along(im, op->name, x, reduced, NULL, &y, e));
    return vt_output(im, 0, y, e);
}
#endif

extern const VT_R(vt_op) VT_R(vt_op_softmax);
const VT_R(vt_op) VT_R(vt_op_softmax) = {.name = "Softmax",
                                         .import = vt_import_rows,
                                         .forward = forward,
                                         .backward = backward,
                                         .keep = VT_KEEP_Y};
