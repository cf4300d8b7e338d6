/* SPDX-License-Identifier: MIT */
/* Which numbers of a shift network's tokens (models/arch_shift.c) a block reads where: its computation and its export
 * agree on it. */
#pragma once

#include "models/vit.h"

/* A block's own tensors. */
enum { VT_SHIFT_W, VT_SHIFT_B };

enum { VT_SHIFTS = 9 }; /* steps to a token itself and its neighbours; channels of step k: [k D / 9, (k + 1) D / 9) */

/* Returns the first channel of step k in [0, VT_SHIFTS]; of VT_SHIFTS: D. */
static inline int vt_shift_channel(const vt_config *c, int k) { return k * c->dim / VT_SHIFTS; }
/* Returns the token that token t reads channels of step k from, around the edges of the grid. */
static inline int vt_shift_from(const vt_config *c, int t, int k) {
    const int s = vt_config_side(c), row = t / s + s + 1 - k / 3, column = t % s + s + 1 - k % 3;
    return row % s * s + column % s;
}
