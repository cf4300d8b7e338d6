/* SPDX-License-Identifier: MIT */
/* Windows that convolutions and pools see of maps [C, sides]: one to three sides, of which missing ones have length 1.
 */
#pragma once

#include "graph/import.h"

typedef struct vt_windows {
    int64_t n, channels, in[3], out[3], kernel[3], stride[3], dilation[3], before[3]; /* n: maps; before: padding */
    int64_t pixels_in, pixels_out, taps;
    int64_t last[3]; /* first place after the input and the padding that counts (pools) */
} vt_windows;

/* Sets *w to the windows on x [N,C,sides], by the attributes kernel_shape (or `kernel`, [rank-2], if it is not NULL),
 * strides, dilations, pads, auto_pad and ceil_mode of the node at hand, and *d to the result's sides, with `channels`.
 * VT_E_FORMAT. */
vt_status vt_import_windows(vt_import *im, int x, const int64_t *kernel, int64_t channels, vt_windows *w, vt_dims *d,
                            vt_err *e);
/* Returns where tap k of [0, taps) lies at output pixel p: index of the input's pixel, or -1 in the padding. */
static inline int64_t vt_windows_at(const vt_windows *w, int64_t p, int64_t k) {
    int64_t at = 0, scale = 1;
    for (int s = 2; s >= 0; s--) {
        const int64_t o = p % w->out[s], t = k % w->kernel[s];
        p /= w->out[s], k /= w->kernel[s];
        const int64_t i = o * w->stride[s] - w->before[s] + t * w->dilation[s];
        if (i < 0 || i >= w->in[s]) return -1;
        at += i * scale, scale *= w->in[s];
    }
    return at;
}
