/* SPDX-License-Identifier: MIT */
/* The paranoid profile: AutoAttack's stages, then more of everything on what is left: starts, losses (ratio, margin,
 * probability margin), targets, Square's queries, gradients and
 * differences averaged over noise, what sleeps inside, and the gradients of another network. About seven times
 * AutoAttack's cost on an image that stands to the end. */
#include "attacks/attack.h"

static const char *const stages[] = {"apgd-ce:steps=100,restarts=5",
                                     "apgd-t:steps=100,targets=9,restarts=1",
                                     "fab-t:steps=100,targets=9,restarts=1",
                                     "square:queries=5000,p_init=0.8,restarts=1",
                                     "apgd-dlr:steps=100,restarts=5",
                                     "pma",
                                     "mt-pgd",
                                     "apgd-t:steps=200,targets=20,restarts=3,choose=malt",
                                     "fab:steps=100,restarts=5",
                                     "square:queries=20000,p_init=0.8,restarts=1",
                                     "smooth-pgd:steps=50,draws=16",
                                     "nes:steps=50,draws=50",
                                     "wake-up",
                                     "transfer:restarts=5",
                                     NULL};
static const char *const stages_l1[] = {"apgd-ce:steps=100,restarts=5,large_eps=1",
                                        "apgd-t:steps=100,targets=9,restarts=1,large_eps=1",
                                        "fab-t:steps=100,targets=9,restarts=1",
                                        "square:queries=5000,p_init=0.8,restarts=1",
                                        "apgd-dlr:steps=100,restarts=5,large_eps=1",
                                        "pgd:steps=200,loss=margin,restarts=5",
                                        "apgd-t:steps=200,targets=20,restarts=3,large_eps=1,choose=malt",
                                        "fab:steps=100,restarts=5",
                                        "square:queries=20000,p_init=0.8,restarts=1",
                                        "smooth-pgd:steps=50,draws=16",
                                        "nes:steps=50,draws=50",
                                        "transfer:restarts=5",
                                        NULL};

const vt_attack_def vt_attack_def_paranoid = {
    .name = "paranoid",
    .summary = "profile: AutoAttack, then more starts, targets, losses, queries, smoothing, and transfer",
    .reference = "the list is ours; sources of its attacks as listed",
    .norms = VT_CAN_ALL,
    .white_box = true,
    .profile = true,
    .stages = stages,
    .stages_l1 = stages_l1,
};
