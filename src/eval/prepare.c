/* SPDX-License-Identifier: MIT */
#include "eval/prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/opt.h"

/* ---- the model's options ---- */

/* Reads three numbers, or one for all, into out; sets *has if they were given, else changes nothing. VT_E_USAGE: no
 * such numbers. */
static vt_status read_triple(const vt_choices *c, const char *name, bool *has, double out[3], vt_err *e) {
    const char *text = vt_chosen(c, name);
    if (!text) return VT_OK;
    if (!vt_parse_triple(text, out))
        return vt_fail(e, VT_E_USAGE,
                       "@%s is '%s', must be three numbers separated by commas (or one for all channels)", name, text);
    *has = true;
    return VT_OK;
}

/* Appends the values of the repeatable choice "form" to o. VT_E_USAGE: more than there is room for. */
static vt_status take_forms(const vt_choices *c, vt_overrides *o, vt_err *e) {
    const char *text;
    for (int i = 0; (text = vt_chosen_nth(c, "form", i)); i++) {
        if (o->n_form == sizeof o->form / sizeof *o->form)
            return vt_fail(e, VT_E_USAGE, "@form is given more than %d times", o->n_form);
        o->form[o->n_form++] = text;
    }
    return VT_OK;
}

/* Reads image-shape, layout and output, what is said of an ONNX file, into o. VT_E_USAGE: no such shape or layout. */
static vt_status take_network(const vt_choices *c, vt_overrides *o, vt_err *e) {
    const char *shape = vt_chosen(c, "image-shape");
    int end = 0;
    if (shape &&
        (sscanf(shape, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &o->shape[0], &o->shape[1], &o->shape[2], &end) != 3 ||
         shape[end] || o->shape[0] < 1 || o->shape[1] < 1 || o->shape[2] < 1))
        return vt_fail(e, VT_E_USAGE, "@image-shape is '%.60s', must be channels, height and width: 3,32,32", shape);
    o->layout = vt_chosen(c, "layout"), o->output = vt_chosen(c, "output");
    if (o->layout && strcmp(o->layout, "nchw") && strcmp(o->layout, "nhwc"))
        return vt_fail(e, VT_E_USAGE, "@layout is '%.60s', must be nchw or nhwc", o->layout);
    return VT_OK;
}

vt_status vt_prepare_overrides(const vt_choices *c, vt_overrides *o, vt_err *e) {
    memset(o, 0, sizeof *o);
    long long heads, image;
    VT_TRY(vt_chosen_int(c, "heads", 1, 16384, 0, &heads, e));
    o->heads = (int)heads;
    VT_TRY(vt_chosen_int(c, "image-size", 1, 4096, 0, &image, e));
    o->image = (int)image;
    VT_TRY(read_triple(c, "mean", &o->has_mean, o->mean, e));
    VT_TRY(read_triple(c, "std", &o->has_std, o->std, e));
    const char *eps = vt_chosen(c, "ln-eps");
    if (eps && (!vt_parse_real(eps, &o->ln_eps) || !(o->ln_eps > 0)))
        return vt_fail(e, VT_E_USAGE, "@ln-eps is '%s', must be a number above 0 (timm's ViT: 1e-6)", eps);
    o->attn_scale = vt_chosen(c, "attn-scale");
    o->preset = vt_chosen(c, "preset");
    o->attn = vt_chosen(c, "attn");
    o->names = vt_chosen(c, "names");
    o->part = vt_chosen(c, "part");
    VT_TRY(take_network(c, o, e));
    return take_forms(c, o, e);
}

vt_status vt_prepare_open(vt_model **out, const char *path, const vt_overrides *given, vt_err *e) {
    vt_overrides o = *given;
    o.onnx = true;
    VT_TRY(vt_model_open(out, path, &o, e));
    vt_status s = vt_model_prepare(*out, e);
    if (s != VT_OK) vt_model_close(*out), *out = NULL;
    return s;
}

/* ---- data ---- */

/* Reads corruption and severity, which need each other; none: an empty name. VT_E_USAGE: one without the other, or an
 * empty or overlong name, which is not looked up here. */
