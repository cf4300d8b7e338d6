/* SPDX-License-Identifier: MIT */
/* Is a <= b? */
#include "graph/elementwise.h"

VT_TRUTH(lessorequal, "LessOrEqual", a <= b)
