/* SPDX-License-Identifier: MIT */
/* What the tests of XCiT share: a folder, and a small model. */
#ifndef XCIT_BENCH_H
#define XCIT_BENCH_H

#include <unistd.h>
#include "linalg/gemm.h"
#include "models/forms.h"
#include "models/net/session.h"
#include "t.h"
#include "scratch.h"

enum { K = 5 };

/* 24 x 24 pixels, 3 x 3 tokens of width 8 behind a stem of three convolutions. */
static inline vt_config small(const char *forms) {
    vt_config c = {.arch = "xcit", .attn = "dot", .image = 24, .patch = 8, .dim = 8, .depth = 1, .heads = 2};
    vt_err e = {0};
    c.hidden = 12, c.classes = K, c.qkv_bias = true, c.ln_eps = 1e-6, c.attn_scale = 0.5, c.class_blocks = 2;
    for (int k = 0; k < 3; k++) c.mean[k] = 0.5, c.std[k] = 0.25;
    if (vt_form_parse(&c, forms, "small", &e) != VT_OK) fail_msg("%s", e.text);
    return c;
}

static inline vt_model *model_of(const vt_config *c) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 3), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *noise = malloc(p->numel * sizeof *noise);
        t_normals(noise, p->numel, 9 + (uint64_t)i, 0.3);
        for (size_t k = 0; k < p->numel; k++)
            m->w[p->offset + k] = p->buffer ? 0.6f + fabsf((float)noise[k]) : m->w[p->offset + k] + (float)noise[k];
        free(noise);
    }
    vt_model_refresh(m);
    return m;
}

static inline int xcit_setup(void **state) {
    vt_blas_single_thread();
    return make_tmp(state);
}

#endif
