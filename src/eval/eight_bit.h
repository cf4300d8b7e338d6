/* SPDX-License-Identifier: MIT */
/* The 8-bit threat in an evaluation (attacks/grid8.h): what it needs of radius and data.
 */
#pragma once

#include "eval/options.h"

/* Refuses a radius below one level (in every norm the nearest other point is 1/255 away), and images whose values are
 * not all k/255. */
vt_status vt_eight_bit_check(const vt_eval_options *v, vt_err *e);
