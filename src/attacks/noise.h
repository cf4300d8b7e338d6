/* SPDX-License-Identifier: MIT */
/* Noise of the ball's size around an attack's point. */
#ifndef VT_ATTACKS_NOISE_H
#define VT_ATTACKS_NOISE_H

#include "attacks/attack.h"

/* u [n] inside the ball of radius eps around 0: uniform in linf's cube, else a random direction of uniform length. */
void vt_noise_draw(const vt_task *t, const vt_rng *r, double eps, float *u);
/* y [n] = x_adv + sign u, in the box; returns y. */
const float *vt_noise_beside(const vt_task *t, const float *u, float sign, float *y);

#endif
