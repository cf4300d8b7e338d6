/* SPDX-License-Identifier: MIT */
/* What operators' imports emit (graph/import.h): constant linear maps, scattered numbers, bits. */
#include <math.h>
#include <string.h>
#include "graph/op.h"

vt_status vt_emit_matrix(vt_import *im, int x, int axis, const double *m, int64_t n, int *y, vt_err *e) {
    const vt_dims d = vt_import_value(im, x)->dims;
    int to_last[VT_RANK], back[VT_RANK], matrix;
    for (int k = 0; k < d.rank; k++) {
        to_last[k] = k < axis ? k : k < d.rank - 1 ? k + 1 : axis;
        back[k] = k < axis ? k : k == axis ? d.rank - 1 : k - 1;
    }
    VT_TRY(vt_emit_reals(im, &(vt_dims){2, {n, d.d[axis]}}, m, &matrix, e));
    VT_TRY(vt_emit_transpose(im, x, to_last, y, e));
    vt_dims last = vt_import_value(im, *y)->dims;
    const int64_t in = d.d[axis], rows = in ? (int64_t)vt_import_value(im, x)->n / in : 0;
    VT_TRY(vt_emit_reshape(im, *y, &(vt_dims){2, {rows, in}}, y, e));
    VT_TRY(vt_emit_matmul(im, *y, matrix, false, true, 1, y, e));
    last.d[d.rank - 1] = n;
    VT_TRY(vt_emit_reshape(im, *y, &last, y, e));
    return vt_emit_transpose(im, *y, back, y, e);
}

/* Sets *y to x with its number at[i] replaced by u's number i, the last for one place: x and u one after another, of
 * which the result's numbers are taken. */
static vt_status replace_numbers(vt_import *im, int x, int u, const int32_t *at, int *y, vt_err *e) {
    const vt_value v = *vt_import_value(im, x), w = *vt_import_value(im, u);
    int parts[2];
    int32_t *map = vt_import_take(im, v.n + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) map[i] = (int32_t)i;
    for (size_t i = 0; i < w.n; i++) map[at[i]] = (int32_t)(v.n + i);
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){1, {(int64_t)v.n}}, &parts[0], e));
    VT_TRY(vt_emit_reshape(im, u, &(vt_dims){1, {(int64_t)w.n}}, &parts[1], e));
    VT_TRY(vt_emit_concat(im, parts, 2, 0, y, e));
    return vt_emit_map(im, *y, &v.dims, map, 0, y, e);
}

vt_status vt_emit_scatter(vt_import *im, int x, int u, const int32_t *at, const char *reduction, int *y, vt_err *e) {
    enum { MOST_LAYERS = 64 };
    static const struct {
        const char *reduction, *op;
        double fill;
    } rows[] = {{"add", "Add", 0}, {"mul", "Mul", 1}, {"max", "Max", -9e15}, {"min", "Min", 9e15}};
    const vt_value v = *vt_import_value(im, x), w = *vt_import_value(im, u);
    size_t row = 0, left = w.n;
    if (!strcmp(reduction, "none")) return replace_numbers(im, x, u, at, y, e);
    while (row < 4 && strcmp(rows[row].reduction, reduction)) row++;
    if (row == 4) return vt_import_fail(im, e, "has a reduction '%.20s' that is not read", reduction);
    bool *done = vt_import_take(im, w.n + 1, sizeof *done);
    if (!done) return vt_import_memory(im, e);
    *y = x;
    for (int layer = 0; left; layer++) { /* one update a place */
        int part;
        int32_t *map = vt_import_take(im, v.n + 1, sizeof *map);
        if (layer == MOST_LAYERS)
            return vt_import_fail(im, e, "has more than %d updates of one number, which is not read", MOST_LAYERS);
        if (!map) return vt_import_memory(im, e);
        for (size_t i = 0; i < v.n; i++) map[i] = -1;
        for (size_t i = 0; i < w.n; i++)
            if (!done[i] && map[at[i]] < 0) map[at[i]] = (int32_t)i, done[i] = true, left--;
        VT_TRY(vt_emit_map(im, u, &v.dims, map, rows[row].fill, &part, e));
        VT_TRY(vt_emit_binary(im, rows[row].op, *y, part, y, e));
    }
    return VT_OK;
}

/* ---- integers ---- */

vt_status vt_import_bits_of(vt_import *im, int a, int b, vt_err *e) {
    const int in[2] = {a, b};
    int y;
    if (a < 0 || !vt_import_value(im, a)->integers)
        return vt_import_fail(im, e, "has an input that is no constant integer");
    for (int k = 0; k < 2; k++) /* computed in double */
        for (size_t i = 0; i < vt_import_value(im, in[k])->n; i++)
            if (!(fabs(vt_value_real(vt_import_value(im, in[k]), i)) <= 9007199254740992.0))
                return vt_import_fail(im, e, "has an integer beyond 2^53");
    VT_TRY(vt_emit_broadcast(im, vt_import_op(im), in, 2, true, &y, e));
    return vt_output(im, 0, y, e);
}

vt_status vt_import_bits(vt_import *im, vt_err *e) {
    int b;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &b, e));
    return vt_import_bits_of(im, vt_input(im, 0), b, e);
}
