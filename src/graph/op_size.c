/* SPDX-License-Identifier: MIT */
/* How many numbers x has. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    VT_TRY(vt_input_count(im, 1, 1, e));
    int64_t *p = vt_import_take(im, 1, sizeof *p);
    int y;
    if (!p) return vt_import_memory(im, e);
    *p = (int64_t)vt_import_value(im, vt_input(im, 0))->n;
    VT_TRY(vt_emit_integers(im, &(vt_dims){0}, p, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(size, "Size", import, .summary = NULL)
