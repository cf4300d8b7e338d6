/* SPDX-License-Identifier: MIT */
/* Arc cosine. */
#include "graph/elementwise.h"

VT_UNARY(acos, "Acos", vt_import_unary, VT_KEEP_X, acos(v), (-1 / sqrt(1 - v * v)))
