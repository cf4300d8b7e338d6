/* SPDX-License-Identifier: MIT */
/* The training loop: steps, epochs, checkpoints, and what is reported of them. */
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "base/mem.h"
#include "base/progress.h"
#include "parallel/threads.h"
#include "train/run.h"

#define CHECKPOINT_SECONDS 120 /* at most so much work is lost; when a checkpoint is written changes no result */

/* Shows a message through the caller's progress, if it has any; live: it may be overwritten. */
static void report_message(const vt_run *run, bool live, const char *text) {
    if (run->t->progress.show) run->t->progress.show(run->t->progress.ctx, text, live);
}

/* Shows an event and logs it as part of step `step`. */
static vt_status report_event(vt_run *run, const char *kind, int64_t step, const char *text, vt_err *e) {
    report_message(run, false, text);
    return vt_log_event(run, kind, step, text, e);
}

/* Does this process read and write the run's folder? Of several ranks only the first does. */
static bool has_files(const vt_run *run) { return !vt_team_rank(run->t->team); }

/* ---- open and close ---- */

/* Allocates and starts the state of every penalty that the recipe uses. */
static vt_status open_penalties(vt_run *run, vt_err *e) {
    const vt_penalty_def_f32 *def;
    const void *params;
    for (int i = 0; (def = vt_next_penalty(run->r, &i, &params));) {
        vt_active_penalty *p = &run->penalties[run->n_penalties++];
        *p = (vt_active_penalty){.def = def, .m = run->m, .params = params};
        snprintf(p->key, sizeof p->key, "penalty_%s", def->name);
        p->state_len = def->state_len ? def->state_len(params, run->m) : 0;
        size_t work = def->work_len ? def->work_len(params, run->m) : 0;
        p->state = vt_alloc((p->state_len + 1) * sizeof(float)), p->work = vt_alloc((work + 1) * sizeof(float));
        if (!p->state || !p->work) return vt_fail(e, VT_E_MEMORY, "no memory for penalty %s", def->name);
        if (def->start) def->start(p->state, p->work, run->m->w, run->m, params, (uint64_t)run->r->top.seed);
    }
    return VT_OK;
}

/* Checks, allocates and loads everything that a run needs; its folder is made last. */
static vt_status open_run(vt_run *run, const vt_train *t, vt_err *e) {
    *run = (vt_run){.t = t, .r = t->recipe, .m = t->model};
    run->n.lr_scale = 1, run->n.best = -1, run->n.best_epoch = -1, run->n.last_single = -1, run->n.best_watch = -1;
    vt_train_plan plan;
    VT_TRY(vt_train_measure(&plan, t, e));
    VT_TRY(vt_memory_check("the training", plan.bytes, e));
    run->per_epoch = plan.per_epoch, run->steps = plan.steps;
    run->text = vt_recipe_text(t->recipe);
    if (!run->text) return vt_fail(e, VT_E_MEMORY, "no memory for training");
    VT_TRY(vt_sampler_open(&run->sampler, run->r, t->data, t->data->count - plan.images, t->extra, e));
    vt_sampler_hash(run->data_hash, t->data, t->extra);
    bool there = false;
    if (has_files(run)) VT_TRY(vt_state_exists(run, &there, e));
    VT_TRY(vt_batch_open(&run->batch, run->r, run->m, t->data, t->threads, t->team, e));
    run->batch.sampler = &run->sampler;
    VT_TRY(vt_update_open(&run->update, run->m, run->r, t->threads, e));
    VT_TRY(vt_validation_open(&run->watch, run->r, run->m, t->watch_data, t->threads, t->team, e));
    VT_TRY(open_penalties(run, e));
    run->resumed = there;
    if (there) VT_TRY(vt_state_load(run, e));
    VT_TRY(vt_state_share(run, e));
    if (!has_files(run)) return VT_OK;
    VT_TRY(vt_make_dir(t->out, e)); /* now that nothing is left to refuse */
    VT_TRY(vt_log_open(run, e));
    vt_file_tidy(t->out, 1); /* the log's lock keeps other writers out */
    return VT_OK;
}

/* Closes what a run has opened. */
static void close_run(vt_run *run) {
    vt_batch_close(&run->batch);
    vt_update_close(&run->update);
    vt_validation_close(&run->watch);
    for (int i = 0; i < run->n_penalties; i++) free(run->penalties[i].state), free(run->penalties[i].work);
    if (run->log) fclose(run->log);
    vt_sampler_close(&run->sampler);
    free(run->text);
}

/* ---- one step ---- */

