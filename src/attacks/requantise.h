/* SPDX-License-Identifier: MIT */
/* The end of an attack under the 8-bit threat, when a float point is misclassified but its nearest rounding is not.
 * Other roundings are tried (away from the clean image, and random ones), and attacks that may see gradients climb
 * from grid point to grid point. All of this goes through the oracle and counts as the attack's own work. */
#ifndef VT_ATTACKS_REQUANTISE_H
#define VT_ATTACKS_REQUANTISE_H

#include "attacks/attack.h"

enum {
    VT_REQUANTISE_DRAWS = 4,     /* roundings drawn */
    VT_REQUANTISE_GRADIENTS = 30 /* of all climbs of one repair */
};

/* Works on o->eight_bit and what the attack met there; VT_STOP as every query of the oracle. In the end t->x_adv is a
 * grid point (the best one met, in exhaustive mode the rounding of the last iterate), whatever became of the search.
 */
vt_status vt_requantise(vt_oracle *o, const vt_task *t);

#endif
