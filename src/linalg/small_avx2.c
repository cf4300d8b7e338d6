/* SPDX-License-Identifier: MIT */
/* Small products of floats by AVX2. */
#include "linalg/small.h"

#include <stddef.h>

#if defined(__x86_64__)

#include <immintrin.h>

/* Whatever the program was compiled for: it asks the processor first. */
#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum {
    LANES = 8,
    PACKED = 8192,    /* floats of B at most: a level-one cache */
    LARGEST = 1000000 /* multiply-adds: from there on libraries are as good */
};

/* One tile of C: element (i, p) of A is a[i * row + p * col]; B is [k, 8 or 16]; the last vector of C's rows has
 * `rest` columns. */
typedef struct operands {
    const float *a, *b;
    float *c;
    size_t row, col, ldb, ldc;
    int k, rest;
    bool add;
} operands;

INLINE void put(float *c, __m256 v, int n, bool add) {
    float t[LANES];
    if (n == LANES) {
        _mm256_storeu_ps(c, add ? _mm256_add_ps(v, _mm256_loadu_ps(c)) : v);
        return;
    }
    _mm256_storeu_ps(t, v);
    for (int l = 0; l < n; l++) c[l] = add ? t[l] + c[l] : t[l];
}

/* rows x parts vectors of C, held in registers through k outer products */
INLINE void tile(const operands *o, const int rows, const int parts) {
    __m256 sum[12];
#pragma GCC unroll 12
    for (int i = 0; i < rows * parts; i++) sum[i] = _mm256_setzero_ps();
    const float *a = o->a, *b = o->b;
    for (int p = 0; p < o->k; p++, a += o->col, b += o->ldb) {
        __m256 v[2];
#pragma GCC unroll 2
        for (int j = 0; j < parts; j++) v[j] = _mm256_loadu_ps(b + j * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            __m256 f = _mm256_broadcast_ss(a + (size_t)i * o->row);
#pragma GCC unroll 2
            for (int j = 0; j < parts; j++) sum[i * parts + j] = _mm256_fmadd_ps(f, v[j], sum[i * parts + j]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < parts; j++)
            put(o->c + (size_t)i * o->ldc + j * LANES, sum[i * parts + j], j == parts - 1 ? o->rest : LANES, o->add);
}

#define ROWS(rows, parts)                                                                                              \
    case rows:                                                                                                         \
        tile(o, rows, parts);                                                                                          \
        break;

AVX2 static void narrow(const operands *o, int rows) {
    switch (rows) { ROWS(1, 1) ROWS(2, 1) ROWS(3, 1) ROWS(4, 1) ROWS(5, 1) ROWS(6, 1) ROWS(7, 1) ROWS(8, 1) }
}

AVX2 static void wide(const operands *o, int rows) {
    switch (rows) { ROWS(1, 2) ROWS(2, 2) ROWS(3, 2) ROWS(4, 2) ROWS(5, 2) ROWS(6, 2) }
}

/* C's elements in `rows` rows of one column, where A's rows and the column lie along k: eight sums each, then their sum
 */
INLINE void dots(const operands *o, const float *a, float *c, const int rows) {
    __m256 sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) sum[i] = _mm256_setzero_ps();
    int p = 0;
    for (; p + LANES <= o->k; p += LANES) {
        __m256 v = _mm256_loadu_ps(o->b + p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(a + (size_t)i * o->row + p), v, sum[i]);
    }
    for (int i = 0; i < rows; i++) {
        float t[LANES], *to = c + (size_t)i * o->ldc, rest = 0;
        _mm256_storeu_ps(t, sum[i]);
        for (int q = p; q < o->k; q++) rest += a[(size_t)i * o->row + (size_t)q] * o->b[q];
        float dot = ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7])) + rest;
        *to = o->add ? dot + *to : dot;
    }
}

AVX2 static void column(const operands *o, const float *a, float *c, int m) {
    int i = 0;
    for (; i + 4 <= m; i += 4) dots(o, a + (size_t)i * o->row, c + (size_t)i * o->ldc, 4);
    for (; i < m; i++) dots(o, a + (size_t)i * o->row, c + (size_t)i * o->ldc, 1);
}

/* to [8, ldt] = the transpose of from [8, ld], 8 x 8 */
INLINE void turn(float *to, size_t ldt, const float *from, size_t ld) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + (size_t)i * ld);
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
        _mm256_storeu_ps(to + (size_t)i * ldt, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (size_t)(i + 4) * ldt, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* to [k, ldt] = op(B), zeros behind its n columns */
AVX2 static void pack(float *to, int ldt, bool tb, const float *b, int ldb, int n, int k) {
    size_t t = (size_t)ldt, ld = (size_t)ldb;
    int turned_n = tb ? n / LANES * LANES : 0, turned_k = tb ? k / LANES * LANES : 0;
    for (int j = 0; j < turned_n; j += LANES)
        for (int p = 0; p < turned_k; p += LANES) turn(to + (size_t)p * t + j, t, b + (size_t)j * ld + p, ld);
    for (int p = 0; p < k; p++) {
        float *row = to + (size_t)p * t;
        int j = p < turned_k ? turned_n : 0;
        if (tb)
            for (; j < n; j++) row[j] = b[(size_t)j * ld + (size_t)p];
        else
            for (; j < n; j++) row[j] = b[(size_t)p * ld + (size_t)j];
        for (; j < ldt; j++) row[j] = 0;
    }
}

/* rows in tiles of `most` at most, none much smaller than another */
AVX2 static void stripe(operands o, const float *a, float *c, int m, bool both) {
    int most = both ? 6 : 8, tiles = (m + most - 1) / most;
    for (int i = 0, from = 0; i < tiles; i++) {
        int to = (int)((long)m * (i + 1) / tiles);
        o.a = a + (size_t)from * o.row, o.c = c + (size_t)from * o.ldc;
        if (both)
            wide(&o, to - from);
        else
            narrow(&o, to - from);
        from = to;
    }
}

bool vt_small_avx2_here(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool vt_small_avx2(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                   float *c, int ldc) {
    _Alignas(32) float packed[PACKED];
    double width = ((double)n + LANES - 1) / LANES * LANES;
    if (width * k > PACKED || (double)m * n * k >= LARGEST || !vt_small_avx2_here()) return false;
    /* a class token behind 64 others: alone in a vector it would cost as much as eight */
    bool last = tb && !ta && n > LANES && n % LANES == 1;
    n -= last;
    int vectors = (n + LANES - 1) / LANES;
    operands o = {.row = ta ? 1 : (size_t)lda,
                  .col = ta ? (size_t)lda : 1,
                  .ldb = (size_t)(vectors * LANES),
                  .ldc = (size_t)ldc,
                  .k = k,
                  .add = add};
    pack(packed, vectors * LANES, tb, b, ldb, n, k);
    for (int v = 0; v < vectors; v += 2) {
        bool both = v + 1 < vectors;
        o.b = packed + v * LANES;
        o.rest = v + 1 + both < vectors ? LANES : n - (vectors - 1) * LANES;
        stripe(o, a, c + v * LANES, m, both);
    }
    o.b = b + (size_t)n * (size_t)ldb;
    if (last) column(&o, a, c + n, m);
    return true;
}

#else

bool vt_small_avx2_here(void) { return false; }

bool vt_small_avx2(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                   float *c, int ldc) {
    (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)add, (void)c,
        (void)ldc;
    return false;
}

#endif
