/* SPDX-License-Identifier: MIT */
/* The table of a model's parameters: names, shapes and places of all tensors, and their first values (timm's non-JAX
 * initialisation, or LipsFormer's). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "linalg/svd.h"
#include "models/arch.h"
#include "models/attn.h"
#include "models/model.h"

void vt_param_place(vt_param_list *l, int layer, const char *prefix, ...) {
    va_list args;
    va_start(args, prefix);
    vsnprintf(l->prefix, sizeof l->prefix, prefix, args);
    va_end(args);
    l->layer = layer;
}

vt_param *vt_param_add(vt_param_list *l, int slot, bool matrix, vt_init init, const char *name,
                       const int64_t shape[4]) {
    if (l->failed || (l->failed = !vt_grow(&l->items, (size_t)l->count, sizeof *l->items))) return NULL;
    vt_param *p = &l->items[l->count];
    memset(p, 0, sizeof *p);
    if (snprintf(p->name, sizeof p->name, "%s%s", l->prefix, name) >= (int)sizeof p->name) l->failed = true;
    p->layer = l->layer, p->slot = slot, p->init = init, p->value = l->value, p->numel = 1, p->t_offset = SIZE_MAX;
    for (; p->ndim < 4 && shape[p->ndim] > 0; p->ndim++) {
        p->shape[p->ndim] = shape[p->ndim];
        if (!vt_mul(p->numel, (size_t)shape[p->ndim], &p->numel)) l->failed = true;
    }
    if (slot >= VT_MAX_SLOTS || p->numel > ((size_t)1 << 40)) l->failed = true;
    if (l->failed) return NULL;
    size_t room = (p->numel + 15) / 16 * 16; /* 64-byte alignment of every tensor */
    p->offset = l->total, l->total += room;
    if (matrix) p->t_offset = l->t_total, l->t_total += room;
    l->count++;
    if (l->layer + 1 > l->layers) l->layers = l->layer + 1;
    size_t sum = 0;
    for (int i = l->count - 1; i >= 0 && l->items[i].layer == l->layer; i--) sum += (l->items[i].numel + 15) / 16 * 16;
    if (sum > l->layer_max) l->layer_max = sum;
    return p;
}

void vt_param_add_map(vt_param_list *l, int slot, bool matrix, vt_init init, bool bias, const char *name,
                      const int64_t shape[4]) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    vt_param_add(l, slot, matrix, init, full, shape);
    snprintf(full, sizeof full, "%s.bias", name);
    const vt_init of_bias = init == VT_INIT_CONV ? VT_INIT_CONV : VT_INIT_ZERO;
    if (bias) vt_param_add(l, slot + 1, false, of_bias, full, (int64_t[4]){shape[0]});
}

void vt_param_add_norm(vt_param_list *l, int slot, vt_norm_kind kind, const char *name, int d) {
    static const struct {
        const char *suffix;
        vt_init init;
    } table[VT_NORM_SLOTS] = {{"weight", VT_INIT_ONE},
                              {"bias", VT_INIT_ZERO},
                              {"running_mean", VT_INIT_ZERO},
                              {"running_var", VT_INIT_ONE}};
    int n = kind == VT_NORM_NONE ? 0 : kind == VT_NORM_BATCH ? VT_NORM_SLOTS : VT_NORM_MEAN;
    for (int k = 0; k < n; k++) {
        char full[64];
        snprintf(full, sizeof full, "%s.%s", name, table[k].suffix);
        vt_param *p = vt_param_add(l, slot + k, false, table[k].init, full, (int64_t[4]){d});
        if (p) p->buffer = k >= VT_NORM_MEAN;
    }
}

void vt_param_list_free(vt_param_list *l) {
    free(l->items);
    memset(l, 0, sizeof *l);
}

/* Refuses (VT_E_RANGE) a number outside [lo, hi]; what: its name in the sentence. */
static vt_status check_range(long v, long lo, long hi, const char *what, const char *path, vt_err *e) {
    if (v >= lo && v <= hi) return VT_OK;
    return vt_fail(e, VT_E_RANGE, "%s%s%s is %ld, must be between %ld and %ld", path ? path : "", path ? ": " : "",
                   what, v, lo, hi);
}

/* VT_E_SHAPE unless the configuration gives the attention variant what it asks of the block; VT_E_UNKNOWN for another
 * variant. */
static vt_status check_attn(const vt_config *c, const char *p, vt_err *e) {
    vt_attn_spec a;
    VT_TRY(vt_attn_parse(&a, c->attn, e));
    if (a.needs & VT_ATTN_TIED && !c->tied_qk)
        return vt_fail(e, VT_E_SHAPE, "%s: attention %s needs W_Q and W_K in one tensor (@form tied_qk=1)", p, c->attn);
    if (a.needs & VT_ATTN_FULL && (c->qkv_bias || c->qk_norm))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: attention %s multiplies W_Q and W_V: it goes with no bias of q, k, v and with no q/k norm",
                       p, c->attn);
    return VT_OK;
}

/* VT_E_SHAPE for forms of a ViT that other architectures would not heed, and for widths that do not fit. */
static vt_status check_width(const vt_config *c, const char *p, vt_err *e) {
    const bool may_lack = !strcmp(c->arch, "convit") || !strcmp(c->arch, "xcit"); /* positions */
    const struct {
        const char *key;
        bool has;
    } own[] = {{"patch_norm", c->patch_norm},
               {"attn_dim", c->attn_dim},
               {"proj", c->proj},
               {"positions", c->positions && !(may_lack && c->positions == VT_POSITIONS_NONE)}};
    for (size_t i = 0; strcmp(c->arch, "vit") && i < sizeof own / sizeof *own; i++)
        if (own[i].has)
            return vt_fail(e, VT_E_SHAPE, "%s: %s is a form of vit alone, and this is a %s", p, own[i].key, c->arch);
    if (c->proj == VT_PROJ_NONE && vt_config_attn_dim(c) != c->dim)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: without an output projection attention is as wide as the model: %d, not attn_dim %d", p,
                       c->dim, c->attn_dim);
    return VT_OK;
}

