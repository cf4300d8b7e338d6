/* SPDX-License-Identifier: MIT */
/* 1 / (1 + e^-x). */
#include "graph/elementwise.h"

VT_UNARY(sigmoid, "Sigmoid", vt_import_unary, VT_KEEP_Y, 1 / (1 + exp(-v)), (w * (1 - w)))
