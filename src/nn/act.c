/* SPDX-License-Identifier: MIT */
/* Activations with their slopes, and the backward of all. */
#include "nn/nn.h"
#include "nn/vecmath.h"

/* y = v Phi(v), dy/dv = Phi(v) + v phi(v) */
static inline real gelu(real v, real *slope) {
    const real density = (real)0.39894228040143267794; /* 1/sqrt(2 pi) */
    real e, cdf = vt_normcdf(v, &e);
    *slope = cdf + v * (density * e);
    return v * cdf;
}

/* GELU by tanh: y = v/2 (1 + tanh u) = v sigma(2u), u = sqrt(2/pi) (v + 0.044715 v^3);
 * dy/dv = sigma + v sigma (1 - sigma) 2 du/dv. Nothing cancels in a sigmoid, nor in 1 - sigma = e^(-2u) sigma; that
 * exponential is held below overflow. */
static inline real gelu_tanh(real v, real *slope) {
    const real k = (real)1.5957691216057307117, cubic = (real)0.044715; /* 2 sqrt(2/pi) */
    real u = k * (v + cubic * v * v * v), e = vt_exp(u < -88 ? 88 : -u), s = 1 / (1 + e);
    *slope = s + v * s * (e * s) * k * (1 + 3 * cubic * v * v);
    return v * s;
}

/* y = v sigma(u), u = 1.702 v;  dy/dv = sigma + u sigma (1 - sigma), with the care of the above. */
static inline real quick_gelu(real v, real *slope) {
    real u = (real)1.702 * v, e = vt_exp(u < -88 ? 88 : -u), s = 1 / (1 + e);
    *slope = s + u * s * (e * s);
    return v * s;
}

/* The slope at 0 is 0, as PyTorch has it; NaN stays NaN. */
static inline real relu(real v, real *slope) {
    *slope = v > 0 ? 1 : 0;
    return v < 0 ? 0 : v;
}

/* y [m,n] = of(x + b), slope its derivative (or NULL). The usual case has a loop of its own, without conditions; `of`
 * is known where this is inlined. */
static inline __attribute__((always_inline)) void each_number(real (*of)(real, real *), real *y, real *slope,
                                                              const real *x, const real *b, int m, int n) {
    for (int i = 0; i < m; i++, x += n, y += n) {
        real *si = slope ? slope + (size_t)i * (size_t)n : NULL;
        if (si && b)
            for (int j = 0; j < n; j++) y[j] = of(x[j] + b[j], &si[j]);
        else
            for (int j = 0; j < n; j++) {
                real d;
                y[j] = of(b ? x[j] + b[j] : x[j], &d);
                if (si) si[j] = d;
            }
    }
}

void VT_R(vt_act_forward)(vt_act kind, real *y, real *slope, const real *x, const real *b, int m, int n) {
    if (kind == VT_ACT_GELU) each_number(gelu, y, slope, x, b, m, n);
    if (kind == VT_ACT_GELU_TANH) each_number(gelu_tanh, y, slope, x, b, m, n);
    if (kind == VT_ACT_RELU) each_number(relu, y, slope, x, b, m, n);
    if (kind == VT_ACT_QUICK_GELU) each_number(quick_gelu, y, slope, x, b, m, n);
}

void VT_R(vt_act_backward)(real *dx, const real *dy, const real *slope, size_t count) {
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * slope[i];
}
