/* SPDX-License-Identifier: MIT */
/* x itself: an evaluation drops nothing, nor does a ratio of 0. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t training[1] = {0};
    int n;
    bool has;
    VT_TRY(vt_input_count(im, 1, 3, e));
    VT_TRY(vt_integer_input(im, 2, training, 1, &n, &has, e));
    const vt_value *ratio = vt_input(im, 1) < 0 ? NULL : vt_import_value(im, vt_input(im, 1));
    const bool drops = !ratio || !vt_value_is_constant(ratio) || ratio->n != 1 || vt_value_real(ratio, 0) != 0;
    if (training[0] && drops) return vt_import_fail(im, e, "is in training mode, which draws at random");
    VT_TRY(vt_output(im, 0, vt_input(im, 0), e));
    const vt_value x = *vt_import_value(im, vt_input(im, 0)); /* the mask: all are kept */
    int64_t *p = vt_import_node(im)->n_out > 1 ? vt_import_take(im, x.n + 1, sizeof *p) : NULL;
    if (vt_import_node(im)->n_out < 2) return VT_OK;
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < x.n; i++) p[i] = 1;
    VT_TRY(vt_emit_integers(im, &x.dims, p, &n, e));
    return vt_output(im, 1, n, e);
}

VT_OP_EMITS(dropout, "Dropout", import, .summary = NULL)
