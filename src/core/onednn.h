/* SPDX-License-Identifier: MIT */
/* Single-precision products by oneDNN. At the few hundred rows of one image's tokens its kernels run 20 to 40 %
 * faster than OpenBLAS's, which pack the weights again at every call. Only core/gemm.c uses it. */
#ifndef VT_CORE_ONEDNN_H
#define VT_CORE_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vt_product {
    bool ta, tb, add; /* transposes as stored; add: C += */
    int m, n, k, lda, ldb, ldc;
} vt_product;

/* false: oneDNN cannot; nothing was written. Primitives are made at a thread's first call of a shape and kept. */
bool vt_onednn_product(const vt_product *p, const float *a, const float *b, float *c);
void vt_onednn_version(char *text, size_t size); /* "oneDNN 2.6.3 avx512" */

#endif
