/* SPDX-License-Identifier: MIT */
#include "cli/info_json.h"

#include <stddef.h>
#include "models/arch.h"
#include "models/forms.h"

typedef enum kind { WORD, NUMBER, YES, REAL, THREE } kind;

static const struct {
    const char *key;
    vt_field field;
    kind kind;
    size_t offset;
} rows[] = {{"image", VT_FIELD_IMAGE, NUMBER, offsetof(vt_config, image)},
            {"patch", VT_FIELD_PATCH, NUMBER, offsetof(vt_config, patch)},
            {"dim", VT_FIELD_DIM, NUMBER, offsetof(vt_config, dim)},
            {"depth", VT_FIELD_DEPTH, NUMBER, offsetof(vt_config, depth)},
            {"heads", VT_FIELD_HEADS, NUMBER, offsetof(vt_config, heads)},
            {"mlp_hidden", VT_FIELD_HIDDEN, NUMBER, offsetof(vt_config, hidden)},
            {"classes", VT_FIELD_CLASSES, NUMBER, offsetof(vt_config, classes)},
            {"qkv_bias", VT_FIELD_QKV_BIAS, YES, offsetof(vt_config, qkv_bias)},
            {"distillation_token", VT_FIELD_DIST, YES, offsetof(vt_config, dist_token)},
            {"attn_scale", VT_FIELD_SCALE, REAL, offsetof(vt_config, attn_scale)},
            {"ln_eps", VT_FIELD_LN_EPS, REAL, offsetof(vt_config, ln_eps)},
            {"mean", VT_FIELD_MEAN, THREE, offsetof(vt_config, mean)},
            {"std", VT_FIELD_STD, THREE, offsetof(vt_config, std)}};

static json_t *value_as_json(kind k, const void *at) {
    const double *v = at;
    switch (k) {
    case WORD:
        return json_string(at);
    case NUMBER:
        return json_integer(*(const int *)at);
    case YES:
        return json_boolean(*(const bool *)at);
    case REAL:
        return json_real(*v);
    case THREE:
        break;
    }
    return json_pack("[f,f,f]", v[0], v[1], v[2]);
}

static void add_sourced_value(json_t *o, const vt_model *m, const char *key, vt_field field, kind k, const void *at) {
    json_object_set_new(o, key, json_pack("{s:o,s:s}", "value", value_as_json(k, at), "source", m->source[field]));
}

/* Those of timm's ViT always, other forms where the model has them. */
static json_t *model_as_json(const vt_model *m) {
    int n;
    char text[64];
    json_t *o = json_object();
    const vt_config *c = &m->config;
    const vt_form *forms = vt_forms(&n);
    add_sourced_value(o, m, "architecture", VT_FIELD_ARCH, WORD, c->arch);
    add_sourced_value(o, m, "attention", VT_FIELD_ATTN, WORD, c->attn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add_sourced_value(o, m, rows[i].key, rows[i].field, rows[i].kind, (const char *)c + rows[i].offset);
    for (int i = 0; i < n; i++) {
        if (forms[i].field != VT_FIELD_POOL && vt_form_is_default(c, &forms[i])) continue;
        vt_form_text(c, &forms[i], text, sizeof text);
        add_sourced_value(o, m, forms[i].opt.key, forms[i].field, WORD, text);
    }
    if (*m->transform) add_sourced_value(o, m, "preprocess", VT_FIELD_TRANSFORM, WORD, m->transform);
    return o;
}

json_t *vt_cli_info_json(const vt_model *m) {
    double forward, gradient;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &forward, &gradient);
    json_t *o =
        json_pack("{s:i,s:s,s:s,s:s,s:I,s:i,s:f,s:f,s:o}", "version", 1, "file", m->path, "sha256", m->sha256, "names",
                  m->naming, "parameters", (json_int_t)vt_model_param_count(m), "tensors", m->params.count,
                  "flop_forward", forward, "flop_gradient", gradient, "model", model_as_json(m));
    if (o) json_object_set_new(o, "checksum", m->seal ? json_string(m->seal) : json_null());
    if (o && *m->part) json_object_set_new(o, "part", json_string(m->part));
    return o;
}
