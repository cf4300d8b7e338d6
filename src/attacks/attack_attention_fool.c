/* SPDX-License-Identifier: MIT */
/* Attention-Fool: the patch attack of the paper, as attention-pgd's options. */
#include "attacks/attack.h"

const vt_attack_def vt_attack_def_attention_fool = {
    .name = "attention-fool",
    .summary = "attention-pgd on a patch: 250 steps from 8/255, the class token's queries to the patch's token",
    .reference = "Lovisotto et al. 2022 (CVPR), Attention-Fool, section 5",
    .norms = VT_CAN_PATCH,
    .white_box = true,
    .looks = true,
    .where = VT_WHERE_CORNER,
    .stages = (const char *const[]){"attention-pgd:steps=250,alpha=8/255,decay=cosine,momentum=0.9,query=class", NULL},
};
