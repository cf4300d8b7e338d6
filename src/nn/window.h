/* SPDX-License-Identifier: MIT */
/* Rows of a square grid of tokens in another order: the windows of Swin (Liu et al. 2021, 3.2), rolled and padded as
 * timm >= 0.9 does, and the 2 x 2 neighbours that patch merging joins. An order is a list `from`: out row i is in row
 * from[i], or zero where from[i] is -1. Every row of the grid is named once, so that the way back is a copy too. */
#pragma once

#include "base/real.h"

/* Returns the windows that cover a side; the last one may hang over. */
static inline int vt_window_across(int side, int window) { return (side + window - 1) / window; }

/* from [windows * window^2]: the grid [side, side] rolled by (-shift, -shift), then padded at the right and at the
 * bottom to whole windows, cut into windows row by row, tokens of a window row by row. */
void VT_R(vt_window_order)(int *from, int side, int window, int shift);
/* mask [windows, window^2, ld]: 0 between tokens that were neighbours before the roll, -100 between others (the paper's
 * code: finite, so that padding attends too). Regions are those of the padded side. Columns from window^2 on stay. */
void VT_R(vt_window_mask)(real *mask, int side, int window, int shift, int ld);
/* from [side^2]: the four tokens of output (y, x) one after the other, (2y, 2x), (2y+1, 2x), (2y, 2x+1), (2y+1, 2x+1):
 * joined they are a row of four times the width. side is even. */
void VT_R(vt_merge_order)(int *from, int side);

/* Copies rows of in [images, rows, c] in the order `from` [n] into out [images, n, c]; zeros where from is -1. */
void VT_R(vt_rows_take)(real *out, const real *in, const int *from, int images, int n, int rows, int c);
/* Copies rows of out [images, n, c] back to their places `from` [n] in in [images, rows, c]. */
void VT_R(vt_rows_put)(real *in, const real *out, const int *from, int images, int n, int rows, int c);

/* Relative position bias: bias [heads, window^2, ld] of query i and key j is the row of table [(2 window - 1)^2, heads]
 * at (row_i - row_j, col_i - col_j), both counted from -(window - 1). */
void VT_R(vt_window_bias)(real *bias, const real *table, int window, int heads, int ld);
/* Adds dbias [heads, window^2, ld] to dtable [(2 window - 1)^2, heads]. */
void VT_R(vt_window_bias_backward)(real *dtable, const real *dbias, int window, int heads, int ld);
