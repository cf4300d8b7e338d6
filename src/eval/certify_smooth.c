/* SPDX-License-Identifier: MIT */
/* Randomised smoothing's certificate (inference/smoothing.h): a radius from the votes under noise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "eval/certifier.h"
#include "eval/options.h"
#include "inference/smoothing.h"

static const vt_opt opts[] = {VT_OPT_END};

/* Refuses another wrap or norm. */
static vt_status check_threat(void **shared, const void *params, const vt_eval_options *v, vt_err *e) {
    const vt_wrap *w = &v->subject->wrap;
    (void)shared, (void)params;
    if (!w->def || strcmp(w->def->name, "smooth") != 0)
        return vt_fail(e, VT_E_USAGE, "@certify smooth needs @wrap smooth, whose votes it counts");
    if (v->patch.size || v->norm != VT_L2)
        return vt_fail(e, VT_E_USAGE, "@certify smooth knows l2 alone, the threat is %s",
                       v->patch.size ? "a patch" : vt_norm_name(v->norm));
    return VT_OK;
}

static void release_nothing(void *shared) { (void)shared; }

/* Keeps the run's radius for a worker. */
static vt_status open_worker(void **self, const void *shared, const void *params, const vt_eval_options *v, vt_err *e) {
    double *eps = *self = malloc(sizeof *eps);
    (void)shared, (void)params;
    if (!eps) return vt_fail(e, VT_E_MEMORY, "no memory for a certificate");
    *eps = v->eps;
    return VT_OK;
}

/* Certifies by a radius above eps: the theorem speaks of what lies nearer than the radius. */
static vt_status certify_one(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                             vt_certificate *out, vt_err *e) {
    const double *eps = self;
    double radius;
    int class;
    (void)key;
    VT_TRY(vt_smooth_certify(&class, &radius, &out->forwards, c, x, out->interrupt, e));
    if (class != label || !(radius > 0)) return VT_OK;
    out->radius = radius, out->certified = radius > *eps;
    return VT_OK;
}

static void write_sentence(const void *params, const vt_eval_options *v, char *text, size_t size) {
    (void)params;
    snprintf(text, size,
             "certified by smoothing (%s): the network's most frequent class under the noise is the label within l2 "
             "eps %s, each image with probability at least 1 - alpha; noise is taken as exact, rounding to float32 is "
             "not covered",
             v->subject->wrap.id, v->eps_text);
}

const vt_certifier_def vt_certifier_def_smooth = {
    .name = "smooth",
    .summary = "a radius from votes under Gaussian noise (wrap smooth, l2)",
    .reference = "Cohen, Rosenfeld and Kolter 2019, algorithm CERTIFY",
    .estimates = true,
    .opts = opts,
    .prepare = check_threat,
    .release = release_nothing,
    .open = open_worker,
    .close = free,
    .image = certify_one,
    .sentence = write_sentence,
};
