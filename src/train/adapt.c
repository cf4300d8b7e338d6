/* SPDX-License-Identifier: MIT */
/* Starting points: the weights of a checkpoint carried over to a model of another shape. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "tensors/tensors.h"
#include "models/forms.h"
#include "train/train.h"

/* ---- what must agree ---- */

static const vt_opt fixed[] = {
    VT_OPT_S("architecture", vt_config, arch, NULL, NULL),
    VT_OPT_S("attention", vt_config, attn, NULL, NULL),
    VT_OPT_I("width (dim)", vt_config, dim, NULL, 0, 0, 0),
    VT_OPT_I("depth", vt_config, depth, NULL, 0, 0, 0),
    VT_OPT_I("heads", vt_config, heads, NULL, 0, 0, 0),
    VT_OPT_I("mlp hidden", vt_config, hidden, NULL, 0, 0, 0),
    VT_OPT_B("qkv bias", vt_config, qkv_bias, NULL, 0),
    VT_OPT_B("distillation token", vt_config, dist_token, NULL, 0),
};

/* Returns what sentences call the starting checkpoint. */
static const char *checkpoint_path(const vt_model *m) { return m->path ? m->path : "the starting checkpoint"; }

/* Fails with VT_E_SHAPE: the checkpoint's WHAT is `had`, the model to train has `wanted`. */
static vt_status report_difference(const vt_model *from, const char *what, const char *had, const char *wanted,
                                   vt_err *e) {
    return vt_fail(e, VT_E_SHAPE,
                   "%s: %s is %s, but the model to train has %s; only image size, patch and classes may differ",
                   checkpoint_path(from), what, had, wanted);
}

/* Fails with VT_E_SHAPE if pool, norms, tokens or the like differ; how new weights start may differ, and the input with
 * what goes by it. */
static vt_status same_forms(const vt_model *to, const vt_model *from, vt_err *e) {
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) {
        char had[64], wanted[64];
        const vt_field free[] = {VT_FIELD_INIT,        VT_FIELD_FACTOR_START, VT_FIELD_ETA,          VT_FIELD_IMAGE,
                                 VT_FIELD_STEM_STRIDE, VT_FIELD_NATIVE,       VT_FIELD_NATIVE_FILTER};
        bool may_differ = vt_form_of_file(&forms[i]);
        for (size_t k = 0; k < sizeof free / sizeof *free; k++) may_differ |= forms[i].field == free[k];
        if (may_differ) continue;
        vt_form_text(&from->config, &forms[i], had, sizeof had);
        vt_form_text(&to->config, &forms[i], wanted, sizeof wanted);
        if (strcmp(had, wanted)) return report_difference(from, forms[i].opt.key, had, wanted, e);
    }
    return VT_OK;
}

/* Fails with VT_E_SHAPE for a checkpoint whose architecture, sizes, forms, patch, classes or tensor names do not fit
 * the model `to`. */
static vt_status check_compatible(const vt_model *to, const vt_model *from, const vt_recipe_init *how, vt_err *e) {
    const vt_config *a = &from->config, *b = &to->config;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        char had[VT_ATTN_TEXT], wanted[VT_ATTN_TEXT];
        vt_opt_value(&fixed[i], a, had, sizeof had);
        vt_opt_value(&fixed[i], b, wanted, sizeof wanted);
        if (strcmp(had, wanted)) return report_difference(from, fixed[i].key, had, wanted, e);
    }
    VT_TRY(same_forms(to, from, e));
    if (a->patch % b->patch)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: patch is %d, but the model to train has %d; kernels can only shrink, to a divisor",
                       checkpoint_path(from), a->patch, b->patch);
    if (a->classes != b->classes && how->head != VT_HEAD_FRESH)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: classes are %d, but the model to train has %d; init.head: fresh draws a new head instead "
                       "of keeping it",
                       checkpoint_path(from), a->classes, b->classes);
    for (int i = 0; i < from->params.count; i++)
        if (!vt_model_param(to, from->params.items[i].name))
            return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has no place in the model to train", checkpoint_path(from),
                           from->params.items[i].name);
    return VT_OK;
}

/* ---- resizing ---- */

/* Sources of one coordinate and their weights. */
typedef struct taps {
    int n, at[4];
    double w[4];
} taps;

/* Returns the samples (of a side of s), and their weights, that make sample d of a side of t, as
 * torch.nn.functional.interpolate does (bilinear, align_corners=False, antialias=False). */
static taps linear_taps(int d, int s, int t) {
    double at = fmax((d + 0.5) * s / t - 0.5, 0), f = at - floor(at);
    int i = (int)at;
    return (taps){2, {i, i + 1 < s ? i + 1 : s - 1}, {1 - f, f}};
}

/* Returns the samples, and their weights, that make sample d by Keys' cubic (bicubic), a = -0.75 as in PyTorch; the
 * coordinate is not clipped, the samples are. */
