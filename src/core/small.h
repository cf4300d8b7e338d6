/* SPDX-License-Identifier: MIT */
/* Products as small as those of one attention head (65 x 65 x 32), which libraries spend on preparing: for processors
 * with AVX2 and no AVX-512, where oneDNN and OpenBLAS reach half of what they do on large ones. Only core/gemm.c uses
 * it. */
#ifndef VT_CORE_SMALL_H
#define VT_CORE_SMALL_H

#include <stdbool.h>

/* Is it worth it: has this processor AVX2 and no AVX-512? */
bool vt_small_here(void);
/* C [m, n] = op(A) op(B), or += with add; row-major, ta, tb: stored transposed. Sums of fused multiply-adds, in an
 * order that the shape alone decides. false: not of that size, or no AVX2; nothing was written. */
bool vt_small_product(bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, bool add,
                      float *c, int ldc);

#endif
