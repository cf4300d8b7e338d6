/* SPDX-License-Identifier: MIT */
/* Each channel's largest number. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) { return vt_import_pool_all(im, "ReduceMax", e); }

VT_OP_EMITS(globalmaxpool, "GlobalMaxPool", import, .summary = NULL)