static taps cubic_taps(int d, int s, int t) {
    const double a = -0.75;
    double at = (d + 0.5) * s / t - 0.5, f = at - floor(at);
    taps r = {.n = 4};
    for (int k = 0; k < 4; k++) {
        int i = (int)floor(at) - 1 + k;
        double x = fabs(f + 1 - k); /* distance to tap k */
        r.at[k] = i < 0 ? 0 : i > s - 1 ? s - 1 : i;
        r.w[k] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    }
    return r;
}

/* Resizes in [s,s,d] to out [t,t,d] as pos_embed (vt_pos_init) says, summed in double, rounded once. */
static void resize_grid(float *out, int t, const float *in, int s, int d, int pos_embed) {
    taps (*const find)(int, int, int) = pos_embed == VT_POS_BICUBIC ? cubic_taps : linear_taps;
    for (int y = 0; y < t; y++) {
        taps v = find(y, s, t);
        for (int x = 0; x < t; x++) {
            taps h = find(x, s, t);
            for (int j = 0; j < d; j++) {
                double sum = 0;
                for (int p = 0; p < v.n; p++)
                    for (int q = 0; q < h.n; q++)
                        sum += v.w[p] * h.w[q] *
                               (double)in[((size_t)v.at[p] * (size_t)s + (size_t)h.at[q]) * (size_t)d + (size_t)j];
                *out++ = (float)sum;
            }
        }
    }
}

/* Writes b's position embedding from a's: prefix tokens copied, the grid resized. */
static void adapt_positions(float *out, const float *in, const vt_config *b, const vt_config *a,
                            const vt_recipe_init *how) {
    size_t prefix = (size_t)(vt_config_placed(a) * a->dim);
    memcpy(out, in, prefix * sizeof *out);
    resize_grid(out + prefix, vt_config_grid(b), in + prefix, vt_config_grid(a), a->dim, how->pos_embed);
}

/* Computes w' [o,c,i,j] = sum over u, v < r of w [o,c,ri+u,rj+v]: what the large kernel answers to the image enlarged r
 * times by nearest neighbours (the sum of Mo et al.'s code, in double, rounded once). */
static void adapt_kernel(float *out, const float *in, const vt_config *b, const vt_config *a) {
    int large = a->patch, small = b->patch, r = large / small;
    for (int plane = 0; plane < 3 * a->dim; plane++, in += large * large)
        for (int i = 0; i < small; i++)
            for (int j = 0; j < small; j++) {
                double sum = 0;
                for (int u = 0; u < r; u++)
                    for (int v = 0; v < r; v++) sum += (double)in[(r * i + u) * large + r * j + v];
                *out++ = (float)sum;
            }
}

/* Is it a tensor that is resized where its shape differs: positions, or the patch embedding's kernel? */
static bool can_resize(const char *name) {
    return !strcmp(name, "pos_embed") || !strcmp(name, "patch_embed.proj.weight");
}

/* Tells whether two tensors have the same sides. */
static bool same_shape(const vt_param *p, const vt_param *q) {
    return p->ndim == q->ndim && !memcmp(p->shape, q->shape, (size_t)p->ndim * sizeof *p->shape);
}

/* Returns whether a tensor belongs to a classifier head. */
static bool is_head(const char *name) { return !strncmp(name, "head.", 5) || !strncmp(name, "head_dist.", 10); }

/* Fails with VT_E_SHAPE, before anything is written, for other shapes of what can be neither resized nor drawn anew (a
 * head). */
static vt_status check_shapes(const vt_model *to, const vt_model *from, const vt_recipe_init *how, vt_err *e) {
    for (int i = 0; i < to->params.count; i++) {
        const vt_param *p = &to->params.items[i], *q = vt_model_param(from, p->name);
        char had[96], wanted[96];
        if (!q || same_shape(p, q) || (is_head(p->name) && how->head == VT_HEAD_FRESH)) continue;
        if (!can_resize(p->name))
            return vt_fail(e, VT_E_SHAPE, "%s: tensor %s has shape %s, the model to train wants %s",
                           checkpoint_path(from), p->name, vt_shape_text(had, sizeof had, q->shape, q->ndim),
                           vt_shape_text(wanted, sizeof wanted, p->shape, p->ndim));
    }
    return VT_OK;
}

vt_status vt_adapt(vt_model *to, const vt_model *from, const vt_recipe_init *how, uint64_t seed, vt_err *e) {
    VT_TRY(check_compatible(to, from, how, e));
    VT_TRY(check_shapes(to, from, how, e));
    if (vt_model_init(to, seed) != VT_OK) return vt_fail(e, VT_E_MEMORY, "no memory for the first weights");
    for (int i = 0; i < to->params.count; i++) {
        const vt_param *p = &to->params.items[i], *q = vt_model_param(from, p->name);
        if (!q || (is_head(p->name) && how->head == VT_HEAD_FRESH)) continue;
        float *out = to->w + p->offset;
        const float *in = from->w + q->offset;
        if (same_shape(p, q))
            memcpy(out, in, p->numel * sizeof *out);
        else if (!strcmp(p->name, "pos_embed"))
            adapt_positions(out, in, &to->config, &from->config, how);
        else
            adapt_kernel(out, in, &to->config, &from->config);
    }
    vt_model_refresh(to);
    return VT_OK;
}
