/* SPDX-License-Identifier: MIT */
#include "models/twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/rand.h"

/* Each row (of an output) by its own size: one heavy row must not make noise of the others. w [rows, numel / rows] of
 * tensor i: w <- w + share rms(row) n. */
static vt_status add_row_noise(float *w, size_t numel, size_t rows, int i, uint64_t seed, vt_err *e) {
    /* the self-test's name for it, older than this file: its draws stay what they were */
    vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("selftest twin"), .image = (uint32_t)i};
    size_t n = numel / rows;
    float *noise = vt_alloc((numel + 1) * sizeof *noise);
    if (!noise) return vt_fail(e, VT_E_MEMORY, "no memory for a twin of the model");
    vt_rng_normals(&r, noise, numel);
    for (size_t row = 0; row < rows; row++) {
        double s = 0;
        for (size_t k = row * n; k < (row + 1) * n; k++) s += (double)w[k] * (double)w[k];
        double scale = VT_TWIN_SHARE * sqrt(s / (double)n);
        for (size_t k = row * n; k < (row + 1) * n; k++) w[k] += (float)(scale * (double)noise[k]);
    }
    free(noise);
    return VT_OK;
}

/* Outputs of a matrix or a convolution are its first side; tokens and positions, [1, n, d], are rows of d. */
static size_t count_rows(const vt_param *p) {
    return (size_t)(p->shape[0] > 1 ? p->shape[0] : p->shape[0] * p->shape[p->ndim > 1 ? 1 : 0]);
}

static vt_status copy_with_noise(vt_model *out, const vt_model *m, uint64_t seed, vt_err *e) {
    memcpy(out->w, m->w, m->params.total * sizeof(float));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        if (p->ndim >= 2 && !p->buffer) VT_TRY(add_row_noise(out->w + p->offset, p->numel, count_rows(p), i, seed, e));
    }
    return vt_model_prepare(out, e);
}

vt_status vt_model_twin(vt_model **out, const vt_model *m, uint64_t seed, vt_err *e) {
    vt_config c = m->config;
    double usual = 1 / sqrt((double)vt_config_attn_dim(&c) / c.heads);
    if (c.attn_scale > 4 * usual) c.attn_scale = usual;
    VT_TRY(vt_model_new(out, &c, e));
    vt_status s = copy_with_noise(*out, m, seed, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}
