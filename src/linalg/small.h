/* SPDX-License-Identifier: MIT */
/* Products as small as those of one attention head (65 x 65 x 32), which libraries spend on preparing: kernels of our
 * own for processors with AVX2 or AVX-512, of floats and, where the processor multiplies it, of bfloat16. Only
 * linalg/gemm.c and linalg/products.c use them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum vt_small { VT_SMALL_NONE, VT_SMALL_AVX2, VT_SMALL_AVX512 } vt_small;

/* The widest that this processor has. */
vt_small vt_small_here(void);
const char *vt_small_name(vt_small by); /* "avx2", "avx512"; NULL of none */

/* C [m, n] = op(A) op(B), or += with add; row-major, ta, tb: stored transposed. Sums of fused multiply-adds, in an
 * order that the shape alone decides. false: not of that size, or this processor has no such kernels; nothing was
 * written. */
bool vt_small_product(vt_small by, bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b,
                      int ldb, bool add, float *c, int ldc);
/* The same of A and B rounded to bfloat16 (linalg/products.h), by AVX512-BF16, in rooms for m x k and
 * k x n floats. */
bool vt_small_product_bf16(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                           bool add, float *c, int ldc, float *room_a, float *room_b);

/* to [rows, cols] = x [rows, ld] in bfloat16, by AVX512-BF16; false: this processor has none. */
bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld);

/* The two kernels of floats: has the processor what they take? Their products. */
bool vt_small_avx2_here(void);
bool vt_small_avx2(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                   float *c, int ldc);
bool vt_small_avx512_here(void);
bool vt_small_avx512(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                     float *c, int ldc);
