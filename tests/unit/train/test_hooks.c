/* SPDX-License-Identifier: MIT */
/* What training hangs into a model, in double. */
#define VT_DOUBLE
#include "hooks.h"
