/* SPDX-License-Identifier: MIT */
#include "eval/evaluate.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/work_queue.h"
#include "parallel/threads.h"
#include "eval/result_index.h"
#include "eval/cost.h"
#include "eval/limit.h"
#include "eval/verify.h"
#include "models/surgery.h"

/* ---- what one thread attacks with ---- */

/* What attacks one image at a time: a classifier, an oracle and buffers. Made once, used for every image. */
typedef struct worker {
    vt_classifier model, surrogate, draft;
    vt_oracle oracle;
    vt_attacker attacker;
    vt_inside inside; /* of the model, where an attack climbs it */
    vt_grid8 grid;    /* of 8-bit entries, where there are any */
    float *x, *z;     /* [pixels], [classes] */
    float *box;       /* [2, pixels] an image's bounds under the box threat, else NULL */
    double *z64;      /* [classes] */
    void *certifier;  /* while images are certified: the method's state */
} worker;

typedef struct eval_thread {
    struct stage_run *run; /* the stage that it works at */
    vt_fiber_pool *pool;
    vt_batcher *batchers[3]; /* the model; the surrogate, if there is one; the model as attacks search it, if apart */
    int n_batchers, batch;
    worker *workers; /* [batch]: one for each fiber of the pool */
} eval_thread;

/* Accepts a zeroed one. */
static void worker_close(worker *w) {
    vt_oracle_close(&w->oracle);
    vt_sensor_sessions_close(w->inside.self);
    vt_attacker_close(&w->attacker);
    vt_grid8_close(&w->grid);
    vt_classifier_close(&w->model), vt_classifier_close(&w->surrogate), vt_classifier_close(&w->draft);
    free(w->x), free(w->z), free(w->z64), free(w->box);
    memset(w, 0, sizeof *w);
}

/* Opens slot `slot` of the thread's batchers with oracle, attacker and buffers; close it after a failure too. */
static vt_status worker_open(worker *w, const vt_eval_options *v, const eval_thread *c, int slot, vt_err *e) {
    const vt_subject *s = v->subject;
    vt_task dims = vt_eval_dims(v);
    VT_TRY(vt_subject_seat(&w->model, s, NULL, c->batchers[0], slot, e));
    VT_TRY(vt_oracle_open(&w->oracle, &w->model, e));
    if (vt_eval_eight_bit(v)) VT_TRY(vt_grid8_open(&w->grid, dims.n, e));
    VT_TRY(vt_attacker_open(&w->attacker, dims.shape, vt_eval_work(v, &dims), e));
    w->oracle.interrupt = v->interrupt;
    if (vt_eval_transfers(v)) {
        VT_TRY(vt_subject_seat(&w->surrogate, s, s->surrogate, c->batchers[1], slot, e));
        w->oracle.surrogate = &w->surrogate;
    }
    if (s->sensors) {
        vt_sensor_sessions *sessions;
        vt_status st = vt_sensor_sessions_open(&sessions, s->sensors, e);
        w->inside = (vt_inside){s->sensors->count, sessions, vt_sensor_gradient};
        VT_TRY(st);
        w->oracle.inside = &w->inside;
    }
    if (s->search) {
        VT_TRY(vt_subject_seat(&w->draft, s, NULL, c->batchers[c->n_batchers - 1], slot, e));
        w->oracle.draft.classifier = &w->draft;
    }
    size_t k = (size_t)dims.classes;
    w->x = vt_alloc(dims.n * sizeof(float)), w->z = vt_alloc(k * sizeof(float));
    w->z64 = vt_alloc((size_t)vt_classifier_votes(&w->model) * k * sizeof(double));
    w->box = v->box ? vt_alloc(2 * dims.n * sizeof(float)) : NULL;
    if (w->x && w->z && w->z64 && (w->box || !v->box)) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more image at a time");
}

/* Puts a batcher in front of the engine, which it closes. */
static vt_status add_batcher(eval_thread *c, vt_engine *n, vt_err *e) {
    VT_TRY(vt_batcher_open(&c->batchers[c->n_batchers], n, c->pool, e));
    c->n_batchers++;
    return VT_OK;
}

/* Opens the fiber pool, batchers and workers of a thread for the evaluation v, which must outlive it. Close it after a
 * failure too. */
