/* SPDX-License-Identifier: MIT */
/* Which classes the targeted attacks aim at, and in which order. */
#pragma once

#include "attacks/attack.h"

/* Returns the class at rank r (1 = the largest logit) of z; among equals the higher index ranks first, as in the
 * reference's sort. Instead of the label the class at rank 1 (ours: AutoAttack would aim at the label). */
int vt_target_of_rank(const float *z, int classes, int label, int rank);

/* Orders of targets: by the clean logits, or MALT's, by the distance of the boundary if the model were linear (Melamed,
 * Yehudai and Shamir 2024, "MALT Powers Up Adversarial Attacks", algorithm 1). */
enum { VT_BY_LOGIT, VT_BY_MALT, VT_MALT_CANDIDATES = 100 };
#define VT_CHOOSE_OPT(params_, preset_)                                                                                \
    VT_OPT_C("choose", params_, choose,                                                                                \
             "order of targets: by clean logit, or by the linear distance of their boundaries (MALT)", "rank|malt",    \
             preset_)

/* Computes merit [K] (room: 3 K + n), the label ahead of all; vt_target_at orders by it. VT_BY_MALT: -(z_y - z_k) /
 * |grad|_q for the VT_MALT_CANDIDATES largest wrong logits, others last. Else, or with a goal: the clean logits. */
vt_status vt_target_merits(vt_oracle *o, const vt_task *t, int choose, float *merit);
/* Returns target number r = 1, 2, ... of these merits; of an oracle with a goal, which needs no order, that goal. */
int vt_target_at(const vt_oracle *o, const vt_task *t, const float *merit, int r);
/* Returns the loss z_k - z_label; cotangent [K] becomes its target. */
vt_loss vt_target_difference(const vt_task *t, int k, float *cotangent);
/* Returns how many targets an attack takes: no more than classes - 1, one where there is a goal. */
int vt_target_count(int asked, int classes, bool aimed);
/* Returns the passes of vt_target_merits for an image. */
vt_passes vt_target_cost(int choose, const vt_cost_dims *d);
