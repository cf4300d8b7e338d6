/* SPDX-License-Identifier: MIT */
/* Sides made longer or shorter: nearest numbers, or linear and cubic interpolation by a product along each side. */
#include <math.h>
#include "graph/op.h"
#include "graph/resize.h"

/* Returns which of the known texts an attribute is, without it the first; -1: none of them. */
static int text_of(vt_import *im, const char *name, const char *const *known) {
    for (int k = 0; known[k]; k++)
        if (vt_attr_is(im, name, known[k], known[0])) return k;
    return -1;
}

/* Sets r's modes and numbers by the node's attributes, `outside` of a crop alone; VT_E_FORMAT: a mode that is not
 * read. */
static vt_status read_attributes(vt_import *im, vt_resize *r, vt_err *e) {
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const near[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    static const char *const places[] = {"half_pixel",           "asymmetric",
                                         "align_corners",        "pytorch_half_pixel",
                                         "tf_half_pixel_for_nn", "tf_crop_and_resize",
                                         "half_pixel_symmetric", NULL}; /* in the order of vt_resize_place */
    const bool first = vt_import_opset(im) < 11; /* Resize of opset 10 is Upsample with another name */
    const int mode = text_of(im, "mode", modes),
              place = first ? VT_PLACE_ASYMMETRIC : text_of(im, "coordinate_transformation_mode", places),
              nearest = first ? VT_ROUND_FLOOR : text_of(im, "nearest_mode", near);
    if (mode < 0 || place < 0 || nearest < 0) return vt_import_fail(im, e, "has a mode that is not read");
    r->mode = (vt_resize_mode)mode, r->place = (vt_resize_place)place, r->nearest = (vt_resize_round)nearest;
    r->cubic = vt_attr_real(im, "cubic_coeff_a", -0.75);
    r->antialias = vt_attr_int(im, "antialias", 0) != 0;
    r->exclude_outside = vt_attr_int(im, "exclude_outside", 0) != 0;
    if (r->place == VT_PLACE_CROP) r->outside = vt_attr_real(im, "extrapolation_value", 0);
    return VT_OK;
}

/* Sets out to the constant reals of input k, if it has any (*has); VT_E_FORMAT unless they are n, and constant. */
static vt_status read_list(vt_import *im, int k, int n, double *out, bool *has, vt_err *e) {
    int v = vt_input(im, k);
    *has = v >= 0 && vt_import_value(im, v)->n > 0;
    if (!*has) return VT_OK;
    VT_TRY(vt_constant_input(im, k, &v, e));
    const vt_value *x = vt_import_value(im, v);
    if ((int64_t)x->n != n) return vt_import_fail(im, e, "has %zu numbers as input %d, must be %d", x->n, k + 1, n);
    for (int i = 0; i < n; i++) out[i] = vt_value_real(x, (size_t)i);
    return VT_OK;
}

/* Replaces size [n] by one scale for all axes, the least or the largest of those that the sizes ask for, if
 * keep_aspect_ratio_policy says so. */
static void keep_ratio(vt_import *im, const vt_dims *d, const int *axes, int n, double *size) {
    const bool larger = vt_attr_is(im, "keep_aspect_ratio_policy", "not_smaller", "stretch");
    if (!larger && !vt_attr_is(im, "keep_aspect_ratio_policy", "not_larger", "stretch")) return;
    double scale = larger ? 0 : INFINITY;
    for (int k = 0; k < n; k++) {
        const double own = size[k] / (double)d->d[axes[k]];
        scale = larger ? fmax(scale, own) : fmin(scale, own);
    }
    for (int k = 0; k < n; k++) size[k] = floor(scale * (double)d->d[axes[k]] + 0.5);
}

/* Sets r's sides, scales and crop, by the inputs and axes; VT_E_FORMAT: neither scales nor sizes, or a side of 0. */
static vt_status read_sizes(vt_import *im, const vt_dims *d, vt_resize *r, vt_err *e) {
    int64_t named[VT_RANK];
    int axes[VT_RANK], n;
    double roi[2 * VT_RANK], scale[VT_RANK], size[VT_RANK];
    bool has, has_roi = false, has_size = false, has_scale;
    const bool first = vt_import_opset(im) < 11;
    VT_TRY(vt_integers(im, "axes", -1, named, VT_RANK, &n, &has, e));
    if (!has) n = d->rank;
    for (int k = 0; k < n; k++) {
        axes[k] = k;
        if (has) VT_TRY(vt_axis(im, named[k], d->rank, &axes[k], e));
    }
    if (!first && r->place == VT_PLACE_CROP) VT_TRY(read_list(im, 1, 2 * n, roi, &has_roi, e));
    VT_TRY(read_list(im, first ? 1 : 2, n, scale, &has_scale, e));
    if (!has_scale) VT_TRY(read_list(im, 3, n, size, &has_size, e));
    if (!has_scale && !has_size) return vt_import_fail(im, e, "has neither scales nor sizes");
    if (has_size) keep_ratio(im, d, axes, n, size);
    r->to = *d;
    for (int k = 0; k < d->rank; k++) r->scale[k] = 1, r->begin[k] = 0, r->end[k] = 1;
    for (int k = 0; k < n; k++) {
        const int a = axes[k];
        const double in = (double)d->d[a], out = has_size ? size[k] : floor(in * scale[k]);
        if (!(out >= 1 && out <= (double)VT_GRAPH_VALUES && in >= 1))
            return vt_import_fail(im, e, "resizes a side of %g to %g", in, out);
        r->to.d[a] = (int64_t)out, r->scale[a] = has_size ? out / in : scale[k];
        if (has_roi) r->begin[a] = roi[k], r->end[a] = roi[n + k];
    }
    return VT_OK;
}

static vt_status import(vt_import *im, vt_err *e) {
    vt_resize r = {0};
    int x, y;
    VT_TRY(vt_input_count(im, 1, 4, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    VT_TRY(read_attributes(im, &r, e));
    VT_TRY(read_sizes(im, &d, &r, e));
    VT_TRY(vt_emit_resize(im, x, &r, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(resize, "Resize", import, .summary = NULL, .since = 10)