vt_status vt_config_check(const vt_config *c, const char *path, vt_err *e) {
    const char *p = path ? path : "model", *sep = ": ";
    VT_TRY(check_range(c->image, 1, 4096, "image size", path, e));
    VT_TRY(check_range(c->patch, 1, c->image, "patch size", path, e));
    if (c->dist_head && !c->dist_token)
        return vt_fail(e, VT_E_SHAPE, "%s%sdist_head is said of a model without distillation token", p, sep);
    VT_TRY(check_range(c->native, 0, 4096, "input side (native)", path, e));
    VT_TRY(check_range(c->dim, 1, 16384, "width (dim)", path, e));
    VT_TRY(check_range(c->depth, 1, 512, "depth", path, e));
    VT_TRY(check_range(c->attn_dim, 0, 65536, "attention width (attn_dim)", path, e));
    VT_TRY(check_range(c->heads, 1, vt_config_attn_dim(c), "number of heads", path, e));
    VT_TRY(check_range(c->hidden, 1, 131072, "MLP width", path, e));
    VT_TRY(check_range(c->classes, 2, 100000, "number of classes", path, e));
    if (c->image % c->patch)
        return vt_fail(e, VT_E_SHAPE, "%s%simage size %d is not a multiple of patch size %d", p, sep, c->image,
                       c->patch);
    if (vt_config_attn_dim(c) % c->heads)
        return vt_fail(e, VT_E_SHAPE, "%s%s%swidth %d is not a multiple of %d heads", p, sep,
                       c->attn_dim ? "attention " : "", vt_config_attn_dim(c), c->heads);
    if (!(c->ln_eps > 0 && c->ln_eps <= 1))
        return vt_fail(e, VT_E_RANGE, "%s%sLayerNorm eps is %g, must be above 0 and at most 1", p, sep, c->ln_eps);
    if (c->dim < 2 && (c->norm == VT_NORM_CENTER || c->final_norm == VT_NORM_CENTER)) /* its factor is D / (D - 1) */
        return vt_fail(e, VT_E_RANGE, "%s%sCenterNorm needs a width of at least 2", p, sep);
    if (!(c->attn_scale > 0 && c->attn_scale <= 1e6))
        return vt_fail(e, VT_E_RANGE, "%s%sattention scale is %g, must be above 0 and at most 1e6", p, sep,
                       c->attn_scale);
    for (int k = 0; k < 3; k++) {
        if (!(c->mean[k] >= -1000 && c->mean[k] <= 1000))
            return vt_fail(e, VT_E_RANGE, "%s%smean is %g, must be between -1000 and 1000", p, sep, c->mean[k]);
        if (!(c->std[k] > 1e-6 && c->std[k] <= 1000))
            return vt_fail(e, VT_E_RANGE, "%s%sstd is %g, must be above 1e-6 and at most 1000", p, sep, c->std[k]);
    }
    VT_TRY(check_width(c, p, e));
    VT_TRY(check_attn(c, p, e));
    const vt_arch *arch = vt_arch_find(c->arch);
    return arch && arch->check ? arch->check(c, p, e) : VT_OK;
}

/* ---- first values ---- */

/* U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's convolution; a bias takes the fan-in of its weight, the row before. */
static float conv_bound(const vt_param *p) {
    const vt_param *w = p->ndim == 1 ? p - 1 : p;
    return 1 / sqrtf((float)(w->numel / (size_t)w->shape[0]));
}

/* Fills w, the weights of a linear map or convolution [out, -1], with normals of key r divided by their largest
 * singular value (LipsFormer's code divides xavier's normals, whose scale then falls out). */
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

/* Fills w, the weights of a linear map or convolution [out, -1], with normals of key r that keep the size of interval
 * bounds' radii, which |v| and relu halve around 0: standard deviation sqrt(2 pi) / inputs (Shi et al. 2021, section
 * 3.2). A square matrix is 0.7 times the identity and 0.3 times those (ours), so that centres keep theirs too. */
static void init_interval(float *w, const vt_param *p, const vt_rng *r) {
    const size_t rows = (size_t)p->shape[0];
    const bool square = p->ndim == 2 && p->numel == rows * rows;
    const float std = (float)((square ? 0.3 : 1) * sqrt(2 * M_PI) * (double)rows / (double)p->numel);
    vt_rng_normals(r, w, p->numel);
    for (size_t k = 0; k < p->numel; k++) w[k] *= std;
    for (size_t k = 0; square && k < rows; k++) w[k * rows + k] += 0.7f;
}

/* Fills a new parameter's values by its rule, random ones keyed by (seed, name). */
static vt_status init_param(float *w, const vt_param *p, const vt_config *c, uint64_t seed) {
    const vt_rng r = {.seed = seed, .purpose = vt_rng_purpose(p->name)};
    const float std = p->init == VT_INIT_TINY ? 1e-6f : 0.02f, bound = p->init == VT_INIT_CONV ? conv_bound(p) : 0;
    const bool map = p->init == VT_INIT_LINEAR || (p->init == VT_INIT_CONV && p->ndim > 1);
    if (map && c->init == VT_INIT_RULE_SPECTRAL) return init_spectral(w, p, &r);
    if (map && c->init == VT_INIT_RULE_INTERVAL) {
        init_interval(w, p, &r);
        return VT_OK;
    }
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