/* For vt_for_each: advances piece `part` of a penalty's state (vt_penalty_def.advance); ctx: a vt_active_penalty. */
static vt_status advance_part(void *ctx, int thread, size_t part, vt_err *e) {
    const vt_active_penalty *p = ctx;
    (void)thread, (void)e;
    p->def->advance(p->state, p->work, p->m->w, p->m, p->params, (int)part);
    return VT_OK;
}

/* Adds every active penalty's gradient to run->batch.grad and its value to *total, once per step and after the
 * objective's gradient; advances its state and sets its last value. */
static vt_status add_penalties(vt_run *run, double *total, vt_err *e) {
    const vt_model *m = run->m;
    for (int i = 0; i < run->n_penalties; i++) {
        vt_active_penalty *p = &run->penalties[i];
        size_t parts = p->def->parts ? (size_t)p->def->parts(m) : 0;
        VT_TRY(vt_for_each(parts, run->t->threads, advance_part, p, e));
        p->last = p->def->apply(run->batch.grad, p->state, p->work, m->w, m, p->params);
        if (p->def->attention) p->last += run->batch.ortho * run->batch.sums.ortho;
        *total += p->last;
    }
    return VT_OK;
}

/* Adds the last step's sums to those of the epoch. */
static void add_step_to_epoch(vt_run *run) {
    const vt_step_sums *s = &run->batch.sums;
    run->n.loss += s->loss, run->n.images += (double)s->images, run->n.right_adv += (double)s->right_adv;
    run->n.clean_images += (double)s->clean_images, run->n.right_clean += (double)s->right_clean;
    run->n.steps++, run->n.taken++;
    for (int i = 0; i < run->n_penalties; i++) run->penalties[i].sum += run->penalties[i].last;
}

/* Sets the epoch's sums to 0. */
static void reset_epoch_sums(vt_run *run) {
    vt_run_numbers *n = &run->n;
    n->loss = n->images = n->right_adv = n->clean_images = n->right_clean = n->steps = 0;
    for (int i = 0; i < run->n_penalties; i++) run->penalties[i].sum = 0;
}

/* Notes that a step whose loss or gradient is not finite is left out, and halves the learning rate; VT_E_NUMERIC: it
 * was one more than VT_MAX_FAULTS. */
static vt_status handle_nonfinite_step(vt_run *run, const int32_t *ids, double loss, double norm, vt_err *e) {
    char text[300];
    run->n.faults++, run->n.lr_scale /= 2;
    snprintf(text, sizeof text,
             "epoch %lld, step %lld (images %d, %d, %d, ...): loss %g, gradient norm %g or the new weights are not "
             "finite; the step is left out and the learning rate halved",
             (long long)(run->step / run->per_epoch) + 1, (long long)run->step + 1, ids[0], ids[1 % run->r->top.batch],
             ids[2 % run->r->top.batch], loss, norm);
    VT_TRY(report_event(run, "not finite", run->step + 1, text, e));
    if (run->n.faults <= VT_MAX_FAULTS) return VT_OK;
    VT_TRY(vt_log_sync(run, e));
    return vt_fail(e, VT_E_NUMERIC,
                   "training stopped: loss or gradient not finite for the %dth time, at step %lld of %lld; %s/"
                   "state.safetensors is the last good checkpoint; try a smaller lr (now %g) or clip",
                   VT_MAX_FAULTS + 1, (long long)run->step + 1, (long long)run->steps, run->t->out, run->r->top.lr);
}

/* Shows epoch, loss, accuracies and images a second, at most ten times a second; now: always, with the penalties. */
static void show_progress(vt_run *run, bool now) {
    double t = vt_now();
    if (!run->t->progress.show || (!now && t - run->shown_at < (run->t->progress.live ? 0.1 : 30))) return;
    run->shown_at = t;
    const vt_run_numbers *n = &run->n;
    char text[300], robust[32] = "", time[24];
    double rate = (double)(run->step - run->began_step) / (t - run->began);
    if (vt_reads_worst_f32(run->batch.objective))
        snprintf(robust, sizeof robust, ", robust %.1f", 100 * n->right_adv / fmax(n->images, 1));
    int at = snprintf(text, sizeof text, "epoch %lld/%d step %.0f/%lld loss %.4f clean %.1f%s %% %.0f/s",
                      (long long)((run->step - 1) / run->per_epoch) + 1, run->r->top.epochs, n->steps,
                      (long long)run->per_epoch, n->loss / fmax(n->images, 1),
                      100 * n->right_clean / fmax(n->clean_images, 1), robust, rate * run->r->top.batch);
    if (!now) {
        vt_duration((double)(run->steps - run->step) / rate, time, sizeof time);
        snprintf(text + at, sizeof text - (size_t)at, " %s left", time);
    }
    for (int i = 0; i < run->n_penalties && now && at < (int)sizeof text - 40; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", %s %.3g", run->penalties[i].def->name,
                       run->penalties[i].last);
    report_message(run, run->t->progress.live && !now, text);
}

