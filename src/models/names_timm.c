/* timm's names of ViT and DeiT, the canonical ones (algorithms.md B.2). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/opt.h"
#include "models/names.h"

static bool probe(const vt_st *st) { return vt_st_find(st, "patch_embed.proj.weight") && vt_st_find(st, "pos_embed"); }

static vt_status missing(const vt_st *st, const char *name, vt_err *e) {
    const char *near = NULL, *one;
    for (int i = 0; i < vt_st_count(st) && !near; i++) {
        one = vt_st_at(st, i)->name;
        near = vt_nearest(name, &one, 1);
    }
    return vt_fail(e, VT_E_FORMAT, "%s: tensor %s is missing%s%s%s", vt_st_path(st), name,
                   near ? " (the file has the unknown name " : "", near ? near : "", near ? ")" : "");
}

static vt_status need(const vt_st *st, const char *name, int ndim, const vt_tensor **out, vt_err *e) {
    const vt_tensor *t = vt_st_find(st, name);
    if (!t) return missing(st, name, e);
    char shape[96];
    if (t->ndim != ndim)
        return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, must have %d dimensions", vt_st_path(st), name,
                       vt_shape_text(shape, sizeof shape, t->shape, t->ndim), ndim);
    for (int i = 0; i < ndim; i++)
        if (t->shape[i] < 1 || t->shape[i] > 1000000)
            return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, every side must be between 1 and 1000000",
                           vt_st_path(st), name, vt_shape_text(shape, sizeof shape, t->shape, t->ndim));
    *out = t;
    return VT_OK;
}

/* Depth: blocks that the file has the better part of (a block has 11 tensors or more), so that one missing tensor is
 * missed by name, and one stray name is named as extra. */
static int blocks(const vt_st *st) {
    int seen[1000] = {0}, depth = 0, i;
    for (int k = 0; k < vt_st_count(st); k++)
        if (sscanf(vt_st_at(st, k)->name, "blocks.%3d.", &i) == 1 && i >= 0 && ++seen[i] >= 6 && i >= depth)
            depth = i + 1;
    return depth;
}

static vt_status detect(const vt_st *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *conv = NULL, *pos = NULL, *head = NULL, *fc1 = NULL;
    VT_TRY(need(st, "patch_embed.proj.weight", 4, &conv, e));
    VT_TRY(need(st, "pos_embed", 3, &pos, e));
    VT_TRY(need(st, "head.weight", 2, &head, e));
    VT_TRY(need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    char shape[96];
    vt_shape_text(shape, sizeof shape, conv->shape, conv->ndim);
    if (conv->shape[1] != 3 || conv->shape[2] != conv->shape[3])
        return vt_fail(e, VT_E_SHAPE, "%s: tensor patch_embed.proj.weight has shape %s, must be [dim,3,patch,patch]",
                       vt_st_path(st), shape);
    snprintf(c->arch, sizeof c->arch, "vit");
    c->dim = (int)conv->shape[0], c->patch = (int)conv->shape[2];
    c->depth = blocks(st);
    c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_st_find(st, "blocks.0.attn.qkv.bias") != NULL;
    c->dist_token = vt_st_find(st, "dist_token") != NULL;
    c->patch_gate = vt_st_find(st, "patch_gate") != NULL;
    c->pool = vt_st_find(st, "fc_norm.weight") ? VT_POOL_AVG : VT_POOL_TOKEN;
    int64_t n = pos->shape[1] - (c->dist_token ? 2 : 1);
    int64_t side = (int64_t)llround(sqrt((double)(n > 0 ? n : 0)));
    if (side < 1 || side * side != n)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: pos_embed has %lld positions: less %d for the class%s that is not a square of patches",
                       vt_st_path(st), (long long)pos->shape[1], c->dist_token ? 2 : 1,
                       c->dist_token ? " and distillation tokens" : " token");
    if (side * c->patch > 4096)
        return vt_fail(e, VT_E_RANGE, "%s: image side is %lld pixels by pos_embed, must be at most 4096",
                       vt_st_path(st), (long long)side * c->patch);
    c->image = (int)side * c->patch;
    static const vt_field told[] = {VT_FIELD_ARCH,   VT_FIELD_IMAGE,   VT_FIELD_PATCH,    VT_FIELD_DIM,  VT_FIELD_DEPTH,
                                    VT_FIELD_HIDDEN, VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS, VT_FIELD_DIST, VT_FIELD_POOL};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) snprintf(src[told[i]], sizeof src[0], "tensors");
    return VT_OK;
}

static const char *file_name(const char *canonical, char *buf, size_t size) {
    (void)buf, (void)size;
    return canonical;
}

const vt_names_def vt_names_def_timm = {
    .name = "timm",
    .summary = "timm's names of ViT and DeiT (patch_embed.proj, blocks.i.attn.qkv, head)",
    .probe = probe,
    .detect = detect,
    .file_name = file_name,
};
