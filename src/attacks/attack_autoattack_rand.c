/* SPDX-License-Identifier: MIT */
/* AutoAttack, version `rand` of the authors' code, for models whose forward is random: gradients are the mean of twenty
 * draws (expectation over transformations, Athalye et al. 2018). */
#include "attacks/attack.h"

const vt_attack_def vt_attack_def_autoattack_rand = {
    .name = "autoattack-rand",
    .summary = "apgd-ce, apgd-dlr with gradients averaged over 20 draws: AutoAttack 'rand'",
    .reference = "Croce and Hein 2020 (ICML), the authors' code a392200",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .stages =
        (const char *const[]){"apgd-ce:steps=100,restarts=1,eot=20", "apgd-dlr:steps=100,restarts=1,eot=20", NULL},
    /* set_version('rand') leaves the larger balls of L1-APGD off */
    .stages_l1 = (const char *const[]){"apgd-ce:steps=100,restarts=1,eot=20,large_eps=0",
                                       "apgd-dlr:steps=100,restarts=1,eot=20,large_eps=0", NULL},
};
