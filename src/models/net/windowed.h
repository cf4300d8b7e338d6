/* SPDX-License-Identifier: MIT */
/* Attention in windows (Swin; Liu et al. 2021, 3.2) as a block's mixer: rows go into windows, vt_mha runs on each
 * window as on a sequence of its own, with the relative position bias and the shift's mask, and rows go back. */
#ifndef VT_MODELS_NET_WINDOWED_H
#define VT_MODELS_NET_WINDOWED_H

#include "models/net/block.h"
#include "models/swin.h"

/* sh->own of a block in windows. Buffers are scratch that blocks may share. */
typedef struct VT_R(vt_windows) {
    int window, count;  /* tokens a side of a window, windows of an image */
    const int *order;   /* [count * window^2] of nn/window.h */
    const real *mask;   /* [count, window^2, ldp], or NULL: not shifted */
    real *x, *o;        /* [b * count * window^2, width] each */
    real *bias, *dbias; /* [heads, window^2, ldp] each */
} VT_R(vt_windows);

/* The shape with which vt_mha is called: windows for images. */
VT_R(vt_block_shape) VT_R(vt_windowed_shape)(const VT_R(vt_block_shape) *sh);

extern const VT_R(vt_mixer) VT_R(vt_windowed);

#endif
