/* SPDX-License-Identifier: MIT */
#include "models/stem.h"

#include <stdio.h>
#include "models/detect.h"

vt_stem vt_stem_shape(const vt_config *c, int convs, const int widths[], const int strides[]) {
    vt_stem s = {.convs = convs, .sides = {c->image}, .widths = {3}, .acts = convs};
    for (int k = 0; k < convs; k++) {
        s.widths[k + 1] = widths[k];
        s.sides[k + 1] = vt_conv_side(s.sides[k], strides[k]);
        s.conv[k] = (vt_conv_shape){.h = s.sides[k],
                                    .w = s.sides[k],
                                    .in = s.widths[k],
                                    .out = s.widths[k + 1],
                                    .stride = strides[k]};
    }
    return s;
}

double vt_stem_products(const vt_stem *s) {
    double n = 0;
    for (int k = 0; k < s->convs; k++) n += 9.0 * (double)vt_stem_map_len(s, k + 1) * s->widths[k];
    return n;
}

/* ---- a ViT's ConvStem ---- */

enum { STEM_SLOT = VT_MAX_SLOTS - VT_STEM_CONVS * VT_STEM_SLOTS }; /* behind those of the ViT's embedding */
#define STEM_EPS 1e-6                                              /* of the authors' LayerNorm, whatever the blocks' */

vt_stem vt_conv_stem_of(const vt_config *c) {
    static const int strides[VT_STEM_CONVS] = {2, 2, 2, 2};
    int convs = 0, widths[VT_STEM_CONVS];
    for (; convs < VT_STEM_CONVS && c->patch >> convs > 1; convs++) widths[convs] = c->conv_stem << convs;
    vt_stem s = vt_stem_shape(c, convs, widths, strides);
    s.slot = STEM_SLOT, s.norm = VT_NORM_LAYER, s.eps = STEM_EPS, s.act = VT_ACT_GELU;
    return s;
}

/* The authors' nn.Sequential: convolution, LayerNorm, GELU, and again; then the 1 x 1 convolution. */
void vt_conv_stem_params(vt_param_list *l, const vt_config *c, int embed_slot) {
    const vt_stem stem = vt_conv_stem_of(c);
    char name[32];
    for (int k = 0; k <= stem.convs; k++) {
        const bool last = k == stem.convs;
        const int slot = stem.slot + k * VT_STEM_SLOTS, kernel = last ? 1 : 3;
        snprintf(name, sizeof name, "patch_embed.proj.stem.%d", 3 * k);
        vt_param_add_map(l, last ? embed_slot : slot + VT_STEM_W, true, VT_INIT_CONV, true, name,
                         (int64_t[4]){last ? c->dim : stem.widths[k + 1], stem.widths[k], kernel, kernel});
        snprintf(name, sizeof name, "patch_embed.proj.stem.%d", 3 * k + 1);
        if (!last) vt_param_add_norm(l, slot + VT_STEM_NORM, VT_NORM_LAYER, name, stem.widths[k + 1]);
    }
}

vt_status vt_conv_stem_check(const vt_config *c, const char *path, vt_err *e) {
    if (c->patch < 2 || c->patch > 16 || c->patch & (c->patch - 1))
        return vt_fail(e, VT_E_RANGE, "%s: patch is %d, with a convolutional stem it must be 2, 4, 8 or 16", path,
                       c->patch);
    if (c->conv_stem > 2048)
        return vt_fail(e, VT_E_RANGE, "%s: the stem begins with %d channels, must be at most 2048", path, c->conv_stem);
    if (c->patch_gate || c->no_patch_bias)
        return vt_fail(e, VT_E_SHAPE, "%s: a convolutional stem and %s exclude each other", path,
                       c->patch_gate ? "a gate of input patches" : "a patch embedding without bias");
    return VT_OK;
}

bool vt_conv_stem_probe(const vt_tensors *st) { return vt_tensors_find(st, "patch_embed.proj.stem.0.weight") != NULL; }

/* A stem: 3 x 3 convolutions, each halving the side, then one of 1 x 1. */
vt_status vt_conv_stem_detect(const vt_tensors *st, vt_config *c, vt_err *e) {
    const vt_tensor *w = NULL;
    char name[64], shape[96];
    int convs = -1;
    do {
        snprintf(name, sizeof name, "patch_embed.proj.stem.%d.weight", 3 * ++convs);
        VT_TRY(vt_detect_need(st, name, 4, &w, e));
        if (!convs) c->conv_stem = (int)w->shape[0];
    } while (w->shape[2] == 3 && convs < VT_STEM_CONVS);
    if (convs < 1 || w->shape[2] != 1)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: tensor %s has shape %s: a stem has 1 to %d convolutions of 3 x 3, then one of 1 x 1",
                       vt_tensors_path(st), name, vt_shape_text(shape, sizeof shape, w->shape, w->ndim), VT_STEM_CONVS);
    c->dim = (int)w->shape[0], c->patch = 1 << convs;
    return VT_OK;
}
