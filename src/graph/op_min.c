/* SPDX-License-Identifier: MIT */
/* The smaller; where both are equal each gets half of the gradient, as in PyTorch. */
#include "graph/elementwise.h"

VT_BINARY(min, "Min", vt_import_variadic, VT_KEEP_X, fmin(a, b),
          (a < b    ? (real)1
           : a == b ? (real)0.5
                    : 0),
          (b < a    ? (real)1
           : a == b ? (real)0.5
                    : 0))
