/* SPDX-License-Identifier: MIT */
/* Adversarial training: the cross entropy at the adversarial image, which was made against the same (mixed) label. */
#include "train/objective.h"

const VT_R(vt_objective_def) VT_R(vt_objective_def_at) = {
    .name = "at",
    .summary = "PGD adversarial training: cross entropy on adversarial images",
    .reference = "Madry et al. 2018, eq. 2.1; soft labels and step sizes as Mo et al. 2022",
    .inner = VT_INNER_LABEL,
    .attack = "pgd:steps=10,alpha=eps/4",
    .eval = VT_R(vt_objective_adversarial),
};
