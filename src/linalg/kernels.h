/* SPDX-License-Identifier: MIT */
/* The kernels that linalg/gemm.c and linalg/products.c choose from, beside OpenBLAS. oneDNN's multiply floats, and
 * bfloat16 numbers into floats if the processor does; at the few hundred rows of one image's tokens they run 20 to 40 %
 * faster than OpenBLAS's, which pack the weights again at every call. Our own, for AVX2 and AVX-512, multiply what is
 * as small as the products of one attention head (65 x 65 x 32), in which libraries spend their time on preparing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* C [m, n] = op(A) op(B), or += with add; row-major. */
typedef struct vt_product {
    bool ta, tb, add; /* transposes as stored; add: C += */
    bool bf16;        /* a and b are bfloat16, c is float */
    int order;        /* b was packed (below) for this many rows: ldb and tb are not used; 0: it was not */
    int m, n, k, lda, ldb, ldc;
} vt_product;

/* ---- oneDNN ---- */

/* Multiplies by oneDNN; false: it cannot multiply that, and nothing was written. Primitives are made at a thread's
 * first call of a shape and kept. c NULL: only looks. */
bool vt_onednn_product(const vt_product *p, const void *a, const void *b, float *c);
void vt_onednn_version(char *text, size_t size); /* "oneDNN 2.6.3 avx512" */
const char *vt_onednn_bf16(void);                /* "AMX", "AVX512-BF16"; NULL: the processor has neither */

/* Returns the bytes of B [k, n] in bfloat16, in the order that oneDNN prefers for products of `rows` rows; 0: it
 * cannot. The order is the same on every thread, and products of other numbers of rows read it too. */
size_t vt_onednn_packed_bytes(int rows, int k, int n);
/* Packs b (floats, row stride ldb; transposed: stored [n, k]) into `to`, in that order of bfloat16, of
 * vt_onednn_packed_bytes, aligned to 64 bytes. false: oneDNN cannot, or there is no memory. */
bool vt_onednn_pack(void *to, int rows, int k, int n, const float *b, int ldb, bool transposed);

/* ---- small products ---- */

typedef enum vt_small { VT_SMALL_NONE, VT_SMALL_AVX2, VT_SMALL_AVX512 } vt_small;

/* Returns the widest kernels that this processor has. */
vt_small vt_small_here(void);
const char *vt_small_name(vt_small by); /* "avx2", "avx512"; NULL of none */

/* Computes a product of floats by these kernels: sums of fused multiply-adds, in an order that the shape alone decides.
 * false: not of that size, or this processor has no such kernels; nothing was written. */
bool vt_small_product(vt_small by, const vt_product *p, const float *a, const float *b, float *c);
/* Computes a product of A and B rounded to bfloat16 (linalg/products.h), by AVX512-BF16; room_a, room_b: scratch for
 * m x k and k x n floats. false: not of that size, or this processor has no such kernels. */
bool vt_small_product_bf16(const vt_product *p, const float *a, const float *b, float *c, float *room_a, float *room_b);
/* Rounds to [rows, cols] = x [rows, ld] in bfloat16, by AVX512-BF16; false: this processor has none. */
bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld);

/* Returns whether the processor has what the kernel of floats by AVX2 takes. */
bool vt_small_avx2_here(void);
/* Computes a product of floats by AVX2; false: not of that size, nothing was written. */
bool vt_small_avx2(const vt_product *p, const float *a, const float *b, float *c);
/* Returns whether the processor has what the kernel of floats by AVX-512 takes. */
bool vt_small_avx512_here(void);
/* Computes a product of floats by AVX-512; false: not of that size, nothing was written. */
bool vt_small_avx512(const vt_product *p, const float *a, const float *b, float *c);
