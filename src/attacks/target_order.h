/* SPDX-License-Identifier: MIT */
/* Which classes the targeted attacks aim at, and in which order. */
#pragma once

#include "attacks/attack.h"

/* Class at rank r (1 = the largest logit) of z; among equal logits the higher index ranks first, as the reference's
 * sort does. If that class is the label, the class at rank 1 stands in (ours: AutoAttack would aim at
 * the label itself). */
int vt_target_of_rank(const float *z, int classes, int label, int rank);

/* Orders of targets: by the clean logits, or MALT's, by the distance of the boundary if the model were linear (Melamed,
 * Yehudai and Shamir 2024, "MALT Powers Up Adversarial Attacks", algorithm 1). */
enum { VT_BY_LOGIT, VT_BY_MALT, VT_MALT_CANDIDATES = 100 };
#define VT_CHOOSE_OPT(params_, preset_)                                                                                \
    VT_OPT_C("choose", params_, choose,                                                                                \
             "order of targets: by clean logit, or by the linear distance of their boundaries (MALT)", "rank|malt",    \
             preset_)

/* Computes merit [K], with the label ahead of all: target number r (1 = first) is vt_target_of_rank(merit, K, label, r
 * + 1). VT_BY_LOGIT: the clean logits, one forward. VT_BY_MALT: minus the linear distance (z_y - z_k) / |grad (z_k -
 * z_y)|_q, q dual to the ball's norm, for the VT_MALT_CANDIDATES wrong classes of the largest logits, a gradient each;
 * a class without gradient comes last of these, and other classes after them. With a goal: the clean logits. merit has
 * room for 3 K + n floats. */
vt_status vt_target_merits(vt_oracle *o, const vt_task *t, int choose, float *merit);
/* Returns target number r = 1, 2, ... of these merits; of an oracle with a goal, which needs no order, that. */
int vt_target_at(const vt_oracle *o, const vt_task *t, const float *merit, int r);
/* Returns the loss z_k - z_label; cotangent [K] becomes its target. */
vt_loss vt_target_difference(const vt_task *t, int k, float *cotangent);
/* Returns how many targets an attack takes: no more than classes - 1, one where there is a goal. */
int vt_target_count(int asked, int classes, bool aimed);
/* Returns the passes of vt_target_merits for an image. */
vt_passes vt_target_cost(int choose, const vt_cost_dims *d);
