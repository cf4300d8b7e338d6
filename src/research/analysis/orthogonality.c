/* SPDX-License-Identifier: MIT */
#include "research/analysis/orthogonality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/mem.h"

/* By the smaller Gram matrix: |W^T W - I_n|^2 = |W W^T - I_m|^2 + (n - m). */
vt_status vt_gap_of(vt_gap *out, const double *w, int m, int n, vt_err *e) {
    int k = m < n ? m : n;
    double *gram = vt_alloc((size_t)k * (size_t)k * sizeof *gram), sum = 0;
    if (!gram) return vt_fail(e, VT_E_MEMORY, "no memory for the Gram matrix of a %d x %d matrix", m, n);
    if (m < n)
        vt_gemm_f64(false, true, m, m, n, 1, w, n, w, n, 0, gram, m);
    else
        vt_gemm_f64(true, false, n, n, m, 1, w, n, w, n, 0, gram, n);
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) {
            double d = gram[(size_t)i * (size_t)k + (size_t)j] - (i == j);
            sum += d * d;
        }
    free(gram);
    *out = (vt_gap){.gap = sum, .floor = n > m ? n - m : 0};
    out->loss = out->gap + out->floor;
    return VT_OK;
}

const char *vt_gap_name(int which) {
    return which == VT_GAP_STACK ? "stack" : which == VT_GAP_WIDE ? "wide" : vt_weight_kind_name((vt_weight_kind)which);
}

/* out: W_Q, W_K, W_V, W_O of the block, a shared tensor once; returns how many, 0 if one is missing or sizes differ. */
static int collect_attention_matrices(vt_matrix out[4], const vt_model *m, int block) {
    int n = 0;
    for (int r = VT_WEIGHT_Q; r <= VT_WEIGHT_O; r++) {
        vt_matrix x;
        if (!vt_model_matrix(m, block, (vt_weight_kind)r, &x)) return 0;
        if (x.again) continue;
        if (n && (x.rows != out[0].rows || x.cols != out[0].cols)) return 0;
        out[n++] = x;
    }
    return n;
}

/* to: n matrices of one size in double, below each other [n rows, cols], or side by side [rows, n cols]. */
static void stack_matrices(double *to, const vt_model *m, const vt_matrix *w, int n, bool below) {
    for (int k = 0; k < n; k++)
        for (int i = 0; i < w[k].rows; i++) {
            size_t row = below ? (size_t)(k * w[k].rows + i) : (size_t)(i * n + k);
            for (int j = 0; j < w[k].cols; j++)
                to[row * (size_t)w[k].cols + (size_t)j] =
                    (double)m->w[w[k].offset + (size_t)i * (size_t)w[k].cols + (size_t)j];
        }
}

/* vt_gap_of n matrices of a model, below each other or side by side; VT_E_MEMORY. */
static vt_status gap_of_stack(vt_gap *out, const vt_model *m, const vt_matrix *w, int n, bool below, vt_err *e) {
    double *a = vt_alloc((size_t)n * (size_t)w->rows * (size_t)w->cols * sizeof *a);
    if (!a) return vt_fail(e, VT_E_MEMORY, "no memory for a matrix of %d x %d", w->rows, w->cols);
    stack_matrices(a, m, w, n, below);
    vt_status s = vt_gap_of(out, a, below ? n * w->rows : w->rows, below ? w->cols : n * w->cols, e);
    free(a);
    return s;
}

vt_status vt_gaps_of_block(vt_gap out[VT_GAP_COUNT], const vt_model *m, int block, vt_err *e) {
    vt_matrix w[4];
    for (int k = 0; k < VT_GAP_COUNT; k++) out[k] = (vt_gap){NAN, NAN, NAN};
    for (int r = 0; r < VT_WEIGHT_KINDS; r++)
        if (vt_model_matrix(m, block, (vt_weight_kind)r, &w[0])) VT_TRY(gap_of_stack(&out[r], m, w, 1, true, e));
    int n = collect_attention_matrices(w, m, block);
    if (!n) return VT_OK;
    VT_TRY(gap_of_stack(&out[VT_GAP_STACK], m, w, n, true, e));
    return gap_of_stack(&out[VT_GAP_WIDE], m, w, n, false, e);
}