/* Runs one optimiser step, counts it in run->step and logs it; *lr: its learning rate. A step that is not finite is
 * left out (run->sound false). */
static vt_status one_step(vt_run *run, double *lr, vt_err *e) {
    int epoch = (int)(run->step / run->per_epoch);
    double share = (double)run->step / (double)run->steps, began = vt_now();
    const int32_t *ids = run->sampler.ids;
    vt_sampler_step(&run->sampler, run->step);
    VT_TRY(vt_batch_gradient(&run->batch, ids, epoch, run->step, share, e));
    if (vt_awp_active(run->r, share)) VT_TRY(vt_awp_gradient(&run->batch, &run->update, e));
    double loss = run->batch.sums.loss / run->r->top.batch, penalties = 0;
    VT_TRY(add_penalties(run, &penalties, e));
    loss += penalties;
    double norm = vt_update_norm(&run->update, run->batch.grad);
    double clip = run->r->top.clip, factor = clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1;
    *lr = vt_recipe_lr(run->r, share) * run->n.lr_scale;
    run->sound = isfinite(loss) && isfinite(norm) &&
                 vt_update_step(&run->update, run->batch.grad, factor, *lr, (int64_t)run->n.taken + 1);
    if (run->sound)
        add_step_to_epoch(run);
    else
        VT_TRY(handle_nonfinite_step(run, ids, loss, norm, e));
    run->step++;
    VT_TRY(vt_log_step(run, *lr, norm, vt_now() - began, e));
    show_progress(run, false);
    return VT_OK;
}

/* ---- one epoch ---- */

/* Says (once a run) that training overfits catastrophically, and keeps what the next epoch is compared with: single,
 * robust are accuracies on its own adversarial images and on the watched ones. */
static vt_status notice_overfitting(vt_run *run, double single, double robust, vt_err *e) {
    vt_run_numbers *n = &run->n;
    if (n->overfit == 0 && vt_validation_collapsed(single, n->last_single, robust, n->best_watch, run->watch.count)) {
        char text[600];
        n->overfit = 1;
        snprintf(text, sizeof text,
                 "catastrophic overfitting: accuracy on training's own adversarial images rose to %.1f %% while that "
                 "under %s on the watched images fell from %.1f %% to %.1f %%",
                 100 * single, run->r->probe.attack, 100 * n->best_watch, 100 * robust);
        VT_TRY(report_event(run, "catastrophic overfitting", run->step, text, e));
    }
    n->last_single = single;
    if (robust > n->best_watch) n->best_watch = robust;
    return VT_OK;
}

/* Validates with the averaged weights, logs the epoch, exports best.safetensors if none was better, and sets the
 * epoch's sums to 0. */
static vt_status end_epoch(vt_run *run, double lr, vt_err *e) {
    int epoch = (int)(run->step / run->per_epoch);
    double clean, robust, began = vt_now();
    char text[500], held[340] = "";
    show_progress(run, true);
    vt_update_swap_ema(&run->update);
    vt_status s = vt_validation_run(&run->watch, &clean, &robust, e);
    vt_update_swap_ema(&run->update);
    VT_TRY(s);
    VT_TRY(vt_log_epoch(run, epoch, lr, clean, robust, vt_now() - began, e));
    double score = robust >= 0 ? robust : clean;
    if (run->n.images > 0 && robust >= 0 && run->batch.objective->inner != VT_INNER_NONE)
        VT_TRY(notice_overfitting(run, run->n.right_adv / run->n.images, robust, e));
    if (clean >= 0) {
        if (robust >= 0) snprintf(held, sizeof held, ", robust %.1f %%", 100 * robust);
        snprintf(text, sizeof text, "epoch %d/%d  watched images: clean %.1f %%%s", epoch, run->r->top.epochs,
                 100 * clean, held);
        report_message(run, false, text);
    }
    if (run->sound && score > run->n.best) {
        run->n.best = score, run->n.best_epoch = epoch;
        if (has_files(run)) VT_TRY(vt_state_export(run, "best.safetensors", e));
    }
    reset_epoch_sums(run);
    return VT_OK;
}

/* Writes model.safetensors and state.safetensors, after the log; rank 0 alone. */
static vt_status write_checkpoint(vt_run *run, vt_err *e) {
    run->saved_at = vt_now();
    if (!has_files(run)) return VT_OK;
    VT_TRY(vt_log_sync(run, e));
    VT_TRY(vt_state_export(run, "model.safetensors", e));
    return vt_state_save(run, e);
}

