/* SPDX-License-Identifier: MIT */
/* Parameters of a MatMul node, whose inputs are A, B, and a bias [n] of one product that comes from the fusion. */
#pragma once

#include <stdbool.h>
#include "nn/convolve.h"

/* op(A) [m,k], op(B) [k,n]; a stack of `count`, whose matrix i begins at a[i] and b[i]. */
typedef struct vt_matmul {
    bool ta, tb;
    int m, n, k;
    double alpha;
    size_t count, *a, *b;
    bool apart[2];        /* no matrix of A (of B) is there twice */
    vt_convolution shape; /* of packed: the rows of A as pixels */
    const float *packed;  /* B, a constant, in the order of nn/convolve; NULL: it is not */
} vt_matmul;
