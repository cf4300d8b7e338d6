/* SPDX-License-Identifier: MIT */
/* x with numbers replaced, or reduced with updates, at constant indices along an axis. */
#include "graph/op.h"

#ifndef VT_DOUBLE
/* Sets *map to the number of x that each constant index k means along an axis; VT_E_FORMAT: other sides, or beyond
 * one. */
vt_status vt_import_element_map(vt_import *im, int x, int k, int axis, int32_t **map, vt_err *e) {
    const vt_value i = *vt_import_value(im, k), v = *vt_import_value(im, x);
    char a[200], b[200];
    bool fits = i.integers && i.dims.rank == v.dims.rank;
    for (int d = 0; fits && d < v.dims.rank; d++) fits = d == axis || i.dims.d[d] <= v.dims.d[d];
    if (!fits)
        return vt_import_fail(im, e, "has indices of sides %s for %s", vt_dims_text(&i.dims, a, sizeof a),
                              vt_dims_text(&v.dims, b, sizeof b));
    if (!(*map = vt_import_take(im, i.n + 1, sizeof **map))) return vt_import_memory(im, e);
    int64_t at[VT_RANK] = {0};
    for (size_t r = 0; r < i.n; r++) {
        const int64_t side = v.dims.d[axis], own = i.integers[r];
        int64_t from = 0;
        if (own < -side || own >= side)
            return vt_import_fail(im, e, "has index %lld of a side of %lld", (long long)own, (long long)side);
        for (int d = 0; d < v.dims.rank; d++)
            from = from * v.dims.d[d] + (d != axis ? at[d] : own < 0 ? own + side : own);
        (*map)[r] = (int32_t)from;
        for (int d = v.dims.rank - 1; d >= 0 && ++at[d] == i.dims.d[d]; d--) at[d] = 0;
    }
    return VT_OK;
}

vt_status vt_import_scatter_elements(vt_import *im, vt_err *e) {
    char reduction[32] = "none";
    int axis, k, y, x = vt_input(im, 0), u = vt_input(im, 2);
    int32_t *map;
    VT_TRY(vt_input_count(im, 3, 3, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 0), vt_import_value(im, x)->dims.rank, &axis, e));
    VT_TRY(vt_import_element_map(im, x, k, axis, &map, e));
    if (u < 0 || vt_import_value(im, u)->n != vt_import_value(im, k)->n)
        return vt_import_fail(im, e, "has not one update for each index");
    vt_onnx_text(vt_import_node(im), "reduction", reduction, sizeof reduction);
    VT_TRY(vt_emit_scatter(im, x, u, map, reduction, &y, e));
    return vt_output(im, 0, y, e);
}
#endif

VT_OP_EMITS(scatterelements, "ScatterElements", vt_import_scatter_elements, .summary = "constant indices", .since = 11)
