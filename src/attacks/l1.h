/* SPDX-License-Identifier: MIT */
/* What attacks in the l1 ball need and others do not: the projection onto ball and box together, and sparse steps. */
#pragma once

#include <stddef.h>

/* x [n] <- its nearest point (Euclidean) of {|x' - centre|_1 <= eps, 0 <= x' <= 1}; centre [n] in [0,1]. Solved in
 * double, each value rounded to the nearest float; what the sum then lies above eps is taken off in single units in the
 * last place. eps is kept by a margin that covers the rounding of a sum of n doubles in any order. Croce and Hein 2021,
 * "Mind the box", proposition 2.1, solved without sorting. NaN goes to the centre. */
void vt_l1_project(float *x, const float *centre, size_t n, double eps);

/* out [n] = step sign(g) / k on the `count` (1 to n) entries of largest |g|, more where the last of them are tied, 0
 * elsewhere; k of them are not 0. */
void vt_l1_sparse_step(float *out, const float *g, size_t n, size_t count, double step);

/* g [n] <- 0 where a step along sign(g) from x [n] would leave the box at once: else a sparse step spends itself there
 * again and again. */
void vt_l1_drop_blocked(float *g, const float *x, size_t n);

/* Entries that differ by more than rounding leaves; the authors' code of L1-APGD counts that too. */
size_t vt_l1_moved(const float *a, const float *b, size_t n);
/* How many entries a step changes: of those changed so far, two thirds (Croce and Hein 2021, section 3). Rounded down;
 * rounded up, as in the authors' code, two entries would stay two for ever. */
size_t vt_l1_two_thirds(size_t entries);