static vt_status eval_thread_open(eval_thread *c, const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    int batch = vt_eval_batch(v);
    vt_engine n;
    *c = (eval_thread){.batch = batch, .workers = calloc((size_t)batch, sizeof *c->workers)};
    if (!c->workers) return vt_fail(e, VT_E_MEMORY, "no memory for %d images at a time", batch);
    VT_TRY(vt_fiber_open(&c->pool, batch, e));
    VT_TRY(vt_subject_engine(&n, s, NULL, batch, true, e));
    VT_TRY(add_batcher(c, &n, e));
    if (vt_eval_transfers(v)) {
        VT_TRY(vt_subject_engine(&n, s, s->surrogate, batch, true, e));
        VT_TRY(add_batcher(c, &n, e));
    }
    if (s->search) {
        VT_TRY(vt_subject_draft_engine(&n, s, batch, e));
        VT_TRY(add_batcher(c, &n, e));
    }
    for (int i = 0; i < batch; i++) VT_TRY(worker_open(&c->workers[i], v, c, i, e));
    return VT_OK;
}

/* Accepts a zeroed one. */
static void eval_thread_close(eval_thread *c) {
    for (int i = 0; c->workers && i < c->batch; i++) worker_close(&c->workers[i]);
    for (int i = 0; i < c->n_batchers; i++) vt_batcher_close(c->batchers[i]);
    vt_fiber_close(c->pool);
    free(c->workers);
    *c = (eval_thread){0};
}

/* ---- one image ---- */

/* One stage over its images, shared by the threads. */
typedef struct stage_run {
    const vt_eval_options *v;
    vt_ledger *ledger;
    eval_thread *eval_threads;
    const vt_result_index *covered; /* as of this stage's beginning: whose targets count */
    int entry, stage;               /* eval/ledger.h */
    const int32_t *todo;            /* images of this stage that have no line yet */
    size_t n, done_before, total;
    vt_work_queue deal;
    atomic_size_t robust; /* of certificates: certified */
    atomic_bool failed;
    vt_progress progress;
    vt_eta *eta;
    pthread_mutex_t lock; /* progress, estimate of the time left */
    double began, waited; /* the stage; for a model in another process by then */
} stage_run;

static vt_team *team_of(const vt_eval_options *v) { return v->place ? v->place->team : NULL; }

/* Predicts the clean image and appends its line; without finite logits it fails, unless skip_not_finite. */
static vt_status clean_image(stage_run *run, worker *w, int32_t image, vt_err *e) {
    const vt_eval_options *v = run->v;
    vt_record r = {.image = image, .target = -1, .forwards = 1};
    vt_verdict d;
    bool unsure;
    VT_TRY(vt_subject_image(v->subject, image, w->x, &r.label, e));
    vt_rng key = vt_verdict_key(v->seed, image, 0, 0);
    vt_classifier_begin(&w->model, &key);
    VT_TRY(vt_predict(&d, &unsure, &w->model, w->x, r.label, w->z, w->z64, e));
    if (!isfinite(d.margin) && !v->skip_not_finite)
        return vt_fail(e, VT_E_NUMERIC,
                       "image %d: the model's logits are not finite (@skip-not-finite counts such images apart)",
                       image);
    vt_verdict_record(&r, &d);
    if (v->targets) r.target = vt_targets_class(v->targets, v->seed, image, r.label, w->z, w->model.classes);
    r.status = vt_clean_status(&d, r.label);
    r.borderline = unsure;
    r.sha = vt_sha_prefix(w->x, w->model.pixels * sizeof(float));
    if (r.status == VT_RECORD_CORRECT) atomic_fetch_add(&run->robust, 1);
    return vt_ledger_append(run->ledger, &r, NULL, e);
}

/* Turns an attack's status into the image's: a query of the model without finite logits ends its image alone, other
 * failures are named. */
static vt_status check_attack_status(vt_status s, const vt_oracle *o, int32_t image, const char *name, vt_err *e) {
    if (s == VT_E_NUMERIC)
        return o->not_finite ? VT_OK
                             : vt_fail(e, s, "image %d: attack %s: the surrogate's logits are not finite", image, name);
    if (s == VT_INTERRUPTED) return s;
    return s == VT_OK ? VT_OK
                      : vt_fail(e, s, "image %d: attack %s failed: %.1800s", image, name, vt_attacker_why(o, s));
}

