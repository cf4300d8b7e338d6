/* SPDX-License-Identifier: MIT */
/* Sine. */
#include "graph/elementwise.h"

VT_UNARY(sin, "Sin", vt_import_unary, VT_KEEP_X, sin(v), cos(v))
