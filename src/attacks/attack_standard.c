/* SPDX-License-Identifier: MIT */
/* The standard profile: AutoAttack's version `standard`, stage by stage as attack_autoattack.c has it. */
#include "attacks/attack.h"

const vt_attack_def vt_attack_def_standard = {
    .name = "standard",
    .summary = "profile: AutoAttack 'standard'",
    .reference = "Croce and Hein 2020 (ICML), section 6; l1: Croce and Hein 2021, section 5",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .profile = true,
    .stages = (const char *const[]){"autoattack", NULL},
};
