/* SPDX-License-Identifier: MIT */
/* Short rows, sixteen floats at a time, for the float copy of the kernels; the double copy keeps the plain loops. */
#ifndef VT_NN_LANES_H
#define VT_NN_LANES_H

#include <stdint.h>
#include <string.h>
#include "nn/vecmath.h"

/* Sixteen floats at once (the compiler splits them on narrower machines), with memory at any alignment. */
typedef float vt_lanes __attribute__((vector_size(64)));
typedef int32_t vt_lanes_mask __attribute__((vector_size(64)));
typedef uint32_t vt_lanes_bits __attribute__((vector_size(64)));

static inline vt_lanes vt_lanes_load(const float *p) {
    vt_lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void vt_lanes_store(float *p, vt_lanes v) { memcpy(p, &v, sizeof v); }
/* yes where the mask is set, else no */
static inline vt_lanes vt_lanes_pick(vt_lanes_mask m, vt_lanes yes, vt_lanes no) {
    return (vt_lanes)(((vt_lanes_mask)yes & m) | ((vt_lanes_mask)no & ~m));
}
static inline vt_lanes vt_lanes_max(vt_lanes a, vt_lanes b) { return vt_lanes_pick(a > b, a, b); }
static inline float vt_lanes_sum(vt_lanes v) { /* by halves */
    float a[16];
    vt_lanes_store(a, v);
    for (int l = 0; l < 8; l++) a[l] += a[l + 8];
    for (int l = 0; l < 4; l++) a[l] += a[l + 4];
    return (a[0] + a[2]) + (a[1] + a[3]);
}
static inline float vt_lanes_largest(vt_lanes v) {
    float a[16];
    vt_lanes_store(a, v);
    for (int l = 0; l < 8; l++) a[l] = a[l] > a[l + 8] ? a[l] : a[l + 8];
    for (int l = 0; l < 4; l++) a[l] = a[l] > a[l + 4] ? a[l] : a[l + 4];
    float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];
    return x > y ? x : y;
}

/* vt_expf of each lane, to the bit. */
static inline vt_lanes vt_lanes_exp(vt_lanes x) {
    vt_lanes_mask under = x < -87.0f;
    vt_lanes c = vt_lanes_pick(under, x - x - 87.0f, x); /* x - x is NaN for -Inf; the product below is masked */
    VT_EXP_PARTS(vt_lanes, t, p, c);
    vt_lanes_bits scale = VT_EXP_SCALE((vt_lanes_bits)t);
    return (vt_lanes)((vt_lanes_mask)(p * (vt_lanes)scale) & ~under);
}

#endif
