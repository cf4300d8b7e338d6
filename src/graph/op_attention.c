/* SPDX-License-Identifier: MIT */
/* softmax(Q K^T scale + mask) V of each head. */
#include <math.h>
#include "graph/reduce.h"

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE };

/* Sets *y to input k as [N, heads, positions, numbers]; VT_E_FORMAT: it has not four sides, nor three that `heads`
 * divide. */
static vt_status take_heads(vt_import *im, int k, int64_t heads, int *y, vt_err *e) {
    VT_TRY(vt_real_input(im, k, y, e));
    const vt_dims d = vt_import_value(im, *y)->dims;
    if (d.rank == 4) return VT_OK;
    if (d.rank != 3 || heads < 1 || d.d[2] % heads)
        return vt_import_fail(im, e, "has an input %d of %d sides and %lld heads", k + 1, d.rank, (long long)heads);
    VT_TRY(vt_emit_reshape(im, *y, &(vt_dims){4, {d.d[0], d.d[1], heads, d.d[2] / heads}}, y, e));
    return vt_emit_transpose(im, *y, (const int[]){0, 2, 1, 3}, y, e);
}

/* Sets *y to input k, what came before (left out: nothing), joined to it, which is output `out` too; then to each head
 * as often as `heads` ask for it. VT_E_FORMAT: that is no whole number. */
static vt_status join_past(vt_import *im, int k, int out, int64_t heads, int *y, vt_err *e) {
    const int parts[2] = {vt_input(im, k), *y};
    if (parts[0] >= 0) VT_TRY(vt_emit_concat(im, parts, 2, 2, y, e));
    VT_TRY(vt_output(im, out, *y, e));
    const vt_dims d = vt_import_value(im, *y)->dims;
    if (d.d[1] == heads) return VT_OK;
    if (!d.d[1] || heads % d.d[1])
        return vt_import_fail(im, e, "has %lld heads for %lld", (long long)d.d[1], (long long)heads);
    const int64_t times = heads / d.d[1];
    VT_TRY(vt_emit_reshape(im, *y, &(vt_dims){5, {d.d[0], d.d[1], 1, d.d[2], d.d[3]}}, y, e));
    VT_TRY(vt_emit_expand(im, *y, &(vt_dims){5, {d.d[0], d.d[1], times, d.d[2], d.d[3]}}, y, e));
    return vt_emit_reshape(im, *y, &(vt_dims){4, {d.d[0], heads, d.d[2], d.d[3]}}, y, e);
}

/* Sets *m to the mask as numbers (false: -infinity), -infinity for positions beyond its own; -1: there is none. */
static vt_status take_mask(vt_import *im, int64_t positions, int *m, vt_err *e) {
    *m = vt_input(im, MASK);
    if (*m < 0) return VT_OK;
    const vt_value v = *vt_import_value(im, *m);
    if (v.integers) {
        double *p = vt_import_take(im, v.n + 1, sizeof *p);
        if (!p) return vt_import_memory(im, e);
        for (size_t i = 0; i < v.n; i++) p[i] = v.integers[i] ? 0 : -INFINITY;
        VT_TRY(vt_emit_reals(im, &v.dims, p, m, e));
    }
    vt_dims d = v.dims;
    int64_t *table[VT_RANK] = {0}, step = 1;
    if (!d.rank || d.d[d.rank - 1] <= 1 || d.d[d.rank - 1] >= positions) return VT_OK;
    d.d[d.rank - 1] = positions;
    for (int k = d.rank - 1; k >= 0; k--) {
        if (!(table[k] = vt_import_take(im, (size_t)d.d[k] + 1, sizeof **table))) return vt_import_memory(im, e);
        for (int64_t i = 0; i < d.d[k]; i++) table[k][i] = i < v.dims.d[k] ? i * step : VT_MOVE_FILL;
        step *= v.dims.d[k];
    }
    return vt_emit_move(im, *m, &d, table, -INFINITY, m, e);
}

