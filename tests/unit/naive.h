/* SPDX-License-Identifier: MIT */
/* The matrix product as it is defined, with vt_gemm_f64's arguments: what fast ones are held against. */
#ifndef NAIVE_H
#define NAIVE_H

#include <stdbool.h>
#include <stddef.h>

static inline void naive_gemm(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda,
                              const double *b, int ldb, double beta, double *c, int ldc) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int p = 0; p < k; p++)
                s += a[ta ? (size_t)p * (size_t)lda + (size_t)i : (size_t)i * (size_t)lda + (size_t)p] *
                     b[tb ? (size_t)j * (size_t)ldb + (size_t)p : (size_t)p * (size_t)ldb + (size_t)j];
            double *out = c + (size_t)i * (size_t)ldc + (size_t)j;
            *out = alpha * s + (beta != 0 ? beta * *out : 0);
        }
}

#endif
