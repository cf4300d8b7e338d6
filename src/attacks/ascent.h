/* SPDX-License-Identifier: MIT */
/* What attacks that climb share: the start of a run, a step, and noise around the point. */
#pragma once

#include "attacks/attack.h"

/* Sets x_adv = x, or where `random` a point inside the ball (vt_ball_start_inside); the key of run number `run`. */
vt_rng vt_ascent_start(const vt_task *t, int run, bool random);
/* Moves x_adv by a step of length alpha along g [n] (vt_ball_step; in l1 entries that the box blocks become 0 first).
 * step [n]: scratch. */
void vt_ascent_step(const vt_task *t, float *g, double alpha, float *step);

/* Draws u [n] in the ball of radius eps at 0: uniform in linf's cube, else a random direction of uniform length. */
void vt_noise_draw(const vt_task *t, const vt_rng *r, double eps, float *u);
/* Sets y [n] = x_adv + sign u, in the box; returns y. */
const float *vt_noise_beside(const vt_task *t, const float *u, float sign, float *y);
