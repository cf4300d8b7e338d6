/* SPDX-License-Identifier: MIT */
/* x times (x/6 + 1/2, cut to [0,1]). */
#include "graph/elementwise.h"

VT_UNARY(hardswish, "HardSwish", vt_import_unary, VT_KEEP_X, v *fmax((real)0, fmin((real)1, v / 6 + (real)0.5)),
         (v <= -3  ? 0
          : v >= 3 ? (real)1
                   : v / 3 + (real)0.5),
         .since = 14)
