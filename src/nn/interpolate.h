/* SPDX-License-Identifier: MIT */
/* Resizing inside a model, with its exact adjoint: torch.nn.functional.interpolate(align_corners=False). For models
 * that enlarge their input themselves (32 to 224), when the perturbation is to live at the native resolution.
 * data/transform is the other one: bytes, Pillow's rounding, not differentiable.
 *
 * The map is linear and separable, y = R X C^T for every channel, so a plan is two sparse matrices; forward-mode
 * derivatives are the forward itself. */
#pragma once

#include <stdbool.h>
#include "base/mem.h"
#include "base/real.h"

/* With antialias (PyTorch's antialias=True; not for nearest) the filter is stretched when a side shrinks, weights
 * outside the picture are dropped and the rest normalised, and bicubic has a = -0.5 as Pillow's; without it indices are
 * clamped at the border and bicubic has a = -0.75. */
typedef enum vt_interp_kind { VT_INTERP_NEAREST, VT_INTERP_BILINEAR, VT_INTERP_BICUBIC } vt_interp_kind;

/* out x in, at most `taps` entries a row: y[o] = sum_t w[o*taps + t] x[at[o*taps + t]]; unused entries have weight 0.
 */
typedef struct VT_R(vt_interp_axis) {
    int in, out, taps;
    int *at;
    real *w;
} VT_R(vt_interp_axis);

typedef struct VT_R(vt_interp) {
    VT_R(vt_interp_axis) rows, columns;
    real *between; /* [rows.in, columns.out]: scratch, so a plan belongs to one thread */
} VT_R(vt_interp);

/* Makes the plan: takes its memory from the arena (which may only measure) and fills it. Sides from 1 to 16384. offset:
 * 0, or that of PyTorch's scale_factor = (out + offset) / in in place of a size: without antialias the coordinates are
 * scaled by it. */
void VT_R(vt_interp_plan)(VT_R(vt_interp) *p, vt_arena *a, vt_interp_kind kind, bool antialias, int in_h, int in_w,
                          int out_h, int out_w, double offset);
/* Resizes x [channels, in_h, in_w] to y [channels, out_h, out_w]. */
void VT_R(vt_interp_forward)(real *y, const VT_R(vt_interp) *p, const real *x, int channels);
/* Computes dx [channels, in_h, in_w], overwritten: the adjoint of dy [channels, out_h, out_w]. */
void VT_R(vt_interp_backward)(real *dx, const VT_R(vt_interp) *p, const real *dy, int channels);
