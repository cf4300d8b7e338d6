/* SPDX-License-Identifier: MIT */
/* How each image of a run ended, and samples of them. */
#include <stdlib.h>
#include "eval/result_index.h"
#include "selftest/tools.h"

static void update_standing(const vt_eval_options *v, const vt_record *r, vt_standing *s) {
    const vt_attack *a = &v->attacks[r->entry - 1];
    if (a->scoring == VT_SCORE_PUBLISHED || r->stage < 0 || r->stage >= a->n_stages) return;
    const vt_attack_def *d = a->stages[r->stage].def;
    bool broken = r->status == VT_RECORD_BROKEN, search = !d->white_box && !d->surrogate && !d->inside;
    bool gone = broken || r->status == VT_RECORD_NOT_FINITE;
    s->broken |= gone, s->white |= gone && d->white_box;
    s->random |= search, s->random_broke |= search && broken;
}

void vt_standings(const vt_selftest *t, vt_standing *s, double *cost) {
    const vt_eval_options *v = t->v;
    *cost = 0;
    for (size_t i = 0; i < t->ledger->count; i++) {
        const vt_record *r = &t->ledger->records[i];
        size_t k = vt_image_place(v->images, v->n_images, r->image);
        if (k == SIZE_MAX || r->entry > v->n_attacks) continue;
        if (r->entry) {
            update_standing(v, r, &s[k]);
            *cost += (double)r->forwards + t->ratio * (double)r->gradients;
        } else {
            s[k].right = r->status == VT_RECORD_CORRECT, s[k].pred = r->pred;
        }
    }
}

typedef struct ticket {
    bool behind;
    uint64_t draw;
    int32_t image;
} ticket;

static int by_draw(const void *a_, const void *b_) {
    const ticket *a = a_, *b = b_;
    if (a->behind != b->behind) return a->behind - b->behind;
    return a->draw != b->draw ? (a->draw > b->draw ? 1 : -1) : (a->image > b->image) - (a->image < b->image);
}

vt_status vt_sample(const vt_selftest *t, const vt_standing *s, bool survivors_first, int32_t *images, size_t *n,
                    vt_err *e) {
    ticket *tickets = calloc(t->v->n_images + 1, sizeof *tickets);
    if (!tickets) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    *n = 0;
    for (size_t i = 0; i < t->v->n_images; i++) {
        vt_rng r = vt_selftest_key(t, "selftest sample", t->v->images[i]);
        uint64_t draw = (uint64_t)vt_rng_bits(&r, 0) << 32 | vt_rng_bits(&r, 1);
        if (s[i].right) tickets[(*n)++] = (ticket){survivors_first && s[i].broken, draw, t->v->images[i]};
    }
    qsort(tickets, *n, sizeof *tickets, by_draw);
    for (size_t i = 0; i < *n; i++) images[i] = tickets[i].image;
    free(tickets);
    return VT_OK;
}

vt_standing *vt_standing_of(const vt_selftest *t, vt_standing *s, int32_t image) {
    return &s[vt_image_place(t->v->images, t->v->n_images, image)];
}

int32_t vt_partner(const vt_selftest *t, const vt_standing *s, int32_t image) {
    const vt_eval_options *v = t->v;
    size_t n = v->n_images, own = vt_image_place(v->images, v->n_images, image);
    vt_rng r = vt_selftest_key(t, "selftest partner", image);
    size_t first = (size_t)(vt_rng_uniform(&r, 0) * (float)n);
    for (size_t i = 0; i < n; i++)
        if (s[(first + i) % n].pred != s[own].pred) return v->images[(first + i) % n];
    return v->images[(own + 1) % n];
}
