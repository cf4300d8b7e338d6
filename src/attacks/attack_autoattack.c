/* AutoAttack, version `standard` of the authors' code for linf and l2: four attacks, each on the survivors of the one
 * before, every one starting from the clean image. */
#include "attacks/attack.h"

static const char *const stages[] = {"apgd-ce:steps=100,restarts=1", "apgd-t:steps=100,targets=9,restarts=1",
                                     "fab-t:steps=100,targets=9,restarts=1",
                                     "square:queries=5000,p_init=0.8,restarts=1", NULL};

const vt_attack_def vt_attack_def_autoattack = {
    .name = "autoattack",
    .summary = "apgd-ce, apgd-t, fab-t, square: AutoAttack 'standard'",
    .reference = "Croce and Hein 2020 (ICML), section 6",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .white_box = true,
    .stages = stages,
};
