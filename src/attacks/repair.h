/* SPDX-License-Identifier: MIT */
/* The end of an attack under the 8-bit threat, when a float point is misclassified but its nearest rounding is not.
 * Other roundings are tried (away from the clean image, and random ones), and attacks that may see gradients climb
 * from lattice point to lattice point. All of this goes through the oracle and counts as the attack's own work. */
#ifndef VT_ATTACKS_REPAIR_H
#define VT_ATTACKS_REPAIR_H

#include "attacks/attack.h"

enum {
    VT_REPAIR_DRAWS = 4,     /* roundings drawn */
    VT_REPAIR_GRADIENTS = 30 /* of all climbs of one repair */
};

/* Works on o->eight_bit and what the attack met there; VT_STOP as every query of the oracle. In the end t->x_adv is a
 * lattice point (the best one met, in exhaustive mode the rounding of the last iterate), whatever became of the search.
 */
vt_status vt_repair(vt_oracle *o, const vt_task *t);

#endif
