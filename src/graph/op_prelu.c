/* SPDX-License-Identifier: MIT */
/* a above 0, b a below. */
#include "graph/elementwise.h"

VT_BINARY(prelu, "PRelu", vt_import_binary, VT_KEEP_X, a >= 0 ? a : b * a, (a > 0 ? (real)1 : b), (a > 0 ? 0 : a))
