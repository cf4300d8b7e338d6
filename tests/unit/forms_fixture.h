/* SPDX-License-Identifier: MIT */
/* Small models of every architecture. */
#ifndef FORMS_BENCH_H
#define FORMS_BENCH_H

#define VT_DOUBLE
#include "base/real.h"
#include "judge.h"
#include "scratch.h"

#include "linalg/gemm.h"

/* A ViT of 8 x 8 pixels, four patches, three heads of width 4. */
static inline vt_config small_vit(void) {
    return (vt_config){.arch = "vit",
                       .attn = "dot",
                       .image = 8,
                       .patch = 4,
                       .dim = 12,
                       .depth = 2,
                       .heads = 3,
                       .hidden = 10,
                       .classes = 4,
                       .qkv_bias = true,
                       .ln_eps = 1e-5,
                       .attn_scale = 0.5,
                       .mean = {0.4914, 0.4822, 0.4465},
                       .std = {0.247, 0.2435, 0.2616}};
}

/* A model with every tensor random: first weights, a normal of size 0.2 on all; variances stay above 0.5. */
static inline vt_model *model_of(const vt_config *c, uint64_t seed) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, seed), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *noise = malloc(p->numel * sizeof *noise);
        t_normals(noise, p->numel, seed + 1000 * (uint64_t)i, 0.2);
        bool variance = strstr(p->name, "running_var") != NULL;
        for (size_t k = 0; k < p->numel; k++)
            m->w[p->offset + k] = variance ? 0.5f + fabsf((float)noise[k]) : m->w[p->offset + k] + (float)noise[k];
        free(noise);
    }
    vt_model_refresh(m);
    return m;
}

static inline int setup(void **state) {
    vt_blas_single_thread();
    return make_tmp(state);
}

#endif
