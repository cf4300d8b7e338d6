/* SPDX-License-Identifier: MIT */
/* Further numbers around x: a constant, or its own at the edge, mirrored or from the other end. */
#include "graph/op.h"

/* Returns the number of a side that stands at i, which may be outside: mode 0 constant, 1 edge, 2 reflect, 3 wrap; -1:
 * the fill. */
static int64_t source_of(int64_t i, int64_t side, int mode) {
    if (i >= 0 && i < side) return i;
    if (mode == 0 || side < 1) return -1;
    if (mode == 1) return i < 0 ? 0 : side - 1;
    if (mode == 3) return (i % side + side) % side;
    const int64_t period = side > 1 ? 2 * side - 2 : 1;
    i = (i % period + period) % period;
    return i < side ? i : period - i;
}

/* Sets *fill to input 2 or the attribute, else 0; VT_E_FORMAT unless it is one constant number. */
static vt_status fill_of(vt_import *im, double *fill, vt_err *e) {
    *fill = vt_attr_real(im, "value", 0);
    if (vt_input(im, 2) < 0) return VT_OK;
    const vt_value *v = vt_import_value(im, vt_input(im, 2));
    if (!vt_value_is_constant(v) || v->n != 1) return vt_import_fail(im, e, "fills with what is no constant number");
    *fill = vt_value_real(v, 0);
    return VT_OK;
}

static vt_status import(vt_import *im, vt_err *e) {
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    int64_t pads[2 * VT_RANK], axes[VT_RANK], before[VT_RANK] = {0}, after[VT_RANK] = {0};
    int n, n_axes, mode = 0, y, x = vt_input(im, 0);
    bool has, has_axes;
    double fill;
    VT_TRY(vt_input_count(im, 1, 4, e));
    while (mode < 4 && !vt_attr_is(im, "mode", modes[mode], "constant")) mode++;
    if (mode == 4) return vt_import_fail(im, e, "has a mode that is not read");
    VT_TRY(vt_integers(im, "pads", 1, pads, 2 * VT_RANK, &n, &has, e));
    VT_TRY(vt_integer_input(im, 3, axes, VT_RANK, &n_axes, &has_axes, e));
    VT_TRY(fill_of(im, &fill, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (n != 2 * (has_axes ? n_axes : d.rank))
        return vt_import_fail(im, e, "has %d pads for %d sides", n, has_axes ? n_axes : d.rank);
    for (int k = 0; k < n / 2; k++) {
        int a = k;
        if (has_axes) VT_TRY(vt_axis(im, axes[k], d.rank, &a, e));
        before[a] = pads[k], after[a] = pads[k + n / 2];
    }
    vt_dims to = d;
    int64_t *table[VT_RANK] = {0}, step = 1;
    for (int k = d.rank - 1; k >= 0; k--) {
        if (before[k] < -d.d[k] || after[k] < -d.d[k] || before[k] > INT32_MAX || after[k] > INT32_MAX)
            return vt_import_fail(im, e, "has a pad of %lld", (long long)(before[k] > after[k] ? before[k] : after[k]));
        to.d[k] = before[k] + d.d[k] + after[k];
        if (to.d[k] < 0 || (size_t)to.d[k] > VT_GRAPH_VALUES)
            return vt_import_fail(im, e, "has a side of %lld", (long long)to.d[k]);
        if (!(table[k] = vt_import_take(im, (size_t)to.d[k] + 1, sizeof **table))) return vt_import_memory(im, e);
        for (int64_t i = 0; i < to.d[k]; i++) {
            const int64_t from = source_of(i - before[k], d.d[k], mode);
            table[k][i] = from < 0 ? VT_MOVE_FILL : from * step;
        }
        step *= d.d[k];
    }
    VT_TRY(vt_emit_move(im, x, &to, table, fill, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(pad, "Pad", import, .summary = NULL)
