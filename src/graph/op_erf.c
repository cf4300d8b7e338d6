/* SPDX-License-Identifier: MIT */
/* The error function. */
#include "graph/elementwise.h"

VT_UNARY(erf, "Erf", vt_import_unary, VT_KEEP_X, erf(v), ((real)1.12837916709551257390 * exp(-v * v)))
