/* SPDX-License-Identifier: MIT */
#include "linalg/gemm.h"

#include <cblas.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "linalg/kernels.h"

extern void openblas_set_num_threads(int n);
extern char *openblas_get_corename(void);
extern char *openblas_get_config(void);
/* Take a product's buffer and give it back. */
extern void *blas_memory_alloc(int unused);
extern void blas_memory_free(void *buffer);

static CBLAS_TRANSPOSE transpose_flag(bool t) { return t ? CblasTrans : CblasNoTrans; }

void vt_gemm_openblas_f32(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                          int ldb, float beta, float *c, int ldc) {
    cblas_sgemm(CblasRowMajor, transpose_flag(ta), transpose_flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* Computes vt_gemm_f32's product of a row (m = 1, `row`) or a column (n = 1) by one read of the matrix: sgemm would
 * bring it into its own order first. */
static void multiply_by_vector(bool row, bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda,
                               const float *b, int ldb, float beta, float *c, int ldc) {
    for (int i = 0; beta == 0 && i < (row ? n : m); i++) c[row ? (size_t)i : (size_t)i * (size_t)ldc] = 0;
    if (beta == 0) beta = 1; /* whatever a library does with 0 times NaN */
    if (row)
        cblas_sgemv(CblasRowMajor, transpose_flag(!tb), tb ? n : k, tb ? k : n, alpha, b, ldb, a, ta ? lda : 1, beta, c,
                    1);
    else
        cblas_sgemv(CblasRowMajor, transpose_flag(ta), ta ? k : m, ta ? m : k, alpha, a, lda, b, tb ? 1 : ldb, beta, c,
                    ldc);
}

/* Returns from how many multiply-adds on products that linalg/small does not take go to oneDNN. OpenBLAS's kernels for
 * AVX-512 do smaller ones without packing, its others do not (10 x 192 x 65: 42 against 62 GFLOP/s on an EPYC with
 * AVX2). */
static double onednn_from(void) {
    static const double small = 32768, large = 1000000;
    return vt_small_here() == VT_SMALL_AVX2 ? small : large;
}

void vt_gemm_f32(bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc) {
    if (m == 1 || n == 1) {
        multiply_by_vector(m == 1, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    const vt_product p =
        {.ta = ta, .tb = tb, .add = beta == 1, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
    bool plain = alpha == 1 && (beta == 0 || beta == 1);
    if (plain && vt_small_product(vt_small_here(), &p, a, b, c)) return;
    if (plain && (double)m * n * k >= onednn_from() && vt_onednn_product(&p, a, b, c)) return;
    vt_gemm_openblas_f32(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void vt_gemm_f64(bool ta, bool tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                 int ldb, double beta, double *c, int ldc) {
    cblas_dgemm(CblasRowMajor, transpose_flag(ta), transpose_flag(tb), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void vt_blas_single_thread(void) { openblas_set_num_threads(1); }
vt_status vt_blas_reserve(int threads, vt_err *e) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int have; /* buffers that OpenBLAS, one for the process too, has and gives out again */
    pthread_mutex_lock(&lock);
    void **held = threads > have ? calloc((size_t)threads, sizeof *held) : NULL;
    int n = 0;
    while (held && n < threads && (n < have || vt_has_room(VT_BLAS_BUFFER))) held[n++] = blas_memory_alloc(0);
    if (n > have) have = n;
    bool good = threads <= have;
    while (n > 0) blas_memory_free(held[--n]);
    pthread_mutex_unlock(&lock);
    free(held);
    if (good) return VT_OK;
    return vt_fail(e, VT_E_MEMORY,
                   "no memory for the matrix products of %d thread%s: OpenBLAS takes %zu MB for each (%sa higher "
                   "limit, "
                   "ulimit -v, would do)",
                   threads, threads == 1 ? "" : "s", VT_BLAS_BUFFER >> 20, threads == 1 ? "" : "fewer threads or ");
}

const char *vt_blas_kernel(void) { return openblas_get_corename(); }
const char *vt_blas_config(void) { return openblas_get_config(); }

void vt_gemm_kernels(char *out, size_t size) {
    char onednn[64];
    vt_onednn_version(onednn, sizeof onednn);
    const char *small = vt_small_name(vt_small_here());
    snprintf(out, size, "OpenBLAS %s, %s%s%s", vt_blas_kernel(), onednn, small ? ", vitrine " : "", small ? small : "");
}

/* Returns the level (cpu_level) of OpenBLAS's x86 kernels of a name; -1: unknown. */
static int kernel_level(const char *name) {
    static const char *const names[] =
        {" Prescott Core2 Penryn Nehalem Atom Barcelona Bobcat Athlon Opteron Dunnington ",
         " Sandybridge Bulldozer Piledriver Steamroller Excavator ", " Haswell Zen ",
         " SkylakeX Cooperlake SapphireRapids "};
    char word[64];
    int level = 3;
    snprintf(word, sizeof word, " %s ", name);
    while (level >= 0 && !strstr(names[level], word)) level--;
    return level;
}

/* Returns the processor's level: 2 AVX2 and FMA, 3 AVX-512, else 0; of the kernels, 1 is AVX (kernel_level). */
static int cpu_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        return 3;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
#endif
    return 0;
}

const char *vt_cpu_isa(void) {
    int level = cpu_level();
    return level == 3 ? "avx512" : level == 2 ? "avx2" : "baseline";
}

const char *vt_blas_better_kernel(void) {
    int have = kernel_level(vt_blas_kernel()), can = cpu_level();
    if (have < 0 || have >= can) return NULL;
    return can == 3 ? "SkylakeX" : "Haswell";
}
