#include "models/resolve.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/opt.h"
#include "models/attention.h"
#include "models/forms.h"

/* The sources in the order in which they win. */
typedef struct sources {
    const vt_st *st;
    const vt_overrides *o;
    json_t *config; /* config.json, or NULL */
    char config_path[512];
    const vt_preset *preset;
    char preset_why[72];
} sources;

static void told(vt_source src, vt_field f, const char *from) { snprintf(src[f], sizeof src[0], "%s", from); }

static vt_status read_config_json(sources *s, vt_err *e) {
    const char *path = vt_st_path(s->st), *slash = strrchr(path, '/');
    snprintf(s->config_path, sizeof s->config_path, "%.*sconfig.json", slash ? (int)(slash - path) + 1 : 0, path);
    FILE *f = fopen(s->config_path, "rb");
    if (!f) return VT_OK;
    json_error_t why;
    s->config = json_loadf(f, JSON_REJECT_DUPLICATES, &why);
    fclose(f);
    if (!s->config) return vt_fail(e, VT_E_FORMAT, "%s: line %d: %s", s->config_path, why.line, why.text);
    if (!json_is_object(s->config)) return vt_fail(e, VT_E_FORMAT, "%s: is not a JSON object", s->config_path);
    return VT_OK;
}

/* A value of config.json: model_args.<key>, pretrained_cfg.<key>, or <key> at the top (the forms timm puts on the hub).
 */
static const json_t *config_get(const sources *s, const char *key) {
    static const char *const groups[] = {"model_args", "pretrained_cfg", "default_cfg"};
    if (!s->config) return NULL;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const json_t *v = json_object_get(json_object_get(s->config, groups[i]), key);
        if (v && !json_is_null(v)) return v;
    }
    const json_t *v = json_object_get(s->config, key);
    return v && !json_is_null(v) ? v : NULL;
}

/* A value of the metadata, or of the pairs that a map file puts before it; *from names which. */
static const char *meta_get(const sources *s, const char *key, const char **from) {
    for (int i = 0; s->o && i < s->o->n_pairs; i++)
        if (!strcmp(s->o->pairs[2 * i], key)) return *from = s->o->pairs_from, s->o->pairs[2 * i + 1];
    *from = "safetensors metadata";
    return vt_st_meta(s->st, key);
}

/* A number from metadata (any of the keys) or config.json; *from names the source; false: nowhere. */
static bool find_number(const sources *s, const char *const *keys, double *out, const char **from) {
    for (int i = 0; keys[i]; i++) {
        const char *m = meta_get(s, keys[i], from);
        if (m && !vt_parse_real(m, out)) *out = NAN; /* written, but no number: the range checks refuse it by name */
        if (m) return true;
    }
    for (int i = 0; keys[i]; i++) {
        const json_t *v = config_get(s, keys[i]);
        if (json_is_number(v)) return *out = json_number_value(v), *from = "config.json", true;
    }
    return false;
}

/* The preset named by an option, by metadata or by config.json, or else the one whose shape is the file's. */
static vt_status find_preset(sources *s, const vt_config *c, vt_err *e) {
    const char *named = s->o ? s->o->preset : NULL;
    if (named) {
        VT_TRY(vt_preset_named(named, &s->preset, e));
        if (strcmp(s->preset->arch, c->arch))
            return vt_fail(e, VT_E_SHAPE, "%s: is a %s, but preset %s is a %s", vt_st_path(s->st), c->arch, named,
                           s->preset->arch);
        if (s->preset->dim != c->dim || s->preset->depth != c->depth)
            return vt_fail(e, VT_E_SHAPE, "%s: width %d and depth %d, but preset %s has %d and %d", vt_st_path(s->st),
                           c->dim, c->depth, named, s->preset->dim, s->preset->depth);
        snprintf(s->preset_why, sizeof s->preset_why, "preset %s", named);
        return VT_OK;
    }
    int n;
    const vt_preset *all = vt_presets(&n);
    for (int i = 0; i < n && !s->preset; i++)
        if (!strcmp(all[i].arch, c->arch) && all[i].dim == c->dim && all[i].depth == c->depth &&
            all[i].hidden == c->hidden && all[i].qkv_bias == c->qkv_bias) {
            s->preset = &all[i];
            snprintf(s->preset_why, sizeof s->preset_why, "shape of preset %s", all[i].name);
        }
    return VT_OK;
}

