/* SPDX-License-Identifier: MIT */
#include "eval/eta.h"

#include "core/progress.h"

void vt_eta_begin(vt_eta *o, const vt_eval_options *v) {
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    *o = (vt_eta){.v = v, .ratio = gradient / forward, .began = vt_now()};
}

/* An image that stands to the end of the stage; of those that a stage draws a share. */
static double cost_of_stage(const vt_eta *o, const vt_attack_stage *s) {
    const vt_config *c = &o->v->subject->model->config;
    vt_cost_dims d = {.classes = vt_subject_classes(o->v->subject),
                      .layers = c->depth,
                      .norm = o->v->norm,
                      .aimed = o->v->targets != NULL};
    vt_passes p = vt_attack_stage_cost(s, d);
    return s->share * (p.forwards + o->ratio * p.gradients);
}

/* Images that stand now are taken to stand against what follows too. Tried on those that fall: the 8-bit entry behind
 * this one, and of a curve, whose minimum-norm attacks break everything, every radius that is confirmed. */
void vt_eta_stage(vt_eta *o, int entry, int stage) {
    o->stage_work = o->standing = o->falling = 0, o->stage_done = 0;
    for (int i = entry ? entry - 1 : 0; i < o->v->n_attacks; i++) {
        const vt_attack *a = &o->v->attacks[i];
        bool eight = a->scoring == VT_SCORE_EIGHT_BIT;
        for (int k = i == entry - 1 ? stage + 1 : 0; k < a->n_stages; k++) {
            double each = cost_of_stage(o, &a->stages[k]);
            if (!eight) o->standing += each;
            if (eight || o->v->radii || a->scoring == VT_SCORE_PUBLISHED) o->falling += each;
        }
    }
}

double vt_eta_image(vt_eta *o, int64_t forwards, int64_t gradients, size_t done, size_t total, size_t robust) {
    double work = (double)forwards + o->ratio * (double)gradients;
    double stand = ((double)robust + 1) / ((double)done + 2); /* not 0 or 1 after the first image */
    o->work += work, o->stage_work += work, o->stage_done++;
    double here = o->stage_work / (double)o->stage_done * (double)(total - done);
    double behind = (stand * o->standing + (1 - stand) * o->falling) * (double)total;
    double seconds = vt_now() - o->began;
    return o->work > 0 ? (here + behind) * seconds / o->work : 0;
}
