/* SPDX-License-Identifier: MIT */
/* The larger; where both are equal each gets half of the gradient, as in PyTorch. */
#include "graph/elementwise.h"

VT_BINARY(max, "Max", vt_import_variadic, VT_KEEP_X, fmax(a, b),
          (a > b    ? (real)1
           : a == b ? (real)0.5
                    : 0),
          (b > a    ? (real)1
           : a == b ? (real)0.5
                    : 0))
