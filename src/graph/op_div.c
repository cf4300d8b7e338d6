/* SPDX-License-Identifier: MIT */
/* a / b; of integers the whole part. */
#include "graph/elementwise.h"

VT_BINARY(div, "Div", vt_import_binary, VT_KEEP_X | VT_KEEP_Y, whole ? trunc(a / b) : a / b, (1 / b), (-w / b))
