/* SPDX-License-Identifier: MIT */
/* Short rows, sixteen floats at a time, for the float copy of the kernels; the double copy keeps the plain loops. */
#ifndef VT_NN_LANES_H
#define VT_NN_LANES_H

#include <stdint.h>
#include <string.h>
#include "nn/vecmath.h"

/* Sixteen floats at once, with memory at any alignment: in parts as wide as the machine's registers, since of wider
 * vectors the compiler would compare and shift one lane after the other. */
#if defined(__AVX512F__)
enum { VT_LANES_PART = 64 };
#elif defined(__AVX2__)
enum { VT_LANES_PART = 32 };
#else
enum { VT_LANES_PART = 16 };
#endif
enum { VT_LANES_PARTS = 64 / VT_LANES_PART };
typedef float vt_part __attribute__((vector_size(VT_LANES_PART)));
typedef int32_t vt_part_mask __attribute__((vector_size(VT_LANES_PART)));
typedef uint32_t vt_part_bits __attribute__((vector_size(VT_LANES_PART)));
typedef struct vt_lanes {
    vt_part part[VT_LANES_PARTS];
} vt_lanes;
#define VT_EACH_PART(k) _Pragma("GCC unroll 4") for (int k = 0; k < VT_LANES_PARTS; k++)

static inline vt_lanes vt_lanes_load(const float *p) {
    vt_lanes v;
    VT_EACH_PART(k) memcpy(&v.part[k], p + k * VT_LANES_PART / 4, sizeof v.part[k]);
    return v;
}
static inline void vt_lanes_store(float *p, vt_lanes v) {
    VT_EACH_PART(k) memcpy(p + k * VT_LANES_PART / 4, &v.part[k], sizeof v.part[k]);
}
/* yes where the mask is set, else no */
static inline vt_part vt_part_pick(vt_part_mask m, vt_part yes, vt_part no) {
    return (vt_part)(((vt_part_mask)yes & m) | ((vt_part_mask)no & ~m));
}
static inline vt_lanes vt_lanes_max(vt_lanes a, vt_lanes b) {
    VT_EACH_PART(k) a.part[k] = vt_part_pick(a.part[k] > b.part[k], a.part[k], b.part[k]);
    return a;
}
static inline vt_lanes vt_lanes_add(vt_lanes a, vt_lanes b) {
    VT_EACH_PART(k) a.part[k] += b.part[k];
    return a;
}
static inline vt_lanes vt_lanes_times(vt_lanes a, float f) {
    VT_EACH_PART(k) a.part[k] *= f;
    return a;
}
/* a f - b in one rounding, where the machine has that */
static inline vt_lanes vt_lanes_times_less(vt_lanes a, float f, float b) {
    VT_EACH_PART(k) a.part[k] = a.part[k] * f - b;
    return a;
}
static inline vt_lanes vt_lanes_less(vt_lanes a, float b) {
    VT_EACH_PART(k) a.part[k] -= b;
    return a;
}
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
static inline vt_part vt_part_exp(vt_part x) {
    vt_part_mask under = x < -87.0f;
    vt_part c = vt_part_pick(under, x - x - 87.0f, x); /* x - x is NaN for -Inf; the product below is masked */
    VT_EXP_PARTS(vt_part, t, p, c);
    vt_part_bits scale = VT_EXP_SCALE((vt_part_bits)t);
    return (vt_part)((vt_part_mask)(p * (vt_part)scale) & ~under);
}
static inline vt_lanes vt_lanes_exp(vt_lanes x) {
    VT_EACH_PART(k) x.part[k] = vt_part_exp(x.part[k]);
    return x;
}

#endif
