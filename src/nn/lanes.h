/* SPDX-License-Identifier: MIT */
/* Short rows, sixteen floats at a time, for the float copy of the kernels; the double copy keeps the plain loops. */
#pragma once

#include <stdint.h>
#include <string.h>
#include "nn/vecmath.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Sixteen floats at once, with memory at any alignment: in parts as wide as the machine's registers, since of wider
 * vectors the compiler would compare and shift one lane after the other. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
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

/* Returns sixteen floats of p. */
static inline vt_lanes vt_lanes_load(const float *p) {
    vt_lanes v;
    VT_EACH_PART(k) memcpy(&v.part[k], p + k * VT_LANES_PART / 4, sizeof v.part[k]);
    return v;
}
/* Returns f sixteen times. */
static inline vt_lanes vt_lanes_all(float f) {
    vt_lanes v;
    VT_EACH_PART(k) v.part[k] = f - (vt_part){0};
    return v;
}
/* Writes the sixteen floats to p. */
static inline void vt_lanes_store(float *p, vt_lanes v) {
    VT_EACH_PART(k) memcpy(p + k * VT_LANES_PART / 4, &v.part[k], sizeof v.part[k]);
}
#if defined(__AVX512F__) && defined(__AVX512DQ__)
/* Returns the first n (1 to 16) floats at p; further lanes are 0. */
static inline vt_lanes vt_lanes_load_some(const float *p, int n) {
    return (vt_lanes){{(vt_part)_mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (16 - n)), p)}};
}
/* Writes the first n (1 to 16) lanes to p, and nothing beyond them. */
static inline void vt_lanes_store_some(float *p, vt_lanes v, int n) {
    _mm512_mask_storeu_ps(p, (__mmask16)(0xffffu >> (16 - n)), (__m512)v.part[0]);
}
#else
static inline vt_lanes vt_lanes_load_some(const float *p, int n) {
    float a[16];
    for (int l = 0; l < 16; l++) a[l] = l < n ? p[l] : 0;
    return vt_lanes_load(a);
}
static inline void vt_lanes_store_some(float *p, vt_lanes v, int n) {
    float a[16];
    vt_lanes_store(a, v);
    for (int l = 0; l < n; l++) p[l] = a[l];
}
#endif
/* Returns yes where the mask is set, else no. */
static inline vt_part vt_part_pick(vt_part_mask m, vt_part yes, vt_part no) {
    return (vt_part)(((vt_part_mask)yes & m) | ((vt_part_mask)no & ~m));
}
/* Returns v's first n lanes, `other` behind them. */
static inline vt_lanes vt_lanes_first(vt_lanes v, int n, float other) {
    static const int32_t place[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    VT_EACH_PART(k) {
        vt_part_mask at;
        memcpy(&at, place + k * VT_LANES_PART / 4, sizeof at);
        v.part[k] = vt_part_pick(at < n, v.part[k], vt_lanes_all(other).part[k]);
    }
    return v;
}
/* Returns a where it is larger, else b: b, too, where one of them is NaN. */
static inline vt_part vt_part_max(vt_part a, vt_part b) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return (vt_part)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vt_part)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vt_part)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vt_part_pick(a > b, a, b);
#endif
}
/* Defines a function of all sixteen lanes by what it does to each part; args has a vt_lanes a, which it returns. */
#define VT_LANES_OP(name, args, of_part)                                                                               \
    static inline vt_lanes name args {                                                                                 \
        VT_EACH_PART(k) of_part;                                                                                       \
        return a;                                                                                                      \
    }
VT_LANES_OP(vt_lanes_max, (vt_lanes a, vt_lanes b), a.part[k] = vt_part_max(a.part[k], b.part[k]))
VT_LANES_OP(vt_lanes_add, (vt_lanes a, vt_lanes b), a.part[k] += b.part[k])
VT_LANES_OP(vt_lanes_less, (vt_lanes a, float b), a.part[k] -= b)
VT_LANES_OP(vt_lanes_times, (vt_lanes a, float f), a.part[k] *= f)
VT_LANES_OP(vt_lanes_product, (vt_lanes a, vt_lanes b), a.part[k] *= b.part[k])
/* a b + c and a f - b in one rounding, where the machine has that */
VT_LANES_OP(vt_lanes_product_add, (vt_lanes a, vt_lanes b, vt_lanes c), a.part[k] = a.part[k] * b.part[k] + c.part[k])
VT_LANES_OP(vt_lanes_times_less, (vt_lanes a, float f, float b), a.part[k] = a.part[k] * f - b)
/* Sum and largest of the sixteen, by halves: lane l with lane l + 8, those with l + 4, then (0, 2) with (1, 3). */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
static inline float vt_lanes_sum(vt_lanes v) {
    __m512 w = (__m512)v.part[0];
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(w), _mm512_extractf32x8_ps(w, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline float vt_lanes_largest(vt_lanes v) {
    __m512 w = (__m512)v.part[0];
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(w), _mm512_extractf32x8_ps(w, 1));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
#else
static inline float vt_lanes_sum(vt_lanes v) {
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
#endif

/* Returns vt_expf of each lane, to the bit. */
static inline vt_part vt_part_exp(vt_part x) {
    vt_part_mask under = x < -87.0f;
    vt_part c = vt_part_max((vt_part){0} - 87.0f, x); /* NaN stays NaN */
    VT_EXP_PARTS(vt_part, t, p, c);
    vt_part_bits scale = VT_EXP_SCALE((vt_part_bits)t);
    return (vt_part)((vt_part_mask)(p * (vt_part)scale) & ~under);
}
VT_LANES_OP(vt_lanes_exp, (vt_lanes a), a.part[k] = vt_part_exp(a.part[k]))
