/* SPDX-License-Identifier: MIT */
/* The networks of the fixture that tests/fixtures/gen_swin.py makes. */
#ifndef SWIN_BENCH_H
#define SWIN_BENCH_H

#include "penalty_fixture.h"
#include "judge.h"
#include "scratch.h"

#include "linalg/gemm.h"
#include "models/forms.h"

enum { CLASSES = 5 };

static inline int setup(void **state) {
    vt_blas_single_thread();
    return make_tmp(state);
}

/* The fixture's configuration NAME, with what its shape line says. */
static inline vt_config config_of(const char *form) {
    vt_config c = {.arch = "swin",
                   .attn = "dot",
                   .classes = CLASSES,
                   .ln_eps = 1e-5,
                   .mean = {0.485, 0.456, 0.406},
                   .std = {0.229, 0.224, 0.225}};
    char key[80];
    int bias;
    vt_err e = {0};
    snprintf(key, sizeof key, "%s.shape", form);
    assert_int_equal(sscanf(vt_tensors_meta(ref, key), "%d %d %d %d %d", &c.image, &c.patch, &c.dim, &c.hidden, &bias),
                     5);
    c.qkv_bias = bias;
    if (vt_form_parse(&c, vt_tensors_meta(ref, form), form, &e) != VT_OK) fail_msg("%s", e.text);
    c.heads = c.stage_heads[0], c.attn_scale = 1 / sqrt((double)c.dim / c.heads);
    for (int s = 0; s < c.stages; s++) c.depth += c.stage_depth[s];
    return c;
}

static inline vt_model *judged(const char *form) {
    vt_config c = config_of(form);
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s: %s", form, e.text);
    char weights[40];
    snprintf(weights, sizeof weights, "%s.w", form);
    judge_weights(m, weights);
    return m;
}

static inline int open_ref(void **state) {
    (void)state;
    vt_err e = {0};
    if (vt_tensors_open(&ref, "tests/fixtures/golden/swin.safetensors", &e) == VT_OK) return 0;
    print_error("%s\n", e.text);
    return 1;
}

#endif