/* How an entry of the run searches: for the nearest point, as a paper's evaluator, to the end, or until it is found. */
static vt_oracle_mode mode_of(const vt_eval_options *v, int entry) {
    if (v->radii && isinf(v->radii[entry - 1].eps)) return VT_ORACLE_MIN_DISTANCE;
    if (v->attacks[entry - 1].scoring == VT_SCORE_PUBLISHED) return VT_ORACLE_NO_VERDICT;
    return v->exhaustive ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH;
}

/* Attacks an image, judges the point that the attack returns, and appends its line. */
static vt_status attack_image(stage_run *run, worker *w, int32_t image, vt_err *e) {
    const vt_eval_options *v = run->v;
    const vt_attack *attack = &v->attacks[run->entry - 1];
    const vt_attack_stage *st = &attack->stages[run->stage];
    const vt_result_index *c = run->covered;
    vt_record r = {.image = image, .entry = run->entry, .stage = run->stage, .target = -1};
    if (c->targets) r.target = c->targets[vt_image_place(c->images, c->n, image)];
    const int32_t *target = c->targets ? &r.target : NULL;
    vt_task t = {.clean = w->x,
                 .classes = vt_subject_classes(v->subject),
                 .norm = v->norm,
                 .eps = v->eps,
                 .patch = &v->patch,
                 .rotation = v->rotation.angles ? &v->rotation : NULL,
                 .picture = v->picture,
                 .goal = target};
    VT_TRY(vt_subject_image(v->subject, image, w->x, &r.label, e));
    if (v->box) {
        t.lo = w->box, t.hi = w->box + w->attacker.pixels;
        VT_TRY(vt_box_read(v->box, image, w->box, w->box + w->attacker.pixels, e));
    }
    t.label = r.label, t.mode = mode_of(v, run->entry);
    t.eight_bit = attack->scoring == VT_SCORE_EIGHT_BIT ? &w->grid : NULL;
    t.rng = (vt_rng){.seed = v->seed, .purpose = vt_rng_purpose(st->def->name), .image = (uint32_t)image};
    if (v->radii && t.mode != VT_ORACLE_MIN_DISTANCE) t.eps = v->radii[run->entry - 1].eps;
    VT_TRY(check_attack_status(vt_attacker_run(&w->attacker, &w->oracle, st, &t), &w->oracle, image, st->def->name, e));
    const float *candidate = w->attacker.at;
    vt_verdict d;
    vt_rng key = vt_verdict_key(v->seed, image, run->entry, run->stage);
    vt_terms terms = {v->norm, t.eps, v->patch, attack->scoring, target, t.lo, t.hi, v->rotation};
    VT_TRY(vt_verify_by(&d, &terms, &w->model, &key, w->x, candidate, w->attacker.shape, r.label, w->z, w->z64, e));
    vt_verdict_record(&r, &d);
    r.l0 = v->norm == VT_L0 ? d.l0 : 0;
    r.gradients = w->oracle.gradients, r.forwards = w->oracle.forwards, r.vanished = w->oracle.vanished;
    r.status = vt_verdict_status(&d);
    if (w->oracle.not_finite && !d.broken)
        r.status = VT_RECORD_NOT_FINITE; /* a random model may answer otherwise now */
    bool keep = vt_record_ends(r.status) || !d.inside || v->exhaustive;
    if (!d.broken) {
        r.borderline = 0;
        r.sha = vt_sha_prefix(candidate, w->attacker.pixels * sizeof(float));
    }
    if (!vt_record_ends(r.status)) atomic_fetch_add(&run->robust, 1);
    return vt_ledger_append(run->ledger, &r, keep ? candidate : NULL, e);
}

/* Certifies an image that is right and appends its line. */
static vt_status certify_image(stage_run *run, worker *w, int32_t image, vt_err *e) {
    const vt_result_index *c = run->covered;
    vt_record r = {.image = image, .target = -1};
    if (c->targets) r.target = c->targets[vt_image_place(c->images, c->n, image)];
    VT_TRY(vt_subject_image(run->v->subject, image, w->x, &r.label, e));
    VT_TRY(vt_certify_record(&r, run->v, w->certifier, &w->model, w->x, e));
    r.sha = vt_sha_prefix(w->x, w->model.pixels * sizeof(float));
    if (r.status == VT_RECORD_CERTIFIED) atomic_fetch_add(&run->robust, 1);
    return vt_ledger_append(run->ledger, &r, NULL, e);
}

