/* SPDX-License-Identifier: MIT */
/* Numbers from start to limit by delta. */
#include <math.h>
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const vt_value *v[3];
    bool integer = true;
    int y;
    VT_TRY(vt_input_count(im, 3, 3, e));
    for (int k = 0; k < 3; k++) {
        v[k] = vt_import_value(im, vt_input(im, k));
        if (!vt_value_is_constant(v[k]) || v[k]->n != 1)
            return vt_import_fail(im, e, "has an input that is no constant number");
        integer = integer && v[k]->integers;
    }
    const double from = vt_value_real(v[0], 0), by = vt_value_real(v[2], 0),
                 n = ceil((vt_value_real(v[1], 0) - from) / by);
    if (!(fabs(n) <= (double)VT_GRAPH_VALUES)) return vt_import_fail(im, e, "has %g numbers", n);
    const vt_dims d = {1, {n > 0 ? (int64_t)n : 0}};
    double *p = vt_import_take(im, (size_t)d.d[0] + 1, sizeof *p);
    int64_t *q = vt_import_take(im, (size_t)d.d[0] + 1, sizeof *q);
    if (!p || !q) return vt_import_memory(im, e);
    for (int64_t i = 0; i < d.d[0]; i++) p[i] = from + (double)i * by, q[i] = (int64_t)p[i];
    VT_TRY(integer ? vt_emit_integers(im, &d, q, &y, e) : vt_emit_reals(im, &d, p, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(range, "Range", import, .summary = NULL)
