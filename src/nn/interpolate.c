/* SPDX-License-Identifier: MIT */
#include "nn/interpolate.h"

#include <math.h>
#include <string.h>

/* ---- weights, in double for both precisions ---- */

/* Returns the bilinear kernel at x. */
static double triangle_weight(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys' cubic convolution */
static double cubic_weight(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Returns i, at least 0 and below n. */
static int clamp_index(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/* Sets at and w [1] of output o: UpSampleNearest computes in float: floor(o * (float)in / out). */
static void fill_nearest_weights(int *at, double *w, int o, int in, int out) {
    float scale = (float)in / (float)out;
    at[0] = clamp_index((int)floorf((float)o * scale), in);
    w[0] = 1;
}

/* Sets at and w [2, cubic: 4] of output o, without antialias. Source position (o + 0.5) in / out - 0.5. PyTorch cuts it
 * at 0 for bilinear, which is what clamped indices do. */
static void fill_pointwise_weights(int *at, double *w, int o, int in, double out, bool is_cubic) {
    double x = (o + 0.5) * ((double)in / out) - 0.5;
    int i = (int)floor(x);
    for (int t = 0; t < (is_cubic ? 4 : 2); t++) {
        int j = i + t - is_cubic;
        at[t] = clamp_index(j, in);
        w[t] = is_cubic ? cubic_weight(x - j, -0.75) : triangle_weight(x - j);
    }
}

/* Returns how far the kernel reaches, in input pixels. */
static double support_of(int in, int out, bool is_cubic) {
    double scale = (double)in / out;
    return (is_cubic ? 2 : 1) * (scale < 1 ? 1 : scale);
}

/* Sets at and w [taps] of output o with antialias: as Pillow, unrounded. */
static void fill_antialiased_weights(int *at, double *w, int taps, int o, int in, int out, bool is_cubic) {
    double scale = (double)in / out, stretch = scale < 1 ? 1 : scale, sum = 0;
    double centre = (o + 0.5) * scale, support = support_of(in, out, is_cubic);
    int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
    if (lo < 0) lo = 0;
    if (hi > in) hi = in;
    for (int t = 0; t < taps; t++) {
        double x = (lo + t + 0.5 - centre) / stretch;
        at[t] = clamp_index(lo + t, in);
        w[t] = lo + t >= hi ? 0 : is_cubic ? cubic_weight(x, -0.5) : triangle_weight(x);
        sum += w[t];
    }
    for (int t = 0; t < taps; t++) w[t] /= sum;
}

/* Takes *m from the arena and fills it with the weights of one axis from `in` to `out` pixels; a measuring arena leaves
 * it without numbers. */
static void plan_axis(VT_R(vt_interp_axis) *m, vt_arena *a, vt_interp_kind kind, bool antialias, int in, int out,
                      double offset) {
    bool is_cubic = kind == VT_INTERP_BICUBIC;
    int taps = kind == VT_INTERP_NEAREST ? 1
               : antialias               ? 2 * (int)ceil(support_of(in, out, is_cubic)) + 1
               : is_cubic                ? 4
                                         : 2;
    size_t n = (size_t)out * (size_t)taps;
    *m = (VT_R(vt_interp_axis)){in, out, taps, vt_arena_take(a, n, sizeof *m->at), vt_arena_take(a, n, sizeof *m->w)};
    double *w = vt_arena_take(a, (size_t)taps, sizeof *w);
    for (int o = 0; a->base && o < out; o++) {
        int *at = m->at + (size_t)o * (size_t)taps;
        if (kind == VT_INTERP_NEAREST)
            fill_nearest_weights(at, w, o, in, out);
        else if (antialias)
            fill_antialiased_weights(at, w, taps, o, in, out, is_cubic);
        else
            fill_pointwise_weights(at, w, o, in, out + offset, is_cubic);
        for (int t = 0; t < taps; t++) m->w[(size_t)o * (size_t)taps + (size_t)t] = (real)w[t];
    }
}

void VT_R(vt_interp_plan)(VT_R(vt_interp) *p, vt_arena *a, vt_interp_kind kind, bool antialias, int in_h, int in_w,
                          int out_h, int out_w, double offset) {
    plan_axis(&p->rows, a, kind, antialias, in_h, out_h, offset);
    plan_axis(&p->columns, a, kind, antialias, in_w, out_w, offset);
    p->between = vt_arena_take(a, (size_t)in_h * (size_t)out_w, sizeof *p->between);
}

/* ---- the map and its adjoint, one plane at a time ---- */

void VT_R(vt_interp_forward)(real *y, const VT_R(vt_interp) *p, const real *x, int channels) {
    const VT_R(vt_interp_axis) *r = &p->rows, *c = &p->columns;
    for (int k = 0; k < channels; k++, x += (size_t)r->in * (size_t)c->in, y += (size_t)r->out * (size_t)c->out) {
        for (int i = 0; i < r->in; i++) /* between = X C^T */
            for (int o = 0; o < c->out; o++) {
                const real *row = x + (size_t)i * (size_t)c->in;
                real sum = 0;
                for (int t = o * c->taps; t < (o + 1) * c->taps; t++) sum += c->w[t] * row[c->at[t]];
                p->between[(size_t)i * (size_t)c->out + (size_t)o] = sum;
            }
        memset(y, 0, (size_t)r->out * (size_t)c->out * sizeof *y);
        for (int t = 0; t < r->out * r->taps; t++) { /* Y = R between */
            const real *from = p->between + (size_t)r->at[t] * (size_t)c->out;
            real *to = y + (size_t)(t / r->taps) * (size_t)c->out, w = r->w[t];
            for (int o = 0; o < c->out; o++) to[o] += w * from[o];
        }
    }
}

void VT_R(vt_interp_backward)(real *dx, const VT_R(vt_interp) *p, const real *dy, int channels) {
    const VT_R(vt_interp_axis) *r = &p->rows, *c = &p->columns;
    for (int k = 0; k < channels; k++, dx += (size_t)r->in * (size_t)c->in, dy += (size_t)r->out * (size_t)c->out) {
        memset(p->between, 0, (size_t)r->in * (size_t)c->out * sizeof *p->between);
        for (int t = 0; t < r->out * r->taps; t++) { /* d between = R^T dY */
            const real *from = dy + (size_t)(t / r->taps) * (size_t)c->out;
            real *to = p->between + (size_t)r->at[t] * (size_t)c->out, w = r->w[t];
            for (int o = 0; o < c->out; o++) to[o] += w * from[o];
        }
        memset(dx, 0, (size_t)r->in * (size_t)c->in * sizeof *dx);
        for (int i = 0; i < r->in; i++) { /* dX = (d between) C */
            const real *from = p->between + (size_t)i * (size_t)c->out;
            real *to = dx + (size_t)i * (size_t)c->in;
            for (int o = 0; o < c->out; o++)
                for (int t = o * c->taps; t < (o + 1) * c->taps; t++) to[c->at[t]] += c->w[t] * from[o];
        }
    }
}
