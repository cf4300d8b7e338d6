/* SPDX-License-Identifier: MIT */
/* Convolutions (cross-correlations) in float over maps of channels-last order, [h, w, c], with weights that were
 * brought into the order of the kernels once. 3 x 3 kernels of stride 1 by Winograd's F(2x2, 3x3) (Lavin and Gray 2016,
 * arXiv:1509.09308), which takes 2.25 times fewer multiplications; depthwise ones directly; others as products of
 * windows. One image at a time: its bits depend on nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct vt_convolution {
    int in, out, groups;               /* channels */
    int h, w, ho, wo;                  /* of input and output */
    int kernel[2], stride[2], step[2]; /* step: dilation */
    int before[2];                     /* padding above and left of the input */
} vt_convolution;

/* Whether there is a kernel for it. */
bool vt_convolution_fits(const vt_convolution *s);
/* Floats that the weights take in the order of the kernels, for a forward and a backward, and the workspace of both. */
size_t vt_convolution_packed(const vt_convolution *s);
size_t vt_convolution_work(const vt_convolution *s);
/* Sets to [vt_convolution_packed] to the weights w [out, in / groups, kernel] in the order of the kernels, each output
 * channel times scale [out] (NULL: 1). */
void vt_convolution_pack(float *to, const vt_convolution *s, const float *w, const float *scale);
/* y [ho, wo, out] = the convolution of x [h, w, in] + bias [out] (NULL: 0); nothing if no kernel fits. work:
 * vt_convolution_work floats of scratch. */
void vt_convolution_forward(float *y, float *work, const float *x, const float *packed, const float *bias,
                            const vt_convolution *s);
/* dx [h, w, in] = the adjoint of dy [ho, wo, out], or += with add; nothing if no kernel fits. work: vt_convolution_work
 * floats of scratch. */
void vt_convolution_backward(float *dx, float *work, const float *dy, const float *packed, bool add,
                             const vt_convolution *s);
