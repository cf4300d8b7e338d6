/* SPDX-License-Identifier: MIT */
/* Small products in registers, for one kind of them: small_avx2.c and small_avx512.c include this text once each, and
 * define before it TARGET and INLINE (how functions are declared), vec and LANES (a register and its floats), PARTS
 * and MOST_ROWS (vectors of a tile's row at most; rows for each number of vectors, ROWS_1 and ROWS_2 for one and two),
 * PACKED (floats of B at most), BF16, ZERO, LOAD, STORE, SPLAT, and the functions that are declared first here. */
#pragma once

#include <stddef.h>
#include "linalg/kernels.h"

/* One tile of C. A word is a float, or two bfloat16 numbers that follow each other along k, which is then counted by
 * twos: all that differs between the two is what multiplies. Word (i, p) of A is a[i * row + p * col]; B is
 * [k, 1 to PARTS vectors]; the last vector of C's rows has `rest` columns. */
typedef struct operands {
    const float *a, *b;
    float *c;
    size_t row, col, ldb, ldc;
    int k, rest;
    bool add, bf16;
} operands;

/* sum + a * b in every lane */
INLINE vec multiply_add(vec a, vec b, vec sum, const bool bf16);
/* The first n floats at p, zeros after them; n is at least 1. */
INLINE vec load_some(const float *p, int n);
/* c [n] = v, or += with add. */
INLINE void store_some(float *c, vec v, int n, bool add);
/* t [rows] = the sums of each vector's lanes, after the words from p on of A's rows and B's column are added. */
INLINE void finish_dots(float t[4], vec *sum, const operands *o, const float *a, int p, const int rows,
                        const bool bf16);
/* to [LANES, ldt] = the transpose of from [LANES, ld] */
INLINE void transpose_block(float *to, size_t ldt, const float *from, size_t ld);

/* Computes rows x parts vectors of C (or adds, o->add), held in registers through k outer products. Its indices are
 * constants, and clang, asked to check each in 76 unrolled copies, took over 14 minutes; the address sanitizer does
 * look. */
__attribute__((no_sanitize("undefined"))) INLINE void tile(const operands *o, const int rows, const int parts,
                                                           const bool bf16) {
    vec sum[24];
#pragma GCC unroll 24
    for (int i = 0; i < rows * parts; i++) sum[i] = ZERO;
    const float *a = o->a, *b = o->b;
    for (int p = 0; p < o->k; p++, a += o->col, b += o->ldb) {
        vec v[4];
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++) v[j] = LOAD(b + j * LANES);
#pragma GCC unroll 24
        for (int i = 0; i < rows; i++) {
            vec f = SPLAT(a[(size_t)i * o->row]);
#pragma GCC unroll 4
            for (int j = 0; j < parts; j++) sum[i * parts + j] = multiply_add(f, v[j], sum[i * parts + j], bf16);
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < parts; j++)
            store_some(o->c + (size_t)i * o->ldc + j * LANES, sum[i * parts + j], j == parts - 1 ? o->rest : LANES,
                       o->add);
}

#define ROWS(rows, parts)                                                                                              \
    case rows:                                                                                                         \
        tile(o, rows, parts, bf16);                                                                                    \
        break;
#define ROWS_6(parts) ROWS(1, parts) ROWS(2, parts) ROWS(3, parts) ROWS(4, parts) ROWS(5, parts) ROWS(6, parts)
#define ROWS_8(parts) ROWS_6(parts) ROWS(7, parts) ROWS(8, parts)
#define ROWS_12(parts) ROWS_8(parts) ROWS(9, parts) ROWS(10, parts) ROWS(11, parts) ROWS(12, parts)

/* Computes the tile of rows x parts vectors, by the copy of tile() that was compiled for these numbers. */
INLINE void choose_tile(const operands *o, int rows, int parts, const bool bf16) {
    switch (parts) {
    case 1:
        switch (rows) { ROWS_1(1) }
        break;
    case 2:
        switch (rows) { ROWS_2(2) }
        break;
#if PARTS > 2
    case 3:
        switch (rows) { ROWS_8(3) }
        break;
    default:
        switch (rows) { ROWS_6(4) }
#endif
    }
}

/* Computes C [m, parts vectors], in tiles of as many rows as may be at most, none much smaller than another. */
TARGET static void multiply_stripe(operands o, int m, int parts) {
    static const int most[] = {0, MOST_ROWS};
    const float *a = o.a;
    float *c = o.c;
    int count = (m + most[parts] - 1) / most[parts];
    for (int i = 0, from = 0; i < count; i++) {
        int to = (int)((long)m * (i + 1) / count);
        o.a = a + (size_t)from * o.row, o.c = c + (size_t)from * o.ldc;
        if (BF16 && o.bf16)
            choose_tile(&o, to - from, parts, true);
        else
            choose_tile(&o, to - from, parts, false);
        from = to;
    }
}

