/* SPDX-License-Identifier: MIT */
/* Which images a step takes. The recipe's data set comes in passes, each in an order of its own, whose rest below a
 * batch is left out; so does every further set (recipe.extra: for example generated images), with its share of each
 * batch: its images stand at the end of the batch. An epoch is as many images as the first set has (Gowal et al. 2021
 * and Wang et al. 2023 count it so). */
#pragma once

#include "base/opt.h"
#include "data/dataset.h"
#include "train/recipe.h"

/* Further training sets, opened. */
typedef struct vt_extra {
    vt_dataset *sets[VT_RECIPE_EXTRA];
    int n;
} vt_extra;

/* Opens the sets of the choices `extra` into a zeroed x, to be closed also after a failure: one for each share of the
 * recipe (else VT_E_USAGE), of as many classes as `base` (else VT_E_SHAPE). */
vt_status vt_extra_open(vt_extra *x, const vt_choices *c, const vt_recipe *r, const vt_dataset *base, vt_err *e);
/* Closes the further sets; accepts a zeroed one. */
void vt_extra_close(vt_extra *x);
/* Returns how many images of a batch come from further set k. */
int vt_extra_take(const vt_recipe *r, int k);

/* One set's part of the steps. */
typedef struct vt_sampled {
    const vt_dataset *data;
    int64_t images, watched; /* that are trained on, that are held out (of the first set) */
    int take, pass;          /* images of a batch; the pass whose order this is */
    int32_t *order;          /* [images] */
} vt_sampled;

typedef struct vt_sampler {
    uint64_t seed;
    int n;
    vt_sampled sets[1 + VT_RECIPE_EXTRA];
    int32_t *ids; /* [batch] images of the step, each of its set */
} vt_sampler;

/* Allocates the orders of all sets. x: NULL, or the further sets; watched: images of data that are held out.
 * VT_E_USAGE: a set has fewer images than a step takes of it. To be closed also after a failure. */
vt_status vt_sampler_open(vt_sampler *s, const vt_recipe *r, const vt_dataset *data, int64_t watched, const vt_extra *x,
                          vt_err *e);
/* Frees the orders; accepts a zeroed one. The data sets are the caller's. */
void vt_sampler_close(vt_sampler *s);
/* Fills ids and the sets' passes for step 0, 1, ... */
void vt_sampler_step(vt_sampler *s, int64_t step);
/* Returns the set that position `at` of the batch comes from. */
const vt_sampled *vt_sampler_set(const vt_sampler *s, int at);
/* Writes the SHA-256 of all sets' images: data->hash; of several, the SHA-256 of the hashes, one a line. */
void vt_sampler_hash(char out[65], const vt_dataset *data, const vt_extra *x);
/* Returns the bytes of the orders of `images` images and of all further sets (x may be NULL). */
size_t vt_sampler_bytes(int64_t images, const vt_extra *x);
