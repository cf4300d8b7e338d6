/* SPDX-License-Identifier: MIT */
/* One or both. */
#include "graph/elementwise.h"

VT_TRUTH(or, "Or", a != 0 || b != 0)
