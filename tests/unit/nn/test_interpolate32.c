/* SPDX-License-Identifier: MIT */
/* In float: weights and sums of a few terms rounded to 2^-24; the largest sum has 28 x 28 summands of size 1. */
#define TOL 2e-6
#include "interpolate.h"
