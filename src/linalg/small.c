/* SPDX-License-Identifier: MIT */
/* Which of the kernels for small products runs. */
#include "linalg/kernels.h"

#include <stddef.h>

vt_small vt_small_here(void) {
#if defined(__SANITIZE_ADDRESS__) || !defined(__x86_64__)
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

#if defined(__x86_64__)

bool vt_small_product(vt_small by, const vt_product *p, const float *a, const float *b, float *c) {
    return by == VT_SMALL_AVX512 ? vt_small_avx512(p, a, b, c) : by == VT_SMALL_AVX2 && vt_small_avx2(p, a, b, c);
}

#else

bool vt_small_product(vt_small by, const vt_product *p, const float *a, const float *b, float *c) {
    (void)by, (void)p, (void)a, (void)b, (void)c;
    return false;
}

bool vt_small_product_bf16(const vt_product *p, const float *a, const float *b, float *c, float *room_a,
                           float *room_b) {
    (void)p, (void)a, (void)b, (void)c, (void)room_a, (void)room_b;
    return false;
}

bool vt_small_round_bf16(uint16_t *to, const float *x, int rows, int cols, int ld) {
    (void)to, (void)x, (void)rows, (void)cols, (void)ld;
    return false;
}

#endif
