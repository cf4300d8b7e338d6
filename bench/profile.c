/* SPDX-License-Identifier: MIT */
/* Where a gradient step goes, kernel by kernel: every product by its shape, and what is no product, timed at the call
 * by the linker's --wrap, beside the sgemm ceiling of the same minute. It changes nothing of the library.
 *
 *   W="-Wl,--wrap=vt_product_f32 $(grep -o 'ADD(vt_[a-z0-9_]*' bench/profile.c | sed 's/ADD(/-Wl,--wrap=/')"
 *   gcc -std=c11 -D_GNU_SOURCE -O2 -fopenmp -Isrc -o profile bench/profile.c $W build/release/libvitrine.a -lopenblas \
 *       -ldnnl -ljansson -lpng -ljpeg -lcrypto -lyaml -lzip -lm
 *   OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ./profile WEIGHTS [SECONDS [bf16]]
 *
 * WEIGHTS must need no options, as `vitrine new` leaves them. bf16: the products of `--search bf16`, on processors that
 * have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "linalg/gemm.h"
#include "linalg/products.h"
#include "base/rand.h"
#include "models/model.h"
#include "models/net/session.h"
#include "models/packing.h"
#include "nn/nn.h"

/* Seconds of this thread's processor time: on a busy machine the clock on the wall tells of others. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct row {
    char name[64];
    double seconds, flop;
    long calls;
} row;

static row rows[256];
static int n_rows;

static row *row_of(const char *name) {
    for (int i = 0; i < n_rows; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    if (n_rows == 256) exit(1);
    snprintf(rows[n_rows].name, sizeof rows[0].name, "%s", name);
    return &rows[n_rows++];
}

static void count(const char *name, double began, double flop) {
    row *r = row_of(name);
    r->seconds += now() - began, r->flop += flop, r->calls++;
}

void __real_vt_product_f32(const vt_products *by, bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
                           int lda, const float *b, int ldb, float beta, float *c, int ldc);
void __wrap_vt_product_f32(const vt_products *by, bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
                           int lda, const float *b, int ldb, float beta, float *c, int ldc);
void __wrap_vt_product_f32(const vt_products *by, bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
                           int lda, const float *b, int ldb, float beta, float *c, int ldc) {
    char name[64];
    double began = now();
    __real_vt_product_f32(by, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    double done = now();
    snprintf(name, sizeof name, "product %d x %d x %d%s%s", m, n, k, ta ? " A^T" : "", tb ? " B^T" : "");
    count(name, began + now() - done, 2.0 * m * n * k);
}

/* ADD: what else is to be timed; DECLARED: its arguments, GIVEN: the same without types. */
#define ADD(function, DECLARED, GIVEN)                                                                                 \
    void __real_##function DECLARED;                                                                                   \
    void __wrap_##function DECLARED;                                                                                   \
    void __wrap_##function DECLARED {                                                                                  \
        double began = now();                                                                                          \
        __real_##function GIVEN;                                                                                       \
        count(#function, began, 0);                                                                                    \
    }

ADD(vt_softmax_forward_f32, (float *p, const float *s, float scale, int m, int n, int ld), (p, s, scale, m, n, ld))
ADD(vt_softmax_backward_f32, (float *ds, const float *dp, const float *p, float scale, int m, int n, int ld),
    (ds, dp, p, scale, m, n, ld))
ADD(vt_act_forward_f32, (vt_act kind, float *y, float *slope, const float *x, const float *b, int m, int n),
    (kind, y, slope, x, b, m, n))
ADD(vt_act_backward_f32, (float *dx, const float *dy, const float *slope, size_t n), (dx, dy, slope, n))
ADD(vt_norm_forward_f32, (float *y, float *mean, float *rstd, const float *x, const vt_norm_f32 *n, int m, int c),
    (y, mean, rstd, x, n, m, c))
ADD(vt_norm_backward_f32,
    (float *dx, float *dg, float *db, const float *res, const float *dy, const float *x, const float *mean,
     const float *rstd, const vt_norm_f32 *n, int m, int c),
    (dx, dg, db, res, dy, x, mean, rstd, n, m, c))
