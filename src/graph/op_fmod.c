/* SPDX-License-Identifier: MIT */
/* The remainder with the dividend's sign, of Mod. */
#include "graph/elementwise.h"

VT_BINARY(fmod, "(fmod)", NULL, VT_KEEP_X, fmod(a, b), 1, (-trunc(a / b)))
