/* SPDX-License-Identifier: MIT */
/* Tiny models for the tests: every tensor filled, weights on a grid of 2^-17 so that steps of central
 * differences are exact in float32. */
#ifndef TOY_H
#define TOY_H

#include "models/model.h"
#include "t.h"

#define TOY_GRID 0x1p-17

/* 12 x 12 pixels in patches of 4: 9 patches, 10 or 11 tokens; three heads of width 4; all sides odd or small.
 */
static inline vt_config toy_config(const char *attn, vt_pool pool, bool dist, bool bias) {
    vt_config c = {.image = 12,
                   .patch = 4,
                   .dim = 12,
                   .depth = 2,
                   .heads = 3,
                   .hidden = 20,
                   .classes = 5,
                   .qkv_bias = bias,
                   .dist_token = dist,
                   .pool = pool,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.5,
                   .mean = {0.4914, 0.4822, 0.4465},
                   .std = {0.247, 0.2435, 0.2616}};
    snprintf(c.arch, sizeof c.arch, "vit");
    snprintf(c.attn, sizeof c.attn, "%s", attn);
    return c;
}

/* vt_model_init by seed 1, then a normal on every weight, of size conv on a convolution's, else of size `matrix`: so
 * sharp that a setting matters. Tensor i's noise is of seed noise + i. */
static inline vt_model *toy_sharp_model(const vt_config *c, uint64_t noise, double conv, double matrix) {
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_model_init(m, 1), VT_OK);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *z = malloc(p->numel * sizeof *z);
        t_normals(z, p->numel, noise + (uint64_t)i, p->ndim == 4 ? conv : matrix);
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] += (float)z[k];
        free(z);
    }
    vt_model_refresh(m);
    return m;
}

/* vt_model_init, then a normal of size 0.2 on every weight (biases start at zero, the class token near it),
 * rounded to the grid. */
static inline vt_model *toy_model(const vt_config *c, uint64_t seed) {
    vt_model *m = NULL;
    vt_err e = {0};
    if (vt_model_new(&m, c, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model_init(m, seed);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *noise = malloc(p->numel * sizeof *noise);
        t_normals(noise, p->numel, seed + 1000 * (uint64_t)i, 0.2);
        for (size_t k = 0; k < p->numel; k++)
            m->w[p->offset + k] = (float)(round(((double)m->w[p->offset + k] + noise[k]) / TOY_GRID) * TOY_GRID);
        free(noise);
    }
    vt_model_refresh(m);
    return m;
}

static inline vt_model *toy(vt_pool pool, bool dist, bool bias) {
    vt_config c = toy_config("dot", pool, dist, bias);
    return toy_model(&c, 1);
}

static inline size_t toy_pixels(const vt_model *m) { return 3 * (size_t)m->config.image * (size_t)m->config.image; }

/* n images in [0,1], exact in float32. */
static inline double *toy_images(const vt_model *m, int n, uint64_t seed) {
    size_t len = (size_t)n * toy_pixels(m);
    double *x = malloc(len * sizeof *x);
    assert_non_null(x);
    vt_rng r = {.seed = seed, .purpose = 0x1A6E};
    for (size_t i = 0; i < len; i++) x[i] = (double)vt_rng_uniform(&r, i);
    return x;
}

#endif
