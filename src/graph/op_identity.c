/* SPDX-License-Identifier: MIT */
/* x itself. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    VT_TRY(vt_input_count(im, 1, 1, e));
    return vt_output(im, 0, vt_input(im, 0), e);
}

VT_OP_EMITS(identity, "Identity", import, .summary = NULL)
