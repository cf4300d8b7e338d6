/* SPDX-License-Identifier: MIT */
/* e^x over its sum, along a side (before opset 13: along all sides from the axis on). */
#include "graph/reduce.h"
#include "nn/nn.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    VT_R(vt_softmax_forward)
    (c->y, c->x[0], s->scale != 0 ? (real)s->scale : 1, (int)s->rows, (int)s->cols, (int)s->cols);
}

static void backward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    const real scale = s->scale != 0 ? (real)s->scale : 1;
    real *to = c->add[0] ? c->work : c->dx[0];
    if (!c->dx[0]) return;
    VT_R(vt_softmax_backward)(to, c->dy, c->y, scale, (int)s->rows, (int)s->cols, (int)s->cols);
    if (c->add[0]) VT_R(vt_add_to)(c->dx[0], to, s->rows * s->cols);
}

static size_t work(const vt_graph *g, const vt_node *n, bool back) { return back ? g->values[n->out].n : 0; }

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
                                         .work = work,
                                         .keep = VT_KEEP_Y};
