/* SPDX-License-Identifier: MIT */
/* The attack inside adversarial training: an attack of src/attacks on one image at a time, on a thread of its own, with
 * the weights as they are. Nothing is judged and nothing ends early. */
#pragma once

#include "attacks/attacker.h"
#include "train/objective.h"
#include "train/recipe.h"

/* One thread's attacker. It must not be moved: the oracle points to the classifier beside it. */
typedef struct vt_inner {
    const vt_model *m;
    const vt_recipe_attack *how; /* NULL: no masking (the probe) */
    vt_norm norm;
    vt_inner_goal goal;
    double start_sigma;
    uint64_t seed;
    vt_classifier model;
    vt_oracle oracle;
    vt_attacker attacker;
    vt_attack attack;
    float *start, *centre, *z, *target; /* one block */
    const float *clean;                 /* PRM: the centre of the attack under way */
    unsigned char *mask;                /* [patches] PRM */
    unsigned char *open;                /* [depth] ARD */
    int64_t step;                       /* of training: key of the maskings */
    double keep;                        /* their keep rate now */
} vt_inner;

/* Opens an attacker of attack `spec` on m. goal and start_sigma: the objective's; how: masking and noise, or NULL. To
 * be closed also after a failure. */
vt_status vt_inner_open(vt_inner *in, const vt_model *m, const char *spec, vt_norm norm, vt_inner_goal goal,
                        double start_sigma, const vt_recipe_attack *how, uint64_t seed, vt_err *e);
/* Frees all that `in` holds; accepts a zeroed one. */
void vt_inner_close(vt_inner *in);

/* Returns the bytes that an attacker of attack `spec` on m takes. */
size_t vt_inner_bytes(const vt_model *m, const char *spec, vt_norm norm);

/* Attacks one image: x_adv [pixels] from x with label distribution target [K], in a ball of radius eps (0: a copy of x)
 * around x, or around x plus noise (attack.noise: de Jorge et al. 2022, algorithm 1, whose perturbation is not
 * clipped). (image, epoch, step) key the draws; share: of the training done, for the maskings' ramp. */
vt_status vt_inner_run(vt_inner *in, float *x_adv, const float *x, const float *target, double eps, int64_t image,
                       int epoch, int64_t step, double share, vt_err *e);
