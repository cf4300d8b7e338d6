/* SPDX-License-Identifier: MIT */
/* vitrine_evaluate: an evaluation by its options, as the command's (eval/options). */
#include <stdint.h>
#include <stdlib.h>
#include "api/api.h"
#include "eval/args.h"
#include "eval/report/checksums.h"
#include "eval/report/export.h"
#include "eval/report/summary.h"
#include "eval/evaluate.h"
#include "eval/parts.h"
#include "data/dataset.h"

static const vt_arg known_options[] = {{"weights", "WEIGHTS", "the checkpoint", VT_OF_MODEL}, VT_EVAL_ARGS, {0}};

/* Everything that the call holds; freed in one place. */
typedef struct job {
    vt_api_options options;
    vt_eval_options v;
    const vitrine_listener *listener;
    vitrine_run *run;
} job;

/* Passes a ledger line on to the listener as a verdict. */
static void report_verdict(void *ctx, const vt_record *r, const float *x_adv) {
    const vitrine_listener *l = ctx;
    vitrine_verdict v = {.clean = -1};
    (void)x_adv;
    vt_api_verdict(&v, r);
    l->on_verdict(l->ctx, r->entry, &v);
}

/* Opens j->run->ledger: in `out`, resumed if asked for and there, or in memory. */
static vt_status open_ledger(job *j, vt_err *e) {
    const vt_choices *c = &j->options.c;
    const vt_run_place place = {.out = vt_chosen(c, "out"),
                                .resume = vt_is_chosen(c, "resume"),
                                .allow_mixed = vt_is_chosen(c, "allow-mixed")};
    size_t pixels = vt_subject_pixels(&j->v.own.subject);
    vt_header *header;
    VT_TRY(vt_eval_header(&header, &j->v, e));
    vt_status s = vt_parts_open(&j->run->ledger, &place, header, pixels, e);
    vt_header_free(header);
    return s;
}

/* Writes reports, adversarial images and checksums into `out`, as the command does; without `out` nothing. */
static vt_status write_reports(job *j, vt_err *e) {
    const vt_choices *c = &j->options.c;
    const char *out = vt_chosen(c, "out");
    vt_summary s;
    if (!out) return VT_OK;
    VT_TRY(vt_ledger_finish(j->run->ledger, e));
    VT_TRY(vt_summary_make(&s, j->run->ledger, j->run->images, e));
    vt_status st = vt_reports_write(&s, out, NULL, e);
    vt_summary_free(&s);
    if (st == VT_OK && vt_is_chosen(c, "save-adv")) st = vt_save_adv(j->run->ledger, false, e);
    if (st == VT_OK && vt_is_chosen(c, "save-npz")) st = vt_save_adv(j->run->ledger, true, e);
    return st == VT_OK ? vt_checksums_write(out, e) : st;
}

/* Reads j's options into j->v and opens data and model; VT_E_USAGE unless there is one of weights and oracle. */
static vt_status open_evaluation(job *j, vt_err *e) {
    vt_eval_options *v = &j->v;
    const char *weights = vt_chosen(&j->options.c, "weights"), *oracle = vt_chosen(&j->options.c, "oracle");
    if (!weights == !oracle) return vt_fail(e, VT_E_USAGE, "vitrine_evaluate needs the option weights, or oracle");
    v->choices = &j->options.c, v->known = vt_api_known_say, v->known_ctx = (void *)(uintptr_t)j->listener;
    if (j->listener) v->interrupt = j->listener->interrupt;
    VT_TRY(vt_eval_options_read(v, e));
    return vt_eval_options_open(v, weights, e);
}

/* Tells the listener about the data what the command prints on stderr. */
static void say_data(const job *j, const vitrine_listener *l) {
    const vt_eval_options *v = &j->v;
    const vt_dataset *d = v->subject->data;
    char text[160];
    if (*d->said) l->say(l->ctx, d->said);
    if (*d->how && !d->head) l->say(l->ctx, d->how);
    if (vt_is_chosen(v->choices, "images") && vt_image_classes_text(d, v->images, v->n_images, text, sizeof text))
        l->say(l->ctx, text);
}

/* Runs an evaluation by its options into j->run, with reports if `out` is given. VT_INTERRUPTED, with what is kept. */
static vt_status run_evaluation(job *j, const char *const *options, vt_err *e) {
    const vitrine_listener *l = j->listener;
    VT_TRY(vt_api_options_read(&j->options, "vitrine_evaluate", options, known_options, e));
    VT_TRY(open_evaluation(j, e));
    if (l && l->say) j->v.progress = (vt_progress){.show = vt_api_say, .ctx = (void *)(uintptr_t)l, .live = true};
    if (l && l->say) say_data(j, l);
    VT_TRY(open_ledger(j, e));
    if (l && l->on_verdict)
        j->run->ledger->on_line = report_verdict, j->run->ledger->on_line_ctx = (void *)(uintptr_t)l;
    j->run->images = (int64_t)j->v.n_images;
    vt_status s = vt_eval_run(&j->v, j->run->ledger, e);
    j->run->ledger->on_line = NULL;
    if (s == VT_INTERRUPTED)
        return vt_fail(e, s, "interrupted; %zu ledger lines are %s", j->run->ledger->count,
                       vt_is_chosen(&j->options.c, "out") ? "kept: continue with resume"
                                                          : "lost, since there is no out");
    VT_TRY(s);
    return write_reports(j, e);
}

vitrine_status vitrine_evaluate(vitrine_run **out, const char *const *options, const vitrine_listener *listener,
                                vitrine_err *e) {
    if (out) *out = NULL;
    VT_API_NEEDS(out, options);
    VT_API_SIZED(listener, "the listener's size", vitrine_listener);
    vt_err why = {0};
    job *j = calloc(1, sizeof *j);
    if (j) j->listener = listener, j->run = calloc(1, sizeof *j->run);
    vt_status s = j && j->run ? run_evaluation(j, options, &why) : vt_fail(&why, VT_E_MEMORY, "no memory for a run");
    if (j) {
        if (s == VT_OK) *out = j->run, j->run = NULL;
        vitrine_run_close(j->run);
        vt_eval_options_close(&j->v);
        vt_api_options_free(&j->options);
    }
    free(j);
    return vt_api_end(e, s, &why);
}
