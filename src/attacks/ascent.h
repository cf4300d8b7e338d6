/* SPDX-License-Identifier: MIT */
/* What attacks that climb share: the start of a run, a step, and noise around the point. */
#pragma once

#include "attacks/attack.h"

/* Whether an ascent repeats itself (Doldo et al. 2025, "Stop Walking in Circles!"). If the next iterate depends on this
 * one alone, through gradients that are functions of its bits, an iterate that was there before proves the rest. Two
 * are kept and compared value by value: one for periods of 1 and 2, by far the most frequent, and one, replaced at ever
 * longer intervals (after Brent 1980), for longer ones. */
typedef struct vt_kept {
    int at, until, end; /* its step; when it is replaced; the end of the steps that are alike. until 0: none is kept */
    vt_oracle_counts counts;
} vt_kept;
typedef struct vt_cycle {
    float *room; /* [2, n] of the attack's scratch */
    vt_kept kept[2];
} vt_cycle; /* zeroed but for its room before each run */

/* Returns from which step the ascent goes on at t->x_adv, which step k has reached: k, or later by whole periods if
 * x_adv was there before, by at most `end`, up to which all steps are alike. The oracle counts the calls of the steps
 * left out as if they were made. Returns k under a hook (before_step) and for models whose answers may vary. */
int vt_cycle_skip(vt_cycle *c, vt_oracle *o, const vt_task *t, int k, int end);

/* Sets x_adv = x, or where `random` a point inside the ball (vt_ball_start_inside); the key of run number `run`. */
vt_rng vt_ascent_start(const vt_task *t, int run, bool random);
/* Moves x_adv by a step of length alpha along g [n] (vt_ball_step; in l1 entries that the box blocks become 0 first).
 * step [n]: scratch. */
void vt_ascent_step(const vt_task *t, float *g, double alpha, float *step);

/* Draws u [n] in the ball of radius eps at 0: uniform in linf's cube, else a random direction of uniform length. */
void vt_noise_draw(const vt_task *t, const vt_rng *r, double eps, float *u);
/* Sets y [n] = x_adv + sign u, in the box; returns y. */
const float *vt_noise_beside(const vt_task *t, const float *u, float sign, float *y);
