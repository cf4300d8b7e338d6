/* SPDX-License-Identifier: MIT */
/* An evaluation: clean predictions, then every attack stage by stage, images in parallel, each stage on the survivors
 * of the one before. Nothing an image yields depends on other images, on threads or on interruptions. */
#ifndef VT_EVAL_EVALUATE_H
#define VT_EVAL_EVALUATE_H

#include <signal.h>
#include "attacks/attacker.h"
#include "core/progress.h"
#include "eval/ledger.h"
#include "eval/parts.h"
#include "eval/subject.h"
#include "eval/targets.h"

/* The radius of one entry of a curve, as a number and as typed. INFINITY: a minimum-norm attack, which looks for the
 * nearest point of the whole box. */
typedef struct vt_radius {
    double eps;
    const char *text;
} vt_radius;

typedef struct vt_eval {
    const vt_subject *subject;
    const int32_t *images; /* ascending, distinct, each in [0, subject->data->count) */
    size_t n_images;
    vt_norm norm;
    vt_patch patch; /* size > 0: the patch threat, in place of norm and eps (which are linf and 1) */
    double eps;
    const char *eps_text; /* as typed */
    uint64_t seed;
    int threads;
    int batch; /* images that each thread attacks at a time and whose questions to the model are one batch; 0: 1 */
    bool exhaustive;
    bool skip_not_finite; /* a clean image without finite logits gets a line that says so, and does not end the run */
    const vt_attack *attacks;
    int n_attacks;
    /* A curve: [n_attacks], instead of eps, which is then the box's diameter. An entry of finite radius takes the
     * images that no entry before it broke within that radius. NULL: an evaluation at eps. */
    const vt_radius *radii;
    const vt_targets *targets; /* the class that each image is to be turned into; NULL: any but the label */
    const vt_run_place *place; /* of ranks that do it together; NULL: this process alone does */
    vt_progress progress;
    const volatile sig_atomic_t *interrupt;
} vt_eval;

/* Sizes of its images and their classes; images that a thread has at a time; does an attack need a surrogate; floats of
 * scratch that the hungriest stage needs. */
vt_task vt_eval_dims(const vt_eval *v);
int vt_eval_batch(const vt_eval *v);
bool vt_eval_transfers(const vt_eval *v);
bool vt_eval_climbs(const vt_eval *v); /* does one climb what is inside the model, and is that shown? */
size_t vt_eval_work(const vt_eval *v, const vt_task *dims);

/* Refuses what cannot work before a ledger exists: image size, class counts, targets. */
vt_status vt_eval_check(const vt_eval *v, vt_err *e);
/* The ledger header of this evaluation; NULL: no memory. */
json_t *vt_eval_header(const vt_eval *v);
/* Threads, and images of each at a time: no more than there are images. */
void vt_eval_fit(vt_eval *v);
/* Memory that the evaluation takes at most beside its model and data; vt_eval_check refuses more than there is. */
size_t vt_eval_bytes(const vt_eval *v);
/* Does what the ledger does not hold yet. l may hold a part of it (resumed). VT_INTERRUPTED: stopped on request, all
 * finished lines are in the ledger. With ranks (v->place, l from vt_parts_open) rank 0's ledger has every line then;
 * the others' are not to be read. */
vt_status vt_eval_run(const vt_eval *v, vt_ledger *l, vt_err *e);

#endif
