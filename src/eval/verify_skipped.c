/* SPDX-License-Identifier: MIT */
/* verify_run.h: the attacks that certificates saved, after all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "eval/evaluate.h"
#include "eval/result_index.h"
#include "eval/verify_run.h"

/* Makes an evaluation of the run's attacks in the ball on its certified images. */
static vt_status fill_options(vt_eval_options *v, const vt_run_verifier *r, int32_t *images, vt_err *e) {
    const vt_ledger *l = r->ledger;
    const vt_header *h = l->header;
    if (!h->certify.first || h->targets)
        return vt_fail(e, VT_E_USAGE, "%s %s", l->dir,
                       h->targets ? "has targets: attacks that it skipped are not run again"
                                  : "skipped no attack: it was evaluated without @certify-first");
    *v = (vt_eval_options){.subject = r->subject, .images = images, .norm = h->norm, .eps = h->eps};
    v->eps_text = h->eps_text, v->seed = h->seed, v->exhaustive = h->exhaustive;
    v->threads = r->threads, v->progress = r->progress, v->interrupt = r->interrupt;
    v->patch = (vt_patch){.size = h->patch.size, .count = h->patch.count, .aligned = h->patch.aligned};
    if (v->patch.size) VT_TRY(vt_patch_fit(&v->patch, &r->subject->model->config, r->subject->model->path, e));
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].status == VT_RECORD_CERTIFIED) images[v->n_images++] = l->records[i].image;
    vt_attack *all = calloc((size_t)h->n_attacks + 1, sizeof *all);
    v->attacks = v->own.attacks = all;
    if (!all) return vt_fail(e, VT_E_MEMORY, "%s: no memory for attacks", l->dir);
    for (int i = 0; i < h->n_attacks; i++) {
        if (h->attacks[i].scoring != VT_SCORE_BALL) continue;
        vt_attack *a = &all[v->n_attacks++];
        VT_TRY(vt_attack_parse(a, h->attacks[i].id, v->patch.size ? VT_NORM_PATCH : v->norm, e));
        if (strcmp(a->id, h->attacks[i].id) || a->needs_surrogate)
            return vt_fail(e, VT_E_USAGE, "%s: attack %s cannot be run again by its name", l->dir, h->attacks[i].name);
    }
    return v->n_images ? vt_eval_check(v, e) : VT_OK;
}

/* Runs the evaluation in memory and adds a finding for each image that falls. */
static vt_status attack_images(const vt_eval_options *v, const vt_run_verifier *r, vt_findings *found, vt_err *e) {
    vt_header *header;
    vt_ledger *l = NULL;
    VT_TRY(vt_eval_header(&header, v, e));
    vt_status s = vt_ledger_memory(&l, header, r->ledger->pixels, e);
    if (s == VT_OK) s = vt_eval_run(v, l, e);
    for (size_t i = 0; s == VT_OK && i < l->count; i++) {
        const vt_record *q = &l->records[i];
        if (vt_record_fails(l, q))
            vt_findings_add(found, "image %d is certified, but %.40s breaks it by a point at linf %.9g, l2 %.6g",
                            q->image, q->entry ? vt_header_entry(header, q->entry)->name : "no perturbation", q->linf,
                            q->l2);
    }
    vt_ledger_close(l);
    vt_header_free(header);
    return s;
}

vt_status vt_attack_skipped(const vt_run_verifier *r, size_t *n, vt_findings *found, vt_err *e) {
    vt_eval_options v = {0};
    int32_t *images = calloc(r->ledger->count + 1, sizeof *images);
    vt_status s = images ? fill_options(&v, r, images, e)
                         : vt_fail(e, VT_E_MEMORY, "%s: no memory to look at it", r->ledger->dir);
    *n = v.n_images;
    if (s == VT_OK && v.n_images) s = attack_images(&v, r, found, e);
    for (int i = 0; i < v.n_attacks; i++) vt_attack_free(&v.own.attacks[i]);
    free(v.own.attacks), free(images);
    return s;
}
