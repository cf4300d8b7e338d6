/* SPDX-License-Identifier: MIT */
/* 1 / (1 + e^-x). */
#include "graph/elementwise.h"
#include "nn/vecmath.h"

VT_UNARY(sigmoid, "Sigmoid", vt_import_unary, VT_KEEP_Y, 1 / (1 + vt_exp(v < -88 ? 88 : -v)), (w * (1 - w)))
