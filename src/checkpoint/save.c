/* SPDX-License-Identifier: MIT */
/* A model into a file that needs no options to be opened again: the metadata hold what tensors do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"
#include "models/arch.h"
#include "checkpoint/provenance.h"
#include "models/forms.h"
#include "models/vit.h"

enum { OWN_PAIRS = 8, OTHERS = 4 /* transform, labels, assumed, unread */, MOST_FORMS = 40 + OTHERS };

/* Returns the pool that detection will read off the tensors of a saved file (arch_vit). */
static vt_pool detected_pool(const vt_config *c) {
    if (vt_readout_wide(c)) return VT_POOL_TOKEN_AVG; /* by the head's width */
    bool after = c->pool != VT_POOL_TOKEN && !c->norm_first && c->final_norm != VT_NORM_NONE;
    return after || c->no_cls ? VT_POOL_AVG : VT_POOL_TOKEN;
}

/* Writes the forms that are not at their default as pairs of key and text into meta, so that files of timm's ViT stay
 * as they have always been. Returns how many pairs. */
static int form_pairs(const char **meta, char text[MOST_FORMS][64], const vt_config *c) {
    int count, n = 0;
    const vt_form *forms = vt_forms(&count);
    for (int i = 0; i < count && n < MOST_FORMS - OTHERS; i++) {
        const vt_form *f = &forms[i];
        if (vt_form_of_file(f)) continue; /* what is written is in timm's order */
        if (f->field == VT_FIELD_POOL ? c->pool == detected_pool(c) : vt_form_is_default(c, f)) continue;
        vt_form_text(c, f, text[n], sizeof text[n]);
        meta[2 * n] = f->opt.key, meta[2 * n + 1] = text[n], n++;
    }
    return n;
}

vt_status vt_model_save_as(const vt_model *m, const float *w, const char *const *extra, int n_extra, const char *path,
                           vt_err *e) {
    const vt_config *c = &m->config;
    char heads[16], image[16], mean[100], std[100], eps[32], scale[32], uncertain[600], form[MOST_FORMS][64];
    snprintf(heads, sizeof heads, "%d", c->heads);
    snprintf(image, sizeof image, "%d", c->image);
    snprintf(mean, sizeof mean, "%.17g,%.17g,%.17g", c->mean[0], c->mean[1], c->mean[2]);
    snprintf(std, sizeof std, "%.17g,%.17g,%.17g", c->std[0], c->std[1], c->std[2]);
    snprintf(eps, sizeof eps, "%.17g", c->ln_eps);
    snprintf(scale, sizeof scale, "%.17g", c->attn_scale);
    const char *own[2 * OWN_PAIRS] = {"format", "pt", "num_heads",  heads, "mean", mean,    "std",          std,
                                      "ln_eps", eps,  "attn_scale", scale, "attn", c->attn, "architecture", c->arch};
    const char **meta = calloc(2 * ((size_t)OWN_PAIRS + 1 + MOST_FORMS + (size_t)n_extra), sizeof *meta);
    vt_tensor *t = calloc((size_t)m->params.count + 1, sizeof *t);
    if (!t || !meta) {
        free(t), free(meta);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    }
    memcpy(meta, own, sizeof own);
    int n = OWN_PAIRS + form_pairs(meta + 2 * OWN_PAIRS, form, c);
    if (vt_arch_find(c->arch)->any_image || c->pos_grid || c->positions)
        meta[2 * n] = "image", meta[2 * n++ + 1] = image;
    if (*m->transform) meta[2 * n] = "transform", meta[2 * n++ + 1] = m->transform;
    if (m->labels) meta[2 * n] = "labels", meta[2 * n++ + 1] = m->labels;
    if (vt_model_uncertain(m, uncertain, sizeof uncertain)) meta[2 * n] = "assumed", meta[2 * n++ + 1] = uncertain;
    if (*m->unread) meta[2 * n] = "unread", meta[2 * n++ + 1] = m->unread;
    for (int i = 0; i < 2 * n_extra; i++) meta[2 * n + i] = extra[i];
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[i] = (vt_tensor){.name = p->name, .dtype = VT_F32, .ndim = p->ndim, .numel = p->numel, .data = w + p->offset};
        memcpy(t[i].shape, p->shape, sizeof p->shape);
    }
    vt_status s = vt_tensors_write(path, t, m->params.count, meta, n + n_extra, e);
    free(t), free(meta);
    return s;
}

vt_status vt_model_save(const vt_model *m, const char *path, vt_err *e) {
    return vt_model_save_as(m, m->w, NULL, 0, path, e);
}
