/* SPDX-License-Identifier: MIT */
/* Networks made from another one: with a new head, or cut off behind a block. Heads are the tensors whose names
 * begin with "head"; the features that they read are numbered one head after the other. */
#ifndef VT_MODELS_SURGERY_H
#define VT_MODELS_SURGERY_H

#include "models/model.h"

/* A copy of m with another head of `classes` outputs, all zero; everything else the same. */
vt_status vt_other_head(vt_model **out, const vt_model *m, int classes, vt_err *e);
/* The same without the blocks behind the first `depth`; the norm before the head is then the one that the next block
 * begins with. *out NULL: this network cannot be cut there. */
vt_status vt_cut_behind(vt_model **out, const vt_model *m, int depth, int classes, vt_err *e);
/* Rows of the copies' heads from w [rows, phi] and b [rows]; phi is what vt_feature_count counts. w NULL: each row
 * shows one feature. */
void vt_head_set(vt_model *m, const double *w, const double *b, int rows, size_t phi);
size_t vt_feature_count(const vt_model *m); /* what all heads read, one behind the other */

#endif
