/* SPDX-License-Identifier: MIT */
/* AutoAttack, version `standard` of the authors' code: four attacks, each on the survivors of the one before, every
 * one starting from the clean image. In l1 APGD-CE starts five times and APGD-T has five targets. */
#include "attacks/attack.h"

static const char *const stages[] = {"apgd-ce:steps=100,restarts=1", "apgd-t:steps=100,targets=9,restarts=1",
                                     "fab-t:steps=100,targets=9,restarts=1",
                                     "square:queries=5000,p_init=0.8,restarts=1", NULL};
static const char *const stages_l1[] = {"apgd-ce:steps=100,restarts=5,large_eps=1",
                                        "apgd-t:steps=100,targets=5,restarts=1,large_eps=1",
                                        "fab-t:steps=100,targets=9,restarts=1",
                                        "square:queries=5000,p_init=0.8,restarts=1", NULL};

const vt_attack_def vt_attack_def_autoattack = {
    .name = "autoattack",
    .summary = "apgd-ce, apgd-t, fab-t, square: AutoAttack 'standard'",
    .reference = "Croce and Hein 2020 (ICML), section 6; l1: Croce and Hein 2021, section 5",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .stages = stages,
    .stages_l1 = stages_l1,
};
