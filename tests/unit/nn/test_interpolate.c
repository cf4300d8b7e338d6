/* SPDX-License-Identifier: MIT */
/* In double: the same numbers as PyTorch's; only the order of at most 64 x 64 summands differs. */
#define VT_DOUBLE
#define TOL 1e-13
#include "interpolate.h"
