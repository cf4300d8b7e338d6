/* SPDX-License-Identifier: MIT */
/* Largest singular values of a model's matrices: what SpecFormer's Fig. 2(a) shows and its penalty pushes down. Exact,
 * by linalg/svd, from the weights as they are (float32, widened). */
#pragma once

#include "models/model.h"

/* W_Q, W_K, W_V [D, D] in heads, d = D / heads: head h is rows h d .. (h+1) d - 1 in the paper (the outputs that are
 * the head's), but the same range of input columns in its released code. */
typedef enum vt_part { VT_PART_WHOLE, VT_PART_ROWS, VT_PART_COLUMNS, VT_PART_COUNT } vt_part;
/* "whole", "rows" or "columns". */
const char *vt_part_name(vt_part p);

/* One matrix: its values, largest first, and those of its heads. */
typedef struct vt_spectrum_matrix {
    int n, heads, head_n; /* n 0: not there, or not measured; head_n 0: its rows are not split by heads */
    double *values; /* [n]; then [heads][head_n] of the heads by rows; then [heads] the largest by columns or NaN */
} vt_spectrum_matrix;

typedef struct vt_spectrum {
    int depth, heads;             /* blocks; the most heads of any block */
    vt_spectrum_matrix *matrices; /* [depth][VT_WEIGHT_KINDS] */
} vt_spectrum;

/* Computes W_Q, W_K, W_V whole and by heads; with `all` also W_O, FC1 and FC2 whole. The result does not depend on
 * threads. A failure, which names the matrix, leaves out empty. */
vt_status vt_spectrum_measure(vt_spectrum *out, const vt_model *m, bool all, int threads, vt_err *e);
/* Frees all values and zeroes s; accepts a zeroed one. */
void vt_spectrum_free(vt_spectrum *s);
/* A block's matrix of one kind; n 0 if it was not measured. */
const vt_spectrum_matrix *vt_spectrum_at(const vt_spectrum *s, int block, vt_weight_kind kind);
/* The values [head_n] of a head by rows, largest first. */
const double *vt_spectrum_head(const vt_spectrum_matrix *x, int head);

/* Largest singular value of a matrix or of one head (VT_PART_WHOLE: head 0); head -1: the largest of all heads. Block
 * -1: the mean over the blocks that have it. NaN if there is none. */
double vt_spectrum_get(const vt_spectrum *s, int block, vt_weight_kind kind, vt_part part, int head);
