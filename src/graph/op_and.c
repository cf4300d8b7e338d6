/* SPDX-License-Identifier: MIT */
/* Both. */
#include "graph/elementwise.h"

VT_TRUTH(and, "And", a != 0 && b != 0)