/* Writes the note of the progress line: "robust 41", this rank's share, the share of time of an external model. */
static void note_of(const stage_run *run, char *note, size_t size) {
    vt_remote *r = run->v->subject->remote;
    const char *what = run->entry == VT_ENTRY_CERTIFY ? "certified" : run->entry ? "robust" : "right";
    int n = snprintf(note, size, "%s %zu", what, atomic_load(&run->robust));
    if (team_of(run->v)) n += snprintf(note + n, size - (size_t)n, " of %zu on rank 0", run->deal.finished);
    double spent = (vt_now() - run->began) * run->v->threads;
    if (r && spent > 0)
        snprintf(note + n, size - (size_t)n, ", %.0f %% of the time is the model's",
                 fmin(100, 100 * (vt_remote_waited(r) - run->waited) / spent));
}

/* Does one image of the stage and updates progress and the estimate of the time left. */
static vt_status one_image(stage_run *run, worker *w, int32_t image, vt_err *e) {
    if (run->v->interrupt && *run->v->interrupt) return VT_INTERRUPTED;
    const bool proof = run->entry == VT_ENTRY_CERTIFY, attack = run->entry && !proof;
    VT_TRY(attack ? attack_image(run, w, image, e) : (proof ? certify_image : clean_image)(run, w, image, e));
    size_t done = vt_work_queue_finish(&run->deal);
    char note[80];
    note_of(run, note, sizeof note);
    const vt_oracle *o = &w->oracle;
    pthread_mutex_lock(&run->lock);
    run->ledger->repeated += attack ? o->repeated : 0;
    run->progress.left = proof ? 0
                               : vt_eta_image(run->eta, attack ? o->forwards : 1, attack ? o->gradients : 0,
                                              run->done_before + done, run->total, atomic_load(&run->robust));
    vt_progress_step(&run->progress, run->done_before + done, note);
    pthread_mutex_unlock(&run->lock);
    return VT_OK;
}

/* ---- a thread at work ---- */

/* Takes the next image from the work queue; false: none, or the stage has failed. */
static bool next_image(void *ctx, int slot, size_t *item) {
    stage_run *run = ((eval_thread *)ctx)->run;
    (void)slot;
    return !atomic_load(&run->failed) && vt_work_queue_next(&run->deal, item);
}

/* Runs an image on the worker of a fiber; a failure ends the stage. */
static vt_status image_in_slot(void *ctx, int slot, size_t item, vt_err *e) {
    const eval_thread *c = ctx;
    vt_status s = one_image(c->run, &c->workers[slot], c->run->todo[item], e);
    if (s == VT_OK) return s;
    atomic_store(&c->run->failed, true);
    vt_work_queue_stop(&c->run->deal);
    return s;
}

/* Computes what the fibers wait for. */
static void serve_batchers(void *ctx) {
    const eval_thread *c = ctx;
    vt_batchers_serve(c->batchers, c->n_batchers);
}

/* Works on the stage with one thread's fibers until the queue is empty. */
static vt_status run_eval_thread(void *ctx, int thread, size_t item, vt_err *e) {
    stage_run *run = ctx;
    eval_thread *c = &run->eval_threads[item];
    (void)thread;
    c->run = run;
    return vt_fiber_run(c->pool, &(vt_fiber_job){next_image, image_in_slot, serve_batchers, c}, e);
}

/* ---- stages ---- */

/* Images of this stage and part (NULL: all) that have no line yet, into todo; *total: of these, *robust: of those that
 * are done. */
static size_t collect_pending_images(const vt_result_index *b, int entry, int stage, const bool *part, int32_t *todo,
                                     size_t *total, size_t *robust) {
    size_t n = 0;
    *total = *robust = 0;
    for (size_t i = 0; i < b->n; i++) {
        if ((part && !part[i]) || !vt_result_index_takes(b, entry, stage, i)) continue;
        uint8_t now = vt_result_index_cell(b, entry, stage, i);
        (*total)++;
        *robust += now == VT_RECORD_ROBUST || now == VT_RECORD_CORRECT || now == VT_RECORD_INVALID ||
                   now == VT_RECORD_CERTIFIED;
        if (now == VT_RESULT_NONE) todo[n++] = b->images[i];
    }
    return n;
}

