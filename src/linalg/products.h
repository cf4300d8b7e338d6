/* SPDX-License-Identifier: MIT */
/* How the products of a computation are formed: in float32, or with both inputs rounded to bfloat16 (8 bits of
 * mantissa; the sums stay float32). One way a session, handed down to every product; NULL is float32. Two ways form
 * the rounded products: oneDNN's on processors that multiply bfloat16, and anywhere the float32 product of inputs
 * that were rounded. They are the same numbers up to the order of sums (and subnormals, which processors take for 0).
 */
#pragma once

#include <stdint.h>
#include "linalg/gemm.h"

typedef enum vt_precision { VT_PRODUCTS_FLOAT32, VT_PRODUCTS_BF16, VT_PRODUCTS_BF16_EMULATED } vt_precision;

/* Returns "float32", "bf16", "bf16-emulated" */
const char *vt_precision_name(vt_precision p);

/* Matrices that are multiplied again and again, in bfloat16 and in the order of oneDNN's products: made once, read by
 * all threads. */
typedef struct vt_packed vt_packed;

/* A float matrix of those: [k, n], row stride ld; transposed: it is stored [n, k]. */
typedef struct vt_packed_from {
    const float *b;
    int k, n, ld;
    bool transposed;
} vt_packed_from;

/* Packs the list's matrices, which must outlive *out unchanged, for products of about `rows` rows; those of which
 * oneDNN has no packed order are left out. VT_E_MEMORY, *out NULL: no memory, or oneDNN failed. */
vt_status vt_packed_make(vt_packed **out, const vt_packed_from *list, int count, int rows, vt_err *e);
/* Returns the bytes that vt_packed_make takes; 0 where the processor multiplies no bfloat16. */
size_t vt_packed_bytes(const vt_packed_from *list, int count, int rows);
void vt_packed_free(vt_packed *p); /* accepts NULL */

/* One thread's. a, b: room for any input of a product, as floats. */
typedef struct vt_products {
    bool native;
    const vt_packed *packed; /* native alone; NULL: none */
    float *a, *b;
} vt_products;

/* Computes vt_gemm_f32's product, with both inputs rounded to bfloat16 unless by is NULL; by->a and by->b are
 * overwritten. */
void vt_product_f32(const vt_products *by, bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc);

/* Stores x [rows, cols] (row stride ld) rounded to bfloat16, ties to even, as float; infinities and NaN stay. */
void vt_bf16_round(float *to, const float *x, int rows, int cols, int ld);
/* Stores x [rows, cols] (row stride ld) rounded to bfloat16: the upper half of each rounded float. */
void vt_bf16_convert(uint16_t *to, const float *x, int rows, int cols, int ld);
/* Returns what multiplies bfloat16 here: "AMX", "AVX512-BF16"; NULL: nothing does. */
const char *vt_bf16_hardware(void);

/* A product of this copy's real (base/real.h): in double there is one way. */
#ifdef VT_DOUBLE
#define VT_GEMM(by, ...) ((void)(by), vt_gemm_f64(__VA_ARGS__))
#else
#define VT_GEMM(by, ...) vt_product_f32((by), __VA_ARGS__)
#endif
