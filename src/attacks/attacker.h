/* SPDX-License-Identifier: MIT */
/* An attacker runs one stage on one image and says which point is the image's candidate. It holds the buffers of one
 * thread and is the only place that completes a task: evaluation, self-test, analyses and training all attack
 * through it. */
#pragma once

#include "attacks/attack.h"

/* The share of a stage's calls (vt_attack_stage_cost) that is left to the model itself where its oracle has a draft
 * (docs/speed.md says how it was chosen). */
#define VT_FINISH 0.05

typedef struct vt_attacker {
    size_t pixels, work_len; /* of one image; floats of scratch */
    vt_shape shape;
    float *x_adv, *lo, *hi, *work;
    vt_ball ball;    /* of the last task: its oracle points here */
    const float *at; /* what that task ended with */
} vt_attacker;

/* Opens a thread's attacker. work: floats of scratch, vt_attacker_work of the stages that it will run. VT_E_MEMORY:
 * nothing is left to close. */
vt_status vt_attacker_open(vt_attacker *a, vt_shape shape, size_t work, vt_err *e);
void vt_attacker_close(vt_attacker *a); /* accepts a zeroed one */
/* Returns a task of sizes alone, for vt_attack_work_len and an attack's check. patch: borrowed, NULL or size 0:
 * none. */
vt_task vt_attacker_dims(vt_shape shape, int classes, const vt_patch *patch);
/* Returns the most scratch of any stage of a, 1 at least. */
size_t vt_attacker_work(const vt_attack *a, const vt_task *dims);

/* Runs the stage against o. VT_OK: it has ended, and a->at is the point that stands for the image: what the oracle
 * confirmed or kept where it searches, the attack's own last point where it is exhaustive. VT_E_NUMERIC: logits were
 * not finite; with o->not_finite a->at is the query that showed it. Other failures as the attack's. */
vt_status vt_attacker_run(vt_attacker *a, vt_oracle *o, const vt_attack_stage *s, const vt_task *t);
/* Returns why it failed, for a sentence: what the model said (VT_E_MODEL), else the status's name. */
const char *vt_attacker_why(const vt_oracle *o, vt_status s);
