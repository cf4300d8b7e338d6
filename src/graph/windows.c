/* SPDX-License-Identifier: MIT */
#include "graph/windows.h"

/* Sets out [n] to an attribute of integers, or to `otherwise` each; VT_E_FORMAT unless it has n numbers from `least`
 * on. */
static vt_status take_list(vt_import *im, const char *name, int n, int64_t least, int64_t otherwise, int64_t *out,
                           vt_err *e) {
    int64_t v[6];
    int count;
    bool has;
    VT_TRY(vt_integers(im, name, -1, v, 6, &count, &has, e));
    if (has && count != n) return vt_import_fail(im, e, "has %d numbers in %s, must be %d", count, name, n);
    for (int k = 0; k < n; k++) {
        out[k] = has ? v[k] : otherwise;
        if (out[k] < least || out[k] > INT32_MAX)
            return vt_import_fail(im, e, "has %lld in %s, must be at least %lld", (long long)out[k], name,
                                  (long long)least);
    }
    return VT_OK;
}

/* Sets w->before and after [3], of its `rank` sides: the padding by auto_pad, or else by pads. VT_E_FORMAT: neither is
 * read. */
static vt_status find_padding(vt_import *im, vt_windows *w, int rank, int64_t after[3], vt_err *e) {
    int64_t pads[6] = {0};
    const int first = 3 - rank;
    const bool upper = vt_attr_is(im, "auto_pad", "SAME_UPPER", "NOTSET");
    const bool same = upper || vt_attr_is(im, "auto_pad", "SAME_LOWER", "NOTSET");
    const bool none = vt_attr_is(im, "auto_pad", "VALID", "NOTSET");
    if (!same && !none && !vt_attr_is(im, "auto_pad", "NOTSET", "NOTSET"))
        return vt_import_fail(im, e, "has an auto_pad that is not read");
    if (!same && !none) VT_TRY(take_list(im, "pads", 2 * rank, 0, 0, pads, e));
    for (int k = 0; k < rank; k++) {
        const int s = first + k;
        w->before[s] = pads[k], after[s] = pads[k + rank];
        if (!same) continue;
        const int64_t out = (w->in[s] + w->stride[s] - 1) / w->stride[s];
        int64_t all = (out - 1) * w->stride[s] + (w->kernel[s] - 1) * w->dilation[s] + 1 - w->in[s];
        if (all < 0) all = 0;
        w->before[s] = upper ? all / 2 : all - all / 2, after[s] = all - w->before[s];
    }
    return VT_OK;
}

vt_status vt_import_windows(vt_import *im, int x, const int64_t *kernel, int64_t channels, vt_windows *w, vt_dims *d,
                            vt_err *e) {
    const vt_dims from = vt_import_value(im, x)->dims;
    const int rank = from.rank - 2, first = 3 - rank;
    const bool ceil_mode = vt_attr_int(im, "ceil_mode", 0) != 0;
    int64_t after[3] = {0};
    if (rank < 1 || rank > 3) return vt_import_fail(im, e, "has an input of %d sides, must be 3 to 5", from.rank);
    *w = (vt_windows){.n = from.d[0], .channels = from.d[1], .pixels_in = 1, .pixels_out = 1, .taps = 1};
    for (int s = 0; s < 3; s++) w->in[s] = w->out[s] = w->kernel[s] = w->stride[s] = w->dilation[s] = w->last[s] = 1;
    int64_t given[3];
    int count;
    bool has;
    VT_TRY(vt_integers(im, "kernel_shape", -1, given, 3, &count, &has, e));
    if (!has && !kernel) return vt_import_fail(im, e, "has no kernel_shape");
    for (int k = 0; k < rank; k++) {
        w->in[first + k] = from.d[2 + k];
        w->kernel[first + k] = kernel ? kernel[k] : given[k];
        if (has && (count != rank || given[k] != w->kernel[first + k] || given[k] < 1))
            return vt_import_fail(im, e, "has a kernel_shape that its weights do not have");
    }
    VT_TRY(take_list(im, "strides", rank, 1, 1, &w->stride[first], e));
    VT_TRY(take_list(im, "dilations", rank, 1, 1, &w->dilation[first], e));
    VT_TRY(find_padding(im, w, rank, after, e));
    *d = (vt_dims){.rank = from.rank, .d = {from.d[0], channels}};
    for (int k = 0; k < rank; k++) {
        const int s = first + k;
        const int64_t wide = w->in[s] + w->before[s] + after[s], reach = (w->kernel[s] - 1) * w->dilation[s] + 1;
        const int64_t room = wide - reach;
        if (room < 0 || w->in[s] < 1)
            return vt_import_fail(im, e, "has a window of %lld on a side of %lld", (long long)reach, (long long)wide);
        w->out[s] = (room + (ceil_mode ? w->stride[s] - 1 : 0)) / w->stride[s] + 1;
        /* a window that would begin in the padding behind is left out, as in PyTorch */
        if (ceil_mode && (w->out[s] - 1) * w->stride[s] >= w->in[s] + w->before[s]) w->out[s]--;
        w->last[s] = w->in[s] + after[s];
        d->d[2 + k] = w->out[s];
    }
    size_t n;
    const vt_dims taps = {3, {w->kernel[0], w->kernel[1], w->kernel[2]}};
    if (!vt_dims_count(d, &n) || !vt_dims_count(&taps, &n))
        return vt_import_fail(im, e, "has a result or a window of more than 2^28 numbers");
    for (int s = 0; s < 3; s++) w->pixels_in *= w->in[s], w->pixels_out *= w->out[s], w->taps *= w->kernel[s];
    return VT_OK;
}
