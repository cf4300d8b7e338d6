/* SPDX-License-Identifier: MIT */
/* What detection of an architecture (vt_arch's probe and detect) asks a state dict with canonical names. */
#ifndef VT_MODELS_DETECT_H
#define VT_MODELS_DETECT_H

#include "io/safetensors.h"
#include "models/model.h"

/* After a sentence about a network that is not computed. */
#define VT_WAY "`vitrine eval " VT_OPTION "oracle` evaluates the network where it runs, say in PyTorch"

/* The tensor of that name and number of dimensions, every side between 1 and 1000000, or a sentence. */
vt_status vt_detect_need(const vt_tensors *st, const char *name, int ndim, const vt_tensor **out, vt_err *e);
/* Is there a tensor whose name begins and ends so? */
bool vt_detect_any(const vt_tensors *st, const char *begin, const char *end);
/* Blocks "<prefix>i." of which the file has at least `least` tensors, so that one missing tensor is missed by name, and
 * one stray name is named as extra. */
int vt_detect_blocks(const vt_tensors *st, const char *prefix, int least);
/* The kind of a normalisation, by tensors begin...end.weight and the like: BATCH has running statistics, NONE has
 * nothing; a CENTER looks like a LAYER, which models/checkpoint/resolve knows. end without the dot, ".norm1", or "":
 * the one normalisation called begin. */
vt_norm_kind vt_detect_norm(const vt_tensors *st, const char *begin, const char *end);
/* Marks fields as told by tensors. */
void vt_detect_told(vt_source src, const vt_field *fields, size_t n);

#endif
