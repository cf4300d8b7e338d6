/* SPDX-License-Identifier: MIT */
/* A checkpoint beside which lie any bytes as config.json and, after a NUL, as preprocessor_config.json: opened, or
 * refused with a sentence; what is accepted is within its limits. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tensors/tensors.h"
#include "models/model.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *weights, *config, *pre;

/* A ViT of one block whose metadata say nothing: all has to come from the two files. */
static void write_weights(void) {
    const vt_config c = {.arch = "vit",
                         .attn = "dot",
                         .image = 4,
                         .patch = 2,
                         .dim = 4,
                         .depth = 1,
                         .heads = 2,
                         .hidden = 4,
                         .classes = 3,
                         .ln_eps = 1e-6,
                         .attn_scale = 1,
                         .std = {1, 1, 1}};
    vt_model *m;
    vt_err e = {0};
    vt_tensor t[64];
    if (vt_model_new(&m, &c, &e) != VT_OK || m->params.count > 64) abort();
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[i] =
            (vt_tensor){.name = p->name, .dtype = VT_F32, .ndim = p->ndim, .numel = p->numel, .data = m->w + p->offset};
        memcpy(t[i].shape, p->shape, sizeof p->shape);
    }
    if (vt_tensors_write(weights, t, m->params.count, NULL, 0, &e) != VT_OK) abort();
    vt_model_close(m);
}

static void start(void) {
    if (weights) return;
    weights = scratch("w.safetensors"), config = scratch("config.json"), pre = scratch("preprocessor_config.json");
    write_weights();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    const uint8_t *cut = n ? memchr(bytes, 0, n) : NULL;
    size_t first = cut ? (size_t)(cut - bytes) : n;
    vt_model *m;
    vt_err e = {0};
    start();
    scratch_write(config, bytes, first);
    unlink(pre);
    if (cut) scratch_write(pre, cut + 1, n - first - 1);
    if (vt_model_inspect(&m, weights, NULL, &e) != VT_OK) {
        if (m || e.code == VT_OK || strncmp(e.text, scratch_folder, strlen(scratch_folder))) abort();
        return 0;
    }
    const vt_config *c = &m->config;
    if (c->dim % c->heads || !(c->ln_eps > 0) || !isfinite(c->attn_scale) || c->classes != 3) abort();
    for (int k = 0; k < 3; k++)
        if (!isfinite(c->mean[k]) || !(c->std[k] > 0)) abort();
    if (strlen(m->transform) >= sizeof m->transform) abort();
    vt_model_close(m);
    return 0;
}
