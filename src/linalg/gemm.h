/* SPDX-License-Identifier: MIT */
/* Matrix products: the only door to BLAS, always on one thread (the house parallelises over images), and what is known
 * of the kernels behind it. Row-major. Single precision goes to oneDNN, OpenBLAS or linalg/small by shape alone, double
 * to OpenBLAS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* Computes C[m,n] (ldc) = alpha * op(A)[m,k] * op(B)[k,n] + beta * C; ta/tb: the stored matrix is transposed; lda, ldb,
 * ldc: row strides as stored. */
void vt_gemm_f32(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc);
/* Computes C = alpha op(A) op(B) + beta C in double, as vt_gemm_f32 does in float. */
void vt_gemm_f64(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                 int ldb, double beta, double *c, int ldc);
/* Computes vt_gemm_f32's product, always by OpenBLAS: the tests' other side, and one of the ceilings in `vitrine
 * bench`. */
void vt_gemm_openblas_f32(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                          int ldb, float beta, float *c, int ldc);

/* Puts BLAS on one thread; called once, before threads are started. */
void vt_blas_single_thread(void);
/* A buffer of OpenBLAS: BUFFER_SIZE of its x86 kernels and a page; other machines take less. */
#define VT_BLAS_BUFFER (((size_t)128 << 20) + 4096)
/* Takes OpenBLAS's buffers for products on `threads` threads at once, and keeps them: VT_E_MEMORY if there is no
 * memory. Without it a thread's first product waits for its buffer in a loop without end. Loops over items
 * (parallel/threads), sessions and linalg/svd call it; other code that multiplies calls it first. */
vt_status vt_blas_reserve(int threads, vt_err *e);
/* Returns the name of OpenBLAS's kernels in use: "SkylakeX". */
const char *vt_blas_kernel(void);
const char *vt_blas_config(void);
/* Writes "OpenBLAS SkylakeX, oneDNN 2.6.3 avx512, vitrine avx512" (linalg/small): what decides products' bytes. */
void vt_gemm_kernels(char *out, size_t size);
/* Returns the best instruction set of this CPU that OpenBLAS has kernels for: "avx512", "avx2", "baseline". */
const char *vt_cpu_isa(void);
/* Returns the OPENBLAS_CORETYPE that fits this CPU if OpenBLAS's kernels in use are of a lower instruction set; NULL if
 * they are not, or are unknown. */
const char *vt_blas_better_kernel(void);
