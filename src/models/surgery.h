/* SPDX-License-Identifier: MIT */
/* Networks made from another one: with a new head, or cut off behind a block. Heads are the tensors whose names
 * begin with "head"; the features that they read are numbered one head after the other. */
#pragma once

#include "models/model.h"

/* A copy of m with another head of `classes` outputs, all zero; everything else the same. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e);
/* The same without the blocks behind the first `depth`; the norm before the head is then the one that the next block
 * begins with. *out NULL: this network cannot be cut there. */
vt_status vt_cut_behind(vt_model **out, const vt_model *m, int depth, int classes, vt_err *e);
/* Points inside a ViT whose blocks begin with a norm: 2 k is the stream before block k, 2 k + 1 that behind its
 * attention, 2 depth that after the last block. How many there are; 0: this network cannot be cut inside. */
int vt_points_inside(const vt_model *m);
/* The network up to a point, with another head, all zero, which reads after the norm that stands there: the class
 * token, then the mean over the patches (without a class token that alone). *out NULL: it cannot be cut there. */
vt_status vt_cut_inside(vt_model **out, const vt_model *m, int point, int classes, vt_err *e);
double vt_point_share(const vt_model *m, int point); /* what of a forward that takes */
/* Rows of the copies' heads from w [rows, phi] and b [rows]; phi is what vt_feature_count counts. w NULL: each row
 * shows one feature. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi);
size_t vt_feature_count(const vt_model *m); /* what all heads read, one behind the other */
