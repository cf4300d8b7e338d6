/* SPDX-License-Identifier: MIT */
/* Where the least number of a side of a constant is. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) { return vt_import_extreme(im, true, e); }

VT_OP_EMITS(argmin, "ArgMin", import, .summary = "of constants")
