/* SPDX-License-Identifier: MIT */
/* The p-norm of each window. */
#include <string.h>
#include <tgmath.h>
#include "graph/op.h"
#include "graph/windows.h"

typedef struct norm {
    vt_windows w;
    int64_t p;
} norm;

static real power(real v, int64_t p) { return p == 1 ? v : p == 2 ? v * v : pow(v, (real)p); }

static void forward(const VT_R(vt_call) *c) {
    const norm *n = c->n->with;
    const vt_windows *w = &n->w;
    for (int64_t m = 0; m < w->n * w->channels; m++)
        for (int64_t p = 0; p < w->pixels_out; p++) {
            real sum = 0;
            for (int64_t k = 0; k < w->taps; k++) {
                const int64_t at = vt_windows_at(w, p, k);
                if (at >= 0) sum += power(fabs(c->x[0][m * w->pixels_in + at]), n->p);
            }
            c->y[m * w->pixels_out + p] = n->p == 1 ? sum : n->p == 2 ? sqrt(sum) : pow(sum, 1 / (real)n->p);
        }
}

/* Adds dy sign(x) (|x| / y)^(p - 1) to dx; nothing where x or y is 0. */
static void backward(const VT_R(vt_call) *c) {
    const norm *n = c->n->with;
    const vt_windows *w = &n->w;
    if (!c->dx[0]) return;
    if (!c->add[0]) memset(c->dx[0], 0, (size_t)(w->n * w->channels * w->pixels_in) * sizeof(real));
    for (int64_t m = 0; m < w->n * w->channels; m++)
        for (int64_t p = 0; p < w->pixels_out; p++)
            for (int64_t k = 0; k < w->taps; k++) {
                const int64_t at = vt_windows_at(w, p, k), o = m * w->pixels_out + p;
                const real v = at < 0 ? 0 : c->x[0][m * w->pixels_in + at];
                if (v == 0 || !(c->y[o] > 0)) continue;
                const real slope = power(fabs(v) / c->y[o], n->p - 1);
                c->dx[0][m * w->pixels_in + at] += c->dy[o] * (v < 0 ? -slope : slope);
            }
}

static vt_status import(vt_import *im, vt_err *e) {
    norm *n = vt_import_take(im, 1, sizeof *n);
    vt_dims d;
    int x, y;
    if (!n) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    n->p = vt_attr_int(im, "p", 2);
    if (n->p < 1 || n->p > 64) return vt_import_fail(im, e, "has p=%lld, must be 1 to 64", (long long)n->p);
    VT_TRY(vt_import_windows(im, x, NULL, vt_import_value(im, x)->dims.rank > 1 ? vt_import_value(im, x)->dims.d[1] : 0,
                             &n->w, &d, e));
    VT_TRY(vt_emit(im, vt_import_op(im), &x, 1, &d, false, n, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_lppool);
const VT_R(vt_op) VT_R(vt_op_lppool) = {.name = "LpPool",
                                        .import = import,
                                        .forward = forward,
                                        .backward = backward,
                                        .keep = VT_KEEP_X | VT_KEEP_Y};
