/* SPDX-License-Identifier: MIT */
/* Random attention problems and runs of the lab, for the tests of l_p mirror descent. */
#ifndef ATTGD_BENCH_H
#define ATTGD_BENCH_H

#include "t.h"
#include "research/lab/attgd.h"
#include "research/lab/attsvm.h"

static const double bench_p[] = {1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4};

static inline void bench_problem(vt_att *a, int n, int t, int d, uint64_t seed) {
    vt_err e = {0};
    if (vt_att_open(a, n, t, d, &e) != VT_OK) fail_msg("%s", e.text);
    t_normals(a->x, (size_t)(n * t * d), seed, 1);
    t_normals(a->z, (size_t)(n * d), seed + 1000, 1);
    t_normals(a->v, (size_t)d, seed + 2000, 1);
    t_normals(a->y, (size_t)n, seed + 3000, 1);
    for (int i = 0; i < n; i++) a->y[i] = a->y[i] < 0 ? -1 : 1;
}

/* The tokens of best score: locally optimal whatever supports the machine. */
static inline void bench_best(const vt_att *a, int *alpha) {
    for (int i = 0; i < a->n; i++) {
        alpha[i] = 0;
        for (int t = 1; t < a->t; t++)
            if (vt_att_score(a, i, t) > vt_att_score(a, i, alpha[i])) alpha[i] = t;
    }
}

/* A uniform number in [low, high), by seed. */
static inline double bench_uniform(uint64_t seed, double low, double high) {
    float u = vt_rng_uniform(&(vt_rng){.seed = seed, .purpose = 0xBE7C}, 0);
    return low + (high - low) * (double)u;
}

#endif
