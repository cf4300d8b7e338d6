/* SPDX-License-Identifier: MIT */
/* src/linalg/gemm.c: matrix products against the plain reference at every size and road (OpenBLAS, oneDNN,
 * linalg/small), and what is said of the kernels. */
#include "t.h"
#include "naive.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "linalg/gemm.h"
#include "base/mem.h"
#include "linalg/kernels.h"
#include "parallel/threads.h"

typedef enum road { F64, F32, F32_OPENBLAS, F32_AVX2, F32_AVX512 } road;

typedef struct product {
    road by;
    bool ta, tb;
    int m, n, k;
    double alpha, beta;
} product;

/* |fast - naive| <= 2 (k + 3) u (|alpha| |A||B| + |beta C|): two sums of k products, each within k u of the
 * exact one in any order, and the scalings; u the unit roundoff of the fast one. */
static void compare(product p) {
    const int m = p.m, n = p.n, k = p.k, lda = (p.ta ? m : k) + 3, ldb = (p.tb ? k : n) + 1, ldc = n + 2;
    const double u = p.by == F64 ? 0x1p-53 : 0x1p-24;
    size_t na = (size_t)((p.ta ? k : m) * lda), nb = (size_t)((p.tb ? n : k) * ldb), nc = (size_t)(m * ldc);
    double *a = t_doubles(na, 1, 1), *b = t_doubles(nb, 2, 1), *c = t_doubles(nc, 3, 1);
    double *fast = t_doubles(nc, 0, 0), *abs_a = t_doubles(na, 0, 0), *abs_b = t_doubles(nb, 0, 0),
           *bound = t_doubles(nc, 0, 0);
    float *fa = t_take(na * 4), *fb = t_take(nb * 4), *fc = t_take(nc * 4); /* the draws are floats: nothing is lost */
    for (size_t i = 0; i < na; i++) abs_a[i] = fabs(a[i]), fa[i] = (float)a[i];
    for (size_t i = 0; i < nb; i++) abs_b[i] = fabs(b[i]), fb[i] = (float)b[i];
    for (size_t i = 0; i < nc; i++) fast[i] = c[i], bound[i] = fabs(c[i]), fc[i] = (float)c[i];
    t_freeze(a), t_freeze(b), t_freeze(fa), t_freeze(fb);
    if (p.by == F32) vt_gemm_f32(p.ta, p.tb, m, n, k, (float)p.alpha, fa, lda, fb, ldb, (float)p.beta, fc, ldc);
    if (p.by == F32_OPENBLAS)
        vt_gemm_openblas_f32(p.ta, p.tb, m, n, k, (float)p.alpha, fa, lda, fb, ldb, (float)p.beta, fc, ldc);
    const vt_product small =
        {.ta = p.ta, .tb = p.tb, .add = p.beta > 0, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
    if (p.by >= F32_AVX2 && !vt_small_product(p.by == F32_AVX2 ? VT_SMALL_AVX2 : VT_SMALL_AVX512, &small, fa, fb, fc))
        vt_gemm_f32(p.ta, p.tb, m, n, k, 1, fa, lda, fb, ldb, (float)p.beta, fc, ldc); /* on a lesser processor */
    if (p.by == F64) vt_gemm_f64(p.ta, p.tb, m, n, k, p.alpha, a, lda, b, ldb, p.beta, fast, ldc);
    for (size_t i = 0; p.by != F64 && i < nc; i++) fast[i] = (double)fc[i];
    for (int i = 0; i < m; i++) /* the padding of C is not ours */
        for (int j = n; j < ldc; j++) assert_true(fast[i * ldc + j] == c[i * ldc + j]);
    naive_gemm(p.ta, p.tb, m, n, k, p.alpha, a, lda, b, ldb, p.beta, c, ldc);
    naive_gemm(p.ta, p.tb, m, n, k, fabs(p.alpha), abs_a, lda, abs_b, ldb, fabs(p.beta), bound, ldc);
    double worst = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double r = fabs(fast[i * ldc + j] - c[i * ldc + j]) / (2 * (k + 3) * u * bound[i * ldc + j]);
            if (!(r <= worst)) worst = r;
        }
    t_le(worst, 1, "gemm road %d ta %d tb %d m %d n %d k %d beta %g, in units of its bound", p.by, p.ta, p.tb, m, n, k,
         p.beta);
    t_release("gemm");
}

