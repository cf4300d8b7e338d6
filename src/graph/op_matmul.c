/* SPDX-License-Identifier: MIT */
/* Products of stacks of matrices, by numpy's rules; the way that Gemm, Einsum and Attention compute, too. */
#include <limits.h>
#include <string.h>
#include "graph/matmul.h"
#include "graph/op.h"
#include "linalg/gemm.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_matmul *p = c->n->with;
    const real *bias = c->n->n_in > 2 ? c->x[2] : NULL;
#ifndef VT_DOUBLE
    if (p->packed) {
        vt_convolution_forward(c->y, NULL, c->x[0], p->packed, bias, &p->shape);
        return;
    }
#endif
    for (int i = 0; bias && i < p->m; i++) memcpy(c->y + (size_t)i * (size_t)p->n, bias, (size_t)p->n * sizeof *bias);
    for (size_t i = 0; i < p->count; i++)
        VT_R(vt_gemm)(p->ta, p->tb, p->m, p->n, p->k, (real)p->alpha, c->x[0] + p->a[i], p->ta ? p->m : p->k,
                      c->x[1] + p->b[i], p->tb ? p->k : p->n, bias ? 1 : 0, c->y + i * (size_t)p->m * (size_t)p->n,
                      p->n);
}

/* Computes dA of C = op(A) op(B), dC op(B)^T or its transpose, and dB alike, each if wanted. */
static void backward(const VT_R(vt_call) *c) {
    const vt_matmul *p = c->n->with;
#ifndef VT_DOUBLE
    if (p->packed) {
        if (c->dx[0]) vt_convolution_backward(c->dx[0], NULL, c->dy, p->packed, c->add[0], &p->shape);
        return;
    }
#endif
    bool add[2]; /* where each matrix gets one gradient, and from one side, it is written, not added */
    for (int k = 0; k < 2; k++) {
        add[k] = c->add[k] || !p->apart[k] || c->n->in[0] == c->n->in[1];
        if (c->dx[k] && !c->add[k] && add[k]) memset(c->dx[k], 0, c->g->values[c->n->in[k]].n * sizeof(real));
    }
    for (size_t i = 0; i < p->count; i++) {
        const real *dy = c->dy + i * (size_t)p->m * (size_t)p->n, *a = c->x[0] + p->a[i], *b = c->x[1] + p->b[i];
        const int lda = p->ta ? p->m : p->k, ldb = p->tb ? p->k : p->n;
        if (c->dx[0] && !p->ta)
            VT_R(vt_gemm)(false, !p->tb, p->m, p->k, p->n, (real)p->alpha, dy, p->n, b, ldb, add[0], c->dx[0] + p->a[i],
                          lda);
        if (c->dx[0] && p->ta)
            VT_R(vt_gemm)(p->tb, true, p->k, p->m, p->n, (real)p->alpha, b, ldb, dy, p->n, add[0], c->dx[0] + p->a[i],
                          lda);
        if (c->dx[1] && !p->tb)
            VT_R(vt_gemm)(!p->ta, false, p->k, p->n, p->m, (real)p->alpha, a, lda, dy, p->n, add[1], c->dx[1] + p->b[i],
                          ldb);
        if (c->dx[1] && p->tb)
            VT_R(vt_gemm)(true, p->ta, p->n, p->k, p->m, (real)p->alpha, dy, p->n, a, lda, add[1], c->dx[1] + p->b[i],
                          ldb);
    }
}

static double flops(const vt_graph *g, const vt_node *n) {
    return 2 * (double)g->values[n->out].n * (double)((const vt_matmul *)n->with)->k;
}

#ifndef VT_DOUBLE
/* Sets at[i] to where matrix i of the result's stack [outer] lies in a value of sides d. */
static void stack_offsets(size_t *at, const vt_dims *outer, const vt_dims *d) {
    size_t n = 1, matrix = (size_t)(d->d[d->rank - 1] * d->d[d->rank - 2]);
    int64_t i[VT_RANK] = {0};
    for (int k = 0; k < outer->rank; k++) n *= (size_t)outer->d[k];
    for (size_t r = 0; r < n; r++) {
        size_t from = 0;
        for (int k = 0; k < outer->rank; k++) {
            const int own = k - outer->rank + d->rank - 2;
            if (own >= 0) from = from * (size_t)d->d[own] + (size_t)(d->d[own] == 1 ? 0 : i[k]);
        }
        at[r] = from * matrix;
        for (int k = outer->rank - 1; k >= 0 && ++i[k] == outer->d[k]; k--) i[k] = 0;
    }
}

