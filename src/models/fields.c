/* SPDX-License-Identifier: MIT */
#include "models/fields.h"

#include <stdio.h>
#include <string.h>
#include "models/forms.h"

static const vt_form *form_of(vt_field f) {
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++)
        if (forms[i].field == f) return &forms[i];
    return NULL;
}

const char *vt_field_key(vt_field f) {
    static const char *const keys[VT_FIELD_COUNT] =
        {[VT_FIELD_ARCH] = "architecture", [VT_FIELD_IMAGE] = "image",
         [VT_FIELD_PATCH] = "patch",       [VT_FIELD_DIM] = "dim",
         [VT_FIELD_DEPTH] = "depth",       [VT_FIELD_HEADS] = "heads",
         [VT_FIELD_HIDDEN] = "mlp_hidden", [VT_FIELD_CLASSES] = "classes",
         [VT_FIELD_QKV_BIAS] = "qkv_bias", [VT_FIELD_ATTN] = "attention",
         [VT_FIELD_SCALE] = "attn_scale",  [VT_FIELD_DIST] = "distillation_token",
         [VT_FIELD_LN_EPS] = "ln_eps",     [VT_FIELD_MEAN] = "mean",
         [VT_FIELD_STD] = "std",           [VT_FIELD_TRANSFORM] = "transform"};
    const vt_form *form = keys[f] ? NULL : form_of(f);
    return form ? form->opt.key : keys[f];
}

const char *vt_field_label(vt_field f) {
    static const char *const labels[VT_FIELD_COUNT] = {
#define VT_FIELD_LABEL(id, text) text,
        VT_FIELD_LIST(VT_FIELD_LABEL)
#undef VT_FIELD_LABEL
    };
    return labels[f];
}

static void form_text(const vt_config *c, vt_field f, char *buf, size_t size) {
    const vt_form *form = form_of(f);
    buf[0] = 0;
    if (!form) return;
    vt_form_text(c, form, buf, size);
    if (form->four && !strncmp(buf, "0,", 2)) snprintf(buf, size, "by the image's side");
    const bool yes = *buf == '1';
    if (f == VT_FIELD_BGR)
        snprintf(buf, size, "%s", yes ? "BGR" : "RGB");
    else if (form->opt.type == VT_OPT_BOOL)
        snprintf(buf, size, "%s", yes ? "yes" : "no");
}

/* Whole numbers and words that need no more than their place. */
static bool plain_text(const vt_config *c, vt_field f, char *buf, size_t size) {
    const struct {
        vt_field field;
        int number;
        const char *word;
    } rows[] = {{VT_FIELD_ARCH, 0, c->arch},
                {VT_FIELD_DIM, c->dim, NULL},
                {VT_FIELD_DEPTH, c->depth, NULL},
                {VT_FIELD_HIDDEN, c->hidden, NULL},
                {VT_FIELD_CLASSES, c->classes, NULL},
                {VT_FIELD_QKV_BIAS, 0, c->qkv_bias ? "yes" : "no"},
                {VT_FIELD_DIST, 0, c->dist_token ? "yes (logits = mean of both heads)" : "no"},
                {VT_FIELD_ATTN, 0, c->attn}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].field != f) continue;
        if (rows[i].word)
            snprintf(buf, size, "%s", rows[i].word);
        else
            snprintf(buf, size, "%d", rows[i].number);
        return true;
    }
    return false;
}

void vt_field_text(const vt_model *m, vt_field f, char *buf, size_t size) {
    static const char *const pools[] = {"class token",
                                        "mean of the patch tokens",
                                        "mean of all tokens",
                                        "class token and mean of the patch tokens",
                                        "mean of the patch tokens and class token",
                                        "class tokens of the last blocks"};
    const vt_config *c = &m->config;
    const double *v = f == VT_FIELD_STD ? c->std : c->mean;
    if (plain_text(c, f, buf, size)) return;
    switch (f) {
    case VT_FIELD_IMAGE:
        snprintf(buf, size, "3 x %d x %d", c->image, c->image);
        break;
    case VT_FIELD_PATCH:
        snprintf(buf, size, "%d (%d tokens)", c->patch, vt_model_tokens(m));
        break;
    case VT_FIELD_HEADS:
        snprintf(buf, size, "%d of width %d", c->heads, vt_config_attn_dim(c) / c->heads);
        break;
    case VT_FIELD_POOL:
        snprintf(buf, size, "%s", pools[c->pool]);
        break;
    case VT_FIELD_SCALE:
        snprintf(buf, size, "%.9g", c->attn_scale);
        break;
    case VT_FIELD_LN_EPS:
        snprintf(buf, size, "%g", c->ln_eps);
        break;
    case VT_FIELD_MEAN:
    case VT_FIELD_STD:
        snprintf(buf, size, "%.6g, %.6g, %.6g", v[0], v[1], v[2]);
        break;
    case VT_FIELD_TRANSFORM:
        snprintf(buf, size, "%s", m->transform);
        break;
    default:
        form_text(c, f, buf, size);
    }
}

bool vt_field_shown(const vt_model *m, vt_field f) {
    const vt_form *form = form_of(f);
    const char *from = m->source[f];
    if (f == VT_FIELD_TRANSFORM) return *m->transform != 0;
    if (f < VT_FIELD_NORM || !form || f == VT_FIELD_ACT) return true;
    return !vt_form_is_default(&m->config, form) || (*from && strcmp(from, "tensors"));
}