static vt_status read_corruption(const vt_choices *c, vt_corruption *out, vt_err *e) {
    const char *name = vt_chosen(c, "corruption");
    long long severity;
    VT_TRY(vt_chosen_int(c, "severity", 1, VT_SEVERITIES, 0, &severity, e));
    *out = (vt_corruption){.severity = (int)severity};
    if (!name && severity) return vt_fail(e, VT_E_USAGE, "@severity needs @corruption NAME");
    if (!name) return VT_OK;
    if (!*name) return vt_fail(e, VT_E_USAGE, "@corruption is empty, must be a name");
    if (!severity)
        return vt_fail(e, VT_E_USAGE, "@corruption %.60s needs @severity, 1 to %d (vitrine eval alone takes all)", name,
                       VT_SEVERITIES);
    if (snprintf(out->name, sizeof out->name, "%s", name) >= (int)sizeof out->name)
        return vt_fail(e, VT_E_USAGE, "@corruption is longer than %zu characters", sizeof out->name - 1);
    return VT_OK;
}

vt_status vt_prepare_data(const vt_choices *c, vt_dataset **out, vt_err *e) {
    vt_corruption corruption;
    const char *path = vt_chosen(c, "data"), *split = vt_chosen(c, "split");
    if (!path) return vt_fail(e, VT_E_USAGE, "nothing names the data: give @data FOLDER");
    vt_split which = VT_SPLIT_TEST;
    for (vt_split s = VT_SPLIT_TEST; split && s <= VT_SPLIT_VAL; s++)
        if (!strcasecmp(split, vt_split_name(s))) which = s;
    if (split && strcasecmp(split, vt_split_name(which)))
        return vt_fail(e, VT_E_USAGE, "@split is '%s', must be test, train or val", split);
    vt_transform transform = {0};
    if (vt_chosen(c, "preprocess")) VT_TRY(vt_transform_parse(&transform, vt_chosen(c, "preprocess"), e));
    VT_TRY(read_corruption(c, &corruption, e));
    VT_TRY(vt_dataset_open_asked(out, path, which, &corruption, vt_chosen(c, "class-order"), e));
    (*out)->transform = transform;
    return VT_OK;
}

/* ---- the input ---- */

/* Makes the model take images of that side, in pixels, which it resizes itself unless they have its own; notes
 * attack-at as the source of a change. */
static void set_native(vt_model *m, int side) {
    int native = side == m->config.image ? 0 : side;
    if (native == m->config.native) return;
    m->config.native = native;
    snprintf(m->source[VT_FIELD_NATIVE], sizeof m->source[0], VT_OPTION "attack-at");
}

vt_status vt_prepare_attack_at(const vt_choices *c, vt_model *m, int side, vt_err *e) {
    const char *at = vt_chosen(c, "attack-at");
    if (!at) return VT_OK;
    if (!strcasecmp(at, "model")) {
        if (!m->config.network) set_native(m, m->config.image);
        return VT_OK;
    }
    if (m->config.network)
        return vt_fail(e, VT_E_USAGE, "%s: is an ONNX file, whose input has one size: @attack-at must be model",
                       m->path);
    if (strcasecmp(at, "native")) return vt_fail(e, VT_E_USAGE, "@attack-at is '%s', must be native or model", at);
    if (!side) side = m->config.native;
    if (!side)
        return vt_fail(e, VT_E_USAGE,
                       "@attack-at native: nothing says the side of the images; give it with @form native=32");
    set_native(m, side);
    return vt_config_check(&m->config, m->path, e);
}

/* Finds the shape of an image after the data's transform, by reading it. */
static vt_status shape_of(const vt_dataset *d, int32_t image, vt_shape *shape, vt_err *e) {
    vt_image im = {0};
    int label;
    char what[400];
    VT_TRY(vt_dataset_read(d, image, &im, &label, e));
    snprintf(what, sizeof what, "%.360s: image %d", d->path, image);
    vt_status s = vt_transform_apply(&im, &d->transform, what, e);
    *shape = im.shape;
    vt_image_free(&im);
    return s;
}

