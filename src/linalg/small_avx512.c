/* SPDX-License-Identifier: MIT */
/* Small products by AVX-512: of floats, and of bfloat16 numbers. */
#include "linalg/small.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* Whatever the program was compiled for: it asks the processor first. What is bfloat16's stands behind a question of
 * its own; a compiler puts in none of its instructions unasked. */
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")))
#define INLINE AVX512 static inline __attribute__((always_inline))

enum {
    LANES = 16,
    PACKED = 40960 /* words of B at most, on the stack: 577 tokens of 64 channels */
};

/* One tile of C. A word is a float, or two bfloat16 numbers that follow each other along k, which is then counted by
 * twos: all that differs between the two is what multiplies. Word (i, p) of A is a[i * row + p * col]; B is
 * [k, 1 to 4 vectors]; the last vector of C's rows has the columns `rest`. */
typedef struct operands {
    const float *a, *b;
    float *c;
    size_t row, col, ldb, ldc;
    int k;
    __mmask16 rest;
    bool add, bf16;
} operands;

INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 sum, const bool bf16) {
    return bf16 ? _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b) : _mm512_fmadd_ps(a, b, sum);
}

/* rows x parts vectors of C, held in registers through k outer products. Its indices are constants, and clang, asked to
 * check each in 76 unrolled copies, took over 14 minutes; the address sanitizer does look. */
__attribute__((no_sanitize("undefined"))) INLINE void tile(const operands *o, const int rows, const int parts,
                                                           const bool bf16) {
    __m512 sum[24];
#pragma GCC unroll 24
    for (int i = 0; i < rows * parts; i++) sum[i] = _mm512_setzero_ps();
    const float *a = o->a, *b = o->b;
    for (int p = 0; p < o->k; p++, a += o->col, b += o->ldb) {
        __m512 v[4];
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++) v[j] = _mm512_loadu_ps(b + j * LANES);
#pragma GCC unroll 24
        for (int i = 0; i < rows; i++) {
            __m512 f = _mm512_set1_ps(a[(size_t)i * o->row]);
#pragma GCC unroll 4
            for (int j = 0; j < parts; j++) sum[i * parts + j] = multiply_add(f, v[j], sum[i * parts + j], bf16);
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++) {
            float *c = o->c + (size_t)i * o->ldc + j * LANES;
            __mmask16 here = j == parts - 1 ? o->rest : 0xffff;
            __m512 s = sum[i * parts + j];
            _mm512_mask_storeu_ps(c, here, o->add ? _mm512_add_ps(s, _mm512_maskz_loadu_ps(here, c)) : s);
        }
}

#define ROWS(rows, parts)                                                                                              \
    case rows:                                                                                                         \
        tile(o, rows, parts, bf16);                                                                                    \
        break;
#define ROWS_6(parts) ROWS(1, parts) ROWS(2, parts) ROWS(3, parts) ROWS(4, parts) ROWS(5, parts) ROWS(6, parts)
#define ROWS_8(parts) ROWS_6(parts) ROWS(7, parts) ROWS(8, parts)
#define ROWS_12(parts) ROWS_8(parts) ROWS(9, parts) ROWS(10, parts) ROWS(11, parts) ROWS(12, parts)

/* As many rows as 24 registers hold. */
enum { MOST_1 = 12, MOST_2 = 12, MOST_3 = 8, MOST_4 = 6 };

INLINE void tiles(const operands *o, int rows, int parts, const bool bf16) {
    switch (parts) {
    case 1:
        switch (rows) { ROWS_12(1) }
        break;
    case 2:
        switch (rows) { ROWS_12(2) }
        break;
    case 3:
        switch (rows) { ROWS_8(3) }
        break;
    default:
        switch (rows) { ROWS_6(4) }
    }
}

AVX512 static void of_floats(const operands *o, int rows, int parts) { tiles(o, rows, parts, false); }
AVX512 static void of_bf16(const operands *o, int rows, int parts) { tiles(o, rows, parts, true); }

/* rows in tiles of as many as may be at most, none much smaller than another */
AVX512 static void stripe(operands o, int m, int parts) {
    static const int most[] = {0, MOST_1, MOST_2, MOST_3, MOST_4};
    const float *a = o.a;
    float *c = o.c;
    int count = (m + most[parts] - 1) / most[parts];
    for (int i = 0, from = 0; i < count; i++) {
        int to = (int)((long)m * (i + 1) / count);
        o.a = a + (size_t)from * o.row, o.c = c + (size_t)from * o.ldc;
        if (o.bf16)
            of_bf16(&o, to - from, parts);
        else
            of_floats(&o, to - from, parts);
        from = to;
    }
}

