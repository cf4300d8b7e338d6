/* SPDX-License-Identifier: MIT */
/* RandAugment (Cubuk et al. 2020) as torchvision.transforms.RandAugment does it on 8-bit pictures (nearest pixels,
 * black where the picture ends), and random erasing (Zhong et al. 2020, algorithm 1, with random pixels). */
#ifndef VT_TRAIN_RANDAUGMENT_H
#define VT_TRAIN_RANDAUGMENT_H

#include <stdint.h>
#include "core/rand.h"
#include "core/status.h"

#define VT_RANDAUGMENT_LEVELS 31 /* magnitudes 0 to 30 */

/* One operation with its setting (vt_randaugment_setting), from `in` to `out`, [3, side, side] each, not the same. */
void vt_randaugment_apply(uint8_t *out, const uint8_t *in, int side, int op, double setting);
/* The operations by torchvision's names, in its order; NULL after the last. */
const char *vt_randaugment_name(int op);
/* An operation's setting at a magnitude (0: none, to VT_RANDAUGMENT_LEVELS - 1: its most), which some draw a sign for
 * (*has_sign). */
double vt_randaugment_setting(int op, int magnitude, int side, bool *has_sign);

/* x [3, side, side] in [0,1], rounded to 8 bits, after `ops` operations drawn from r. */
vt_status vt_randaugment(float *x, int side, int ops, int magnitude, const vt_rng *r, vt_err *e);
/* With probability p a rectangle of 2 to 33 % of the picture and sides of 0.3 to 3.3 of each other is replaced by
 * uniform random pixels. */
void vt_random_erase(float *x, int side, double p, const vt_rng *r);

#endif
