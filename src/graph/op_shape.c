/* SPDX-License-Identifier: MIT */
/* The sides of x. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    VT_TRY(vt_input_count(im, 1, 1, e));
    const vt_dims d = vt_import_value(im, vt_input(im, 0))->dims;
    int64_t from = vt_attr_int(im, "start", 0), to = vt_attr_int(im, "end", d.rank);
    int64_t *p = vt_import_take(im, VT_RANK, sizeof *p), n = 0;
    int y;
    if (!p) return vt_import_memory(im, e);
    if (from < 0) from += d.rank;
    if (to < 0) to += d.rank;
    for (int64_t k = from < 0 ? 0 : from; k < to && k < d.rank; k++) p[n++] = d.d[k];
    VT_TRY(vt_emit_integers(im, &(vt_dims){1, {n}}, p, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(shape, "Shape", import, .summary = NULL)