/* the sums of four vectors' lanes, by halves */
INLINE __m128 folded(const __m512 *s) {
    __m256 h[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) h[i] = _mm256_add_ps(_mm512_castps512_ps256(s[i]), _mm512_extractf32x8_ps(s[i], 1));
    __m256 t = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

/* C's elements in four rows (or fewer) of one column, where A's rows and the column b lie along k */
INLINE void dots(const operands *o, const float *a, float *c, const int rows, const bool bf16) {
    __m512 sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_ps();
    for (int p = 0; p < o->k; p += LANES) {
        __mmask16 here = o->k - p >= LANES ? 0xffff : (__mmask16)((1u << (o->k - p)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(here, o->b + p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            sum[i] = multiply_add(_mm512_maskz_loadu_ps(here, a + (size_t)i * o->row + p), v, sum[i], bf16);
    }
    float t[4];
    _mm_storeu_ps(t, folded(sum));
    for (int i = 0; i < rows; i++) c[(size_t)i * o->ldc] = o->add ? t[i] + c[(size_t)i * o->ldc] : t[i];
}

INLINE void column_of(const operands *o, int m, const bool bf16) {
    int i = 0;
    for (; i + 4 <= m; i += 4) dots(o, o->a + (size_t)i * o->row, o->c + (size_t)i * o->ldc, 4, bf16);
    for (; i < m; i++) dots(o, o->a + (size_t)i * o->row, o->c + (size_t)i * o->ldc, 1, bf16);
}
AVX512 static void column(const operands *o, int m) {
    if (o->bf16)
        column_of(o, m, true);
    else
        column_of(o, m, false);
}

/* C [m, n] = A B, of operands whose B's last vector may be read whole; `rest` is set here */
AVX512 static void multiply(operands o, int m, int n) {
    int vectors = (n + LANES - 1) / LANES, groups = (vectors + 3) / 4;
    const float *b = o.b;
    float *c = o.c;
    for (int g = 0, from = 0; g < groups; g++) {
        int to = vectors * (g + 1) / groups;
        o.b = b + from * LANES, o.c = c + from * LANES;
        o.rest = to < vectors ? 0xffff : (__mmask16)(0xffffu >> (vectors * LANES - n));
        stripe(o, m, to - from);
        from = to;
    }
}

/* ---- words in the order of the tiles ---- */

/* to [16, ldt] = the transpose of from [16, ld], 16 x 16 words */
INLINE void turn(float *to, size_t ldt, const float *from, size_t ld) {
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

/* to [k, ldt] = the transpose of words [n, ld], zeros behind its n columns */
AVX512 static void pack_turned(float *to, int ldt, const float *b, int ld, int n, int k) {
    int turned_n = n / LANES * LANES, turned_k = k / LANES * LANES;
    for (int j = 0; j < turned_n; j += LANES)
        for (int p = 0; p < turned_k; p += LANES)
            turn(to + (size_t)p * (size_t)ldt + j, (size_t)ldt, b + (size_t)j * (size_t)ld + p, (size_t)ld);
    for (int p = 0; p < k; p++) {
        float *row = to + (size_t)p * (size_t)ldt;
        int j = p < turned_k ? turned_n : 0;
        for (; j < n; j++) row[j] = b[(size_t)j * (size_t)ld + (size_t)p];
        for (; j < ldt; j++) row[j] = 0;
    }
}

/* to [k, ldt] = b [k, ld], zeros behind its n columns */
AVX512 static void pack(float *to, int ldt, const float *b, int ld, int n, int k) {
    for (int p = 0; p < k; p++, to += ldt, b += ld)
        for (int j = 0; j < ldt; j += LANES) {
            __mmask16 here = n - j >= LANES ? 0xffff : (__mmask16)((1u << (n - j)) - 1);
            _mm512_storeu_ps(to + j, _mm512_maskz_loadu_ps(here, b + j));
        }
}

/* to [rows, ldt] of x [rows, ld] in bfloat16; ldt is k or k + 1, and then a zero stands behind each row */
AVX512 static void round_rows(uint16_t *to, int ldt, const float *x, int rows, int k, int ld) {
    for (int i = 0; i < rows; i++, x += ld, to += ldt) {
        int p = 0;
        for (; p + LANES <= k; p += LANES)
            _mm256_storeu_si256((__m256i *)(to + p), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + p)));
        if (p == ldt) continue;
        __mmask16 in = (__mmask16)((1u << (k - p)) - 1), out = (__mmask16)((1u << (ldt - p)) - 1);
        _mm256_mask_storeu_epi16(to + p, out, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(in, x + p)));
    }
}

/* Pairs along rows: to [rows, (k + 1) / 2] of x [rows, ld], each row's numbers as they lie */
AVX512 static void pairs_along(float *to, const float *x, int rows, int k, int ld) {
    round_rows((uint16_t *)to, k + k % 2, x, rows, k, ld);
}

/* Pairs across rows: to [(k + 1) / 2, ldt] of x [k, ld], rows 2 p and 2 p + 1 together; zeros behind its n columns and
 * below its last row */
AVX512 static void pairs_across(float *to, int ldt, const float *x, int n, int k, int ld) {
    static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i by = _mm512_loadu_si512(order);
    for (int p = 0; p < k; p += 2, to += ldt, x += 2 * ld)
        for (int j = 0; j < ldt; j += LANES) {
            __mmask16 here = n - j >= LANES ? 0xffff : (__mmask16)((1u << (n - j)) - 1);
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

static bool bf16_here(void) { return vt_small_avx512_here() && __builtin_cpu_supports("avx512bf16"); }

/* A class token behind so many others: alone in a vector it would cost as much as sixteen. */
static bool has_single_last_column(bool ta, bool tb, int n) { return tb && !ta && n > LANES && n % LANES == 1; }

static bool fits_packed_buffer(int n, int k) { return ((double)n + LANES - 1) * k <= PACKED; }

AVX512 static void floats(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                          bool add, float *c, int ldc) {
    _Alignas(64) float packed[PACKED];
    bool last = has_single_last_column(ta, tb, n), as_it_is = !tb && n % LANES == 0;
    int whole = n - last, width = (whole + LANES - 1) / LANES * LANES;
    operands o = {.a = a, .row = ta ? 1 : (size_t)lda, .col = ta ? (size_t)lda : 1, .ldc = (size_t)ldc, .k = k};
    o.b = as_it_is ? b : packed, o.ldb = (size_t)(as_it_is ? ldb : width), o.c = c, o.add = add;
    if (tb)
        pack_turned(packed, width, b, ldb, whole, k);
    else if (!as_it_is)
        pack(packed, width, b, ldb, whole, k);
    multiply(o, m, whole);
    o.b = b + (size_t)whole * (size_t)ldb, o.c = c + whole;
    if (last) column(&o, m);
}

bool vt_small_avx512(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                     float *c, int ldc) {
    if (!fits_packed_buffer(n, k) || !vt_small_avx512_here()) return false;
    floats(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc);
    return true;
}

AVX512 static void rounded(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                           bool add, float *c, int ldc, float *room_a, float *room_b) {
    _Alignas(64) float packed[PACKED];
    float *along = room_b;
    bool last = has_single_last_column(ta, tb, n);
    int whole = n - last, width = (whole + LANES - 1) / LANES * LANES, pairs = (k + 1) / 2;
    operands o = {.a = room_a,
                  .row = ta ? 1 : (size_t)pairs,
                  .col = ta ? (size_t)m : 1,
                  .ldc = (size_t)ldc,
                  .k = pairs};
    o.b = packed, o.ldb = (size_t)width, o.c = c, o.add = add, o.bf16 = true;
    if (ta)
        pairs_across(room_a, m, a, m, k, lda);
    else
        pairs_along(room_a, a, m, k, lda);
    if (tb)
        pairs_along(along, b, n, k, ldb), pack_turned(packed, width, along, pairs, whole, pairs);
    else
        pairs_across(packed, width, b, whole, k, ldb);
    multiply(o, m, whole);
    o.b = along + (size_t)whole * (size_t)pairs, o.c = c + whole;
    if (last) column(&o, m);
}

bool vt_small_product_bf16(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                           bool add, float *c, int ldc, float *room_a, float *room_b) {
    if (!fits_packed_buffer(n, (k + 1) / 2) || !bf16_here()) return false;
    rounded(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc, room_a, room_b);
    return true;
}

bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld) {
    if (!bf16_here()) return false;
    round_rows(to, cols, x, rows, cols, ld);
    return true;
}

#else

bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld) {
    (void)to, (void)x, (void)rows, (void)cols, (void)ld;
    return false;
}

bool vt_small_avx512_here(void) { return false; }

bool vt_small_avx512(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                     float *c, int ldc) {
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)add, (void)c,
        (void)ldc;
    return false;
}

bool vt_small_product_bf16(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                           bool add, float *c, int ldc, float *room_a, float *room_b) {
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)add, (void)c,
        (void)ldc, (void)room_a, (void)room_b;
    return false;
}

#endif
