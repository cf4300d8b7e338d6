/* SPDX-License-Identifier: MIT */
/* Gradient steps (forward and input vjp of one image) a second of processor time, of any network that vitrine reads: an
 * ONNX file's beside the native one's, in rounds that alternate.
 *
 *   gcc -std=c11 -D_GNU_SOURCE -O2 -fopenmp -Isrc -o onnx_step bench/onnx_step.c build/release/libvitrine.a -lopenblas
 * \ -ldnnl -ljansson -lpng -ljpeg -lcrypto -lyaml -lzip -lm OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 ./onnx_step
 * SECONDS WEIGHTS...
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/rand.h"
#include "linalg/gemm.h"
#include "models/model.h"
#include "models/net/session.h"

/* Seconds of this thread's processor time: on a busy machine the clock on the wall tells of others. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct network {
    vt_model *m;
    vt_session_f32 *s;
    float *x, *dz;
    double best;
} network;

static bool open_network(network *n, const char *path) {
    vt_err e = {0};
    if (vt_model_open(&n->m, path, &(vt_overrides){.onnx = true}, &e) != VT_OK || vt_model_prepare(n->m, &e) != VT_OK ||
        vt_session_open_f32(&n->s, n->m, 1, VT_GRAD_INPUT, &e) != VT_OK) {
        fprintf(stderr, "%s\n", e.text);
        return false;
    }
    const size_t pixels = vt_config_input_pixels(&n->m->config);
    n->x = malloc(2 * pixels * sizeof *n->x), n->dz = calloc((size_t)n->m->config.classes, sizeof *n->dz);
    if (!n->x || !n->dz) return false;
    vt_rng_uniforms(&(vt_rng){.seed = 1}, n->x, pixels);
    n->dz[0] = 1, n->dz[1] = -1;
    return true;
}

static void measure(network *n, double seconds) {
    const size_t pixels = vt_config_input_pixels(&n->m->config);
    int steps = 0;
    const double began = now();
    double spent;
    do {
        vt_session_forward_f32(n->s, n->x, 1, true);
        vt_session_backward_f32(n->s, n->dz, n->x + pixels, NULL);
        steps++, spent = now() - began;
    } while (spent < seconds);
    n->best = fmax(n->best, steps / spent);
}

int main(int argc, char **argv) {
    enum { ROUNDS = 3, MOST = 16 };
    network nets[MOST] = {0};
    const int count = argc - 2 < MOST ? argc - 2 : MOST;
    if (count < 1) return 2;
    vt_blas_single_thread();
    for (int i = 0; i < count; i++)
        if (!open_network(&nets[i], argv[2 + i])) return 1;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < count; i++) measure(&nets[i], atof(argv[1]) / ROUNDS);
    for (int i = 0; i < count; i++)
        printf("%s: %.2f images/s, session of %.0f MB\n", argv[2 + i], nets[i].best,
               1e-6 * (double)vt_session_bytes_f32(nets[i].m, 1, VT_GRAD_INPUT));
    return 0;
}
