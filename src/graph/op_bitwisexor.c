/* SPDX-License-Identifier: MIT */
/* Bit by bit, of constant integers. */
#include "graph/elementwise.h"

VT_BITS(bitwisexor, "BitwiseXor", vt_import_bits, (real)((int64_t)a ^ (int64_t)b), .summary = "of constants",
        .since = 18)