static vt_status resolve_heads(vt_config *c, vt_source src, const sources *s, vt_err *e) {
    static const char *const keys[] = {"num_heads", "heads", NULL};
    double v;
    const char *from;
    if (*src[VT_FIELD_HEADS]) return VT_OK; /* tensors tell (Swin's tables) */
    if (s->o && s->o->heads) {
        c->heads = s->o->heads;
        told(src, VT_FIELD_HEADS, "--heads");
    } else if (find_number(s, keys, &v, &from)) {
        if (!(v >= 1 && v <= c->dim) || v != floor(v))
            return vt_fail(e, VT_E_RANGE, "%s: %s says %g heads, must be a whole number between 1 and %d",
                           vt_st_path(s->st), from, v, c->dim);
        c->heads = (int)v;
        told(src, VT_FIELD_HEADS, from);
    } else if (s->preset) {
        c->heads = s->preset->heads;
        told(src, VT_FIELD_HEADS, s->preset_why);
    } else {
        char list[160] = "";
        for (int h = 1; h <= c->dim && h <= 32; h++)
            if (c->dim % h == 0 && c->dim / h >= 8)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", *list ? ", " : "", h);
        return vt_fail(e, VT_E_USAGE,
                       "%s: the number of attention heads cannot be read off the tensors: give --heads (width %d "
                       "allows %s), "
                       "--preset, or a config.json beside the file",
                       vt_st_path(s->st), c->dim, *list ? list : "1");
    }
    if (c->heads < 1 || c->dim % c->heads)
        return vt_fail(e, VT_E_SHAPE, "%s: width %d is not a multiple of %d heads (%s)", vt_st_path(s->st), c->dim,
                       c->heads, src[VT_FIELD_HEADS]);
    return VT_OK;
}

/* timm's order and kind of norm; other forms come from PyTorch's own modules, with their eps. */
static bool plain_norm(const vt_config *c) { return c->norm == VT_NORM_LAYER && !c->post_norm; }

static void resolve_ln_eps(vt_config *c, vt_source src, const sources *s) {
    static const char *const keys[] = {"ln_eps", "layer_norm_eps", NULL};
    const char *from;
    if (s->o && s->o->ln_eps > 0) {
        c->ln_eps = s->o->ln_eps;
        told(src, VT_FIELD_LN_EPS, "--ln-eps");
    } else if (find_number(s, keys, &c->ln_eps, &from)) {
        told(src, VT_FIELD_LN_EPS, from);
    } else if (s->preset && (s->o && s->o->preset ? true : plain_norm(c))) {
        c->ln_eps = s->preset->ln_eps;
        told(src, VT_FIELD_LN_EPS, s->preset_why);
    } else if (!plain_norm(c)) {
        c->ln_eps = 1e-5;
        told(src, VT_FIELD_LN_EPS, "default of PyTorch's modules");
    } else if (c->ln_eps > 0) {
        told(src, VT_FIELD_LN_EPS, "default of the architecture");
    } else {
        c->ln_eps = 1e-6;
        told(src, VT_FIELD_LN_EPS, "default of timm's ViT");
    }
}

/* The scale that multiplies Q K^T: head (head width ^ -0.5), dim (width ^ -0.5) or a number. */
static vt_status resolve_scale(vt_config *c, vt_source src, const sources *s, vt_err *e) {
    const char *text = s->o ? s->o->attn_scale : NULL, *from = "--attn-scale";
    char number[40];
    if (!text && !(text = meta_get(s, "attn_scale", &from))) from = NULL;
    if (!text) {
        const json_t *v = config_get(s, "qk_scale");
        if (json_is_number(v)) {
            snprintf(number, sizeof number, "%.17g", json_number_value(v));
            text = number, from = "config.json";
        }
    }
    if (!text) text = "head", from = "default: head width ^ -0.5";
    if (!strcmp(text, "head"))
        c->attn_scale = 1 / sqrt((double)c->dim / c->heads);
    else if (!strcmp(text, "dim"))
        c->attn_scale = 1 / sqrt((double)c->dim);
    else if (!vt_parse_real(text, &c->attn_scale) || !(c->attn_scale > 0))
        return vt_fail(e, VT_E_USAGE, "%s: attention scale is '%s' (%s), must be head, dim or a number above 0",
                       vt_st_path(s->st), text, from);
    told(src, VT_FIELD_SCALE, from);
    return VT_OK;
}

