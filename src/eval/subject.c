/* SPDX-License-Identifier: MIT */
#include "eval/subject.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/json.h"
#include "base/opt.h"
#include "eval/args.h"
#include "models/arch.h"

/* ---- a model in another process ---- */

/* Sets the model's hash: the one that it claims, else that of its greeting. */
static vt_status set_model_hash(vt_model *m, const vt_handshake *h, vt_err *e) {
    json_t *o = vt_handshake_json(h);
    char *text = vt_json_text(o, JSON_COMPACT | JSON_SORT_KEYS);
    vt_status s = text ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the model's greeting");
    if (text) vt_sha_hex(text, strlen(text), m->sha256);
    if (*h->sha256) memcpy(m->sha256, h->sha256, sizeof m->sha256);
    free(text);
    json_decref(o);
    return s;
}

/* Makes a description of a model in another process, without weights. */
static vt_status new_remote_model(vt_model **out, const char *where, vt_shape shape, int classes, vt_err *e) {
    vt_model *m = calloc(1, sizeof *m);
    if (!m || !(m->path = strdup(where))) {
        free(m);
        return vt_fail(e, VT_E_MEMORY, "no memory for a model in another process");
    }
    *out = m;
    m->config = (vt_config){.foreign = shape, .classes = classes};
    snprintf(m->config.arch, sizeof m->config.arch, "remote");
    return VT_OK;
}

vt_status vt_subject_described(vt_subject *s, vt_shape shape, int classes, const char *sha256, const char *where,
                               vt_err *e) {
    VT_TRY(new_remote_model(&s->model, where, shape, classes, e));
    snprintf(s->model->sha256, sizeof s->model->sha256, "%s", sha256);
    return VT_OK;
}

bool vt_subject_is_remote(const vt_subject *s) { return !strcmp(s->model->config.arch, "remote"); }

int vt_subject_takes(const vt_subject *s) {
    return s->remote ? vt_remote_handshake(s->remote)->batch : s->own ? s->own->batch : INT_MAX;
}

bool vt_subject_differentiable(const vt_subject *s) {
    return s->remote ? vt_remote_handshake(s->remote)->vjp : !s->own || s->own->differentiable;
}

/* Makes the description of a connected model. */
static vt_status make_model_from_handshake(vt_model **out, const vt_remote *r, vt_err *e) {
    const vt_handshake *h = vt_remote_handshake(r);
    VT_TRY(new_remote_model(out, vt_remote_where(r), vt_handshake_shape(h), h->classes, e));
    return set_model_hash(*out, h, e);
}

vt_status vt_subject_remote(vt_remote **r, vt_model **description, const vt_choices *c, const char *where, vt_err *e) {
    const char *text = vt_chosen(c, "oracle-timeout");
    double timeout = VT_REMOTE_TIMEOUT;
    if (text && (!vt_parse_real(text, &timeout) || !(timeout >= 0.1) || !(timeout <= 1e6)))
        return vt_fail(e, VT_E_USAGE, "@oracle-timeout is '%s', must be seconds, from 0.1 to 1e6", text);
    if (!*where) return vt_fail(e, VT_E_USAGE, "@oracle is empty, must be a command, unix:PATH or tcp:PORT");
    VT_TRY(vt_remote_open(r, where, timeout, e));
    return make_model_from_handshake(description, *r, e);
}

/* Connects to the model of the choice "oracle"; refuses choices that describe a checkpoint. */
static vt_status open_remote(vt_subject *s, const vt_choices *c, const char *where, vt_err *e) {
    static const vt_arg others[] = {VT_MODEL_ARGS, VT_WRAP_ARG, VT_ATTACK_AT_ARG};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vt_is_chosen(c, others[i].name))
            return vt_fail(e, VT_E_USAGE,
                           "@%s tells of a checkpoint: a model in another process (@oracle) brings its own",
                           others[i].name);
    return vt_subject_remote(&s->remote, &s->model, c, where, e);
}

/* ---- the subject ---- */

vt_status vt_subject_open(vt_subject *s, const vt_choices *c, const char *weights, int32_t first, vt_err *e) {
    if (vt_chosen(c, "oracle")) return open_remote(s, c, vt_chosen(c, "oracle"), e);
    return vt_prepare_model(c, weights, s->data, first, &s->model, e);
}

vt_status vt_subject_fit(vt_subject *s, const vt_choices *c, int32_t first, vt_err *e) {
    const char *wrap = vt_chosen(c, "wrap");
    if (wrap && !s->wrap.def) VT_TRY(vt_wrap_parse(&s->wrap, wrap, e));
    VT_TRY(vt_wrap_model(&s->wrap, s->model, e));
    VT_TRY(vt_prepare_fit(c, s->model, s->data, first, &s->input, e));
    return vt_wrap_fit(&s->wrap, vt_subject_shape(s), e);
}

