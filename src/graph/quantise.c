/* SPDX-License-Identifier: MIT */
#include "graph/quantise.h"

vt_status vt_quantise_input(vt_import *im, int k, const vt_dims *d, int axis, int64_t block, int *y, vt_err *e) {
    VT_TRY(vt_constant_input(im, k, y, e));
    const vt_value v = *vt_import_value(im, *y);
    if (v.n == 1) return vt_emit_reshape(im, *y, &(vt_dims){0}, y, e);
    vt_dims to = {.rank = d->rank};
    for (int s = 0; s < d->rank; s++) to.d[s] = s == axis ? d->d[s] : 1;
    if (v.dims.rank == 1 && !block && axis >= 0 && axis < d->rank && v.dims.d[0] == d->d[axis])
        return vt_emit_reshape(im, *y, &to, y, e);
    bool fits = block > 0 && block <= (int64_t)VT_GRAPH_VALUES && v.dims.rank == d->rank;
    for (int s = 0; fits && s < d->rank; s++)
        fits = v.dims.d[s] == (s == axis ? (d->d[s] + block - 1) / block : d->d[s]);
    if (!fits) return vt_import_fail(im, e, "has an input %d that is neither one number nor one for each place", k + 1);
    int64_t *table[VT_RANK] = {0}, step = 1;
    for (int s = d->rank - 1; s >= 0; s--) {
        if (!(table[s] = vt_import_take(im, (size_t)d->d[s] + 1, sizeof **table))) return vt_import_memory(im, e);
        for (int64_t i = 0; i < d->d[s]; i++) table[s][i] = (s == axis ? i / block : i) * step;
        step *= v.dims.d[s];
    }
    return vt_emit_move(im, *y, d, table, 0, y, e);
}

vt_status vt_emit_less_zero(vt_import *im, int k, int zero, int axis, int *y, vt_err *e) {
    int z;
    *y = vt_input(im, k);
    if (*y < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
    if (vt_import_value(im, *y)->integers) VT_TRY(vt_emit_cast(im, *y, VT_ONNX_FLOAT, y, e));
    if (vt_input(im, zero) < 0) return VT_OK;
    const vt_dims d = vt_import_value(im, *y)->dims;
    VT_TRY(vt_quantise_input(im, zero, &d, axis < 0 ? d.rank + axis : axis, 0, &z, e));
    return vt_emit_binary(im, "Sub", *y, z, y, e);
}

vt_status vt_emit_quantised(vt_import *im, int x, int zero, int type, int *y, vt_err *e) {
    static const struct {
        int type;
        double range[2];
    } rows[] = {{VT_ONNX_UINT8, {0, 255}},
                {VT_ONNX_INT8, {-128, 127}},
                {VT_ONNX_UINT16, {0, 65535}},
                {VT_ONNX_INT16, {-32768, 32767}}};
    size_t k = 0;
    while (k < sizeof rows / sizeof *rows && rows[k].type != type) k++;
    if (k == sizeof rows / sizeof *rows) return vt_import_fail(im, e, "quantises to data type %d", type);
    VT_TRY(vt_emit_unary(im, "(round)", x, NULL, y, e));
    if (zero >= 0) VT_TRY(vt_emit_binary(im, "Add", *y, zero, y, e));
    return vt_emit_unary(im, "Clip", *y, rows[k].range, y, e);
}

vt_status vt_emit_requantised(vt_import *im, int x, const int scale[2], const int axis[2], int result, int *y,
                              vt_err *e) {
    const vt_dims d = vt_import_value(im, x)->dims;
    int s[2], own, zero, z;
    for (int k = 0; k < 2; k++)
        VT_TRY(vt_quantise_input(im, scale[k], &d, axis[k] < 0 ? d.rank + axis[k] : axis[k], 0, &s[k], e));
    VT_TRY(vt_quantise_input(im, result, &d, 0, 0, &own, e));
    VT_TRY(vt_constant_input(im, result + 1, &zero, e));
    VT_TRY(vt_quantise_input(im, result + 1, &d, 0, 0, &z, e));
    VT_TRY(vt_emit_binary(im, "Mul", s[0], s[1], &s[0], e));
    VT_TRY(vt_emit_binary(im, "Div", s[0], own, &s[0], e));
    VT_TRY(vt_emit_binary(im, "Mul", x, s[0], y, e));
    return vt_emit_quantised(im, *y, z, vt_import_value(im, zero)->type, y, e);
}