static bool json_triple(const json_t *v, double out[3]) {
    if (!json_is_array(v) || json_array_size(v) != 3) return false;
    for (size_t k = 0; k < 3; k++) {
        if (!json_is_number(json_array_get(v, k))) return false;
        out[k] = json_number_value(json_array_get(v, k));
    }
    return true;
}

static bool resolve_triple(double out[3], char *told_by, const sources *s, const char *key, bool has,
                           const double given[3]) {
    const char *from, *m = meta_get(s, key, &from);
    if (has) {
        for (int k = 0; k < 3; k++) out[k] = given[k];
        snprintf(told_by, sizeof(vt_source) / VT_FIELD_COUNT, "--%s", key);
    } else if (m) {
        if (!vt_parse_triple(m, out)) out[0] = NAN; /* refused by vt_config_check */
        snprintf(told_by, sizeof(vt_source) / VT_FIELD_COUNT, "%s", from);
    } else if (json_triple(config_get(s, key), out)) {
        snprintf(told_by, sizeof(vt_source) / VT_FIELD_COUNT, "config.json");
    } else if (s->o && s->o->preset) {
        vt_config p;
        vt_preset_config(s->preset, &p);
        for (int k = 0; k < 3; k++) out[k] = strcmp(key, "mean") ? p.std[k] : p.mean[k];
        snprintf(told_by, sizeof(vt_source) / VT_FIELD_COUNT, "%s", s->preset_why);
    } else {
        return false;
    }
    return true;
}

/* "key=value" of an option for this form, or NULL. */
static const char *form_option(const vt_overrides *o, const vt_form *f) {
    size_t n = strlen(f->opt.key);
    for (int i = o->n_form - 1; i >= 0; i--)
        if (!strncmp(o->form[i], f->opt.key, n) && o->form[i][n] == '=') return o->form[i] + n + 1;
    return NULL;
}

/* A value of config.json in the words of a form; NULL: none that it understands. */
static const char *json_word(const json_t *v, const vt_form *f, char *buf, size_t size) {
    if (json_is_array(v) && f->field == VT_FIELD_IMAGE) v = json_array_get(v, json_array_size(v) - 1);
    if (json_is_string(v)) return json_string_value(v);
    if (json_is_boolean(v)) return json_is_true(v) ? "1" : "0";
    if (!json_is_integer(v)) return NULL;
    snprintf(buf, size, "%lld", (long long)json_integer_value(v));
    return buf;
}

/* The value that wins for a form, and where it stands; NULL: nowhere. */
static const char *form_value(const sources *s, const vt_overrides *o, const vt_form *f, const vt_config *preset,
                              char *buf, size_t size, const char **from) {
    const char *text = form_option(o, f);
    if (text) return *from = "--form", text;
    if ((text = meta_get(s, f->opt.key, from))) return text;
    const json_t *v = f->json ? config_get(s, f->json) : NULL;
    if (!v && f->field == VT_FIELD_ACT) v = config_get(s, "hidden_act"); /* transformers */
    if (!v && f->field == VT_FIELD_IMAGE) v = config_get(s, "image_size");
    if (!v && f->field == VT_FIELD_IMAGE) v = config_get(s, "input_size"); /* timm: [3, h, w] */
    if (v && (text = json_word(v, f, buf, size))) return *from = "config.json", text;
    if (!preset || vt_form_is_default(preset, f)) return NULL;
    vt_form_text(preset, f, buf, size);
    return *from = s->preset_why, buf;
}