ADD(vt_rows_take_f32, (float *out, const float *in, const int *from, int images, int n, int at, int c),
    (out, in, from, images, n, at, c))
ADD(vt_rows_put_f32, (float *in, const float *out, const int *from, int images, int n, int at, int c),
    (in, out, from, images, n, at, c))

static double ceiling(void) {
    enum { SIDE = 1024 };
    float *a = calloc(3 * SIDE * SIDE, sizeof *a), *b = a + SIDE * SIDE, *c = b + SIDE * SIDE;
    double best = 0;
    for (int i = 0; i < SIDE * SIDE; i++) a[i] = b[i] = 1.0f / (float)(1 + i % 7);
    for (int i = 0; i < 12; i++) {
        double began = now();
        if (i % 2)
            vt_gemm_f32(false, false, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
        else
            vt_gemm_openblas_f32(false, false, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
        double rate = 2.0 * SIDE * SIDE * SIDE / (now() - began);
        if (rate > best) best = rate;
    }
    free(a);
    return best;
}

static int by_seconds(const void *a, const void *b) {
    double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
    return (x < y) - (x > y);
}

int main(int argc, char **argv) {
    vt_model *m;
    vt_session_f32 *s;
    vt_err e = {0};
    if (argc < 2) return 2;
    vt_blas_single_thread();
    bool bf16 = argc > 3 && !strcmp(argv[3], "bf16") && vt_bf16_hardware();
    vt_packed *weights = NULL;
    if (vt_model_open(&m, argv[1], NULL, &e) != VT_OK || vt_model_prepare(m, &e) != VT_OK ||
        (bf16 && vt_model_pack(&weights, m, &e) != VT_OK) ||
        vt_session_open_by_f32(&s, m, 1, VT_GRAD_INPUT, bf16 ? &(vt_products){.native = true, .packed = weights} : NULL,
                               &e) != VT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    size_t pixels = vt_config_input_pixels(&m->config);
    float *x = malloc(2 * pixels * sizeof *x), *dz = calloc((size_t)m->config.classes, sizeof *dz);
    vt_rng_uniforms(&(vt_rng){.seed = 1}, x, pixels);
    dz[0] = 1, dz[1] = -1;
    double top = ceiling(), budget = argc > 2 ? atof(argv[2]) : 5, spent = 0;
    int steps = 0;
    for (double began = now(); steps < 2 || now() - began < budget; steps++) {
        if (steps == 1) n_rows = 0, memset(rows, 0, sizeof rows), spent = 0; /* the first compiles */
        double from = now();
        vt_session_forward_f32(s, x, 1, true);
        vt_session_backward_f32(s, dz, x + pixels, NULL);
        spent += now() - from;
    }
    double again = ceiling(), flop = 0, in_products = 0, named = 0;
    if (again > top) top = again;
    steps--;
    qsort(rows, (size_t)n_rows, sizeof *rows, by_seconds);
    printf("%.3f ms a step on %s products, float32 ceiling %.1f GFLOP/s\n", 1e3 * spent / steps,
           bf16 ? "bf16" : "float32", top * 1e-9);
    for (int i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        flop += r->flop, named += r->seconds, in_products += r->flop > 0 ? r->seconds : 0;
        printf("%-36s %5ld calls %6.1f %%", r->name, r->calls / steps, 100 * r->seconds / spent);
        if (r->flop > 0)
            printf(" %7.1f GFLOP/s %5.1f %% of it", r->flop / r->seconds * 1e-9, 100 * r->flop / r->seconds / top);
        printf("\n");
    }
    printf("products %.1f %%, at %.1f %% of the ceiling; other kernels %.1f %%, between them %.1f %%; all at %.1f %%\n",
           100 * in_products / spent, 100 * flop / in_products / top, 100 * (named - in_products) / spent,
           100 * (spent - named) / spent, 100 * flop / spent / top);
    return 0;
}