static void test_odd_sizes(void **state) {
    (void)state;
    static const int size[] = {1, 7, 65, 197};
    for (int i = 0; i < 64; i++)
        for (int t = 0; t < 4; t++)
            for (int by = F64; by <= F32; by++) /* these scalings go to OpenBLAS by either road */
                compare((product){(road)by, t & 1, t & 2, size[i % 4], size[i / 4 % 4], size[i / 16], -0.75, 0.5});
}

/* Products of a network's size, scaled as a network does: with alpha 1 and beta 0 or 1 large ones take
 * another road. */
static void test_network_sizes(void **state) {
    (void)state;
    static const int size[][3] = {{65, 197, 192}, {197, 64, 197}, {65, 192, 64},   {1, 1024, 1024}, {1024, 1, 1024},
                                  {1040, 31, 37}, {33, 1000, 31}, {100, 100, 100}, {65, 512, 128},  {130, 96, 512}};
    for (size_t i = 0; i < T_COUNT(size); i++)
        for (int t = 0; t < 4; t++)
            for (int beta = 0; beta < 2; beta++)
                for (int by = F32; by <= F32_OPENBLAS; by++)
                    compare((product){(road)by, t & 1, t & 2, size[i][0], size[i][1], size[i][2], 1, beta});
}

/* Those of one head (where a token stands alone behind full vectors, too), of few rows and of few columns: by the
 * kernels of our own wherever they run, and as they are chosen. */
static void test_small_sizes(void **state) {
    (void)state;
    static const int rows[] = {1, 2, 5, 6, 7, 13, 17, 65},
                     columns[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 32, 33, 49, 65, 97, 128},
                     inner[] = {1, 3, 8, 17, 32, 65};
    static const road by[] = {F32, F32_AVX2, F32_AVX512};
    for (size_t i = 0; i < T_COUNT(rows); i++)
        for (size_t j = 0; j < T_COUNT(columns); j++)
            for (size_t l = 0; l < T_COUNT(inner); l++)
                for (int t = 0; t < 24; t++)
                    compare((product){by[t / 8], t & 1, t & 2, rows[i], columns[j], inner[l], 1, t & 4 ? 1 : 0});
    float x = 1; /* B as large as it may be, and larger */
    compare((product){F32_AVX2, false, false, 100, 32, 256, 1, 0});
    assert_false(vt_small_product(VT_SMALL_AVX2,
                                  &(vt_product){.tb = true, .m = 100, .n = 33, .k = 256, .lda = 1, .ldb = 1, .ldc = 1},
                                  &x, &x, &x));
    assert_false(vt_small_product(VT_SMALL_AVX2,
                                  &(vt_product){.m = 3000, .n = 64, .k = 64, .lda = 1, .ldb = 1, .ldc = 1}, &x, &x,
                                  &x));
    compare((product){F32_AVX512, false, true, 7, 577, 64, 1, 0}),
        compare((product){F32_AVX512, 1, 0, 7, 80, 431, 1, 0});
    assert_false(vt_small_product(VT_SMALL_AVX512,
                                  &(vt_product){.tb = true, .m = 7, .n = 641, .k = 64, .lda = 1, .ldb = 1, .ldc = 1},
                                  &x, &x, &x));
    assert_false(vt_small_product(VT_SMALL_NONE,
                                  &(vt_product){.tb = true, .m = 7, .n = 7, .k = 7, .lda = 1, .ldb = 1, .ldc = 1}, &x,
                                  &x, &x));
}

