/* SPDX-License-Identifier: MIT */
/* What the ViT papers call CW-20: PGD-20 on the margin loss of Carlini and Wagner, not their optimiser. */
#include "attacks/attack.h"

const vt_attack_def vt_attack_def_cw20 = {
    .name = "cw20",
    .summary = "PGD-20 on the margin loss (the ViT papers' CW-20; not Carlini and Wagner's optimiser)",
    .reference = "Mo et al. 2022, released evaluator; loss: Carlini and Wagner 2017, f6",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .white_box = true,
    .stages = (const char *const[]){"pgd:steps=20,loss=margin", NULL},
};
