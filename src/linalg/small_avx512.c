/* SPDX-License-Identifier: MIT */
/* Small products by AVX-512: of floats, and of bfloat16 numbers. */
#if defined(__x86_64__)

#include <immintrin.h>

/* Whatever the program was compiled for: the processor is checked first, for bfloat16 separately; a compiler puts
 * in none of those instructions on its own. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))

typedef __m512 vec;
#define LANES 16
#define PARTS 4
#define MOST_ROWS 12, 12, 8, 6 /* as many as 24 registers hold */
#define ROWS_1 ROWS_12
#define ROWS_2 ROWS_12
#define PACKED 40960 /* on the stack: 577 tokens of 64 channels */
#define BF16 1
#define ZERO _mm512_setzero_ps()
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPLAT _mm512_set1_ps

#include "linalg/small_kernel.h"

INLINE vec multiply_add(vec a, vec b, vec sum, const bool bf16) {
    return bf16 ? _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b) : _mm512_fmadd_ps(a, b, sum);
}

/* Returns the mask of the first n lanes; n is at least 0. */
INLINE __mmask16 first_lanes(int n) { return n >= LANES ? 0xffff : (__mmask16)((1u << n) - 1); }

INLINE vec load_some(const float *p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }

INLINE void store_some(float *c, vec v, int n, bool add) {
    __mmask16 here = first_lanes(n);
    _mm512_mask_storeu_ps(c, here, add ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(here, c)) : v);
}

/* Four vectors' lanes are added by halves. */
INLINE void finish_dots(float t[4], vec *sum, const operands *o, const float *a, int p, const int rows,
                        const bool bf16) {
    if (p < o->k) {
        vec v = load_some(o->b + p, o->k - p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sum[i] = multiply_add(load_some(a + (size_t)i * o->row + p, o->k - p), v, sum[i], bf16);
    }
    __m256 h[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) h[i] = _mm256_add_ps(_mm512_castps512_ps256(sum[i]), _mm512_extractf32x8_ps(sum[i], 1));
    __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    _mm_storeu_ps(t, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

INLINE void transpose_block(float *to, size_t ldt, const float *from, size_t ld) {
    __m512 r[16], s[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_ps(from + (size_t)i * ld);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2)
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]), s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44), r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44), r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    /* r[4 g + q]: columns q, q + 4, q + 8, q + 12 of the rows 4 g to 4 g + 3, one to each quarter */
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        __m512 low = _mm512_shuffle_f32x4(r[q], r[q + 4], 0x88), high = _mm512_shuffle_f32x4(r[q], r[q + 4], 0xdd);
        __m512 low2 = _mm512_shuffle_f32x4(r[q + 8], r[q + 12], 0x88),
               high2 = _mm512_shuffle_f32x4(r[q + 8], r[q + 12], 0xdd);
        _mm512_storeu_ps(to + (size_t)q * ldt, _mm512_shuffle_f32x4(low, low2, 0x88));
        _mm512_storeu_ps(to + (size_t)(q + 8) * ldt, _mm512_shuffle_f32x4(low, low2, 0xdd));
        _mm512_storeu_ps(to + (size_t)(q + 4) * ldt, _mm512_shuffle_f32x4(high, high2, 0x88));
        _mm512_storeu_ps(to + (size_t)(q + 12) * ldt, _mm512_shuffle_f32x4(high, high2, 0xdd));
    }
}

/* Sets to [rows, ldt] to x [rows, ld] in bfloat16; ldt is k or k + 1, and then a zero stands after each row. */
TARGET static void round_rows(uint16_t *to, int ldt, const float *x, int rows, int k, int ld) {
    for (int i = 0; i < rows; i++, x += ld, to += ldt) {
        int p = 0;
        for (; p + LANES <= k; p += LANES)
            _mm256_storeu_si256((__m256i *)(to + p), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + p)));
        if (p == ldt) continue;
        __mmask16 in = (__mmask16)((1u << (k - p)) - 1), out = (__mmask16)((1u << (ldt - p)) - 1);
        _mm256_mask_storeu_epi16(to + p, out, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(in, x + p)));
    }
}

