/* SPDX-License-Identifier: MIT */
/* PatchCleanser around a network: its class is that of double masking (inference/masks.h). Its logits are those of the
 * image under one mask, among the masks whose prediction is that class the one with the smallest margin: so the class
 * has the largest logit, and the gradient, the network's at the masked image with zeros under the mask, is exact as
 * long as the same mask is chosen. An attack that follows it meets the weakest of the agreeing masks first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "inference/masks.h"
#include "inference/wrap.h"
#include "models/net/session64.h"

typedef struct params {
    int patch, masks;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("patch", params, patch, "side in pixels of the largest patch that the masks cover", 5, 1, 4096),
    VT_OPT_I("masks", params, masks, "masks along each side of the image", 6, 2, VT_MASKS_SIDE),
    VT_OPT_END,
};

typedef struct cleanser {
    vt_classifier all;
    vt_mask_set set;
    float fill[3], *y, *z; /* the mean pixel; [pixels] the masked image, [classes] its logits */
    double *z64;           /* [classes] */
    const float *x;        /* the image of the call, and whether the network answers in double */
    bool f64;
    int64_t forwards;
    const volatile sig_atomic_t *interrupt; /* of a certificate, or NULL */
    int shown;                              /* the mask of the kept forward */
    int pred[VT_MASKS_MOST];
    double margin[VT_MASKS_MOST]; /* of the class under one mask above the next */
} cleanser;

/* Sets c->y to the image of the call under masks i and j. */
static void mask_image(cleanser *c, int i, int j) {
    memcpy(c->y, c->x, c->all.pixels * sizeof *c->y);
    vt_mask_apply(c->y, &c->set, i, c->fill);
    if (j != i) vt_mask_apply(c->y, &c->set, j, c->fill);
}

/* Predicts the class under two masks (vt_two_masks_fn), in the precision of the call; notes the margin of one mask. */
static vt_status predict_under(void *ctx, int i, int j, int *class, vt_err *e) {
    cleanser *c = ctx;
    const int n = c->all.classes;
    double next = -INFINITY;
    if (c->interrupt && *c->interrupt) return VT_INTERRUPTED;
    mask_image(c, i, j);
    c->forwards++;
    if (c->f64)
        VT_TRY(vt_classifier_logits64(&c->all, c->y, c->z64, e));
    else
        VT_TRY(vt_classifier_logits(&c->all, c->y, c->z, false, e));
    for (int k = 0; !c->f64 && k < n; k++) c->z64[k] = (double)c->z[k];
    *class = vt_argmax_f64(c->z64, n);
    for (int k = 0; i == j && k < n; k++)
        if (k != *class) next = fmax(next, c->z64[k]);
    if (i == j) c->margin[i] = c->z64[*class] - next;
    return VT_OK;
}

/* Decides the class of x and leaves in c->y the masked image that shows it; *mask: its mask. */
static vt_status choose_mask(cleanser *c, const float *x, bool f64, int *mask, vt_err *e) {
    int class;
    c->x = x, c->f64 = f64;
    VT_TRY(vt_double_masking(&class, c->pred, vt_mask_count(&c->set), predict_under, c, e));
    *mask = -1;
    for (int i = 0; i < vt_mask_count(&c->set); i++)
        if (c->pred[i] == class && (*mask < 0 || c->margin[i] < c->margin[*mask])) *mask = i;
    mask_image(c, *mask, *mask);
    c->forwards++;
    return VT_OK;
}

/* Computes z [K] of the masked image that shows the decision on x. */
static vt_status masked_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    cleanser *c = self;
    int mask;
    VT_TRY(choose_mask(c, x, false, &mask, e));
    if (keep) c->shown = mask;
    return vt_classifier_logits(&c->all, c->y, z, keep, e);
}

/* Computes z [K] likewise, in double from the first mask on. */
static vt_status masked_logits64(void *self, const float *x, double *z, vt_err *e) {
    cleanser *c = self;
    int mask;
    VT_TRY(choose_mask(c, x, true, &mask, e));
    return vt_classifier_logits64(&c->all, c->y, z, e);
}

/* Computes the gradient at the kept masked image; pixels under its mask do not move it. */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    cleanser *c = self;
    VT_TRY(vt_classifier_backward(&c->all, loss, value, dx, e));
    vt_mask_apply(dx, &c->set, c->shown, (const float[3]){0});
    return VT_OK;
}

static void begin(void *self, const vt_rng *rng) { vt_classifier_begin(&((cleanser *)self)->all, rng); }

static void close_wrap(void *self) {
    cleanser *c = self;
    vt_classifier_close(&c->all);
    free(c->y), free(c->z64), free(c);
}

/* Puts double masking around *c, for images of that shape. */
static vt_status wrap_in_masks(vt_classifier *c, const void *params_, vt_shape shape, vt_err *e) {
    const params *p = params_;
    cleanser *own = calloc(1, sizeof *own);
    float *y = vt_alloc((c->pixels + (size_t)c->classes) * sizeof *y);
    double *z64 = vt_alloc((size_t)c->classes * sizeof *z64);
    vt_status s = own && y && z64 ? vt_mask_set_make(&own->set, p->patch, p->masks, shape, e)
                                  : vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    if (s != VT_OK) {
        free(own), free(y), free(z64);
        return s;
    }
    own->all = *c, own->y = y, own->z = y + c->pixels, own->z64 = z64;
    for (int k = 0; k < 3; k++) own->fill[k] = (float)(c->std[k] > 0 ? c->mean[k] : 0);
    c->self = own, c->alone = NULL;
    c->logits = masked_logits, c->logits64 = masked_logits64, c->backward = backward, c->begin = begin,
    c->close = close_wrap;
    return VT_OK;
}

static vt_status check_patch(const void *params_, vt_shape shape, vt_err *e) {
    const params *p = params_;
    vt_mask_set s;
    return vt_mask_set_make(&s, p->patch, p->masks, shape, e);
}

/* An answer takes a forward for each mask if they agree, and one more that shows it. */
static void cost(const void *params_, double *forward, double *gradient) {
    const params *p = params_;
    const double masks = p->masks * p->masks;
    *gradient += masks * *forward;
    *forward *= masks + 1;
}

vt_status vt_masks_certify(bool *certified, int64_t *forwards, const vt_classifier *c, const float *x, int label,
                           const volatile sig_atomic_t *interrupt, vt_err *e) {
    if (c->logits != masked_logits) return vt_fail(e, VT_E_USAGE, "masks certify the wrap patchcleanser alone");
    cleanser *own = c->self;
    own->x = x, own->f64 = false, own->forwards = 0, own->interrupt = interrupt;
    vt_status s = vt_masks_agree(certified, vt_mask_count(&own->set), label, predict_under, own, e);
    *forwards = own->forwards, own->interrupt = NULL;
    return s;
}

int vt_patchcleanser_patch(const void *params_) { return ((const params *)params_)->patch; }

const vt_wrap_def vt_wrap_def_patchcleanser = {
    .name = "patchcleanser",
    .summary = "a defence: double masking, certified against one patch",
    .reference = "Xiang et al. 2022, PatchCleanser",
    .params_size = sizeof(params),
    .opts = opts,
    .around = wrap_in_masks,
    .fit = check_patch,
    .cost = cost,
};
