/* SPDX-License-Identifier: MIT */
#include "eval/limit.h"

#include <stdlib.h>
#include <string.h>
#include "base/stats.h"

/* A place of the index with its random number. */
typedef struct drawn {
    uint32_t number;
    size_t place;
} drawn;

/* qsort order of drawn places: by number, equal ones by place. */
static int by_number(const void *a, const void *b) {
    const drawn *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* Returns the index's places in an order drawn by seed and image, malloc'ed; NULL: no memory. */
static drawn *draw_order(const vt_result_index *b) {
    drawn *order = calloc(b->n + 1, sizeof *order);
    for (size_t i = 0; order && i < b->n; i++) {
        vt_rng r = {.seed = b->seed, .purpose = vt_rng_purpose("order of images"), .image = (uint32_t)b->images[i]};
        order[i] = (drawn){vt_rng_bits(&r, 0), i};
    }
    if (order) qsort(order, b->n, sizeof *order, by_number);
    return order;
}

/* ---- running ---- */

#define PART_SECONDS 1.0 /* parts grow until they take as long */

/* A limited evaluation at work: images [0, at) of the order are behind it. */
typedef struct course {
    const vt_eval_options *v;
    const drawn *order;
    bool *part;
    size_t n, at, size;
    vt_stage_fn run;
    void *ctx;
} course;

/* Runs stages [0, n_stages) of entries [1, n_entries] on the next part of the images; *took: seconds. */
static vt_status run_part(course *c, int n_entries, int most_stages, double *took, vt_err *e) {
    const double began = vt_now();
    const size_t end = c->at + c->size < c->n ? c->at + c->size : c->n;
    memset(c->part, 0, c->n * sizeof *c->part);
    for (size_t i = c->at; i < end; i++) c->part[c->order[i].place] = true;
    for (int entry = 1; entry <= n_entries; entry++)
        for (int k = 0; k < c->v->attacks[entry - 1].n_stages && k < most_stages; k++)
            VT_TRY(c->run(c->ctx, entry, k, c->part, e));
    *took = vt_now() - began, c->at = end;
    if (*took < PART_SECONDS) c->size *= 2;
    return VT_OK;
}

/* Runs the first stage of the first entry on all images, or until its speed says that half the time would not do. */
static vt_status run_first_stage(course *c, double until, vt_err *e) {
    double took, all = 0;
    while (c->at < c->n) {
        VT_TRY(run_part(c, 1, 1, &took, e));
        all += took;
        if (vt_now() + all / (double)c->at * (double)(c->n - c->at) > until) break;
    }
    return VT_OK;
}

/* Runs what is left, all stages of a part before the next part. */
static vt_status run_to_the_end(course *c, vt_err *e) {
    vt_progress p = c->v->progress;
    vt_status s = VT_OK;
    double took;
    c->at = 0, c->size = (size_t)c->v->threads * (size_t)(c->v->batch ? c->v->batch : 1);
    vt_progress_begin(&p, "images in random order", 0, c->n);
    while (s == VT_OK && c->at < c->n) {
        s = run_part(c, c->v->n_attacks, VT_ATTACK_STAGES, &took, e);
        vt_progress_step(&p, c->at, NULL);
    }
    vt_progress_end(&p, NULL);
    return s;
}

vt_status vt_limit_run(const vt_eval_options *v, const vt_result_index *b, double began, vt_stage_fn run, void *ctx,
                       vt_err *e) {
    drawn *order = draw_order(b);
    course c = {.v = v, .order = order, .part = calloc(b->n + 1, sizeof *c.part), .n = b->n, .run = run, .ctx = ctx};
    c.size = (size_t)v->threads * (size_t)(v->batch ? v->batch : 1);
    vt_status s = order && c.part ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the order of %zu images", b->n);
    if (s == VT_OK && v->n_attacks) s = run_first_stage(&c, began + v->seconds / 2, e);
    if (s == VT_OK) s = run_to_the_end(&c, e);
    free(order), free(c.part);
    return s;
}

/* ---- what is known then ---- */

/* What lines say of image place i: stands after the closed stages (closed [n_entries, VT_ATTACK_STAGES]: stages that,
 * as those before them, have a line of every image that they take); every attack in the ball is through with it; one
 * broke it. */
typedef struct fate {
    bool stands, finished, broken;
} fate;

/* Returns the fate of image place i by attacks scored in the ball; a proven image does not stand if the proof comes
 * first. */
static fate fate_of(const vt_result_index *b, const bool *closed, size_t i) {
    const bool proven = b->first && vt_result_index_certified(b, i);
    fate f = {.stands = vt_result_index_right(b, VT_ENTRY_CLEAN, i) && !proven, .finished = true};
    for (int entry = 1; entry <= b->n_entries; entry++) {
        if (b->entries[entry - 1].scoring != VT_SCORE_BALL) continue;
        f.finished = f.finished && vt_result_index_done(b, entry, i);
        for (int k = 0; k < b->entries[entry - 1].n_stages; k++) {
            const uint8_t now = vt_result_index_cell(b, entry, k, i);
            if (now == VT_RESULT_NONE || !vt_record_ends(now)) continue;
            f.broken = true;
            if (closed[(entry - 1) * VT_ATTACK_STAGES + k]) f.stands = false;
        }
    }
    return f;
}

/* Counts survivors, the broken among them (*fallen), and in `order` how many of its first survivors are finished;
 * falls [n]: did that one fall? */
static void count_fates(vt_left_out *out, const vt_result_index *b, const bool *closed, const drawn *order, bool *falls,
                        int64_t *fallen) {
    bool whole = true;
    for (size_t i = 0; i < b->n; i++) {
        const fate f = fate_of(b, closed, order[i].place);
        if (!f.stands) continue;
        out->survivors++, *fallen += f.broken;
        whole = whole && f.finished;
        if (whole) falls[out->sampled++] = f.broken;
    }
}

vt_status vt_limit_left_out(vt_left_out *out, const vt_result_index *b, vt_err *e) {
    int64_t fallen = 0;
    int sizes;
    *out = (vt_left_out){0};
    drawn *order = draw_order(b);
    bool *falls = calloc(b->n + 1, sizeof *falls),
         *closed = calloc((size_t)(b->n_entries + 1) * VT_ATTACK_STAGES, sizeof *closed);
    const bool good = order && falls && closed;
    for (int entry = 1; good && entry <= b->n_entries; entry++)
        for (int k = 0; k < b->entries[entry - 1].n_stages && !vt_result_index_pending(b, entry, k); k++)
            closed[(entry - 1) * VT_ATTACK_STAGES + k] = true;
    if (good) {
        count_fates(out, b, closed, order, falls, &fallen);
        out->sampled = vt_sample_size(out->survivors, out->sampled, &sizes);
        for (int64_t i = 0; i < out->sampled; i++) out->broken += falls[i];
        const double level = 0.05 / (sizes ? sizes : 1);
        out->further = vt_hypergeometric_upper(out->survivors, out->sampled, out->broken, level) - fallen;
        if (out->further < 0) out->further = 0;
    }
    free(order), free(falls), free(closed);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for what was left out of %zu images", b->n);
}
