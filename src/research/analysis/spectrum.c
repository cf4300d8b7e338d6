/* SPDX-License-Identifier: MIT */
#include "research/analysis/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include "core/mem.h"
#include "core/svd.h"
#include "core/threads.h"

const char *vt_part_name(vt_part p) {
    static const char *const names[VT_PART_COUNT] = {"whole", "rows", "columns"};
    return names[p];
}

static size_t parts(const vt_spectrum *s) { return 1 + 2 * (size_t)s->heads; }

static double *cell(const vt_spectrum *s, int block, vt_role role, vt_part part, int head) {
    size_t first = part == VT_PART_WHOLE ? 0 : part == VT_PART_ROWS ? 1 : 1 + (size_t)s->heads;
    return s->sigma + ((size_t)block * VT_ROLE_COUNT + role) * parts(s) + first + (size_t)head;
}

typedef struct job {
    const vt_model *m;
    const vt_spectrum *s;
} job;

/* One matrix in double: a [rows, cols]; scratch [min(rows, cols)]. */
static vt_status measure(const vt_spectrum *s, int block, vt_role role, const vt_matrix *x, const double *a,
                         double *scratch, vt_err *e) {
    VT_TRY(vt_svd_values(scratch, a, x->rows, x->cols, x->cols, e));
    *cell(s, block, role, VT_PART_WHOLE, 0) = scratch[0];
    if (role > VT_ROLE_V) return VT_OK; /* heads are a matter of Q, K and V */
    int h = x->heads, tall = x->rows / h, wide = x->cols / h;
    for (int i = 0; i < h && x->rows % h == 0; i++) {
        const double *head = a + (size_t)i * (size_t)tall * (size_t)x->cols;
        VT_TRY(vt_svd_values(scratch, head, tall, x->cols, x->cols, e));
        *cell(s, block, role, VT_PART_ROWS, i) = scratch[0];
    }
    for (int i = 0; i < h && x->cols % h == 0; i++) {
        VT_TRY(vt_svd_values(scratch, a + (size_t)i * (size_t)wide, x->rows, wide, x->cols, e));
        *cell(s, block, role, VT_PART_COLUMNS, i) = scratch[0];
    }
    return VT_OK;
}

static vt_status item(void *ctx, int thread, size_t i, vt_err *e) {
    (void)thread;
    const job *j = ctx;
    int block = (int)(i % (size_t)j->s->depth);
    vt_role role = (vt_role)(i / (size_t)j->s->depth);
    vt_matrix x;
    if (!vt_model_matrix(j->m, block, role, &x)) return VT_OK; /* stays NaN */
    size_t n = (size_t)x.rows * (size_t)x.cols, least = (size_t)(x.rows < x.cols ? x.rows : x.cols);
    double *a = vt_alloc((n + least) * sizeof *a);
    if (!a) return vt_fail(e, VT_E_MEMORY, "no memory for %s of block %d", vt_role_name(role), block);
    for (size_t k = 0; k < n; k++) a[k] = (double)j->m->w[x.offset + k];
    vt_err why = {0};
    vt_status s = measure(j->s, block, role, &x, a, a + n, &why);
    free(a);
    if (s == VT_OK) return VT_OK;
    return vt_fail(e, s, "%s: %s of block %d: %s", j->m->path ? j->m->path : "model", vt_role_name(role), block,
                   why.text);
}

static int most_heads(const vt_model *m) {
    int most = 1;
    vt_matrix x;
    for (int b = 0; b < vt_model_blocks(m); b++)
        if (vt_model_matrix(m, b, VT_ROLE_Q, &x) && x.heads > most) most = x.heads;
    return most;
}

vt_status vt_spectrum_measure(vt_spectrum *out, const vt_model *m, bool all, int threads, vt_err *e) {
    *out = (vt_spectrum){.depth = vt_model_blocks(m), .heads = most_heads(m)};
    size_t n = (size_t)out->depth * VT_ROLE_COUNT * parts(out); /* depth and heads are bounded by vt_config_check */
    out->sigma = vt_alloc(n * sizeof *out->sigma);
    if (!out->sigma) return vt_fail(e, VT_E_MEMORY, "no memory for %zu singular values", n);
    for (size_t i = 0; i < n; i++) out->sigma[i] = NAN;
    job j = {m, out};
    size_t roles = all ? VT_ROLE_COUNT : VT_ROLE_V + 1;
    vt_status s = vt_for_each(roles * (size_t)out->depth, threads, item, &j, e);
    if (s != VT_OK) vt_spectrum_free(out);
    return s;
}

void vt_spectrum_free(vt_spectrum *s) {
    free(s->sigma);
    *s = (vt_spectrum){0};
}

double vt_spectrum_get(const vt_spectrum *s, int block, vt_role role, vt_part part, int head) {
    if (block < 0) {
        double sum = 0;
        int count = 0;
        for (int b = 0; b < s->depth; b++) {
            double x = vt_spectrum_get(s, b, role, part, head);
            if (!isnan(x)) sum += x, count++;
        }
        return count ? sum / count : NAN;
    }
    if (block >= s->depth || head >= (part == VT_PART_WHOLE ? 1 : s->heads)) return NAN;
    if (part == VT_PART_WHOLE || head >= 0) return *cell(s, block, role, part, head < 0 ? 0 : head);
    double most = NAN;
    for (int h = 0; h < s->heads; h++) most = fmax(most, *cell(s, block, role, part, h)); /* fmax passes a NaN over */
    return most;
}
