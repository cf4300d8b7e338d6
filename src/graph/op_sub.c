/* SPDX-License-Identifier: MIT */
/* a - b. */
#include "graph/elementwise.h"

VT_BINARY(sub, "Sub", vt_import_binary, 0, a - b, 1, -1)
