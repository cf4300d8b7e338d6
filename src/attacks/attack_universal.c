/* SPDX-License-Identifier: MIT */
/* A universal patch: one picture, trained beforehand on other images (eval/universal.h), pasted at places that neither
 * the image nor the model chooses (Brown et al. 2017, "Adversarial Patch"). */
#include <string.h>
#include "attacks/attack.h"

typedef struct params {
    char none;
} params;

static const vt_opt opts[] = {VT_OPT_END};

/* Asks about the image with the picture in the squares of t->ball; VT_E_FORBIDDEN without a picture. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    (void)params_;
    if (!t->picture) return VT_E_FORBIDDEN;
    memcpy(t->x_adv, t->x, t->n * sizeof *t->x_adv);
    vt_patch_paste(t->x_adv, t->ball->squares, t->shape, t->picture);
    return vt_oracle_logits(o, t->x_adv, NULL);
}

VT_COST(params, .forwards = 1)

const vt_attack_def vt_attack_def_universal = {
    .name = "universal",
    .summary = "one picture (" VT_OPTION "patch FILE, by vitrine patch) at random places; black-box",
    .reference = "Brown et al. 2017, 'Adversarial Patch'",
    .norms = VT_CAN_PATCH,
    .traits = VT_FROM_LABELS,
    .pastes = true,
    .where = VT_WHERE_ANY,
    VT_ATTACK_CODE(params, .images = 0),
};
