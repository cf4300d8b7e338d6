/* SPDX-License-Identifier: MIT */
/* Fast adversarial training: one large step from a random start. The loss is that of PGD training. */
#include "train/objective.h"

const VT_R(vt_objective_def) VT_R(vt_objective_def_fast) = {
    .name = "fast",
    .summary = "single-step adversarial training: FGSM from a random start",
    .reference = "Wong et al. 2020, algorithm 3; step 10/255 is theirs for CIFAR-10 at eps 8/255",
    .inner = VT_INNER_LABEL,
    .attack = "pgd:steps=1,alpha=10/255",
    .eval = VT_R(vt_objective_adversarial),
};
