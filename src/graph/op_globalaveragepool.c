/* SPDX-License-Identifier: MIT */
/* Each channel's mean. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) { return vt_import_pool_all(im, "ReduceMean", e); }

VT_OP_EMITS(globalaveragepool, "GlobalAveragePool", import, .summary = NULL)
