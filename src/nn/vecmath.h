/* SPDX-License-Identifier: MIT */
/* exp and the normal distribution function in forms that the compiler vectorises for float; the double copy of the
 * kernels uses libm. glibc's scalar expf and erff are 10 to 80 times slower, and would dominate a forward pass. */
#ifndef VT_NN_VECMATH_H /* tests include it in both precisions */
#define VT_NN_VECMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/real.h"

/* e^x, x <= 88: Cody-Waite reduction x = n ln2 + r, |r| <= ln2/2, Taylor to r^7 (remainder r^8/8! <= 5e-9 relative),
 * about 1 ulp; 0 below -87, where the softmax and the normal density no longer see it. From c = max(x, -87): n in the
 * low bits of t, and p = e^r. A macro, for T is float here and sixteen of them in nn/lanes.h. */
#define VT_EXP_PARTS(T, t, p, c)                                                                                       \
    T t = (c)*1.44269504f + 12582912.0f; /* 1.5 * 2^23: the integer n lands in the low bits */                         \
    T vt_n = t - 12582912.0f;                                                                                          \
    T vt_r = (c)-vt_n * 0.693359375f;                                                                                  \
    vt_r = vt_r + vt_n * 2.12194440e-4f;                                                                               \
    T p = vt_r * (1.0f / 5040) + 1.0f / 720;                                                                           \
    p = p * vt_r + 1.0f / 120;                                                                                         \
    p = p * vt_r + 1.0f / 24;                                                                                          \
    p = p * vt_r + 1.0f / 6;                                                                                           \
    p = p * vt_r + 0.5f;                                                                                               \
    p = p * vt_r + 1.0f;                                                                                               \
    p = p * vt_r + 1.0f

/* The bits of 2^n from those of t. Unsigned: a NaN shifts whatever it holds, and p keeps it NaN. */
#define VT_EXP_SCALE(bits) (((bits) - (0x4B400000u - 127u)) << 23)

/* Returns e^x, x <= 88, to about 1 ulp; 0 below -87. */
static inline float vt_expf(float x) {
    float c = x < -87.0f ? -87.0f : x, s;
    VT_EXP_PARTS(float, t, p, c);
    uint32_t bits;
    memcpy(&bits, &t, 4);
    bits = VT_EXP_SCALE(bits);
    memcpy(&s, &bits, 4);
    return x < -87.0f ? 0.0f : p * s;
}

/* Returns Phi(x) of the standard normal and *e = exp(-x^2/2). For u = |x|/sqrt2: erfc(u) = exp(-u^2) R(1/(1 + 0.37 u)),
 * R a polynomial of degree 9 fitted on u in [0,10] (our own Lawson fit; relative error 7e-9). */
static inline float vt_normcdff(float x, float *e) {
    float u = fabsf(x) * 0.707106781f;
    float s = 1.0f / (1.0f + 0.37f * u);
    float r = 0.0661073328f;
    r = r * s - 0.324918117f;
    r = r * s + 0.535234966f;
    r = r * s - 0.346582702f;
    r = r * s + 0.359138715f;
    r = r * s + 0.0819143122f;
    r = r * s + 0.21432765f;
    r = r * s + 0.205784487f;
    r = r * s + 0.209002682f;
    r = r * s - 9.3170115e-06f;
    *e = vt_expf(-0.5f * x * x);
    float half = 0.5f * *e * r;
    return x < 0 ? half : 1.0f - half;
}

/* vt_exp returns e^x, vt_normcdf Phi(x) and *e = exp(-x^2/2), in the precision of the copy. */
#ifdef VT_DOUBLE
static inline double vt_exp(double x) { return exp(x); }
static inline double vt_normcdf(double x, double *e) {
    *e = exp(-0.5 * x * x);
    return 0.5 * erfc(-x * 0.70710678118654752440);
}
#else
static inline float vt_exp(float x) { return vt_expf(x); }
static inline float vt_normcdf(float x, float *e) { return vt_normcdff(x, e); }
#endif

#endif
