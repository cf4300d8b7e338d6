/* SPDX-License-Identifier: MIT */
/* vt_cli_hint: is the model read as it was made? A look at a few images before a long computation. */
#include "cli/run_args.h"

#include <stdio.h>
#include "eval/doctor/doctor.h"

enum { LOOK = 64, CHANCE = 20 /* fewer say nothing */, CAUSE = 50 /* fewer name no cause */ };
#define BELOW 0.60 /* above this accuracy nothing is gross */

/* Tries mean and std, pixel range and channel order. Returns the trial that is clearly better, or NULL. */
static const vt_trial *find_cause(vt_doctor *d, const vt_setting *present) {
    vt_err why = {0};
    d->aspects = 1u << VT_ASPECT_NORM | 1u << VT_ASPECT_RANGE | 1u << VT_ASPECT_CHANNELS;
    return vt_doctor_round(d, present, &why) == VT_OK ? vt_doctor_better(d) : NULL;
}

/* Prints a hint if few images are right under the present setting, which the doctor has tried. */
static void print_hint(vt_doctor *d, const vt_setting *present) {
    const vt_trial *now = vt_doctor_present(d);
    char options[300];
    long long right = (long long)now->right;
    bool chance = vt_doctor_chance(right, (int64_t)d->n_images, d->outputs);
    if (now->constant) {
        fprintf(stderr, "vitrine: hint: constant logits: the model answers all of %zu images alike\n", d->n_images);
        return;
    }
    if ((double)right >= BELOW * (double)d->n_images || vt_doctor_blind(d, CHANCE, NULL, 0)) return;
    const vt_trial *better = d->n_images < CAUSE ? NULL : find_cause(d, present);
    if (better) {
        vt_setting_options(options, sizeof options, &better->setting, present, NULL, VT_OPEN);
        fprintf(stderr,
                "vitrine: hint: %lld of %zu images are right; with %s (%s) it would be %lld: see vitrine doctor\n",
                right, d->n_images, options, better->what, (long long)better->right);
    } else if (chance) {
        fprintf(stderr,
                "vitrine: hint: %lld of %zu images are right, which is near chance: vitrine doctor tries what may have "
                "been read wrongly\n",
                right, d->n_images);
    }
}

void vt_cli_hint(const vt_model *m, const vt_dataset *data, const int32_t *images, size_t n, int threads) {
    static vt_doctor d;
    int32_t sample[LOOK];
    const vt_setting present = {m->config, data->transform};
    vt_err why = {0};
    d = (vt_doctor){.model = m, .data = data, .images = sample};
    d.n_images = vt_doctor_sample(sample, LOOK, images, images ? n : (size_t)data->count);
    if (d.n_images < CHANCE || data->restricted) return;
    d.threads = threads < (int)d.n_images ? threads : (int)d.n_images;
    if (vt_doctor_round(&d, &present, &why) == VT_OK)
        print_hint(&d, &present); /* no aspects: the present setting alone */
    vt_doctor_free(&d);
}

void vt_cli_hint_run(const vt_cli *c, const vt_eval_options *v) {
    const vt_subject *s = v->subject;
    if (vt_team_rank(c->team) || s->remote || *s->data->corruption.name) return; /* corrupted images are hard anyway */
    vt_cli_hint(s->model, s->data, v->images, v->n_images, v->threads);
}
