/* SPDX-License-Identifier: MIT */
#include "eval/describe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attacker.h"
#include "core/products.h"
#include "io/image_jpeg.h"
#include "io/imagenet.h"
#include "models/checkpoint/doubt.h"
#include "models/twin.h"

__attribute__((format(printf, 2, 3))) static void note(json_t *notes, const char *format, ...) {
    char text[300];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    json_array_append_new(notes, json_string(text));
}

void vt_describe_note(json_t *owner, const char *text) {
    json_t *notes = json_object_get(owner, "notes");
    if (!notes) json_object_set_new(owner, "notes", notes = json_array());
    json_array_append_new(notes, json_string(text));
}

static void attach_notes(json_t *owner, json_t *notes) {
    if (json_array_size(notes))
        json_object_set_new(owner, "notes", notes);
    else
        json_decref(notes);
}

void vt_describe_data(json_t *data, const vt_dataset *d, int outputs) {
    char text[64];
    int decoders;
    json_t *notes = json_array();
    if (!vt_transform_is_none(&d->transform)) {
        vt_transform_text(&d->transform, text, sizeof text);
        json_object_set_new(data, "preprocess", json_string(text));
    }
    if (d->jpeg) json_object_set_new(data, "jpeg", json_string(vt_jpeg_decoders(&decoders)[0]->name));
    if (d->head) {
        json_t *present = json_array();
        for (int k = 0; k < d->classes; k++) json_array_append_new(present, json_integer(d->head[k]));
        json_object_set_new(data, "head",
                            json_pack("{s:i,s:o,s:b}", "outputs", outputs, "present", present, "restricted",
                                      d->restricted));
        if (*d->how) note(notes, "%s", d->how);
        if (d->classes < outputs)
            note(notes, "%d classes on a head of %d%s classes: %s", d->classes, outputs, *d->how ? "" : " ImageNet",
                 d->restricted ? "only the outputs of the classes present are compared (restricted)"
                               : "all outputs are compared (not restricted)");
    }
    int64_t val = d->split == VT_SPLIT_TEST ? vt_imagenet_val_count(d) : -1;
    if (val >= 0 && val < d->count)
        note(notes, "%lld of %lld images are of ImageNet's validation set; the others may have been trained on%s",
             (long long)val, (long long)d->count, val ? " (" VT_OPTION "images imagenette-v1 leaves them out)" : "");
    if (*d->corruption.name) {
        json_object_set_new(data, "corruption", json_string(d->corruption.name));
        json_object_set_new(data, "severity", json_integer(d->corruption.severity));
        note(notes, "corruption %s, severity %d of %d", d->corruption.name, d->corruption.severity, VT_SEVERITIES);
    }
    attach_notes(data, notes);
}

void vt_describe_shape(json_t *model, vt_shape s) {
    const struct {
        const char *key;
        int value;
    } sides[] = {{"channels", s.channels}, {"height", s.height}, {"width", s.width}};
    if (vt_shape_side(s)) json_object_set_new(model, "image", json_integer(s.height));
    for (size_t i = 0; i < 3 && !vt_shape_side(s); i++)
        json_object_set_new(model, sides[i].key, json_integer(sides[i].value));
}

static json_t *form_json(const vt_config *c, vt_field f) {
    char text[64];
    const vt_form *form = vt_form_find(vt_field_key(f));
    const void *at = (const char *)c + form->opt.offset;
    if (form->opt.type == VT_OPT_BOOL) return json_boolean(*(const bool *)at);
    if (form->opt.type == VT_OPT_INT && !form->four) return json_integer(*(const int *)at);
    if (form->opt.type == VT_OPT_REAL) return json_real(*(const double *)at);
    vt_form_text(c, form, text, sizeof text);
    return json_string(text);
}

static json_t *value_json(const vt_model *m, vt_field f) {
    const vt_config *c = &m->config;
    const double *v = f == VT_FIELD_STD ? c->std : c->mean;
    switch (f) {
    case VT_FIELD_ARCH:
        return json_string(c->arch);
    case VT_FIELD_ATTN:
        return json_string(c->attn);
    case VT_FIELD_TRANSFORM:
        return json_string(m->transform);
    case VT_FIELD_IMAGE:
        return json_integer(c->image);
    case VT_FIELD_PATCH:
        return json_integer(c->patch);
    case VT_FIELD_DIM:
        return json_integer(c->dim);
    case VT_FIELD_DEPTH:
        return json_integer(c->depth);
    case VT_FIELD_HEADS:
        return json_integer(c->heads);
    case VT_FIELD_HIDDEN:
        return json_integer(c->hidden);
    case VT_FIELD_CLASSES:
        return json_integer(c->classes);
    case VT_FIELD_QKV_BIAS:
        return json_boolean(c->qkv_bias);
    case VT_FIELD_DIST:
        return json_boolean(c->dist_token);
    case VT_FIELD_SCALE:
        return json_real(c->attn_scale);
    case VT_FIELD_LN_EPS:
        return json_real(c->ln_eps);
    case VT_FIELD_MEAN:
    case VT_FIELD_STD:
        return json_pack("[f,f,f]", v[0], v[1], v[2]);
    default:
        return form_json(c, f);
    }
}

json_t *vt_describe_sources(const vt_model *m) {
    json_t *o = json_object();
    for (int i = 0; i < VT_FIELD_COUNT; i++) {
        const vt_field f = (vt_field)i;
        if (vt_field_shown(m, f))
            json_object_set_new(o, vt_field_key(f),
                                json_pack("{s:o,s:s,s:b}", "value", value_json(m, f), "source", m->source[f], "assumed",
                                          m->doubt[f] != VT_KNOWN));
    }
    return o;
}

