/* SPDX-License-Identifier: MIT */
/* A name map to fill in: a line for every tensor of a state dict, with its shape and ? for its name, and a line for
 * every value that no tensor tells. vt_rename_parse refuses it while a ? is left. */
#pragma once

#include <stdio.h>
#include "checkpoint/names.h"

enum { VT_MAP_TEMPLATE_MOST = 4096 }; /* tensors; looking for what repeats takes their square */

/* st as it was read, before any names were applied. */
vt_status vt_map_template(FILE *f, const vt_tensors *st, vt_err *e);