/* Puts the wrap (not around another network) and the restriction to the data's classes around a classifier. A defence
 * stands outside: it votes on the classes that are compared. */
static vt_status apply_wrap_and_restriction(vt_classifier *c, const vt_subject *s, bool other, vt_err *e) {
    const bool last = vt_wrap_defends(&s->wrap);
    if (!other && !last) VT_TRY(vt_wrap_classifier(&s->wrap, c, vt_subject_shape(s), false, e));
    if (s->data->restricted) VT_TRY(vt_classifier_restrict(c, s->data->head, s->data->classes, e));
    return !other && last ? vt_wrap_classifier(&s->wrap, c, vt_subject_shape(s), false, e) : VT_OK;
}

/* Returns the connection of the judged model (other NULL) or of the surrogate; NULL: it is computed here. */
static vt_remote *remote_of(const vt_subject *s, const vt_model *other) {
    if (!other) return s->remote;
    return other == s->surrogate ? s->surrogate_remote : NULL;
}

vt_status vt_subject_engine(vt_engine *n, const vt_subject *s, const vt_model *other, int rows, bool judged,
                            vt_err *e) {
    vt_remote *r = remote_of(s, other);
    if (s->own && !other) return s->own->open(s->own->ctx, n, rows, e);
    if (!r && !other && vt_subject_is_remote(s))
        return vt_fail(e, VT_E_USAGE,
                       "the model is in another process: give @oracle COMMAND to start it, which run.json calls "
                       "'%.600s' "
                       "(a command out of a file is not run unasked)",
                       s->model->path);
    return r ? vt_remote_engine(n, r, rows, e) : vt_engine_open(n, other ? other : s->model, rows, judged, NULL, e);
}

vt_status vt_subject_classifier(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_err *e) {
    vt_engine n;
    *c = (vt_classifier){0};
    VT_TRY(vt_subject_engine(&n, s, other, 1, true, e));
    VT_TRY(vt_classifier_of(c, &n, e));
    return apply_wrap_and_restriction(c, s, other != NULL, e);
}

vt_status vt_subject_draft_engine(vt_engine *n, const vt_subject *s, int rows, vt_err *e) {
    const vt_products by = {.native = s->search == VT_PRODUCTS_BF16, .packed = s->packed};
    return vt_engine_open(n, s->model, rows, false, &by, e);
}

vt_status vt_subject_seat(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_batcher *g, int slot,
                          vt_err *e) {
    *c = vt_batcher_classifier(g, slot);
    return apply_wrap_and_restriction(c, s, other != NULL, e);
}

void vt_subject_flops(const vt_subject *s, double *forward, double *gradient) {
    *forward = 1, *gradient = 3;
    if (!vt_subject_is_remote(s))
        vt_arch_find(s->model->config.arch)->flops(&s->model->config, true, forward, gradient);
    vt_wrap_cost(&s->wrap, forward, gradient);
}

int vt_subject_classes(const vt_subject *s) {
    return s->data->restricted ? s->data->classes : s->model->config.classes;
}

vt_shape vt_subject_shape(const vt_subject *s) { return vt_config_shape(&s->model->config); }

size_t vt_subject_pixels(const vt_subject *s) { return vt_config_input_pixels(&s->model->config); }

vt_status vt_subject_image(const vt_subject *s, int64_t image, float *x, int *label, vt_err *e) {
    vt_image im = {0};
    VT_TRY(vt_dataset_read_as(s->data, image, vt_subject_shape(s), &im, label, e));
    for (size_t i = 0, n = vt_subject_pixels(s); x && i < n; i++) x[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    return VT_OK;
}

void vt_subject_close(vt_subject *s) {
    vt_model_close(s->model);
    vt_wrap_free(&s->wrap);
    vt_dataset_close(s->data);
    vt_model_close(s->surrogate);
    vt_remote_close(s->remote), vt_remote_close(s->surrogate_remote);
    *s = (vt_subject){0};
}

/* For vt_sensor_images: sets x to image i of the subject in ctx. */
static vt_status read_picture(void *ctx, int i, float *x, vt_err *e) {
    int label; /* is not looked at */
    return vt_subject_image(ctx, i, x, &label, e);
}

vt_sensor_images vt_subject_pictures(const vt_subject *s, uint64_t seed) {
    union {
        const vt_subject *read;
        void *passed;
    } ctx = {s};
    return (vt_sensor_images){read_picture, ctx.passed, (int)s->data->count, vt_subject_pixels(s), seed};
}
