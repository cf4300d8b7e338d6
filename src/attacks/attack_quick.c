/* SPDX-License-Identifier: MIT */
/* The quick profile: AutoAttack's verdict for less. Attacks stand in the order of what they break per call: short PGDs,
 * then APGD-CE, then APGD-T towards the classes nearest to first order; what is left goes to the rest of AutoAttack on
 * a random sample alone, and the report bounds what the sample leaves open. */
#include "attacks/attack.h"

static const char *const stages[] = {"pgd:steps=10,loss=margin",
                                     "pgd:steps=10",
                                     "apgd-ce:steps=100,restarts=1",
                                     "apgd-t:steps=100,targets=3,restarts=1,choose=malt",
                                     "apgd-t:steps=100,targets=9,restarts=1,share=0.1",
                                     "fab-t:steps=100,targets=9,restarts=1,share=0.1",
                                     "square:queries=5000,p_init=0.8,restarts=1,share=0.1",
                                     NULL};
static const char *const stages_l1[] = {"pgd:steps=10,loss=margin",
                                        "pgd:steps=10",
                                        "apgd-ce:steps=100,restarts=1,large_eps=1",
                                        "apgd-t:steps=100,targets=3,restarts=1,large_eps=1,choose=malt",
                                        "apgd-ce:steps=100,restarts=5,large_eps=1,share=0.1",
                                        "apgd-t:steps=100,targets=5,restarts=1,large_eps=1,share=0.1",
                                        "fab-t:steps=100,targets=9,restarts=1,share=0.1",
                                        "square:queries=5000,p_init=0.8,restarts=1,share=0.1",
                                        NULL};

const vt_attack_def vt_attack_def_quick = {
    .name = "quick",
    .summary = "profile: short PGDs, apgd-ce, apgd-t; the rest of AutoAttack on a tenth of the survivors",
    .reference = "order and sample are ours; the attacks of Croce and Hein 2020, MALT's targets (Melamed et al. 2024)",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .profile = true,
    .stages = stages,
    .stages_l1 = stages_l1,
};
