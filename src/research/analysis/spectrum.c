/* SPDX-License-Identifier: MIT */
#include "research/analysis/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "linalg/svd.h"
#include "parallel/threads.h"

const char *vt_part_name(vt_part p) {
    static const char *const names[VT_PART_COUNT] = {"whole", "rows", "columns"};
    return names[p];
}

const vt_spectrum_matrix *vt_spectrum_at(const vt_spectrum *s, int block, vt_weight_kind kind) {
    return &s->matrices[block * VT_WEIGHT_KINDS + (int)kind];
}

const double *vt_spectrum_head(const vt_spectrum_matrix *x, int head) { return x->values + x->n + head * x->head_n; }

typedef struct job {
    const vt_model *m;
    vt_spectrum *s;
} job;

/* Fills out->values from a [rows, cols] in double: of the matrix, its heads by rows, and the largest of its heads by
 * columns (NaN if columns do not split). scratch [min(rows, cols)] */
static vt_status compute_singular_values(vt_spectrum_matrix *out, const vt_matrix *x, const double *a, double *scratch,
                                         vt_err *e) {
    double *head = out->values + out->n, *column = head + out->heads * out->head_n;
    int tall = out->head_n ? x->rows / x->heads : 0;
    VT_TRY(vt_svd_values(out->values, a, x->rows, x->cols, x->cols, e));
    for (int h = 0; h < out->heads && out->head_n; h++, head += out->head_n)
        VT_TRY(vt_svd_values(head, a + (size_t)(h * tall) * (size_t)x->cols, tall, x->cols, x->cols, e));
    for (int h = 0; h < out->heads; h++) column[h] = NAN;
    for (int h = 0, wide = x->cols / x->heads; h < out->heads && x->cols % x->heads == 0; h++) {
        VT_TRY(vt_svd_values(scratch, a + (size_t)(h * wide), x->rows, wide, x->cols, e));
        column[h] = scratch[0];
    }
    return VT_OK;
}

/* Allocates out->values and computes them; by_heads: also of the heads. VT_E_MEMORY, or LAPACK's failure. */
static vt_status measure_one_matrix(vt_spectrum_matrix *out, const vt_model *m, const vt_matrix *x, bool by_heads,
                                    vt_err *e) {
    size_t n = (size_t)x->rows * (size_t)x->cols;
    int least = x->rows < x->cols ? x->rows : x->cols;
    *out = (vt_spectrum_matrix){.n = least, .heads = by_heads ? x->heads : 0};
    if (by_heads && x->rows % x->heads == 0) out->head_n = x->rows / x->heads < x->cols ? x->rows / x->heads : x->cols;
    out->values = vt_alloc((size_t)(out->n + out->heads * (out->head_n + 1)) * sizeof *out->values);
    double *a = vt_alloc((n + (size_t)least) * sizeof *a);
    for (size_t k = 0; a && k < n; k++) a[k] = (double)m->w[x->offset + k];
    vt_status s = a && out->values ? compute_singular_values(out, x, a, a + n, e)
                                   : vt_fail(e, VT_E_MEMORY, "no memory for its values");
    free(a);
    return s;
}

/* Work item of vt_for_each: fills the matrix of kind i / depth in block i % depth, unless the block has none; a failure
 * names model, matrix and block. */
static vt_status measure_matrix(void *ctx, int thread, size_t i, vt_err *e) {
    (void)thread;
    const job *j = ctx;
    int block = (int)(i % (size_t)j->s->depth);
    vt_weight_kind kind = (vt_weight_kind)(i / (size_t)j->s->depth);
    vt_spectrum_matrix *out = &j->s->matrices[block * VT_WEIGHT_KINDS + (int)kind];
    vt_matrix x;
    vt_err why = {0};
    if (!vt_model_matrix(j->m, block, kind, &x)) return VT_OK;
    vt_status s = measure_one_matrix(out, j->m, &x, kind <= VT_WEIGHT_V, &why);
    if (s == VT_OK) return VT_OK;
    return vt_fail(e, s, "%s: %s of block %d: %s", j->m->path ? j->m->path : "model", vt_weight_kind_name(kind), block,
                   why.text);
}

/* The most heads of any block's W_Q, at least 1. */
static int most_heads(const vt_model *m) {
    int most = 1;
    vt_matrix x;
    for (int b = 0; b < vt_model_blocks(m); b++)
        if (vt_model_matrix(m, b, VT_WEIGHT_Q, &x) && x.heads > most) most = x.heads;
    return most;
}

vt_status vt_spectrum_measure(vt_spectrum *out, const vt_model *m, bool all, int threads, vt_err *e) {
    *out = (vt_spectrum){.depth = vt_model_blocks(m), .heads = most_heads(m)};
    size_t n = (size_t)out->depth * VT_WEIGHT_KINDS; /* depth and heads are bounded by vt_config_check */
    out->matrices = calloc(n, sizeof *out->matrices);
    if (!out->matrices) return vt_fail(e, VT_E_MEMORY, "no memory for the values of %zu matrices", n);
    job j = {m, out};
    size_t kinds = all ? VT_WEIGHT_KINDS : VT_WEIGHT_V + 1;
    vt_status s = vt_for_each(kinds * (size_t)out->depth, threads, measure_matrix, &j, e);
    if (s != VT_OK) vt_spectrum_free(out);
    return s;
}

void vt_spectrum_free(vt_spectrum *s) {
    for (int i = 0; s->matrices && i < s->depth * VT_WEIGHT_KINDS; i++) free(s->matrices[i].values);
    free(s->matrices);
    *s = (vt_spectrum){0};
}

/* Largest singular value of the whole matrix or of one head; NaN if there is none. */
static double largest_of_part(const vt_spectrum_matrix *x, vt_part part, int head) {
    if (!x->n || (part != VT_PART_WHOLE && head >= x->heads)) return NAN;
    if (part == VT_PART_WHOLE) return x->values[0];
    if (part == VT_PART_ROWS) return x->head_n ? *vt_spectrum_head(x, head) : NAN;
    return vt_spectrum_head(x, x->heads)[head];
}

double vt_spectrum_get(const vt_spectrum *s, int block, vt_weight_kind kind, vt_part part, int head) {
    if (block < 0) {
        double sum = 0;
        int count = 0;
        for (int b = 0; b < s->depth; b++) {
            double x = vt_spectrum_get(s, b, kind, part, head);
            if (!isnan(x)) sum += x, count++;
        }
        return count ? sum / count : NAN;
    }
    if (block >= s->depth || head >= (part == VT_PART_WHOLE ? 1 : s->heads)) return NAN;
    const vt_spectrum_matrix *x = vt_spectrum_at(s, block, kind);
    if (part == VT_PART_WHOLE || head >= 0) return largest_of_part(x, part, head);
    double most = NAN;
    for (int h = 0; h < s->heads; h++) most = fmax(most, largest_of_part(x, part, h)); /* fmax passes a NaN over */
    return most;
}