/* Sets *yes to whether an image of the last step has finite logits: finite weights may still be too large for a forward
 * pass, and a checkpoint now would be none to go on from. Overwrites worker 0's images. */
static vt_status check_finite_logits(bool *yes, const vt_run *run, vt_err *e) {
    static const vt_recipe_augment none = {0};
    const vt_batch_worker *w = &run->batch.workers[0];
    int32_t id = run->sampler.ids[0];
    int label;
    VT_TRY(vt_augment_image(w->x, &label, run->t->data, id, vt_config_input(&run->m->config), &none, 0, 0, e));
    const float *z = vt_session_forward_f32(w->session, w->x, 1, false);
    *yes = true;
    for (int k = 0; k < run->m->config.classes; k++) *yes = *yes && isfinite(z[k]);
    return VT_OK;
}

/* Sets, the same on all ranks, whether any was interrupted, and whether rank 0's clock wants a checkpoint. */
static void agree_on_stop(const vt_run *run, bool *stop, bool *due) {
    const vt_train *t = run->t;
    *stop = (t->interrupt && *t->interrupt) || (t->max_steps && run->step - run->began_step >= t->max_steps);
    *due = vt_now() - run->saved_at > CHECKPOINT_SECONDS;
    if (!t->team) return;
    int32_t mine = *stop | *due << 1, *all = t->team->room;
    t->team->ops->gather(t->team->ctx, &mine, sizeof mine, all);
    *due = all[0] >> 1;
    for (int r = 0; r < t->team->size; r++) *stop = *stop || (all[r] & 1);
}

/* Runs all steps that are left, with their checkpoints; VT_INTERRUPTED after a stop on request, VT_E_NUMERIC if the
 * last step, or too many, are not finite. */
static vt_status run_training_loop(vt_run *run, vt_err *e) {
    const vt_train *t = run->t;
    double lr = 0;
    run->began = run->saved_at = run->shown_at = vt_now(), run->began_step = run->step;
    if (!run->step) VT_TRY(write_checkpoint(run, e)); /* a full disk is noticed now, and a first state is there */
    while (run->step < run->steps) {
        bool end, stop, due;
        VT_TRY(vt_team_agree(t->team, one_step(run, &lr, e), e));
        agree_on_stop(run, &stop, &due);
        end = run->step % run->per_epoch == 0, due = due || end || stop;
        if (due) VT_TRY(vt_state_compare(run, e));
        if (run->sound && due) VT_TRY(check_finite_logits(&run->sound, run, e));
        if (end) VT_TRY(end_epoch(run, lr, e));
        if (run->sound && due) VT_TRY(write_checkpoint(run, e));
        if (stop && run->step < run->steps)
            return vt_fail(e, VT_INTERRUPTED, "stopped after step %lld of %lld; go on with @resume",
                           (long long)run->step, (long long)run->steps);
        if (!run->sound && run->step == run->steps)
            return vt_fail(e, VT_E_NUMERIC,
                           "the last step's loss, gradient or weights are not finite; %s/state.safetensors is the last "
                           "good checkpoint; try a smaller lr (now %g) or clip",
                           t->out, run->r->top.lr);
    }
    return VT_OK;
}

/* Logs a warning if tensors start at zero and mirror descent would keep them there. */
static vt_status warn_stuck(vt_run *run, vt_err *e) {
    const char *first;
    char text[300];
    int n = vt_update_stuck(&run->update, &first);
    if (!n) return VT_OK;
    snprintf(text, sizeof text,
             "warning: %d tensors start at zero (%s%s), which mirror descent with p < 2 leaves so slowly that they "
             "stay there",
             n, first, n > 1 ? ", ..." : "");
    return report_event(run, "stays zero", 0, text, e);
}

/* Logs a warning if the run was begun with other product kernels than this machine has: the promise of equal bytes
 * holds for one set. */
static vt_status warn_kernels(vt_run *run, vt_err *e) {
    char now[128], text[400];
    vt_gemm_kernels(now, sizeof now);
    if (!*run->kernels_before || !strcmp(now, run->kernels_before)) return VT_OK;
    snprintf(text, sizeof text, "warning: the run was begun with %s, this machine has %s: the last digits may differ",
             run->kernels_before, now);
    return report_event(run, "other kernels", run->step, text, e);
}

vt_status vt_train_run(const vt_train *t, vt_err *e) {
    vt_run *run = calloc(1, sizeof *run);
    if (!run) return vt_fail(e, VT_E_MEMORY, "no memory for training");
    vt_status s = open_run(run, t, e);
    if (s == VT_OK) s = run->resumed ? warn_kernels(run, e) : warn_stuck(run, e);
    if (s == VT_OK) s = run_training_loop(run, e);
    close_run(run);
    free(run);
    return s;
}
