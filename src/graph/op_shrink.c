/* SPDX-License-Identifier: MIT */
/* 0 within lambd of 0, else x with `bias` taken from its size. */
#include "graph/elementwise.h"

VT_UNARY(shrink, "Shrink", vt_import_unary, VT_KEEP_X, v < -p ? v + q : (v > p ? v - q : 0),
         (v < -p || v > p ? (real)1 : 0), .since = 9, .attr = {{"lambd", 0.5}, {"bias", 0}})
