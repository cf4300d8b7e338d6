/* SPDX-License-Identifier: MIT */
/* A range of some sides, by steps. */
#include "graph/op.h"

/* Returns v, at least `least` and at most `most`. */
static int64_t clamp_index(int64_t v, int64_t least, int64_t most) { return v < least ? least : v > most ? most : v; }

static vt_status import(vt_import *im, vt_err *e) {
    int64_t from[VT_RANK], to[VT_RANK], axes[VT_RANK], steps[VT_RANK];
    int n, n_to, n_axes, n_steps, x = vt_input(im, 0);
    bool has, has_to, has_axes, has_steps;
    VT_TRY(vt_input_count(im, 1, 5, e));
    VT_TRY(vt_integers(im, "starts", 1, from, VT_RANK, &n, &has, e));
    VT_TRY(vt_integers(im, "ends", 2, to, VT_RANK, &n_to, &has_to, e));
    VT_TRY(vt_integers(im, "axes", 3, axes, VT_RANK, &n_axes, &has_axes, e));
    VT_TRY(vt_integer_input(im, 4, steps, VT_RANK, &n_steps, &has_steps, e));
    if (!has || n_to != n || (has_axes && n_axes != n) || (has_steps && n_steps != n))
        return vt_import_fail(im, e, "has %d starts, %d ends, %d axes, %d steps", n, n_to, n_axes, n_steps);
    for (int k = 0; k < n; k++) {
        int axis;
        VT_TRY(vt_axis(im, has_axes ? axes[k] : k, vt_import_value(im, x)->dims.rank, &axis, e));
        const int64_t side = vt_import_value(im, x)->dims.d[axis], step = has_steps ? steps[k] : 1;
        if (!step || step < -INT32_MAX || step > INT32_MAX)
            return vt_import_fail(im, e, "has a step of %lld", (long long)step);
        int64_t a = from[k] < 0 ? clamp_index(from[k], -side, -1) + side : from[k],
                b = to[k] < 0 ? clamp_index(to[k], -side - 1, -1) + side : to[k];
        if (from[k] < 0 && side == 0) a = 0;
        a = step > 0 ? clamp_index(a, 0, side) : clamp_index(a, 0, side - 1),
        b = step > 0 ? clamp_index(b, 0, side) : clamp_index(b, -1, side - 1);
        const int64_t length = step > 0 ? (b - a + step - 1) / step : (a - b - step - 1) / -step;
        VT_TRY(vt_emit_slice(im, x, axis, a, length > 0 ? length : 0, step, &x, e));
    }
    return vt_output(im, 0, x, e);
}

VT_OP_EMITS(slice, "Slice", import, .summary = NULL)
