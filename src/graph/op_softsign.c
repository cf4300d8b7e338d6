/* SPDX-License-Identifier: MIT */
/* x / (1 + |x|). */
#include "graph/elementwise.h"

VT_UNARY(softsign, "Softsign", vt_import_unary, VT_KEEP_X, v / (1 + fabs(v)), (1 / ((1 + fabs(v)) * (1 + fabs(v)))))
