/* SPDX-License-Identifier: MIT */
#include "eval/verifier.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

vt_status vt_verifier_open(vt_verifier *j, const vt_subject *s, vt_err *e) {
    *j = (vt_verifier){.subject = s, .shape = vt_subject_shape(s)};
    VT_TRY(vt_subject_classifier(&j->model, s, e));
    size_t bytes = j->model.pixels * sizeof(float), k = (size_t)j->model.classes;
    j->x = vt_alloc(bytes), j->x_adv = vt_alloc(bytes);
    j->z = vt_alloc(k * sizeof *j->z), j->z64 = vt_alloc((size_t)vt_classifier_votes(&j->model) * k * sizeof *j->z64);
    if (j->x && j->x_adv && j->z && j->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

void vt_verifier_close(vt_verifier *j) {
    vt_classifier_close(&j->model);
    free(j->x), free(j->x_adv), free(j->z), free(j->z64);
    memset(j, 0, sizeof *j);
}

vt_status vt_verifier_image(vt_verifier *j, int64_t image, int *label, vt_err *e) {
    return vt_subject_image(j->subject, image, j->x, label, e);
}