/* Sets to [rows, (k + 1) / 2] to x [rows, k] (row stride ld) in bfloat16, in pairs along rows, each row's numbers as
 * they lie; an odd k is padded by a zero. */
TARGET static void pack_pairs_along(float *to, const float *x, int rows, int k, int ld) {
    round_rows((uint16_t *)to, k + k % 2, x, rows, k, ld);
}

/* Sets to [(k + 1) / 2, ldt] to x [k, n] (row stride ld) in bfloat16, in pairs across rows, 2 p and 2 p + 1 together;
 * zeros after its n columns, if ldt is whole vectors, and below its last row. */
TARGET static void pack_pairs_across(float *to, int ldt, const float *x, int n, int k, int ld) {
    static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i by = _mm512_loadu_si512(order);
    for (int p = 0; p < k; p += 2, to += ldt, x += 2 * ld)
        for (int j = 0; j < ldt; j += LANES) {
            __mmask16 here = first_lanes(n - j);
            __m512 first = _mm512_maskz_loadu_ps(here, x + j),
                   second = _mm512_maskz_loadu_ps(p + 1 < k ? here : 0, x + ld + j);
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
            __m512i words = _mm512_permutexvar_epi16(by, both);
            _mm512_mask_storeu_epi32(to + j, ldt - j >= LANES ? 0xffff : here, words);
        }
}

/* ---- products ---- */

bool vt_small_avx512_here(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Returns whether the processor has AVX512-BF16. */
static bool bf16_here(void) { return vt_small_avx512_here() && __builtin_cpu_supports("avx512bf16"); }

bool vt_small_avx512(const vt_product *p, const float *a, const float *b, float *c) {
    if (!fits_packed_buffer(p->n, p->k) || !vt_small_avx512_here()) return false;
    multiply_floats(p, a, b, c);
    return true;
}

/* Computes the product of A and B rounded to bfloat16, packed into room_a, room_b and the stack. */
TARGET static void multiply_rounded(const vt_product *p, const float *a, const float *b, float *c, float *room_a,
                                    float *room_b) {
    _Alignas(64) float packed[PACKED];
    bool last = has_single_last_column(p);
    int n = p->n - last, width = (n + LANES - 1) / LANES * LANES, pairs = (p->k + 1) / 2;
    operands o = {.a = room_a, .b = packed, .c = c, .ldc = (size_t)p->ldc, .k = pairs, .add = p->add, .bf16 = true};
    o.row = p->ta ? 1 : (size_t)pairs, o.col = p->ta ? (size_t)p->m : 1, o.ldb = (size_t)width;
    if (p->ta)
        pack_pairs_across(room_a, p->m, a, p->m, p->k, p->lda);
    else
        pack_pairs_along(room_a, a, p->m, p->k, p->lda);
    if (p->tb)
        pack_pairs_along(room_b, b, p->n, p->k, p->ldb), pack_transposed(packed, width, room_b, pairs, n, pairs);
    else
        pack_pairs_across(packed, width, b, n, p->k, p->ldb);
    multiply(o, p->m, n);
    o.b = room_b + (size_t)n * (size_t)pairs, o.c = c + n;
    if (last) multiply_column(&o, p->m);
}

bool vt_small_product_bf16(const vt_product *p, const float *a, const float *b, float *c, float *room_a,
                           float *room_b) {
    if (!fits_packed_buffer(p->n, (p->k + 1) / 2) || !bf16_here()) return false;
    multiply_rounded(p, a, b, c, room_a, room_b);
    return true;
}

bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld) {
    if (!bf16_here()) return false;
    round_rows(to, cols, x, rows, cols, ld);
    return true;
}

#endif
