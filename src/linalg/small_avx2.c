/* SPDX-License-Identifier: MIT */
/* Small products of floats by AVX2. */
#if defined(__x86_64__)

#include <immintrin.h>

/* Whatever the program was compiled for: the processor is checked first. */
#define TARGET __attribute__((target("avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))

typedef __m256 vec;
#define LANES 8
#define PARTS 2
#define MOST_ROWS 8, 6
#define ROWS_1 ROWS_8
#define ROWS_2 ROWS_6
#define PACKED 8192 /* a level-one cache */
#define BF16 0
#define ZERO _mm256_setzero_ps()
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPLAT _mm256_set1_ps

#include "linalg/small_kernel.h"

INLINE vec multiply_add(vec a, vec b, vec sum, const bool bf16) {
    (void)bf16;
    return _mm256_fmadd_ps(a, b, sum);
}

INLINE vec load_some(const float *p, int n) {
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

INLINE void store_some(float *c, vec v, int n, bool add) {
    float t[LANES];
    if (n == LANES) {
        STORE(c, add ? _mm256_add_ps(v, LOAD(c)) : v);
        return;
    }
    STORE(t, v);
    for (int l = 0; l < n; l++) c[l] = add ? t[l] + c[l] : t[l];
}

INLINE void finish_dots(float t[4], vec *sum, const operands *o, const float *a, int p, const int rows,
                        const bool bf16) {
    (void)bf16;
    for (int i = 0; i < rows; i++) {
        float s[LANES], rest = 0;
        STORE(s, sum[i]);
        for (int q = p; q < o->k; q++) rest += a[(size_t)i * o->row + (size_t)q] * o->b[q];
        t[i] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])) + rest;
    }
}

INLINE void transpose_block(float *to, size_t ldt, const float *from, size_t ld) {
    vec r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = LOAD(from + (size_t)i * ld);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2)
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44), r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44), r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        STORE(to + (size_t)i * ldt, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        STORE(to + (size_t)(i + 4) * ldt, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

bool vt_small_avx2_here(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

/* From a million multiply-adds on libraries are as good. */
bool vt_small_avx2(const vt_product *p, const float *a, const float *b, float *c) {
    if (!fits_packed_buffer(p->n, p->k) || (double)p->m * p->n * p->k >= 1e6 || !vt_small_avx2_here()) return false;
    multiply_floats(p, a, b, c);
    return true;
}

#endif
