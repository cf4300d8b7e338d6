/* SPDX-License-Identifier: MIT */
#include "models/detect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/opt.h"

vt_status vt_refuse_unfit(const vt_unfit *rows, const char *path, const char *before, vt_err *e) {
    for (; rows->what; rows++)
        if (rows->has) return vt_fail(e, VT_E_SHAPE, "%s: %s %s", path, before, rows->what);
    return VT_OK;
}

/* VT_E_FORMAT for a tensor that a file lacks, with the nearest name in it. */
static vt_status fail_missing_tensor(const vt_tensors *st, const char *name, vt_err *e) {
    const char *near = NULL, *one;
    for (int i = 0; i < vt_tensors_count(st) && !near; i++) {
        one = vt_tensors_at(st, i)->name;
        near = vt_nearest(name, &one, 1);
    }
    return vt_fail(e, VT_E_FORMAT, "%s: tensor %s is missing%s%s%s; of a network that has none, " VT_WAY,
                   vt_tensors_path(st), name, near ? " (the file has the unknown name " : "", near ? near : "",
                   near ? ")" : "");
}

vt_status vt_detect_need(const vt_tensors *st, const char *name, int ndim, const vt_tensor **out, vt_err *e) {
    const vt_tensor *t = vt_tensors_find(st, name);
    if (!t) return fail_missing_tensor(st, name, e);
    char shape[96];
    if (t->ndim != ndim)
        return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, must have %d dimensions", vt_tensors_path(st), name,
                       vt_shape_text(shape, sizeof shape, t->shape, t->ndim), ndim);
    for (int i = 0; i < ndim; i++)
        if (t->shape[i] < 1 || t->shape[i] > 1000000)
            return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, every side must be between 1 and 1000000",
                           vt_tensors_path(st), name, vt_shape_text(shape, sizeof shape, t->shape, t->ndim));
    *out = t;
    return VT_OK;
}

bool vt_detect_any(const vt_tensors *st, const char *begin, const char *end) {
    size_t nb = strlen(begin), ne = strlen(end);
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const char *name = vt_tensors_at(st, i)->name;
        size_t n = strlen(name);
        if (n >= nb + ne && !strncmp(name, begin, nb) && !strcmp(name + n - ne, end)) return true;
    }
    return false;
}

int vt_detect_blocks(const vt_tensors *st, const char *prefix, int least) {
    enum { MOST = 1000 };
    int seen[MOST] = {0}, depth = 0;
    size_t n = strlen(prefix);
    for (int k = 0; k < vt_tensors_count(st); k++) {
        const char *name = vt_tensors_at(st, k)->name;
        if (strncmp(name, prefix, n) || name[n] < '0' || name[n] > '9') continue;
        char *dot;
        long i = strtol(name + n, &dot, 10);
        if (*dot == '.' && i < MOST && ++seen[i] >= least && i >= depth) depth = (int)i + 1;
    }
    return depth;
}

vt_norm_kind vt_detect_norm(const vt_tensors *st, const char *begin, const char *end) {
    static const char *const suffixes[] = {".running_mean", ".running_var", ".weight", ".bias"};
    for (int k = 0; k < 4; k++) {
        char name[96];
        snprintf(name, sizeof name, "%s%s", *end ? end : begin, suffixes[k]);
        if (*end ? vt_detect_any(st, begin, name) : vt_tensors_find(st, name) != NULL)
            return k < 2 ? VT_NORM_BATCH : VT_NORM_LAYER;
    }
    return VT_NORM_NONE;
}

vt_factor vt_detect_factor(const vt_tensors *st, const char *begin) {
    if (vt_detect_any(st, begin, ".ls1.gamma")) return VT_FACTOR_LAYER_SCALE;
    return vt_detect_any(st, begin, ".alpha1") ? VT_FACTOR_ALPHA : VT_FACTOR_NONE;
}

vt_status vt_detect_patches(const vt_tensors *st, vt_config *c, vt_err *e) {
    const vt_tensor *w = NULL;
    char shape[96];
    VT_TRY(vt_detect_need(st, "patch_embed.proj.weight", 4, &w, e));
    if (w->shape[1] != 3 || w->shape[2] != w->shape[3])
        return vt_fail(e, VT_E_SHAPE, "%s: tensor patch_embed.proj.weight has shape %s, must be [dim,3,patch,patch]",
                       vt_tensors_path(st), vt_shape_text(shape, sizeof shape, w->shape, w->ndim));
    c->dim = (int)w->shape[0], c->patch = (int)w->shape[2];
    return VT_OK;
}

int64_t vt_detect_side(int64_t n) {
    int64_t side = (int64_t)llround(sqrt((double)(n > 0 ? n : 0)));
    return side * side == n ? side : 0;
}

vt_status vt_detect_grid(const vt_tensors *st, vt_config *c, int64_t side, vt_err *e) {
    if (side * c->patch > 4096)
        return vt_fail(e, VT_E_RANGE, "%s: image side is %lld pixels by pos_embed, must be at most 4096",
                       vt_tensors_path(st), (long long)side * c->patch);
    c->image = (int)side * c->patch;
    return VT_OK;
}

void vt_detect_known(vt_source src, const vt_field *fields, size_t n) {
    for (size_t i = 0; i < n; i++) snprintf(src[fields[i]], sizeof src[0], "tensors");
}

void vt_detect_known_norms(vt_source src, const vt_config *c) {
    if (c->norm != VT_NORM_LAYER) VT_DETECT_KNOWN(src, VT_FIELD_NORM);
    if (c->final_norm != VT_NORM_LAYER) VT_DETECT_KNOWN(src, VT_FIELD_FINAL_NORM);
}
