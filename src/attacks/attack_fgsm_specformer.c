/* SPDX-License-Identifier: MIT */
/* FGSM as SpecFormer's released evaluator runs it: its loader hands out normalised images X = (x - mean) / std, and on
 * those it uses the eps and the box of pixels,
 *     X' = clip_[0,1]( clip_[X - eps, X + eps]( X + eps sgn(dCE/dX) ) ).
 * So a pixel moves by std * eps (a quarter of it), and all that is darker than the mean becomes the mean, all that is
 * brighter than mean + std becomes mean + std, adversarial or not. Its point, in pixels again, may lie anywhere: it is
 * scored as published. (microsoft/robustlearn, specformer/robust_evaluate/fgsm.py, 31580cd.) */
#include <string.h>
#include "attacks/attack.h"

typedef struct params {
    double eps;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("eps", params, eps, "radius, in normalised units, as released; 0: the run's", 0, 0, 1),
    VT_OPT_END,
};

/* Returns v, or the end of [lo, hi] that it is beyond. */
static double clamp_to_range(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

/* Sets t->x_adv to that point, and asks for its logits. VT_E_FORBIDDEN: the model's normalisation is not known. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    const vt_classifier *m = o->model;
    float *g = t->work, value;
    double eps = p->eps > 0 ? p->eps : t->ball->eps;
    vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
    if (!(m->std[0] > 0)) return VT_E_FORBIDDEN; /* no normalisation that could be seen */
    VT_TRY(vt_oracle_gradient(o, t->x, &ce, NULL, &value, g));
    for (size_t i = 0; i < t->n; i++) {
        double mean = m->mean[i / vt_shape_plane(t->shape)], std = m->std[i / vt_shape_plane(t->shape)];
        /* std > 0, so that the gradient's sign is that of the normalised input */
        double x = ((double)t->x[i] - mean) / std, sign = g[i] > 0 ? 1 : g[i] < 0 ? -1 : 0;
        t->x_adv[i] = (float)(clamp_to_range(clamp_to_range(x + eps * sign, x - eps, x + eps), 0, 1) * std + mean);
    }
    return vt_oracle_logits(o, t->x_adv, NULL);
}

VT_COST(void, .forwards = 1, .gradients = 1, .unread = 1)

const vt_attack_def vt_attack_def_fgsm_specformer = {
    .name = "fgsm-specformer",
    .summary = "SpecFormer's released FGSM: eps and box of pixels on the normalised image",
    .reference = "Hu et al. 2024 (ECCV), SpecFormer, released evaluator",
    .norms = VT_CAN_LINF,
    .traits = VT_CANNOT_AIM | VT_LEAVES_BALL,
    .white_box = true,
    .published = true,
    VT_ATTACK_CODE(params, .images = 1),
};
