#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "models/model.h"

void vt_param_add(vt_param_list *l, int layer, int slot, bool matrix, vt_init init, const char *name,
                  const int64_t shape[4]) {
    if (l->failed) return;
    if (l->count == l->capacity) {
        int capacity = l->capacity ? 2 * l->capacity : 64;
        vt_param *items = realloc(l->items, (size_t)capacity * sizeof *items);
        if (!items) {
            l->failed = true;
            return;
        }
        l->items = items, l->capacity = capacity;
    }
    vt_param *p = &l->items[l->count];
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", name);
    p->layer = layer, p->slot = slot, p->init = init, p->numel = 1, p->t_offset = SIZE_MAX;
    for (; p->ndim < 4 && shape[p->ndim] > 0; p->ndim++) {
        p->shape[p->ndim] = shape[p->ndim];
        if (!vt_mul(p->numel, (size_t)shape[p->ndim], &p->numel)) l->failed = true;
    }
    if (slot >= VT_MAX_SLOTS || p->numel > ((size_t)1 << 40)) l->failed = true;
    if (l->failed) return;
    size_t room = (p->numel + 15) / 16 * 16; /* 64-byte alignment of every tensor */
    p->offset = l->total, l->total += room;
    if (matrix) p->t_offset = l->t_total, l->t_total += room;
    l->count++;
    if (layer + 1 > l->layers) l->layers = layer + 1;
    size_t sum = 0;
    for (int i = l->count - 1; i >= 0 && l->items[i].layer == layer; i--) sum += (l->items[i].numel + 15) / 16 * 16;
    if (sum > l->layer_max) l->layer_max = sum;
}

void vt_param_list_free(vt_param_list *l) {
    free(l->items);
    memset(l, 0, sizeof *l);
}

static vt_status range(long v, long lo, long hi, const char *what, const char *path, vt_err *e) {
    if (v >= lo && v <= hi) return VT_OK;
    return vt_fail(e, VT_E_RANGE, "%s%s%s is %ld, must be between %ld and %ld", path ? path : "", path ? ": " : "",
                   what, v, lo, hi);
}

vt_status vt_config_check(const vt_config *c, const char *path, vt_err *e) {
    const char *p = path ? path : "model", *sep = ": ";
    VT_TRY(range(c->image, 1, 4096, "image size", path, e));
    VT_TRY(range(c->patch, 1, c->image, "patch size", path, e));
    VT_TRY(range(c->dim, 1, 16384, "width (dim)", path, e));
    VT_TRY(range(c->depth, 1, 512, "depth", path, e));
    VT_TRY(range(c->heads, 1, c->dim, "number of heads", path, e));
    VT_TRY(range(c->hidden, 1, 131072, "MLP width", path, e));
    VT_TRY(range(c->classes, 2, 100000, "number of classes", path, e));
    if (c->image % c->patch)
        return vt_fail(e, VT_E_SHAPE, "%s%simage size %d is not a multiple of patch size %d", p, sep, c->image,
                       c->patch);
    if (c->dim % c->heads)
        return vt_fail(e, VT_E_SHAPE, "%s%swidth %d is not a multiple of %d heads", p, sep, c->dim, c->heads);
    if (c->dist_token && c->pool == VT_POOL_AVG) /* timm's distilled models refuse it too */
        return vt_fail(e, VT_E_SHAPE, "%s%sa distillation token and mean pooling (fc_norm) exclude each other", p, sep);
    if (!(c->ln_eps > 0 && c->ln_eps <= 1))
        return vt_fail(e, VT_E_RANGE, "%s%sLayerNorm eps is %g, must be above 0 and at most 1", p, sep, c->ln_eps);
    if (!(c->attn_scale > 0 && c->attn_scale <= 1e6))
        return vt_fail(e, VT_E_RANGE, "%s%sattention scale is %g, must be above 0 and at most 1e6", p, sep,
                       c->attn_scale);
    for (int k = 0; k < 3; k++) {
        if (!(c->mean[k] >= -1000 && c->mean[k] <= 1000))
            return vt_fail(e, VT_E_RANGE, "%s%smean is %g, must be between -1000 and 1000", p, sep, c->mean[k]);
        if (!(c->std[k] > 1e-6 && c->std[k] <= 1000))
            return vt_fail(e, VT_E_RANGE, "%s%sstd is %g, must be above 1e-6 and at most 1000", p, sep, c->std[k]);
    }
    return VT_OK;
}
