/* SPDX-License-Identifier: MIT */
/* From a data set to the images and label distributions of a step. Every draw is a function of (seed, epoch, image id)
 * or (seed, step): order of calls, threads and interruptions change nothing. */
#ifndef VT_TRAIN_AUGMENT_H
#define VT_TRAIN_AUGMENT_H

#include <stdint.h>
#include "core/status.h"
#include "io/dataset.h"
#include "train/recipe.h"

/* The order of an epoch: a permutation of [0, n), the same for the same (seed, epoch). */
void vt_epoch_order(int32_t *order, int64_t n, uint64_t seed, int epoch);

/* How a step's images are mixed (Mixup or CutMix with the reversed batch, timm's mode "batch"), drawn once per step.
 * Active with probability mix_prob, then CutMix with probability cutmix_switch, else Mixup; an alpha of 0 switches its
 * kind off. NONE has lambda 1. */
typedef struct vt_mix {
    enum { VT_MIX_NONE, VT_MIX_MIXUP, VT_MIX_CUTMIX } kind;
    double lambda;      /* share of the image itself; CutMix: after correction by the area really cut */
    int y0, y1, x0, x1; /* CutMix: the region [y0,y1) x [x0,x1) taken from the partner */
} vt_mix;
vt_mix vt_mix_draw(const vt_recipe_augment *a, uint64_t seed, int64_t step, int side);

/* Image `index` of d, cropped and flipped by its own draws, as x [3, side, side] in [0,1]. The random crop pads with
 * pixel 0 (Mo et al. crop before they normalise). VT_E_SHAPE when the image is not side x side. */
vt_status vt_augment_image(float *x, int *label, const vt_dataset *d, int64_t index, int side,
                           const vt_recipe_augment *a, uint64_t seed, int epoch, vt_err *e);

/* x <- mix of x and partner xr (not x itself), both [3, side, side], already augmented; values in [0,1] stay there. */
void vt_mix_images(float *x, const float *xr, const vt_mix *m, int side);
/* target [classes] of labels y (and the partner's yr), with label smoothing s: off = s/K, on = 1 - s + s/K, mixed. */
void vt_mix_target(float *target, int y, int yr, const vt_mix *m, double smoothing, int classes);

#endif