/* beta = 0 must not read C: a fresh buffer may hold NaN. */
static void test_beta_zero(void **state) {
    (void)state;
    double a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4] = {NAN, NAN, NAN, NAN},
           d[4] = {NAN, NAN, NAN, NAN};
    float fa[6] = {1, 2, 3, 4, 5, 6}, fb[6] = {1, 0, 0, 1, 1, 1}, fc[4] = {NAN, NAN, NAN, NAN};
    static const double want[4] = {4, 5, 10, 11};
    vt_gemm_f64(false, false, 2, 2, 3, 1, a, 3, b, 2, 0, c, 2);
    naive_gemm(false, false, 2, 2, 3, 1, a, 3, b, 2, 0, d, 2);
    vt_gemm_f32(false, false, 2, 2, 3, 1, fa, 3, fb, 2, 0, fc, 2);
    for (int i = 0; i < 4; i++) assert_true(c[i] == want[i] && d[i] == want[i] && (double)fc[i] == want[i]);
    float row[2] = {NAN, NAN}, column[4] = {NAN, 7, NAN, 7};
    vt_gemm_f32(false, false, 1, 2, 3, 1, fa, 3, fb, 2, 0, row, 2);
    vt_gemm_f32(false, false, 2, 1, 3, 1, fa, 3, fb, 2, 0, column, 2);
    assert_true(row[0] == 4 && row[1] == 5);
    assert_true(column[0] == 4 && column[1] == 7 && column[2] == 10 && column[3] == 7);
}

enum { SIDE = 128 }; /* 2 M products: the large road */

typedef struct square {
    float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
} square;

static square *square_new(void) {
    square *s = malloc(sizeof *s);
    assert_non_null(s);
    vt_rng_normals(&(vt_rng){.seed = 1}, s->a, SIDE * SIDE);
    vt_rng_normals(&(vt_rng){.seed = 2}, s->b, SIDE * SIDE);
    for (int i = 0; i < SIDE * SIDE; i++) s->c[i] = NAN;
    return s;
}

static void multiply(square *s) {
    vt_gemm_f32(false, false, SIDE, SIDE, SIDE, 1, s->a, SIDE, s->b, SIDE, 0, s->c, SIDE);
}

/* The same on the large road, and a NaN in one row of A stays in that row of C and fills it. */
static void test_nan(void **state) {
    (void)state;
    square *s = square_new();
    s->a[5 * SIDE + 77] = NAN;
    multiply(s);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) assert_true(isnan(s->c[i * SIDE + j]) == (i == 5));
    enum { FEW = 17 }; /* and on the small one, where B's last column is one of its own */
    for (int i = 0; i < SIDE; i++) s->c[i] = 3;
    vt_gemm_f32(false, true, FEW, FEW, FEW, 1, s->a + 70, SIDE, s->b, SIDE, 0, s->c, FEW);
    for (int i = 0; i < FEW; i++)
        for (int j = 0; j < FEW; j++) assert_true(isnan(s->c[i * FEW + j]) == (i == 5));
    free(s);
}

/* Threads that multiply at once, each with its own kernels, get the bytes that one alone gets. */
static void *repeat(void *arg) {
    square *mine = square_new();
    bool same = true;
    for (int i = 0; i < 20; i++) {
        memset(mine->c, 0x5A, sizeof mine->c);
        multiply(mine);
        same = same && !memcmp(mine->c, arg, sizeof mine->c);
    }
    free(mine);
    return same ? NULL : arg;
}

static void test_threads(void **state) {
    (void)state;
    square *s = square_new();
    pthread_t t[4];
    multiply(s);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, repeat, s->c), 0);
    for (int i = 0; i < 4; i++) {
        void *differs = s;
        assert_int_equal(pthread_join(t[i], &differs), 0);
        assert_null(differs);
    }
    free(s);
}

/* More shapes than a thread remembers kernels for: the last is as right as the first, and a shape that was forgotten,
 * or that comes late, gets the bytes that it gets in a thread of its own. */
