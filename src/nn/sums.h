/* SPDX-License-Identifier: MIT */
/* Sums in many lanes, so that the compiler may vectorise them without the reordering licence of -ffast-math, and by
 * halves at the end of a row. */
#pragma once

#include "base/real.h"

enum { VT_SUM_LANES = 32 };

static inline real vt_sum_fold(real *lane) {
    for (int w = VT_SUM_LANES / 2; w >= 4; w /= 2)
        for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}
