/* SPDX-License-Identifier: MIT */
/* Starting points: the weights of a checkpoint carried over to a model of another input size, patch or class count. */
#ifndef VT_TRAIN_ADAPT_H
#define VT_TRAIN_ADAPT_H

#include <stdint.h>
#include "models/model.h"
#include "train/recipe.h"

/* Fills `to` (weights allocated, shapes fixed) from `from`: initial values by seed first (vt_model_init), then every
 * tensor that can be carried over. Same architecture, attention, width, depth, heads, MLP, qkv bias and tokens, else
 * VT_E_SHAPE with `to` untouched. What may differ: patch kernels shrink by block sums when from's patch is a multiple
 * (Mo et al.'s code: the sum, not the mean); the position grid is resized bilinearly (align_corners false, no
 * antialias: Mo et al.) or bicubically (a = -0.75, likewise: timm 0.5.4), prefix tokens copied; a head of another class
 * count is drawn anew (seed) when init.head is fresh, and refused otherwise with the key to set; fresh draws it anew in
 * any case. Tensors that `from` has not (patch_gate) keep their initial values; the reverse is refused. Equal shapes
 * are copied bit for bit. Mean, std, LayerNorm eps and attention scale are to's own. */
vt_status vt_adapt(vt_model *to, const vt_model *from, const vt_recipe_init *how, uint64_t seed, vt_err *e);

#endif