static void test_many_shapes(void **state) {
    square *s = square_new();
    multiply(s);
    for (int i = 0; i < 160; i++) compare((product){F32, false, i % 2, 101 + i, 103, 97, 1, 0});
    compare((product){F32, false, false, 101, 103, 97, 1, 0});
    square *again = square_new();
    multiply(again);
    assert_memory_equal(s->c, again->c, sizeof s->c);
    free(s), free(again);
    test_threads(state);
}

static void test_better_kernel(void **state) {
    (void)state;
    const char *have = vt_blas_kernel(), *better = vt_blas_better_kernel(), *isa = vt_cpu_isa();
    assert_non_null(have);
    assert_non_null(strstr(vt_blas_config(), "OpenBLAS"));
    bool wide = !strcmp(isa, "avx512"), middle = !strcmp(isa, "avx2");
    assert_true(wide || middle || !strcmp(isa, "baseline"));
    if (better) { /* what it names is of this CPU's instruction set, and is not what is already in use */
        assert_string_equal(better, wide ? "SkylakeX" : "Haswell");
        assert_true(wide || middle);
        assert_string_not_equal(better, have);
    }
    if (wide && (!strcmp(have, "Haswell") || !strcmp(have, "Zen") || !strcmp(have, "Prescott")))
        assert_non_null(better);
    if (!strcmp(have, "SkylakeX") || !strcmp(have, "Cooperlake") || !strcmp(have, "SapphireRapids"))
        assert_null(better);
}

/* ---- little memory ---- */

static vt_status nothing(void *ctx, int thread, size_t item, vt_err *e) {
    (void)ctx, (void)thread, (void)item, (void)e;
    return VT_OK;
}

/* A child with buffers for `before` threads and then room for so many MB more starts `threads`: its sentence. */
static void start_in(int mb, int before, int threads, vt_err *e) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        unsigned long pages = 0;
        vt_err mine = {0};
        vt_status s = vt_blas_reserve(before, &mine);
        FILE *f = fopen("/proc/self/statm", "r");
        if (s != VT_OK || !f || fscanf(f, "%lu", &pages) != 1) _exit(2);
        fclose(f);
        rlim_t most = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mb << 20);
        if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most})) _exit(3);
        vt_for_each(64, threads, nothing, NULL, &mine);
        _exit(write(ends[1], &mine, sizeof mine) != sizeof mine);
    }
    int status;
    close(ends[1]);
    assert_int_equal(read(ends[0], e, sizeof *e), sizeof *e);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ends[0]);
}

/* An emulator of another machine (qemu's user mode) takes a limit on addresses and does not keep to it. */
static bool limits_hold(void) {
    struct rlimit was, none = {0};
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    none.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    bool room = vt_has_room((size_t)1 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
    return !room;
}

/* Finding 4: threads for whose buffers or stacks there is no memory are not started. OpenBLAS would wait without end,
 * OpenMP would end the process. */
static void test_finding_4_reserve(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* it needs terabytes of addresses */
#endif
    if (!limits_hold()) skip();
    vt_err e = {0};
    start_in(300, 1, 16, &e);
    t_says(e.code, VT_E_MEMORY, &e, "no memory for the matrix products of 16 threads", "128 MB for each");
    start_in(24, 16, 16, &e);
    t_says(e.code, VT_E_MEMORY, &e, "no memory for the stacks of 16 threads", "MB each");
    start_in(1000, 4, 4, &e);
    assert_int_equal(e.code, VT_OK);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_odd_sizes, t_drop),
        cmocka_unit_test_teardown(test_network_sizes, t_drop),
        cmocka_unit_test_teardown(test_small_sizes, t_drop),
        cmocka_unit_test(test_beta_zero),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_threads),
        cmocka_unit_test_teardown(test_many_shapes, t_drop),
        cmocka_unit_test(test_better_kernel),
        cmocka_unit_test(test_finding_4_reserve),
    };
    return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
