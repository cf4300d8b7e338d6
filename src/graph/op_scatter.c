/* SPDX-License-Identifier: MIT */
/* ScatterElements by its name of opsets 9 and 10. */
#include "graph/op.h"

VT_OP_EMITS(scatter, "Scatter", vt_import_scatter_elements, .summary = "constant indices", .since = 9)