/* Forms that tensors do not tell. A preset counts when it was named: that a shape is the same says nothing of them. */
static vt_status resolve_forms(vt_config *c, vt_source src, const sources *s, const vt_overrides *o, vt_err *e) {
    vt_config preset, unused = {0};
    if (o->preset) vt_preset_config(s->preset, &preset);
    for (int i = 0; i < o->n_form; i++) VT_TRY(vt_form_parse(&unused, o->form[i], "--form", e));
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) {
        const vt_form *f = &forms[i];
        const char *from;
        char buf[64], who[600];
        const char *text = form_value(s, o, f, o->preset ? &preset : NULL, buf, sizeof buf, &from);
        if (!text) continue;
        bool known = !strcmp(src[f->field], "tensors") && f->field != VT_FIELD_POOL; /* which mean, no tensor says */
        vt_config wish = *c;
        snprintf(who, sizeof who, "%.500s (%s)", vt_st_path(s->st), from);
        VT_TRY(vt_form_set(&wish, f, text, who, e));
        char is[64], wanted[64];
        vt_form_text(c, f, is, sizeof is), vt_form_text(&wish, f, wanted, sizeof wanted);
        if (known && form_option(o, f) && strcmp(is, wanted))
            return vt_fail(e, VT_E_USAGE, "%s: --form %s=%s contradicts the tensors, which say %s", vt_st_path(s->st),
                           f->opt.key, wanted, is);
        if (known) continue;
        *c = wish;
        told(src, f->field, from);
    }
    return VT_OK;
}

/* An architecture's default (its detection has set it) where nothing told the input's side. */
static void resolve_image(vt_config *c, vt_source src, const vt_overrides *o) {
    if (*src[VT_FIELD_IMAGE]) return;
    if (o->side) c->image = o->side;
    told(src, VT_FIELD_IMAGE, o->side ? "the images at hand" : "default; else --form image=N");
}

static vt_status resolve_all(vt_config *c, vt_source src, sources *s, vt_err *e) {
    static const vt_overrides none = {0};
    const vt_overrides *o = s->o ? s->o : &none;
    VT_TRY(read_config_json(s, e));
    VT_TRY(find_preset(s, c, e));
    VT_TRY(resolve_heads(c, src, s, e));
    VT_TRY(resolve_forms(c, src, s, o, e));
    resolve_image(c, src, o);
    resolve_ln_eps(c, src, s);
    VT_TRY(resolve_scale(c, src, s, e));
    const char *attn = o->attn, *from = "--attn";
    if (!attn) attn = meta_get(s, "attn", &from);
    if (!attn && o->preset) attn = s->preset->attn, from = s->preset_why;
    if (!attn) attn = "dot", from = "default";
    vt_attn_spec_f32 spec;
    vt_err why = {0};
    if (vt_attn_parse_f32(&spec, attn, &why) != VT_OK)
        return vt_fail(e, why.code, "%s: %s (%s)", vt_st_path(s->st), why.text, from);
    snprintf(c->attn, sizeof c->attn, "%s", spec.text);
    told(src, VT_FIELD_ATTN, from);
    bool mean = resolve_triple(c->mean, src[VT_FIELD_MEAN], s, "mean", o->has_mean, o->mean);
    bool std = resolve_triple(c->std, src[VT_FIELD_STD], s, "std", o->has_std, o->std);
    if (!mean || !std)
        return vt_fail(e, VT_E_USAGE,
                       "%s: the %s of the input normalisation is not known: give --mean and --std (0.5 0.5 timm's ViT; "
                       "0.485,0.456,0.406 0.229,0.224,0.225 ImageNet; 0.4914,0.4822,0.4465 0.2470,0.2435,0.2616 "
                       "CIFAR-10; 0 1 "
                       "none), or a config.json beside the file",
                       vt_st_path(s->st), mean ? "std" : "mean");
    const json_t *k = config_get(s, "num_classes");
    if (json_is_integer(k) && json_integer_value(k) != c->classes)
        return vt_fail(e, VT_E_SHAPE, "%s: num_classes is %lld, but head.weight in %s has %d rows", s->config_path,
                       (long long)json_integer_value(k), vt_st_path(s->st), c->classes);
    return VT_OK;
}

vt_status vt_config_resolve(vt_config *c, vt_source src, const vt_st *st, const vt_overrides *o, vt_err *e) {
    sources s = {.st = st, .o = o};
    vt_status status = resolve_all(c, src, &s, e);
    json_decref(s.config);
    if (c->pool == VT_POOL_TOKEN) c->norm_first = false; /* of one token there is no mean */
    return status == VT_OK ? vt_config_check(c, vt_st_path(st), e) : status;
}
