/* SPDX-License-Identifier: MIT */
/* First weights: timm's (non-JAX) initialisation, or LipsFormer's. */
#include <math.h>
#include <stdlib.h>
#include "base/mem.h"
#include "base/rand.h"
#include "linalg/svd.h"
#include "models/arch.h"
#include "models/model.h"

/* U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's convolution; a bias takes the fan-in of its weight, the row before. */
static float conv_bound(const vt_param *p) {
    const vt_param *w = p->ndim == 1 ? p - 1 : p;
    return 1 / sqrtf((float)(w->numel / (size_t)w->shape[0]));
}

/* Weights of linear maps and convolutions [out, -1] divided by their largest singular value (LipsFormer's code divides
 * xavier's normals, whose scale then falls out). */
static vt_status init_spectral(float *w, const vt_param *p, const vt_rng *r) {
    size_t rows = (size_t)p->shape[0], cols = p->numel / rows, least = rows < cols ? rows : cols;
    double *a = vt_alloc((p->numel + least) * sizeof *a);
    if (!a) return VT_E_MEMORY;
    vt_rng_normals(r, w, p->numel);
    for (size_t k = 0; k < p->numel; k++) a[k] = (double)w[k];
    vt_status s = vt_svd_values(a + p->numel, a, (int)rows, (int)cols, (int)cols, NULL);
    for (size_t k = 0; k < p->numel && s == VT_OK; k++) w[k] = (float)(a[k] / a[p->numel]);
    free(a);
    return s;
}

static vt_status init_param(float *w, const vt_param *p, const vt_config *c, uint64_t seed) {
    const vt_rng r = {.seed = seed, .purpose = vt_rng_purpose(p->name)};
    const float std = p->init == VT_INIT_TINY ? 1e-6f : 0.02f, bound = p->init == VT_INIT_CONV ? conv_bound(p) : 0;
    const bool map = p->init == VT_INIT_LINEAR || (p->init == VT_INIT_CONV && p->ndim > 1);
    if (map && c->init == VT_INIT_RULE_SPECTRAL) return init_spectral(w, p, &r);
    switch (p->init) {
    case VT_INIT_TRUNC02:
    case VT_INIT_LINEAR:
    case VT_INIT_TINY:
        vt_rng_normals(&r, w, p->numel);
        for (size_t k = 0; k < p->numel; k++) w[k] = fminf(fmaxf(w[k] * std, -2), 2);
        break;
    case VT_INIT_CONV:
        vt_rng_uniforms(&r, w, p->numel);
        for (size_t k = 0; k < p->numel; k++) w[k] = (2 * w[k] - 1) * bound;
        break;
    case VT_INIT_ZERO:
    case VT_INIT_ONE:
    case VT_INIT_VALUE:
        for (size_t k = 0; k < p->numel; k++)
            w[k] = p->init == VT_INIT_VALUE ? p->value : p->init == VT_INIT_ONE ? 1 : 0;
        break;
    }
    return VT_OK;
}

vt_status vt_model_init(vt_model *m, uint64_t seed) {
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        VT_TRY(init_param(m->w + p->offset, p, &m->config, seed));
    }
    const vt_arch *arch = vt_arch_find(m->config.arch);
    if (arch && arch->init) arch->init(m, seed);
    vt_model_refresh(m);
    return VT_OK;
}
