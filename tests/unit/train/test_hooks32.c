/* SPDX-License-Identifier: MIT */
/* What training hangs into a model, in float. */
#include "hooks.h"
