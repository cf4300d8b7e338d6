/* SPDX-License-Identifier: MIT */
/* What detection of an architecture (vt_arch's probe and detect) asks a state dict with canonical names. */
#pragma once

#include "tensors/tensors.h"
#include "models/model.h"

/* After a sentence about a network that is not computed. */
#define VT_WAY "`vitrine eval " VT_OPTION "oracle` evaluates the network where it runs, say in PyTorch"

/* One sentence, "PATH: BEFORE WHAT", for the first row that the configuration has; rows end at what NULL. */
typedef struct vt_unfit {
    bool has;
    const char *what;
} vt_unfit;
/* VT_E_SHAPE with one sentence, "PATH: BEFORE WHAT", for the first row that the configuration has; rows end at what
 * NULL. */
vt_status vt_refuse_unfit(const vt_unfit *rows, const char *path, const char *before, vt_err *e);

/* Finds the tensor of that name. VT_E_FORMAT: it is missing; VT_E_SHAPE: another number of dimensions, or a side that
 * is not between 1 and 1000000. */
vt_status vt_detect_need(const vt_tensors *st, const char *name, int ndim, const vt_tensor **out, vt_err *e);
/* Is there a tensor whose name begins and ends so? */
bool vt_detect_any(const vt_tensors *st, const char *begin, const char *end);
/* Returns the number of blocks "<prefix>i." of which the file has at least `least` tensors, so that one missing tensor
 * is missed by name, and one stray name is named as extra. */
int vt_detect_blocks(const vt_tensors *st, const char *prefix, int least);
/* Returns the kind of a normalisation, by tensors begin...end.weight and the like: BATCH has running statistics, NONE
 * has nothing; a CENTER looks like a LAYER, which checkpoint/resolve knows. end without the dot, ".norm1", or "": the
 * one normalisation called begin. */
vt_norm_kind vt_detect_norm(const vt_tensors *st, const char *begin, const char *end);
/* Returns which factors residual branches have, by tensors begin...ls1.gamma and the like. */
vt_factor vt_detect_factor(const vt_tensors *st, const char *begin);
/* Sets dim and patch by a convolution over patches, patch_embed.proj.weight; VT_E_FORMAT: there is none, VT_E_SHAPE: it
 * is none of three square planes. */
vt_status vt_detect_patches(const vt_tensors *st, vt_config *c, vt_err *e);
/* Returns the side of the square of n tokens; 0: it is none. */
int64_t vt_detect_side(int64_t n);
/* Sets image to a grid of side x side patches; VT_E_RANGE for more than 4096 pixels. */
vt_status vt_detect_grid(const vt_tensors *st, vt_config *c, int64_t side, vt_err *e);
/* Marks n fields as told by tensors. */
void vt_detect_known(vt_source src, const vt_field *fields, size_t n);
#define VT_DETECT_KNOWN(src, ...)                                                                                      \
    vt_detect_known(src, (const vt_field[]){__VA_ARGS__}, sizeof((const vt_field[]){__VA_ARGS__}) / sizeof(vt_field))
/* Marks both norms as told by tensors where no CenterNorm could look like them. */
void vt_detect_known_norms(vt_source src, const vt_config *c);