static vt_status fail_sides(vt_import *im, const vt_dims *a, const vt_dims *b, vt_err *e) {
    char p[200], q[200];
    return vt_import_fail(im, e, "multiplies sides %s by %s", vt_dims_text(a, p, sizeof p),
                          vt_dims_text(b, q, sizeof q));
}

/* Sets *outer to the sides before the last two, broadcast together; VT_E_FORMAT if they do not fit. */
static vt_status stack_of(vt_import *im, const vt_dims *a, const vt_dims *b, vt_dims *outer, vt_err *e) {
    outer->rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    for (int k = 0; k < outer->rank; k++) {
        const int i = k - outer->rank + a->rank - 2, j = k - outer->rank + b->rank - 2;
        const int64_t p = i < 0 ? 1 : a->d[i], q = j < 0 ? 1 : b->d[j];
        if (p != q && p != 1 && q != 1) return fail_sides(im, a, b, e);
        outer->d[k] = p == 1 ? q : p;
    }
    return VT_OK;
}

vt_status vt_emit_matmul(vt_import *im, int a, int b, bool ta, bool tb, double alpha, int *y, vt_err *e) {
    const int in[2] = {a, b};
    const vt_dims da = vt_import_value(im, a)->dims, db = vt_import_value(im, b)->dims;
    vt_dims outer;
    if (da.rank < 2 || db.rank < 2) return fail_sides(im, &da, &db, e);
    VT_TRY(stack_of(im, &da, &db, &outer, e));
    const int64_t m = da.d[da.rank - 2 + ta], k = da.d[da.rank - 1 - ta], n = db.d[db.rank - 1 - tb];
    if (k != db.d[db.rank - 2 + tb]) return fail_sides(im, &da, &db, e);
    vt_dims d = outer;
    d.rank += 2, d.d[outer.rank] = m, d.d[outer.rank + 1] = n;
    size_t count = 1, all;
    if (!vt_dims_count(&d, &all) || !vt_dims_count(&outer, &count) || m > INT_MAX || n > INT_MAX || k > INT_MAX)
        return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    vt_matmul *p = vt_import_take(im, 1, sizeof *p);
    if (!p || !(p->a = vt_import_take(im, count + 1, sizeof *p->a)) ||
        !(p->b = vt_import_take(im, count + 1, sizeof *p->b)))
        return vt_import_memory(im, e);
    p->ta = ta, p->tb = tb, p->m = (int)m, p->n = (int)n, p->k = (int)k, p->alpha = alpha, p->count = count;
    if (!all || !k) return vt_import_fail(im, e, "multiplies empty matrices");
    stack_offsets(p->a, &outer, &da), stack_offsets(p->b, &outer, &db);
    p->apart[0] = all / (size_t)n == vt_import_value(im, a)->n / (size_t)k,
    p->apart[1] = count * (size_t)n * (size_t)k == vt_import_value(im, b)->n;
    bool same = !ta; /* one matrix B, rows of A one after another: one product */
    for (size_t i = 0; i < count; i++) same = same && p->b[i] == 0 && p->a[i] == i * (size_t)m * (size_t)k;
    if (same && (int64_t)count * m <= INT_MAX) p->m = (int)((int64_t)count * m), p->count = 1;
    return vt_emit(im, vt_op_find_f32("MatMul"), in, 2, &d, false, p, y, e);
}
#endif

/* Imports a MatMul; vectors are matrices of one row or column, whose side is taken back. */
static vt_status import(vt_import *im, vt_err *e) {
    int a, b, y;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_real_input(im, 0, &a, e));
    VT_TRY(vt_real_input(im, 1, &b, e));
    const vt_dims da = vt_import_value(im, a)->dims, db = vt_import_value(im, b)->dims;
    if (da.rank == 1) VT_TRY(vt_emit_reshape(im, a, &(vt_dims){2, {1, da.d[0]}}, &a, e));
    if (db.rank == 1) VT_TRY(vt_emit_reshape(im, b, &(vt_dims){2, {db.d[0], 1}}, &b, e));
    VT_TRY(vt_emit_matmul(im, a, b, false, false, 1, &y, e));
    vt_dims d = vt_import_value(im, y)->dims, to = {0};
    for (int k = 0; k < d.rank; k++)
        if (!(k == d.rank - 2 && da.rank == 1) && !(k == d.rank - 1 && db.rank == 1)) to.d[to.rank++] = d.d[k];
    VT_TRY(vt_emit_reshape(im, y, &to, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_matmul);
const VT_R(vt_op) VT_R(vt_op_matmul) =
    {.name = "MatMul", .import = import, .forward = forward, .backward = backward, .keep = VT_KEEP_X, .flops = flops};
