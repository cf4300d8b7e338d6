/* SPDX-License-Identifier: MIT */
/* A tensor or numbers of the file. */
#include "graph/op.h"

/* Sets *y to a constant of value_int, value_ints, value_float or value_floats; *has false: none is there, VT_OK. */
static vt_status read_attribute(vt_import *im, int *y, bool *has, vt_err *e) {
    enum { MOST = 4096 };
    const vt_onnx_node *n = vt_import_node(im);
    int64_t integer;
    double real_number;
    int count = 0;
    *has = true;
    if (vt_onnx_int(n, "value_int", &integer) || vt_onnx_ints(n, "value_ints", NULL, 0, &count)) {
        int64_t *p = vt_import_take(im, (size_t)count + 1, sizeof *p);
        if (!p) return vt_import_memory(im, e);
        const bool list = vt_onnx_ints(n, "value_ints", p, count, &count);
        if (!list) *p = integer;
        return vt_emit_integers(im, &(vt_dims){.rank = list, .d = {count}}, p, y, e);
    }
    if (vt_onnx_float(n, "value_float", &real_number)) return vt_emit_real(im, real_number, y, e);
    if ((*has = vt_onnx_floats(n, "value_floats", NULL, 0, &count))) {
        double *p = vt_import_take(im, (size_t)count + 1, sizeof *p);
        if (!p) return vt_import_memory(im, e);
        vt_onnx_floats(n, "value_floats", p, count, &count);
        return vt_emit_reals(im, &(vt_dims){.rank = 1, .d = {count}}, p, y, e);
    }
    return VT_OK;
}

static vt_status import(vt_import *im, vt_err *e) {
    vt_onnx_tensor t;
    bool has;
    int y;
    VT_TRY(vt_onnx_attribute_tensor(vt_import_file(im), vt_import_node(im), "value", &t, &has, e));
    if (has)
        VT_TRY(vt_import_constant(im, &t, &y, e));
    else
        VT_TRY(read_attribute(im, &y, &has, e));
    if (!has) return vt_import_fail(im, e, "has no value that is read");
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(constant, "Constant", import, .summary = NULL)
