/* SPDX-License-Identifier: MIT */
/* Arc sine. */
#include "graph/elementwise.h"

VT_UNARY(asin, "Asin", vt_import_unary, VT_KEEP_X, asin(v), (1 / sqrt(1 - v * v)))
