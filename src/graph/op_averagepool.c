/* SPDX-License-Identifier: MIT */
/* The mean of each window: over what lies in the input, or with count_include_pad in the padding too. */
#include <string.h>
#include "graph/op.h"
#include "graph/windows.h"

typedef struct average {
    vt_windows w;
    bool padding; /* counts */
} average;

/* Returns how many numbers window p's sum is divided by, at least 1. */
static real count_of(const average *a, int64_t p) {
    const vt_windows *w = &a->w;
    int64_t n = 1;
    for (int s = 2; s >= 0; s--) {
        const int64_t first = p % w->out[s] * w->stride[s] - w->before[s], most = a->padding ? w->last[s] : w->in[s];
        int64_t inside = 0;
        p /= w->out[s];
        for (int64_t k = 0; k < w->kernel[s]; k++) {
            const int64_t at = first + k * w->dilation[s];
            inside += (a->padding || at >= 0) && at < most;
        }
        n *= inside;
    }
    return n ? (real)n : 1;
}

static void forward(const VT_R(vt_call) *c) {
    const average *a = c->n->with;
    const vt_windows *w = &a->w;
    for (int64_t p = 0; p < w->pixels_out; p++) {
        const real n = count_of(a, p);
        for (int64_t m = 0; m < w->n * w->channels; m++) {
            real sum = 0;
            for (int64_t k = 0; k < w->taps; k++) {
                const int64_t at = vt_windows_at(w, p, k);
                if (at >= 0) sum += c->x[0][m * w->pixels_in + at];
            }
            c->y[m * w->pixels_out + p] = sum / n;
        }
    }
}

static void backward(const VT_R(vt_call) *c) {
    const average *a = c->n->with;
    const vt_windows *w = &a->w;
    if (!c->dx[0]) return;
    if (!c->add[0]) memset(c->dx[0], 0, (size_t)(w->n * w->channels * w->pixels_in) * sizeof(real));
    for (int64_t p = 0; p < w->pixels_out; p++) {
        const real n = count_of(a, p);
        for (int64_t k = 0; k < w->taps; k++) {
            const int64_t at = vt_windows_at(w, p, k);
            for (int64_t m = 0; at >= 0 && m < w->n * w->channels; m++)
                c->dx[0][m * w->pixels_in + at] += c->dy[m * w->pixels_out + p] / n;
        }
    }
}

static vt_status import(vt_import *im, vt_err *e) {
    average *a = vt_import_take(im, 1, sizeof *a);
    vt_dims d;
    int x, y;
    if (!a) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_import_windows(im, x, NULL, vt_import_value(im, x)->dims.rank > 1 ? vt_import_value(im, x)->dims.d[1] : 0,
                             &a->w, &d, e));
    a->padding = vt_attr_int(im, "count_include_pad", 0) != 0;
    VT_TRY(vt_emit(im, vt_import_op(im), &x, 1, &d, false, a, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_averagepool);
const VT_R(vt_op)
    VT_R(vt_op_averagepool) = {.name = "AveragePool", .import = import, .forward = forward, .backward = backward};
