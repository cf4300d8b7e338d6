/* SPDX-License-Identifier: MIT */
/* The largest number of each window; the first of equal ones gets the gradient, as in PyTorch. */
#include <string.h>
#include "graph/op.h"
#include "graph/windows.h"

/* Returns the input's pixel of window p's largest number in map x; -1: all of it is padding. */
static int64_t find_largest(const vt_windows *w, const real *x, int64_t p) {
    int64_t best = -1;
    for (int64_t k = 0; k < w->taps; k++) {
        const int64_t at = vt_windows_at(w, p, k);
        if (at >= 0 && (best < 0 || x[at] > x[best])) best = at;
    }
    return best;
}

static void forward(const VT_R(vt_call) *c) {
    const vt_windows *w = c->n->with;
    for (int64_t m = 0; m < w->n * w->channels; m++)
        for (int64_t p = 0; p < w->pixels_out; p++) {
            const int64_t at = find_largest(w, c->x[0] + m * w->pixels_in, p);
            c->y[m * w->pixels_out + p] = at < 0 ? 0 : c->x[0][m * w->pixels_in + at];
        }
}

static void backward(const VT_R(vt_call) *c) {
    const vt_windows *w = c->n->with;
    if (!c->dx[0]) return;
    if (!c->add[0]) memset(c->dx[0], 0, (size_t)(w->n * w->channels * w->pixels_in) * sizeof(real));
    for (int64_t m = 0; m < w->n * w->channels; m++)
        for (int64_t p = 0; p < w->pixels_out; p++) {
            const int64_t at = find_largest(w, c->x[0] + m * w->pixels_in, p);
            if (at >= 0) c->dx[0][m * w->pixels_in + at] += c->dy[m * w->pixels_out + p];
        }
}

static vt_status import(vt_import *im, vt_err *e) {
    vt_windows *w = vt_import_take(im, 1, sizeof *w);
    vt_dims d;
    int x, y;
    if (!w) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_import_windows(im, x, NULL, vt_import_value(im, x)->dims.rank > 1 ? vt_import_value(im, x)->dims.d[1] : 0,
                             w, &d, e));
    VT_TRY(vt_emit(im, vt_import_op(im), &x, 1, &d, false, w, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_maxpool);
const VT_R(vt_op) VT_R(vt_op_maxpool) = {.name = "MaxPool",
                                         .import = import,
                                         .forward = forward,
                                         .backward = backward,
                                         .keep = VT_KEEP_X};