vt_status vt_prepare_model(const vt_choices *c, const char *path, const vt_dataset *d, int32_t first, vt_model **out,
                           vt_err *e) {
    vt_overrides o;
    vt_shape shape;
    VT_TRY(vt_prepare_overrides(c, &o, e));
    /* an image that cannot be read is reported by who needs it */
    bool seen = !vt_is_chosen(c, "attack-at") && shape_of(d, first, &shape, NULL) == VT_OK;
    if (seen && vt_shape_side(shape) <= VT_SHAPE_SIDE) o.shown = vt_shape_side(shape);
    return vt_prepare_open(out, path, &o, e);
}

/* Sets d->transform to the preprocessing that the model carries if the images do not have its size (fits), else notes
 * in story what was left out. VT_E_FORMAT: it cannot be read. */
static vt_status own_transform(vt_dataset *d, const vt_model *m, bool fits, vt_input_provenance *story, vt_err *e) {
    vt_transform t;
    vt_err why = {0};
    if (!*m->transform) return VT_OK;
    if (vt_transform_parse(&t, m->transform, &why) != VT_OK)
        return vt_fail(e, VT_E_FORMAT, "%s: %s (%s)", m->path, why.text, m->source[VT_FIELD_TRANSFORM]);
    int side = vt_shape_side(vt_config_shape(&m->config));
    bool still = (t.fit == VT_FIT_NONE || t.size == side) && (!t.crop || t.crop == side); /* nothing to do if it fits */
    if (vt_transform_is_none(&t)) return VT_OK;
    if (fits) {
        story->left = still ? NULL : m->transform;
        return VT_OK;
    }
    d->transform = t;
    snprintf(story->from, sizeof story->from, "the model's own: %s", m->source[VT_FIELD_TRANSFORM]);
    return VT_OK;
}

vt_status vt_prepare_input(const vt_choices *c, vt_model *m, vt_dataset *d, int32_t first, vt_input_provenance *story,
                           vt_err *e) {
    vt_shape is;
    const char *at = vt_chosen(c, "attack-at");
    bool given = vt_is_chosen(c, "preprocess"), native = at && !strcasecmp(at, "native");
    *story = (vt_input_provenance){0};
    if (given) snprintf(story->from, sizeof story->from, VT_OPTION "preprocess");
    vt_dataset_expect(d, vt_config_shape(&m->config));
    VT_TRY(shape_of(d, first, &is, e));
    if (is.channels != vt_config_shape(&m->config).channels)
        return VT_OK; /* no resize helps: refused when it is read */
    if (native && !vt_shape_side(is))
        return vt_fail(e, VT_E_SHAPE,
                       "@attack-at native needs square images of one size, but image %d of %s is %d x %d pixels (give "
                       "@preprocess, or @attack-at model)",
                       first, d->path, is.width, is.height);
    VT_TRY(vt_prepare_attack_at(c, m, is.width, e));
    if (native || given) return VT_OK;
    bool fits = vt_shape_same(is, vt_config_shape(&m->config));
    VT_TRY(own_transform(d, m, fits, story, e));
    if (!at || fits || *story->from) return VT_OK;
    snprintf(story->from, sizeof story->from, VT_OPTION "attack-at model");
    int side = vt_shape_side(vt_config_shape(&m->config));
    if (!side)
        return vt_fail(e, VT_E_SHAPE,
                       "@attack-at model: %s takes images of %d x %d pixels, and only square ones are "
                       "made",
                       m->path, vt_config_shape(&m->config).width, vt_config_shape(&m->config).height);
    d->transform = (vt_transform){VT_FIT_SQUASH, side, VT_FILTER_BILINEAR, 0};
    return VT_OK;
}

vt_status vt_prepare_fit(const vt_choices *c, vt_model *m, vt_dataset *d, int32_t first, vt_input_provenance *story,
                         vt_err *e) {
    VT_TRY(vt_prepare_input(c, m, d, first, story, e));
    d->labels = m->labels;
    return vt_dataset_fit_head(d, m->config.classes, vt_is_chosen(c, "restrict-classes"), m->path, e);
}

/* ---- names ---- */

/* Returns what follows the last slash of a path; all of it without one. */
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
