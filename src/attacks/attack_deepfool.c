/* SPDX-License-Identifier: MIT */
/* DeepFool: steps to the nearest of the linearised class boundaries until one is crossed. Of the three references
 * (authors', foolbox, adversarial-library) the default is foolbox's, which is the authors' clipped to [0,1]: the nine
 * classes next to the label by the clean logits, the overshoot on the whole path. */
#include <math.h>
#include <string.h>
#include "attacks/min_norm.h"
#include "attacks/target_order.h"

enum { OVERSHOOT_PATH, OVERSHOOT_STEP };

typedef struct params {
    int steps, candidates, overshoot_of;
    double overshoot;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "iterations", 50, 1, 100000),
    VT_OPT_I("candidates", params, candidates, "classes looked at, the label and the next by the clean logits (0: all)",
             10, 0, 1000000),
    VT_OPT_R("overshoot", params, overshoot, "share added beyond the boundary", 0.02, 0, 10),
    VT_OPT_C("of", params, overshoot_of,
             "what it is a share of: the whole path (authors, foolbox) or each step (adversarial-library)", "path|step",
             OVERSHOOT_PATH),
    VT_OPT_END,
};

/* Returns how many classes are looked at, the label among them; aimed: the goal and the label. */
static int count_candidates(const params *p, int classes, bool aimed) {
    if (aimed) return 2;
    return p->candidates >= 2 && p->candidates < classes ? p->candidates : classes;
}

/* Sets w [n] = grad of z_k - z_y, *length and *distance for the candidate of the nearest linearised boundary to x1 (the
 * first among equals); INFINITY: none has a gradient. z [K]: the logits of x1, just evaluated. */
static vt_status nearest_boundary(vt_oracle *o, const vt_task *t, int candidates, const float *clean, const float *x1,
                                  const float *z, float *cotangent, float *trial, float *w, double *length,
                                  double *distance) {
    *distance = INFINITY;
    for (int r = 2; r <= candidates; r++) {
        int k = vt_target_of_rank(clean, t->classes, t->label, r);
        vt_loss loss = vt_target_difference(t, k, cotangent);
        if (o->goal >= 0) loss = vt_oracle_loss(o, VT_LOSS_MARGIN);
        float value;
        VT_TRY(vt_oracle_gradient(o, x1, &loss, NULL, &value, trial));
        double s = vt_length(vt_norm_dual(t->ball->norm), trial, t->n);
        double gap = o->goal >= 0 ? (double)value : (double)z[k] - (double)z[t->label], d = fabs(gap) / s;
        if (!(s > 0 && d < *distance)) continue;
        *distance = d, *length = s;
        memcpy(w, trial, t->n * sizeof(float));
    }
    return VT_OK;
}

/* Adds a step r to path and sets x1 <- clip(x + (1 + o) path), or clip(x1 + (1 + o) r). As in the references 1e-4 is
 * added to the distance, not to the gap, but at most a hundredth of the whole way. */
static void step(const vt_task *t, const params *p, const float *w, double length, double distance, float *path,
                 float *x1) {
    double way = distance + vt_distance(t->ball->norm, x1, t->x, t->n);
    double far = 1 + p->overshoot, d = distance + fmin(1e-4, 0.01 * way);
    for (size_t i = 0; i < t->n; i++) {
        double r = t->ball->norm == VT_LINF ? (w[i] > 0 ? d : w[i] < 0 ? -d : 0) : d / length * (double)w[i];
        path[i] += (float)r;
        double v =
            p->overshoot_of == OVERSHOOT_PATH ? (double)t->x[i] + far * (double)path[i] : (double)x1[i] + far * r;
        x1[i] = (float)(v > 0 ? (v < 1 ? v : 1) : 0);
    }
}

/* Steps until a boundary is crossed or no class has a gradient, at most p->steps times; t->x_adv: as vt_min_norm_note
 * leaves it. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *x1 = t->work + t->classes, *w = x1 + t->n, *trial = w + t->n, *path = trial + t->n;
    float *z = path + t->n, *clean = z + t->classes, *cotangent = clean + t->classes;
    int candidates = count_candidates(p, t->classes, o->goal >= 0);
    vt_min_norm_point near;
    vt_min_norm_open(&near, o, t, -1);
    memcpy(x1, t->x, t->n * sizeof(float));
    memset(path, 0, t->n * sizeof(float));
    VT_TRY(vt_oracle_logits_first(o, x1, z));
    memcpy(clean, z, (size_t)t->classes * sizeof(float));
    for (int k = 0; k < p->steps && !vt_min_norm_note(&near, x1, z); k++) {
        double distance, length = 1;
        VT_TRY(nearest_boundary(o, t, candidates, clean, x1, z, cotangent, trial, w, &length, &distance));
        if (isinf(distance)) break;
        step(t, p, w, length, distance, path, x1);
        VT_TRY(vt_oracle_logits_first(o, x1, z));
    }
    vt_min_norm_note(&near, x1, z); /* of the last step */
    return VT_OK;
}

/* Crossing a boundary, inside the ball or not, ends it sooner. */
VT_COST(params, .forwards = 1 + (double)p->steps,
        .gradients = (double)p->steps * (count_candidates(p, d->classes, d->aimed) - 1))

const vt_attack_def vt_attack_def_deepfool = {
    .name = "deepfool",
    .summary = "minimum-norm attack: steps to the nearest linearised class boundary",
    .reference = "Moosavi-Dezfooli et al. 2016 (CVPR), 'DeepFool', algorithm 2; box as foolbox does",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .traits = VT_DRAWS_NOTHING | VT_SHARES_FORWARDS,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 4, .logits = 4),
};
