/* SPDX-License-Identifier: MIT */
/* One of both. */
#include "graph/elementwise.h"

VT_TRUTH(xor, "Xor", (a != 0) != (b != 0))