/* Names a stage for the progress line, as the table's rows do. */
static void name_stage(const vt_header *header, int entry, int stage, char *name, size_t size) {
    snprintf(name, size, "%s", entry ? "certify" : "clean");
    if (!entry || entry == VT_ENTRY_CERTIFY) return;
    char label[56], part[72];
    const vt_header_attack *attack = vt_header_entry(header, entry);
    vt_attack_label(attack, label, sizeof label);
    snprintf(name, size, "%s", label);
    if (attack->n_stages > 1)
        snprintf(name, size, "%.24s: %.40s", label, vt_stage_label(attack, stage, part, sizeof part));
}

/* Enters the stage's lines, those of all ranks, into the result index. */
static vt_status note_lines(const vt_eval_options *v, const vt_ledger *l, vt_result_index *b, size_t before,
                            vt_err *e) {
    vt_record *others = NULL;
    size_t n = 0;
    vt_status s = vt_result_index_note(b, l, before, e);
    if (!team_of(v)) return s;
    s = vt_team_agree(team_of(v), s, e);
    if (s == VT_OK) s = vt_parts_news(l, before, team_of(v), &others, &n, e);
    if (s == VT_OK) s = vt_result_index_note_lines(b, l->dir, others, n, e);
    free(others);
    return s;
}

/* Computes the images of a stage with the threads of all ranks; syncs the ledger. Agrees. */
static vt_status deal_out(stage_run *run, vt_err *e) {
    const vt_eval_options *v = run->v;
    vt_ledger *l = run->ledger;
    VT_TRY(vt_work_queue_begin(&run->deal, team_of(v), run->n, v->threads, e));
    vt_status s = vt_for_each((size_t)v->threads, v->threads, run_eval_thread, run, e);
    if (s != VT_OK) vt_work_queue_stop(&run->deal);
    vt_work_queue_end(&run->deal);
    vt_err sync = {0};
    vt_status t = l->fd >= 0 ? vt_ledger_sync(l, &sync) : VT_OK;
    if (s == VT_OK && t != VT_OK) s = vt_fail(e, t, "%s", sync.text);
    return vt_team_agree(team_of(v), s, e);
}

/* An evaluation at work. */
typedef struct evaluation {
    const vt_eval_options *v;
    vt_ledger *l;
    eval_thread *threads; /* [v->threads] */
    vt_result_index b;
    int32_t *todo; /* [images] scratch */
    vt_eta eta;
} evaluation;

/* Runs a stage (entry 0: clean predictions) on the images of part (NULL: all; a part shows no progress) that have no
 * line yet. */
static vt_status run_stage(void *ctx, int entry, int stage, const bool *part, vt_err *e) {
    evaluation *x = ctx;
    const vt_eval_options *v = x->v;
    vt_ledger *l = x->l;
    vt_result_index *b = &x->b;
    stage_run run = {.v = v,
                     .ledger = l,
                     .eval_threads = x->threads,
                     .covered = b,
                     .entry = entry,
                     .stage = stage,
                     .todo = x->todo,
                     .progress = part ? (vt_progress){0} : v->progress,
                     .eta = &x->eta};
    char name[80];
    size_t robust, before = l->count;
    run.n = collect_pending_images(b, entry, stage, part, x->todo, &run.total, &robust);
    if (!run.n) return VT_OK;
    run.done_before = run.total - run.n;
    atomic_init(&run.robust, robust);
    pthread_mutex_init(&run.lock, NULL);
    name_stage(l->header, entry, stage, name, sizeof name);
    if (entry != VT_ENTRY_CERTIFY) vt_eta_stage(&x->eta, entry, stage);
    run.began = vt_now(), run.waited = v->subject->remote ? vt_remote_waited(v->subject->remote) : 0;
    vt_progress_begin(&run.progress, name, run.done_before, run.total);
    vt_status s = deal_out(&run, e);
    char note[80];
    note_of(&run, note, sizeof note);
    vt_progress_end(&run.progress, note);
    pthread_mutex_destroy(&run.lock);
    return s == VT_OK ? note_lines(v, l, b, before, e) : s;
}