void vt_describe_input(json_t *model, const vt_config *c, const vt_dataset *d, const vt_input_provenance *story) {
    char text[64];
    vt_shape at = vt_config_shape(c);
    json_t *notes = json_array();
    if (d->floats)
        json_object_set_new(model, "input",
                            json_string(
                                "float32 as stored, in [0,1] (bytes / 255 where preprocessing changes the size), "
                                "then (x - mean) / std inside the model"));
    if (!vt_transform_is_none(&d->transform)) {
        vt_transform_text(&d->transform, text, sizeof text);
        note(notes, "preprocessing %s%s%s%s; perturbations live at %d x %d, after it", text, *story->from ? " (" : "",
             story->from, *story->from ? ")" : "", at.height, at.width);
    } else if (story->left) {
        note(notes,
             "the images have the model's size: its own preprocessing %s was left out (" VT_OPTION
             "preprocess brings it back)",
             story->left);
    }
    if (c->native) {
        vt_form_text(c, vt_form_find("native_filter"), text, sizeof text);
        json_object_set_new(model, "native", json_integer(c->native));
        json_object_set_new(model, "native_filter", json_string(text));
        note(notes, "perturbations live at %d x %d; the model resizes that to %d x %d itself (%s)", at.height, at.width,
             c->image, c->image, text);
    }
    attach_notes(model, notes);
}

void vt_describe_attacks(json_t *header, const vt_attack *attacks, int n, int classes) {
    char text[200];
    for (int i = 0; i < n; i++)
        for (int k = 0; k < attacks[i].n_stages; k++)
            if (vt_attack_few_classes(&attacks[i].stages[k], classes, text, sizeof text))
                vt_describe_note(header, text);
}

void vt_describe_radius(json_t *header, vt_norm norm, double eps) {
    if (norm != VT_LINF || fabs(eps - 0.031) > 1e-12) return;
    vt_describe_note(header, "eps 0.031 is what papers write for 8/255 = 0.031373: it is 1.2 % smaller");
}

void vt_describe_search(json_t *header, vt_precision search) {
    char text[320];
    if (!search) return;
    json_object_set_new(header, "search", json_string(vt_precision_name(search)));
    if (search == VT_PRODUCTS_BF16) { /* another unit is another kernel */
        snprintf(text, sizeof text, "%s, bfloat16 by %s", json_string_value(json_object_get(header, "blas")),
                 vt_bf16_hardware());
        json_object_set_new(header, "blas", json_string(text));
    }
    snprintf(text, sizeof text,
             "searched in %s: attacks followed products of bfloat16 inputs, the last %g %% of each stage in float32; "
             "every image was ended and judged in float32 and double, as ever",
             vt_precision_name(search), 100 * VT_FINISH);
    vt_describe_note(header, text);
}

void vt_describe_surrogate(json_t *header, const vt_model *surrogate, const char *name) {
    json_t *notes = json_array(), *o;
    if (surrogate) {
        o = json_pack("{s:s,s:s}", "name", name ? name : "", "sha256", surrogate->sha256);
        note(notes, "transfer: from %.100s (SHA-256 %s)", name ? name : "another model", surrogate->sha256);
    } else {
        o = json_pack("{s:s,s:f,s:s}", "name", "twin", "moved", VT_TWIN_SHARE, "of", "row");
        note(notes,
             "transfer: from a twin of the checkpoint itself (weights moved by %g %%), no " VT_OPTION "surrogate given",
             100 * VT_TWIN_SHARE);
    }
    attach_notes(o, notes);
    json_object_set_new(header, "surrogate", o);
}

void vt_describe_remote(json_t *header, const vt_hello *h) {
    char text[500];
    const char *judged =
        h->random ? "by votes: it says that it draws at random when it is asked, so each verdict is that of most of "
                    "20 askings, and borderline where their 95 % interval holds a half"
        : h->logits64 ? "in double, by its own process"
                      : "by the model's own forward, as it shows no copy in double: a broken image was asked about "
                        "again, alone and in another batch, and is borderline unless every answer agrees by more "
                        "than any two differ";
    json_object_set_new(header, "oracle", vt_hello_json(h));
    json_object_set_new(header, "weights_name", json_string(h->name));
    snprintf(text, sizeof text, "a model in another process (%s%s%s), judged %s", h->name,
             *h->sha256 ? "" : ", no hash claimed", *h->note ? ", see its note" : "", judged);
    vt_describe_note(header, text);
    if (*h->note) {
        snprintf(text, sizeof text, "%s says of itself: %s", h->name, h->note);
        vt_describe_note(header, text);
    }
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void vt_weights_name(char *out, size_t size, const char *path) {
    char *whole = realpath(path, NULL);
    const char *name = last_part(whole ? whole : path);
    if (whole && !strcmp(name, "model.safetensors") && name > whole + 1) {
        whole[name - whole - 1] = 0;
        if (*last_part(whole)) name = last_part(whole);
    }
    snprintf(out, size, "%s", name);
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?'; /* it goes into JSON, Markdown and TeX */
    free(whole);
}

void vt_describe_weights(json_t *header, const char *path) {
    char name[VT_WEIGHTS_NAME];
    if (!path) return;
    vt_weights_name(name, sizeof name, path);
    json_object_set_new(header, "weights_name", json_string(name));
}