/* Adds to *bias (-1: none yet) -infinity beyond each query's own position; `before`: positions before the first. */
static vt_status add_causal(vt_import *im, int64_t queries, int64_t positions, int64_t before, int *bias, vt_err *e) {
    int m;
    double *p = vt_import_take(im, (size_t)(queries * positions) + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (int64_t i = 0; i < queries; i++)
        for (int64_t k = 0; k < positions; k++) p[i * positions + k] = k <= i + before ? 0 : -INFINITY;
    VT_TRY(vt_emit_reals(im, &(vt_dims){2, {queries, positions}}, p, &m, e));
    if (*bias < 0) {
        *bias = m;
        return VT_OK;
    }
    return vt_emit_binary(im, "Add", *bias, m, bias, e);
}

/* If a constant *bias masks whole rows: sets *bias to 0 there, and *keep to what their results are to be multiplied by,
 * 0, elsewhere 1. Otherwise *keep is -1. */
static vt_status keep_rows(vt_import *im, int *bias, int *keep, vt_err *e) {
    const vt_value v = *vt_import_value(im, *bias);
    vt_dims d = v.dims;
    *keep = -1;
    if (!vt_value_is_constant(&v) || !d.rank || !v.n) return VT_OK;
    const size_t cols = (size_t)d.d[d.rank - 1];
    double *p = vt_import_take(im, v.n + 1, sizeof *p), *kept = vt_import_take(im, v.n / cols + 1, sizeof *kept);
    bool whole = false;
    if (!p || !kept) return vt_import_memory(im, e);
    for (size_t r = 0; r < v.n / cols; r++) {
        for (size_t i = 0; i < cols; i++)
            if ((p[r * cols + i] = vt_value_real(&v, r * cols + i)) != -INFINITY) kept[r] = 1;
        for (size_t i = 0; i < cols && kept[r] == 0; i++) p[r * cols + i] = 0, whole = true;
    }
    if (!whole) return VT_OK;
    VT_TRY(vt_emit_reals(im, &d, p, bias, e));
    d.d[d.rank - 1] = 1;
    return vt_emit_reals(im, &d, kept, keep, e);
}

/* Sets *scores to cap tanh(scores / cap) if cap is above 0. */
static vt_status cap_scores(vt_import *im, double cap, int *scores, vt_err *e) {
    int c;
    if (!(cap > 0)) return VT_OK;
    VT_TRY(vt_emit_real(im, cap, &c, e));
    VT_TRY(vt_emit_binary(im, "Div", *scores, c, scores, e));
    VT_TRY(vt_emit_unary(im, "Tanh", *scores, NULL, scores, e));
    return vt_emit_binary(im, "Mul", *scores, c, scores, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t mode = vt_attr_int(im, "qk_matmul_output_mode", 0);
    int v[3], scores, y, bias, keep = -1, stage[4];
    VT_TRY(vt_input_count(im, 3, 6, e));
    if (vt_attr_int(im, "left_window_size", -1) >= 0 || vt_attr_int(im, "right_window_size", -1) >= 0)
        return vt_import_fail(im, e, "has a window, which is not read");
    for (int k = Q; k <= V; k++)
        VT_TRY(take_heads(im, k, vt_attr_int(im, k == Q ? "q_num_heads" : "kv_num_heads", 0), &v[k], e));
    const vt_dims q = vt_import_value(im, v[Q])->dims;
    for (int k = K; k <= V; k++) VT_TRY(join_past(im, k == K ? PAST_KEY : PAST_VALUE, k, q.d[1], &v[k], e));
    const int64_t positions = vt_import_value(im, v[K])->dims.d[2], before = vt_input(im, PAST_KEY);
    const double scale = vt_attr_real(im, "scale", 0);
    VT_TRY(vt_emit_matmul(im, v[Q], v[K], false, true, scale != 0 ? scale : 1 / sqrt((double)q.d[3]), &scores, e));
    stage[0] = scores;
    VT_TRY(cap_scores(im, vt_attr_real(im, "softcap", 0), &scores, e));
    stage[1] = scores;
    VT_TRY(take_mask(im, positions, &bias, e));
    if (vt_attr_int(im, "is_causal", 0))
        VT_TRY(
            add_causal(im, q.d[2], positions, before < 0 ? 0 : vt_import_value(im, (int)before)->dims.d[2], &bias, e));
    if (bias >= 0) VT_TRY(keep_rows(im, &bias, &keep, e));
    if (bias >= 0) VT_TRY(vt_emit_binary(im, "Add", scores, bias, &scores, e));
    stage[2] = scores;
    VT_TRY(vt_emit_along(im, "Softmax", scores, (const bool[VT_RANK]){false, false, false, true}, NULL, &scores, e));
    if (keep >= 0) VT_TRY(vt_emit_binary(im, "Mul", scores, keep, &scores, e));
    stage[3] = scores;
    VT_TRY(vt_output(im, 3, stage[mode & 3], e));
    VT_TRY(vt_emit_matmul(im, scores, v[V], false, false, 1, &y, e));
    if (vt_import_value(im, vt_input(im, Q))->dims.rank == 3) {
        const vt_dims d = vt_import_value(im, y)->dims;
        VT_TRY(vt_emit_transpose(im, y, (const int[]){0, 2, 1, 3}, &y, e));
        VT_TRY(vt_emit_reshape(im, y, &(vt_dims){3, {d.d[0], d.d[2], d.d[1] * d.d[3]}}, &y, e));
    }
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(attention, "Attention", import, .summary = "without nonpad_kv_seqlen and windows; softcap before the mask",
            .since = 23)