/* Certifies the images that are right, with a state for each worker that lasts as long. */
static vt_status run_certificates(evaluation *x, vt_err *e) {
    const vt_eval_options *v = x->v;
    eval_thread *eval_threads = x->threads;
    const vt_certifier_def *by = v->certify.def;
    void *shared = NULL;
    if (!by || !vt_result_index_pending(&x->b, VT_ENTRY_CERTIFY, 0)) return VT_OK;
    vt_status s = by->prepare(&shared, v->certify.params, v, e);
    for (int i = 0; by->open && i < v->threads; i++)
        for (int k = 0; k < eval_threads[i].batch && s == VT_OK; k++)
            s = by->open(&eval_threads[i].workers[k].certifier, shared, v->certify.params, v, e);
    s = vt_team_agree(team_of(v), s, e);
    if (s == VT_OK) s = run_stage(x, VT_ENTRY_CERTIFY, 0, NULL, e);
    for (int i = 0; by->open && i < v->threads; i++)
        for (int k = 0; k < eval_threads[i].batch; k++) by->close(eval_threads[i].workers[k].certifier);
    by->release(shared);
    vt_eta_begin(&x->eta, v); /* bounds say nothing of how long attacks take */
    return s;
}

/* Runs clean predictions, certificates and all stages in their order; what it opens is the caller's to close. */
static vt_status run_all(evaluation *x, vt_err *e) {
    const vt_eval_options *v = x->v;
    const double began = vt_now();
    VT_TRY(vt_result_index_open(&x->b, x->l->header, v->images, v->n_images, e));
    VT_TRY(note_lines(v, x->l, &x->b, 0, e));
    vt_status s = VT_OK;
    for (int i = 0; i < v->threads && s == VT_OK; i++) s = eval_thread_open(&x->threads[i], v, e);
    VT_TRY(vt_team_agree(team_of(v), s, e));
    vt_eta_begin(&x->eta, v);
    VT_TRY(run_stage(x, VT_ENTRY_CLEAN, 0, NULL, e));
    VT_TRY(run_certificates(x, e));
    if (v->seconds > 0) return vt_limit_run(v, &x->b, began, run_stage, x, e);
    for (int entry = 1; entry <= v->n_attacks; entry++)
        for (int k = 0; k < v->attacks[entry - 1].n_stages; k++) VT_TRY(run_stage(x, entry, k, NULL, e));
    return VT_OK;
}

/* Runs everything on a subject that has its twin, sensors and packed matrices. */
static vt_status run_on_subject(const vt_eval_options *v, vt_ledger *l, vt_err *e) {
    evaluation x = {.v = v,
                    .l = l,
                    .threads = calloc((size_t)v->threads, sizeof *x.threads),
                    .todo = calloc(v->n_images, sizeof *x.todo)};
    vt_status s =
        x.threads && x.todo ? run_all(&x, e) : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", v->n_images);
    for (int i = 0; x.threads && i < v->threads; i++) eval_thread_close(&x.threads[i]);
    vt_result_index_close(&x.b);
    free(x.threads), free(x.todo);
    return s;
}

vt_status vt_eval_run(const vt_eval_options *v_, vt_ledger *l, vt_err *e) {
    vt_eval_options v = *v_;
    vt_model *twin = NULL;
    vt_packed *packed = NULL;
    vt_sensors sensors = {0};
    vt_subject with = *v.subject;
    v.subject = &with;
    vt_eval_fit(&v);
    if (!with.surrogate && vt_eval_transfers(v_)) {
        VT_TRY(vt_model_twin(&twin, with.model, v.seed, e));
        with.surrogate = twin;
    }
    vt_status s = VT_OK;
    if (vt_eval_climbs(v_)) {
        vt_sensor_images pictures = vt_subject_pictures(v_->subject, v.seed);
        s = vt_sensors_open(&sensors, with.model, &pictures, e);
        with.sensors = &sensors;
    }
    if (s == VT_OK && with.search == VT_PRODUCTS_BF16) s = vt_model_pack(&packed, with.model, e);
    with.packed = packed;
    if (s == VT_OK) s = run_on_subject(&v, l, e);
    vt_packed_free(packed);
    vt_sensors_close(&sensors);
    vt_model_close(twin);
    if (!v.place || (s != VT_OK && s != VT_INTERRUPTED)) return s;
    vt_err why = {0};
    vt_status taken = vt_parts_take(l, v.place, &why);
    return taken == VT_OK ? s : vt_fail(e, taken, "%s", why.text);
}
