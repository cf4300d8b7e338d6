/* SPDX-License-Identifier: MIT */
/* From a data set to the images and label distributions of a step, and which branches it drops. Every draw is a
 * function of (seed, epoch, image id) or (seed, step): order of calls, threads and interruptions change nothing. */
#pragma once

#include <stdint.h>
#include "base/rand.h"
#include "data/dataset.h"
#include "models/model.h"
#include "train/recipe.h"

/* Writes the order of an epoch: a permutation of [0, n), the same for the same (seed, epoch). */
void vt_epoch_order(int32_t *order, int64_t n, uint64_t seed, int epoch);

/* How a step's images are mixed (Mixup or CutMix with the reversed batch, timm's mode "batch"), drawn once per step.
 * Active with probability mix_prob, then CutMix with probability cutmix_switch, else Mixup; an alpha of 0 switches its
 * kind off. NONE has lambda 1. */
typedef struct vt_mix {
    enum { VT_MIX_NONE, VT_MIX_MIXUP, VT_MIX_CUTMIX } kind;
    double lambda;      /* share of the image itself; CutMix: after correction by the area really cut */
    int y0, y1, x0, x1; /* CutMix: the region [y0,y1) x [x0,x1) taken from the partner */
} vt_mix;
/* Draws how step `step` mixes its images of `side` pixels, keyed by (seed, step). */
vt_mix vt_mix_draw(const vt_recipe_augment *a, uint64_t seed, int64_t step, int side);

/* Reads image `index` of d as x [3, side, side] in [0,1], cropped (padded with 0), flipped, changed by RandAugment and
 * erased in part as `a` says; draws are keyed by (seed, epoch, index). VT_E_SHAPE: it is not side x side. */
vt_status vt_augment_image(float *x, int *label, const vt_dataset *d, int64_t index, int side,
                           const vt_recipe_augment *a, uint64_t seed, int epoch, vt_err *e);

/* Adds sigma N(0, 1) to x [n], image `at` of its batch, as a function of (seed, step, at); noise [n]: scratch. Values
 * leave [0,1] (Cohen et al. 2019, section 3.3: what randomised smoothing shows the network). */
void vt_augment_gaussian(float *x, float *noise, size_t n, double sigma, uint64_t seed, int64_t step, int at);

/* Sets x to the mix of x and partner xr (not x itself), both [3, side, side], augmented, and in [0,1]; NONE leaves
 * x. */
void vt_mix_images(float *x, const float *xr, const vt_mix *m, int side);
/* Computes target [classes] of labels y (and the partner's yr), with label smoothing s: off = s/K, on = 1 - s + s/K,
 * mixed. */
void vt_mix_target(float *target, int y, int yr, const vt_mix *m, double smoothing, int classes);

/* ---- stochastic depth ----
 * (Huang et al. 2016; timm's DropPath): in training a residual branch is left out for an image with a probability, and
 * else divided by the probability of staying. The rate grows in a line from 0 in the first block to model.drop_path in
 * the last; in XCiT it is the same in all blocks and 0 in class attention (its authors' code). */

/* Returns the length of the factors of a batch, for vt_session.drop: [params.layers, VT_BRANCHES, images]. */
size_t vt_drop_path_len(const vt_model *m, int images);
/* Draws the factors of image `image` of `images`, shown as number `view` of a step (TRADES shows each twice), keyed by
 * (seed, id, step, view). */
void vt_drop_path_draw(float *drop, const vt_model *m, double rate, int image, int images, uint64_t seed, int64_t id,
                       int64_t step, int view);

/* ---- randaugment.c ----
 * RandAugment (Cubuk et al. 2020) as torchvision.transforms.RandAugment does it on 8-bit pictures (nearest pixels,
 * black where the picture ends), and random erasing (Zhong et al. 2020, algorithm 1, with random pixels). */

#define VT_RANDAUGMENT_LEVELS 31 /* magnitudes 0 to 30 */

/* Applies one operation by its setting (vt_randaugment_setting) from `in` to another `out`, [3, side, side]. */
void vt_randaugment_apply(uint8_t *out, const uint8_t *in, int side, int op, double setting);
/* Returns the name of operation op = 0, 1, ..., torchvision's, in its order; NULL after the last. */
const char *vt_randaugment_name(int op);
/* Returns an operation's setting at a magnitude (0: none, to VT_RANDAUGMENT_LEVELS - 1: its most); *has_sign: a sign is
 * drawn for it. */
double vt_randaugment_setting(int op, int magnitude, int side, bool *has_sign);

/* Applies `ops` operations drawn from r to x [3, side, side] in [0,1], which is rounded to 8 bits first. */
vt_status vt_randaugment(float *x, int side, int ops, int magnitude, const vt_rng *r, vt_err *e);
/* Replaces with probability p a rectangle of 2 to 33 % of x [3, side, side], its sides 0.3 to 3.3 of each other, by
 * uniform random pixels drawn from r; leaves x if none of ten tries fits. */
void vt_random_erase(float *x, int side, double p, const vt_rng *r);
