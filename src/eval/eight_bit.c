/* SPDX-License-Identifier: MIT */
#include "eval/eight_bit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"

static vt_status on_levels(const vt_eval_options *v, int32_t image, const float *x, vt_err *e) {
    for (size_t i = 0; i < vt_subject_pixels(v->subject); i++)
        if ((float)rintf(255 * x[i]) / 255 != x[i])
            return vt_fail(e, VT_E_USAGE,
                           "@eight-bit needs 8-bit images: image %d of %s has the value %.9g, which is no k/255", image,
                           v->subject->data->path, (double)x[i]);
    return VT_OK;
}

vt_status vt_eight_bit_check(const vt_eval_options *v, vt_err *e) {
    if (!vt_eval_eight_bit(v)) return VT_OK;
    if (v->norm == VT_L0)
        return vt_fail(e, VT_E_USAGE, "@eight-bit counts levels of linf, l2 and l1, and knows nothing of l0");
    if (vt_grid8_most(v->norm, v->eps) < 1)
        return vt_fail(e, VT_E_USAGE,
                       "@eight-bit: @eps %s is below one grey level (1/255): no other 8-bit image lies in that ball",
                       v->eps_text);
    if (!v->subject->data->floats) return VT_OK;
    float *x = vt_alloc(vt_subject_pixels(v->subject) * sizeof *x);
    vt_status s = x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for an image");
    int label;
    for (size_t i = 0; i < v->n_images && s == VT_OK; i++) {
        s = vt_subject_image(v->subject, v->images[i], x, &label, e);
        if (s == VT_OK) s = on_levels(v, v->images[i], x, e);
    }
    free(x);
    return s;
}
