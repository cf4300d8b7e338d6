/* SPDX-License-Identifier: MIT */
/* PatchCleanser's certificate (inference/masks.h): every prediction under two masks is the image's class. */
#include <stdio.h>
#include <string.h>
#include "eval/certifier.h"
#include "eval/options.h"
#include "inference/masks.h"

static const vt_opt opts[] = {VT_OPT_END};

/* Refuses another wrap or threat, and a patch that may lie in no mask. */
static vt_status check_threat(void **shared, const void *params, const vt_eval_options *v, vt_err *e) {
    const vt_wrap *w = &v->subject->wrap;
    (void)shared, (void)params;
    if (!w->def || strcmp(w->def->name, "patchcleanser") != 0)
        return vt_fail(e, VT_E_USAGE, "@certify masks needs @wrap patchcleanser, whose masks it asks");
    if (!v->patch.size)
        return vt_fail(e, VT_E_USAGE, "@certify masks needs @threat patch: it knows nothing of %s",
                       vt_norm_name(v->norm));
    if (v->patch.count > 1)
        return vt_fail(e, VT_E_USAGE, "@certify masks proves one patch, @threat patch has count=%d", v->patch.count);
    if (v->patch.size > vt_patchcleanser_patch(w->params))
        return vt_fail(e, VT_E_USAGE,
                       "@threat patch: size is %d pixels, but the masks of @wrap patchcleanser cover patches up to %d",
                       v->patch.size, vt_patchcleanser_patch(w->params));
    return VT_OK;
}

static void release_nothing(void *shared) { (void)shared; }

/* Certifies image x if no class but its label wins under any of the masks; counts the forwards. */
static vt_status certify_one(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                             vt_certificate *out, vt_err *e) {
    (void)self, (void)key;
    return vt_masks_certify(&out->certified, &out->forwards, c, x, label, out->interrupt, e);
}

static void write_sentence(const void *params, const vt_eval_options *v, char *text, size_t size) {
    (void)params;
    snprintf(text, size,
             "certified by masks: the wrapped classifier (%s) gives no other class, whatever stands in one square of "
             "%d pixels anywhere; proven, not estimated, for the network as this program computes it",
             v->subject->wrap.id, v->patch.size);
}

const vt_certifier_def vt_certifier_def_masks = {
    .name = "masks",
    .summary = "all predictions under two masks agree (wrap patchcleanser, patch threat)",
    .reference = "Xiang et al. 2022, PatchCleanser, theorem 1",
    .opts = opts,
    .prepare = check_threat,
    .release = release_nothing,
    .image = certify_one,
    .sentence = write_sentence,
};
