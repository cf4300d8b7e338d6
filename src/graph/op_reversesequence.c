/* SPDX-License-Identifier: MIT */
/* The first numbers of each sequence of a batch in reverse, as many as a constant says. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t batch = vt_attr_int(im, "batch_axis", 1), time = vt_attr_int(im, "time_axis", 0);
    int k, y, x = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    const vt_value v = *vt_import_value(im, x), lengths = *vt_import_value(im, k);
    if (v.dims.rank < 2 || batch + time != 1 || (batch && time) || !lengths.integers ||
        (int64_t)lengths.n != v.dims.d[batch])
        return vt_import_fail(im, e, "has batch_axis %lld, time_axis %lld, %zu lengths", (long long)batch,
                              (long long)time, lengths.n);
    const size_t inner = v.n ? v.n / (size_t)(v.dims.d[0] * v.dims.d[1]) : 1;
    int32_t *map = vt_import_take(im, v.n + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) {
        int64_t at[2] = {(int64_t)(i / inner) / v.dims.d[1], (int64_t)(i / inner) % v.dims.d[1]};
        const int64_t n = lengths.integers[at[batch]];
        if (n < 0 || n > v.dims.d[time])
            return vt_import_fail(im, e, "reverses %lld of %lld", (long long)n, (long long)v.dims.d[time]);
        if (at[time] < n) at[time] = n - 1 - at[time];
        map[i] = (int32_t)((at[0] * v.dims.d[1] + at[1]) * (int64_t)inner + (int64_t)(i % inner));
    }
    VT_TRY(vt_emit_map(im, x, &v.dims, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(reversesequence, "ReverseSequence", import, .summary = "constant lengths", .since = 10)
