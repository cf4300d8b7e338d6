/* SPDX-License-Identifier: MIT */
/* Is a > b? */
#include "graph/elementwise.h"

VT_TRUTH(greater, "Greater", a > b)
