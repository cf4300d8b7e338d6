/* SPDX-License-Identifier: MIT */
/* vitrine_train: a training by its options, as the command's. */
#include <stdint.h>
#include "api/api.h"
#include "parallel/threads.h"
#include "eval/args.h"
#include "train/train.h"

static const vt_arg known_options[] = {{"recipe", "FILE", "the recipe", VT_OF_RUN}, VT_TRAIN_ARGS, {0}};

/* Opens j, to be closed in any case, and runs the training by its options; a stop at max-steps is no failure.
 * VT_E_USAGE: recipe, data or out is missing. */
static vt_status run_training(vt_train_job *j, vt_api_options *options, const vitrine_listener *l, vt_err *e) {
    const vt_choices *c = &options->c;
    static const char *const needed[] = {"recipe", "data", "out"};
    long long asked;
    vt_train *t = &j->t;
    VT_TRY(vt_chosen_int(c, "threads", 0, VT_THREADS_MOST, 0, &asked, e));
    for (int i = 0; i < 3; i++)
        if (!vt_is_chosen(c, needed[i])) return vt_fail(e, VT_E_USAGE, "vitrine_train needs the option %s", needed[i]);
    VT_TRY(vt_train_open(j, c, vt_chosen(c, "recipe"), NULL, vt_api_known_say, (void *)(uintptr_t)l, e));
    if (*j->note && l && l->say) l->say(l->ctx, j->note);
    VT_TRY(vt_api_threads(NULL, (int)asked, &t->threads, e));
    t->interrupt = l ? l->interrupt : NULL;
    if (l && l->say) t->progress = (vt_progress){.show = vt_api_say, .ctx = (void *)(uintptr_t)l, .live = true};
    vt_status s = vt_train_run(t, e);
    return s == VT_INTERRUPTED && !(t->interrupt && *t->interrupt) ? VT_OK : s; /* max-steps: as it was asked */
}

vitrine_status vitrine_train(const char *const *options, const vitrine_listener *listener, vitrine_err *e) {
    VT_API_NEEDS(options);
    VT_API_SIZED(listener, "the listener's size", vitrine_listener);
    vt_err why = {0};
    vt_train_job j = {0};
    vt_api_options o = {0};
    vt_status s = vt_api_options_read(&o, "vitrine_train", options, known_options, &why);
    if (s == VT_OK) s = run_training(&j, &o, listener, &why);
    vt_train_close(&j);
    vt_api_options_free(&o);
    return vt_api_end(e, s, &why);
}
