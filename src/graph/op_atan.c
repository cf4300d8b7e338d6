/* SPDX-License-Identifier: MIT */
/* Arc tangent. */
#include "graph/elementwise.h"

VT_UNARY(atan, "Atan", vt_import_unary, VT_KEEP_X, atan(v), (1 / (1 + v * v)))
