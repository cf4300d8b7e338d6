/* SPDX-License-Identifier: MIT */
#include "eval/subject.h"

#include "eval/prepare.h"
#include "models/wrap/restrict.h"

vt_status vt_subject_open(vt_subject *s, const vt_choices *c, const char *weights, int32_t first, vt_err *e) {
    return vt_prepare_model(c, weights, s->data, first, &s->model, e);
}

vt_status vt_subject_fit(vt_subject *s, const vt_choices *c, int32_t first, vt_err *e) {
    const char *wrap = vt_chosen(c, "wrap");
    if (wrap && !s->wrap.def) VT_TRY(vt_wrap_parse(&s->wrap, wrap, e));
    VT_TRY(vt_wrap_model(&s->wrap, s->model, e));
    return vt_prepare_fit(c, s->model, s->data, first, &s->input, e);
}

/* What stands around a network as it is: the wrap (not around another one), the classes that the data have. */
static vt_status cover(vt_classifier *c, const vt_subject *s, bool other, vt_err *e) {
    if (!other) VT_TRY(vt_wrap_classifier(&s->wrap, c, false, e));
    return s->data->restricted ? vt_classifier_restrict(c, s->data->head, s->data->classes, e) : VT_OK;
}

vt_status vt_subject_classifier(vt_classifier *c, const vt_subject *s, vt_err *e) {
    VT_TRY(vt_classifier_open(c, s->model, e));
    return cover(c, s, false, e);
}

vt_status vt_subject_other(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_err *e) {
    VT_TRY(vt_classifier_open(c, other, e));
    return cover(c, s, true, e);
}

vt_status vt_subject_batcher(vt_batcher **g, const vt_subject *s, const vt_model *other, int rows, vt_lane *lane,
                             vt_err *e) {
    vt_engine n;
    *g = NULL;
    VT_TRY(vt_engine_open(&n, other ? other : s->model, rows, true, e));
    return vt_batcher_open(g, &n, lane, e);
}

vt_status vt_subject_seat(vt_classifier *c, const vt_subject *s, const vt_model *other, vt_batcher *g, int slot,
                          vt_err *e) {
    *c = vt_batcher_classifier(g, slot);
    return cover(c, s, other != NULL, e);
}

int vt_subject_classes(const vt_subject *s) {
    return s->data->restricted ? s->data->classes : s->model->config.classes;
}

int vt_subject_side(const vt_subject *s) { return vt_config_input(&s->model->config); }

size_t vt_subject_pixels(const vt_subject *s) { return vt_config_input_pixels(&s->model->config); }

vt_status vt_subject_image(const vt_subject *s, int64_t image, float *x, int *label, vt_err *e) {
    vt_image im = {0};
    VT_TRY(vt_dataset_read_square(s->data, image, vt_subject_side(s), &im, label, e));
    for (size_t i = 0, n = vt_subject_pixels(s); x && i < n; i++) x[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    return VT_OK;
}

void vt_subject_close(vt_subject *s) {
    vt_model_close(s->model);
    vt_wrap_free(&s->wrap);
    vt_dataset_close(s->data);
    vt_model_close(s->surrogate);
    *s = (vt_subject){0};
}
