/* SPDX-License-Identifier: MIT */
/* Stochastic depth (Huang et al. 2016; timm's DropPath): in training a residual branch is left out for an image with a
 * probability, and else divided by the probability of staying. The rate grows in a line from 0 in the first block to
 * model.drop_path in the last; in XCiT it is the same in all blocks and 0 in class attention (its authors' code). */
#ifndef VT_TRAIN_DROP_PATH_H
#define VT_TRAIN_DROP_PATH_H

#include "models/model.h"

/* Factors of one batch of images, for vt_session.drop: floats [params.layers, VT_BRANCHES, images]. */
size_t vt_drop_path_len(const vt_model *m, int images);
/* Draws image `image` of `images`, shown as number `view` of a step (TRADES shows each twice), keyed by (seed, id,
 * step, view). */
void vt_drop_path_draw(float *drop, const vt_model *m, double rate, int image, int images, uint64_t seed, int64_t id,
                       int64_t step, int view);

#endif
