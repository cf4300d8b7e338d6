/* SPDX-License-Identifier: MIT */
/* MALT: APGD-T with targets in the order of their linear distances. With more than ten classes the nine targets are
 * other ones than APGD-T's; with ten the order alone differs. */
#include "attacks/attack.h"

const vt_attack_def vt_attack_def_apgd_malt = {
    .name = "apgd-malt",
    .summary = "apgd-t towards the classes whose boundaries are nearest to first order",
    .reference = "Melamed, Yehudai and Shamir 2024 (NeurIPS), 'MALT Powers Up Adversarial Attacks', algorithm 1",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .stages = (const char *const[]){"apgd-t:choose=malt", NULL},
};
