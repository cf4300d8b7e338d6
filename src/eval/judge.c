/* SPDX-License-Identifier: MIT */
#include "eval/judge.h"

#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "models/wrap/restrict.h"

vt_status vt_judge_open(vt_judge *j, const vt_model *m, const vt_wrap *w, const vt_dataset *d, vt_err *e) {
    *j = (vt_judge){.data = d, .side = vt_config_input(&m->config)};
    VT_TRY(vt_classifier_open(&j->model, m, e));
    VT_TRY(vt_wrap_classifier(w, &j->model, false, e));
    if (d->restricted) VT_TRY(vt_classifier_restrict(&j->model, d->head, d->classes, e));
    size_t bytes = j->model.pixels * sizeof(float), k = (size_t)j->model.classes;
    j->x = vt_alloc(bytes), j->x_adv = vt_alloc(bytes);
    j->z = vt_alloc(k * sizeof *j->z), j->z64 = vt_alloc(k * sizeof *j->z64);
    if (j->x && j->x_adv && j->z && j->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

void vt_judge_close(vt_judge *j) {
    vt_classifier_close(&j->model);
    free(j->x), free(j->x_adv), free(j->z), free(j->z64);
    memset(j, 0, sizeof *j);
}

vt_status vt_judge_image(vt_judge *j, int64_t image, int *label, vt_err *e) {
    vt_image im;
    VT_TRY(vt_dataset_read_square(j->data, image, j->side, &im, label, e));
    for (size_t i = 0; i < j->model.pixels; i++) j->x[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    return VT_OK;
}
