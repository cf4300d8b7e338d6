/* SPDX-License-Identifier: MIT */
/* log(1 + e^x). */
#include "graph/elementwise.h"

VT_UNARY(softplus, "Softplus", vt_import_unary, VT_KEEP_X, fmax(v, (real)0) + log1p(exp(-fabs(v))), (1 / (1 + exp(-v))))