/* Computes C [m, n] = A B, or += with o.add; B's last vector may be read whole. `rest` is set here. */
TARGET static void multiply(operands o, int m, int n) {
    int vectors = (n + LANES - 1) / LANES, groups = (vectors + PARTS - 1) / PARTS;
    const float *b = o.b;
    float *c = o.c;
    for (int g = 0, from = 0; g < groups; g++) {
        int to = vectors * (g + 1) / groups;
        o.b = b + from * LANES, o.c = c + from * LANES;
        o.rest = to < vectors ? LANES : n - (vectors - 1) * LANES;
        multiply_stripe(o, m, to - from);
        from = to;
    }
}

/* Computes C's elements in `rows` rows, at most four, of one column, where A's rows and the column b lie along k. */
INLINE void multiply_rows_by_column(const operands *o, const float *a, float *c, const int rows, const bool bf16) {
    vec sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) sum[i] = ZERO;
    int p = 0;
    for (; p + LANES <= o->k; p += LANES) {
        vec v = LOAD(o->b + p);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] = multiply_add(LOAD(a + (size_t)i * o->row + p), v, sum[i], bf16);
    }
    float t[4];
    finish_dots(t, sum, o, a, p, rows, bf16);
    for (int i = 0; i < rows; i++) c[(size_t)i * o->ldc] = o->add ? t[i] + c[(size_t)i * o->ldc] : t[i];
}

INLINE void multiply_column_of(const operands *o, int m, const bool bf16) {
    int i = 0;
    for (; i + 4 <= m; i += 4)
        multiply_rows_by_column(o, o->a + (size_t)i * o->row, o->c + (size_t)i * o->ldc, 4, bf16);
    for (; i < m; i++) multiply_rows_by_column(o, o->a + (size_t)i * o->row, o->c + (size_t)i * o->ldc, 1, bf16);
}

/* Computes C [m, 1] = A b, or += with o->add, where A's rows and the column b lie along k. */
TARGET static void multiply_column(const operands *o, int m) {
    if (BF16 && o->bf16)
        multiply_column_of(o, m, true);
    else
        multiply_column_of(o, m, false);
}

/* Sets to [k, ldt] to the transpose of words b [n, k] (row stride ldb), zeros after its n columns. */
TARGET static void pack_transposed(float *to, int ldt, const float *b, int ldb, int n, int k) {
    size_t t = (size_t)ldt, ld = (size_t)ldb;
    int whole_n = n / LANES * LANES, whole_k = k / LANES * LANES;
    for (int j = 0; j < whole_n; j += LANES)
        for (int p = 0; p < whole_k; p += LANES) transpose_block(to + (size_t)p * t + j, t, b + (size_t)j * ld + p, ld);
    for (int p = 0; p < k; p++) {
        float *row = to + (size_t)p * t;
        int j = p < whole_k ? whole_n : 0;
        for (; j < n; j++) row[j] = b[(size_t)j * ld + (size_t)p];
        for (; j < ldt; j++) row[j] = 0;
    }
}

/* Sets to [k, ldt] to b [k, n] (row stride ld), zeros after its n columns; ldt is a multiple of LANES. */
TARGET static void pack_rows(float *to, int ldt, const float *b, int ld, int n, int k) {
    for (int p = 0; p < k; p++, to += ldt, b += ld)
        for (int j = 0; j < ldt; j += LANES) STORE(to + j, load_some(b + j, n - j));
}

/* Returns whether the last column is a class token after others that fill vectors: alone in one it would cost a whole
 * one. */
static bool has_single_last_column(const vt_product *p) { return p->tb && !p->ta && p->n > LANES && p->n % LANES == 1; }

/* Returns whether a matrix of k x n floats fits the kernels' buffer on the stack. */
static bool fits_packed_buffer(int n, int k) { return ((double)n + LANES - 1) * k <= PACKED; }

/* Computes the product of floats, whose B fits_packed_buffer; B is packed on the stack unless it lies as needed. */
TARGET static void multiply_floats(const vt_product *p, const float *a, const float *b, float *c) {
    _Alignas(64) float packed[PACKED];
    bool last = has_single_last_column(p), as_it_is = !p->tb && p->n % LANES == 0;
    int n = p->n - last, width = (n + LANES - 1) / LANES * LANES;
    operands o = {.a = a, .b = as_it_is ? b : packed, .c = c, .ldc = (size_t)p->ldc, .k = p->k, .add = p->add};
    o.row = p->ta ? 1 : (size_t)p->lda, o.col = p->ta ? (size_t)p->lda : 1;
    o.ldb = (size_t)(as_it_is ? p->ldb : width);
    if (p->tb)
        pack_transposed(packed, width, b, p->ldb, n, p->k);
    else if (!as_it_is)
        pack_rows(packed, width, b, p->ldb, n, p->k);
    multiply(o, p->m, n);
    o.b = b + (size_t)n * (size_t)p->ldb, o.c = c + n;
    if (last) multiply_column(&o, p->m);
}
