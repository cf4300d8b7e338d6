/* SPDX-License-Identifier: MIT */
/* Products by oneDNN: of floats, and of bfloat16 numbers into floats where the processor multiplies those. At the few
 * hundred rows of one image's tokens its kernels run 20 to 40 % faster than OpenBLAS's, which pack the weights again
 * at every call. Only linalg/gemm.c and linalg/products.c use it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct vt_product {
    bool ta, tb, add; /* transposes as stored; add: C += */
    bool bf16;        /* a and b are bfloat16, c is float */
    int order;        /* b was packed (below) for so many rows: ldb and tb say nothing; 0: it was not */
    int m, n, k, lda, ldb, ldc;
} vt_product;

/* false: oneDNN cannot; nothing was written. Primitives are made at a thread's first call of a shape and kept. */
bool vt_onednn_product(const vt_product *p, const void *a, const void *b, float *c);
bool vt_onednn_can(const vt_product *p);         /* has it a kernel for that? */
void vt_onednn_version(char *text, size_t size); /* "oneDNN 2.6.3 avx512" */
const char *vt_onednn_bf16(void);                /* "AMX", "AVX512-BF16"; NULL: the processor has neither */

/* B [k, n] of products of so many rows as oneDNN likes it best, in bfloat16: bytes that it takes (0: it cannot), and b
 * so packed (floats, row stride ldb; transposed: stored [n, k]) into `to`, which is aligned to 64 bytes. The order is
 * the same on every thread, and products of other rows read it too. */
size_t vt_onednn_packed_bytes(int rows, int k, int n);
bool vt_onednn_pack(void *to, int rows, int k, int n, const float *b, int ldb, bool transposed);
