/* SPDX-License-Identifier: MIT */
/* PatchCleanser's masks and what is decided with them (Xiang et al. 2022, "PatchCleanser: Certifiably Robust Defense
 * against Adversarial Patches for Any Image Classifier"): rectangles so placed that each patch of a size lies whole
 * inside one (R-covering, their definition 3). The certificate: if the network gives the label under every pair of
 * masks, double masking gives it for every image that differs from x in one such patch (their theorem 1), since the
 * masks over the patch leave the same numbers as on x. */
#pragma once

#include <signal.h>
#include "base/shape.h"
#include "inference/classifier.h"

enum { VT_MASKS_SIDE = 16, VT_MASKS_MOST = VT_MASKS_SIDE * VT_MASKS_SIDE };

/* Mask number i covers rows at[0][i / n[1]] to that + side[0] - 1, and columns likewise. */
typedef struct vt_mask_set {
    vt_shape shape;
    int patch, side[2], n[2];
    int at[2][VT_MASKS_SIDE];
} vt_mask_set;

/* Makes the masks for square patches of `patch` pixels, at most `masks` an axis (2 to VT_MASKS_SIDE). VT_E_USAGE: the
 * patch is as large as the image. */
vt_status vt_mask_set_make(vt_mask_set *s, int patch, int masks, vt_shape shape, vt_err *e);
/* Returns how many masks there are. */
static inline int vt_mask_count(const vt_mask_set *s) { return s->n[0] * s->n[1]; }
/* Sets the values of y [shape] under mask i to fill[channel], of the first three channels; 0 in others. */
void vt_mask_apply(float *y, const vt_mask_set *s, int i, const float fill[3]);

/* Sets *class to the network's prediction under masks i and j, i <= j. */
typedef vt_status (*vt_two_masks_fn)(void *ctx, int i, int j, int *class, vt_err *e);
/* Double masking (their algorithm 1): *class from the predictions `under`; pred [masks]: those under one mask. If
 * classes are equally frequent, the larger number is the majority, as in their code. */
vt_status vt_double_masking(int *class, int *pred, int masks, vt_two_masks_fn under, void *ctx, vt_err *e);
/* Sets *agree to whether all predictions under two masks, and under one, are the label; ends at the first that is
 * not. */
vt_status vt_masks_agree(bool *agree, int masks, int label, vt_two_masks_fn under, void *ctx, vt_err *e);

/* Certifies x [pixels] for its label under the wrap `patchcleanser`, which stands around c; *forwards: of the network.
 * VT_E_USAGE: another classifier; VT_INTERRUPTED once *interrupt (NULL: never) is set. */
vt_status vt_masks_certify(bool *certified, int64_t *forwards, const vt_classifier *c, const float *x, int label,
                           const volatile sig_atomic_t *interrupt, vt_err *e);
/* Returns the side of the patches for which the wrap's parameters are made. */
int vt_patchcleanser_patch(const void *params);
