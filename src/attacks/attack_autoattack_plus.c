/* SPDX-License-Identifier: MIT */
/* AutoAttack, version `plus` of the authors' code: six attacks, the untargeted ones with five starts. They warn that it
 * is not meant for l1. */
#include "attacks/attack.h"

static const char *const stages[] = {"apgd-ce:steps=100,restarts=5",
                                     "apgd-dlr:steps=100,restarts=5",
                                     "fab:steps=100,restarts=5",
                                     "square:queries=5000,p_init=0.8,restarts=1",
                                     "apgd-t:steps=100,targets=9,restarts=1",
                                     "fab-t:steps=100,targets=9,restarts=1",
                                     NULL};

const vt_attack_def vt_attack_def_autoattack_plus = {
    .name = "autoattack-plus",
    .summary = "apgd-ce, apgd-dlr, fab, square, apgd-t, fab-t: AutoAttack 'plus'",
    .reference = "Croce and Hein 2020 (ICML), the authors' code a392200",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .white_box = true,
    .stages = stages,
};
