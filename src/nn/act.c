/* SPDX-License-Identifier: MIT */
/* Activations with their slopes, the exact GELU aside (gelu.c), and the backward of all. */
#include "nn/nn.h"
#include "nn/vecmath.h"

/* GELU by tanh: y = v/2 (1 + tanh u) = v sigma(2u), u = sqrt(2/pi) (v + 0.044715 v^3);
 * dy/dv = sigma + v sigma (1 - sigma) 2 du/dv. Nothing cancels in a sigmoid, nor in 1 - sigma = e^(-2u) sigma; that
 * exponential is held below overflow. */
static void tanh_forward(real *y, real *slope, const real *x, const real *b, int m, int n) {
    const real k = (real)1.5957691216057307117, cubic = (real)0.044715; /* 2 sqrt(2/pi) */
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)n;
        real *yi = y + (size_t)i * (size_t)n;
        real *si = slope ? slope + (size_t)i * (size_t)n : NULL;
        for (int j = 0; j < n; j++) {
            real v = b ? xi[j] + b[j] : xi[j];
            real u = k * (v + cubic * v * v * v), e = vt_exp(u < -88 ? 88 : -u), s = 1 / (1 + e);
            yi[j] = v * s;
            if (si) si[j] = s + v * s * (e * s) * k * (1 + 3 * cubic * v * v);
        }
    }
}

/* y = v sigma(u), u = 1.702 v;  dy/dv = sigma + u sigma (1 - sigma), with the care of the above. */
static void quick_forward(real *y, real *slope, const real *x, const real *b, int m, int n) {
    const real k = (real)1.702;
    for (int i = 0; i < m; i++) {
        const real *xi = x + (size_t)i * (size_t)n;
        real *yi = y + (size_t)i * (size_t)n;
        real *si = slope ? slope + (size_t)i * (size_t)n : NULL;
        for (int j = 0; j < n; j++) {
            real v = b ? xi[j] + b[j] : xi[j];
            real u = k * v, e = vt_exp(u < -88 ? 88 : -u), s = 1 / (1 + e);
            yi[j] = v * s;
            if (si) si[j] = s + u * s * (e * s);
        }
    }
}

/* The slope at 0 is 0, as PyTorch has it. */
static void relu_forward(real *y, real *slope, const real *x, const real *b, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            size_t at = (size_t)i * (size_t)n + (size_t)j;
            real v = b ? x[at] + b[j] : x[at];
            y[at] = v < 0 ? 0 : v; /* NaN stays NaN */
            if (slope) slope[at] = v > 0 ? 1 : 0;
        }
}

void VT_R(vt_act_forward)(vt_act kind, real *y, real *slope, const real *x, const real *b, int m, int n) {
    switch (kind) {
    case VT_ACT_GELU:
        VT_R(vt_gelu_forward)(y, slope, x, b, m, n);
        break;
    case VT_ACT_GELU_TANH:
        tanh_forward(y, slope, x, b, m, n);
        break;
    case VT_ACT_RELU:
        relu_forward(y, slope, x, b, m, n);
        break;
    case VT_ACT_QUICK_GELU:
        quick_forward(y, slope, x, b, m, n);
        break;
    }
}

void VT_R(vt_act_backward)(real *dx, const real *dy, const real *slope, size_t count) {
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * slope[i];
}
