/* SPDX-License-Identifier: MIT */
#include "linalg/small.h"

#include <stddef.h>

vt_small vt_small_here(void) {
#ifdef __SANITIZE_ADDRESS__
    return VT_SMALL_NONE; /* a check at every load: tests of networks would take ten times as long. test_gemm calls them
                           */
#else
    return vt_small_avx512_here() ? VT_SMALL_AVX512 : vt_small_avx2_here() ? VT_SMALL_AVX2 : VT_SMALL_NONE;
#endif
}

const char *vt_small_name(vt_small by) {
    static const char *const names[] = {NULL, "avx2", "avx512"};
    return names[by];
}

bool vt_small_product(vt_small by, bool ta, bool tb, int m, int n, int k, const float *a, int lda, const float *b,
                      int ldb, bool add, float *c, int ldc) {
    if (by == VT_SMALL_AVX512) return vt_small_avx512(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc);
    return by == VT_SMALL_AVX2 && vt_small_avx2(ta, tb, m, n, k, a, lda, b, ldb, add, c, ldc);
}
