/* SPDX-License-Identifier: MIT */
/* a above 0, b a below. */
#include "graph/elementwise.h"

/* Imports a PRelu; before opset 7 its slopes are one a channel, [C]. */
static vt_status import_prelu(vt_import *im, vt_err *e) {
    int x, y, slope = vt_input(im, 1);
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    if (vt_import_opset(im) < 7 && rank > 1 && vt_import_value(im, slope)->n > 1)
        VT_TRY(vt_emit_beside_channels(im, slope, rank, &slope, e));
    VT_TRY(vt_emit_binary(im, "PRelu", x, slope, &y, e));
    return vt_output(im, 0, y, e);
}

VT_BINARY(prelu, "PRelu", import_prelu, VT_KEEP_X, a >= 0 ? a : b * a, (a > 0 ? (real)1 : b), (a > 0 ? 0 : a))
