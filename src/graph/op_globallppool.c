/* SPDX-License-Identifier: MIT */
/* The p-norm of all pixels of each channel. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t p = vt_attr_int(im, "p", 2);
    if (p != 1 && p != 2) return vt_import_fail(im, e, "has p=%lld, must be 1 or 2", (long long)p);
    return vt_import_pool_all(im, p == 1 ? "ReduceL1" : "ReduceL2", e);
}

VT_OP_EMITS(globallppool, "GlobalLpPool", import, .summary = "p 1 and 2")
