/* SPDX-License-Identifier: MIT */
/* Networks made from another one: with a new head, cut off behind a block, or with slightly perturbed weights. Heads
 * are the tensors whose names begin with "head"; the features that they read are numbered one head after the other.
 * What is made from the network of an ONNX file (graph/parts.h; its cuts are its "blocks") must not outlive it. */
#pragma once

#include "models/model.h"

/* Copies m with another head of `classes` outputs, all zero. VT_E_MEMORY alone. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e);
/* Copies m without the blocks behind the first `depth`, with another head of `classes` outputs, all zero; the norm
 * before the head is then the one that the next block begins with. *out NULL: this network cannot be cut there. */
vt_status vt_cut_behind(vt_model **out, const vt_model *m, int depth, int classes, vt_err *e);
/* Returns the number of points inside a ViT whose blocks begin with a norm: 2 k is the stream before block k, 2 k + 1
 * that behind its attention, 2 depth that after the last block. 0: this network cannot be cut inside. */
int vt_points_inside(const vt_model *m);
/* Copies the network up to a point, with another head, all zero, which reads after the norm that stands there: the
 * class token, then the mean over the patches (without a class token that alone). *out NULL: it cannot be cut there. */
vt_status vt_cut_inside(vt_model **out, const vt_model *m, int point, int classes, vt_err *e);
double vt_point_share(const vt_model *m, int point); /* what of a forward that takes */
/* Sets rows of a copy's heads from w [rows, phi] and b [rows]; phi is what vt_feature_count counts. w NULL: each row
 * shows one feature. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi);
size_t vt_feature_count(const vt_model *m); /* what all heads read, one behind the other */

/* How far the weights of a matrix are moved in a perturbed copy: normal, this share of the root mean square of the row.
 * A copy is nearly the same function, but has gradients of its own: an adversarial point that is found on it and breaks
 * the original too was found without the original's gradients. */
#define VT_TWIN_SHARE 0.01

/* Makes *out a model of its own (prepared; free to outlive m): m seen a little out of focus. Matrices are moved by
 * VT_TWIN_SHARE, attention takes the usual 1/sqrt(width of a head) where it is more than four times sharper, and
 * nothing that stands around a classifier of m stands around the twin's. A seed gives one twin. */
vt_status vt_model_twin(vt_model **out, const vt_model *m, uint64_t seed, vt_err *e);
