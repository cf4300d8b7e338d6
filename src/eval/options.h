/* SPDX-License-Identifier: MIT */
/* What is asked of an evaluation, as values: read from choices (a command line's options, or those of a caller of the
 * library) or put together by a program. Sentences name the choices, `@eps`. */
#pragma once

#include <signal.h>
#include "attacks/attacker.h"
#include "base/opt.h"
#include "base/progress.h"
#include "data/box.h"
#include "eval/certifier.h"
#include "eval/parts.h"
#include "eval/subject.h"
#include "eval/targets.h"

enum { VT_EVAL_ATTACKS = 64 }; /* entries that choices may ask for */

/* Called with each checkpoint before anything is computed with it: refuses one whose settings are assumed. other: it is
 * the surrogate, which the choices do not describe. */
typedef vt_status (*vt_known_fn)(void *ctx, const vt_model *m, bool other, vt_err *e);

/* The radius of one entry of a curve, as a number and as typed. INFINITY: a minimum-norm attack, which looks for the
 * nearest point of the whole box. */
typedef struct vt_radius {
    double eps;
    const char *text;
} vt_radius;

/* An entry that the caller adds to those of the choices. */
typedef struct vt_named_attack {
    const char *spec, *name; /* its attack; what the table calls it */
    int entry;               /* set by vt_eval_options_read: 1, 2, ...; two of one attack share an entry */
} vt_named_attack;

struct vt_eval_options {
    const vt_subject *subject;
    const int32_t *images; /* ascending, distinct, each in [0, subject->data->count) */
    size_t n_images;
    vt_norm norm;
    vt_patch patch;       /* size > 0: the patch threat, in place of norm and eps (which are linf and 1) */
    vt_box *box;          /* bounds of each value, in place of norm and eps likewise; NULL: none */
    vt_rotation rotation; /* angles > 0: the rotation threat, in place of norm and eps likewise */
    const float *picture; /* [channels, size, size] that attack universal pastes; NULL: none */
    const char *picture_sha256;
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
    vt_certifier certify;      /* proves images robust at this threat, before they are attacked; empty: none */
    bool certify_first;        /* images that it proves are not attacked */
    const vt_run_place *place; /* of ranks that do it together; NULL: this process alone does */
    vt_progress progress;
    double
        seconds; /* until `interrupt` will be set: images are attacked in a random order (eval/limit.h); 0: no limit */
    const volatile sig_atomic_t *interrupt; /* ends waiting for models in other processes too */

    /* What the functions below read from. */
    const vt_choices *choices; /* must outlive the options */
    vt_known_fn known;
    void *known_ctx;
    bool shared;            /* by ranks, each of which opens it: nothing is measured that might differ between them */
    vt_named_attack *named; /* [n_named] */
    int n_named;
    /* What they opened, and vt_eval_options_close frees. */
    struct {
        vt_subject subject;
        vt_targets targets;
        vt_box box;
        float *picture;
        char picture_sha256[65];
        int32_t *images;
        vt_attack *attacks;
        char eps_text[40];
    } own;
};

/* threat or norm, profile, attack, individual, eight-bit, targets, eps, seed, exhaustive, skip-not-finite, and what
 * needs an `out` or an attack: nothing is opened but files of targets and of a box. Close the options whatever comes of
 * it. */
vt_status vt_eval_options_read(vt_eval_options *v, vt_err *e);
/* data, images, the model (weights NULL: the choice `oracle`), search, threads, batch, surrogate, patch; checked: ready
 * to be run. The eps of a curve is set here. */
vt_status vt_eval_options_open(vt_eval_options *v, const char *weights, vt_err *e);
void vt_eval_options_close(vt_eval_options *v); /* accepts a zeroed one */

/* ---- what an evaluation takes, and what is refused (evaluate_start.c) ---- */

/* Returns the sizes of the evaluation's images and their classes. */
vt_task vt_eval_dims(const vt_eval_options *v);
/* Returns the images that a thread attacks at a time, at least 1. */
int vt_eval_batch(const vt_eval_options *v);
/* Does an attack need a surrogate? */
bool vt_eval_transfers(const vt_eval_options *v);
/* Does an attack climb what is inside the model, and does the model show that? */
bool vt_eval_climbs(const vt_eval_options *v);
/* Returns the floats of scratch that the hungriest stage needs. */
size_t vt_eval_work(const vt_eval_options *v, const vt_task *dims);

/* Refuses what cannot work before a ledger exists: image size, class counts, targets. */
vt_status vt_eval_check(const vt_eval_options *v, vt_err *e);
/* Is there an 8-bit entry? */
bool vt_eval_eight_bit(const vt_eval_options *v);
/* Limits threads, and images of each at a time, to the number of images. */
void vt_eval_fit(vt_eval_options *v);
/* Memory that the evaluation takes at most beside its model and data; vt_eval_check refuses more than there is. */
size_t vt_eval_bytes(const vt_eval_options *v);

/* ---- parts of the choices ---- */

/* Returns what attacks are parsed for: the norm, or what stands for the threat in its place. */
vt_norm vt_eval_norm(const vt_eval_options *v);
/* Finds a norm by name; NULL: linf. VT_E_USAGE: unknown. */
vt_status vt_norm_parse(const char *text, vt_norm *out, vt_err *e);
/* Reads eps in pixel units: above 0; linf at most 1 (8 suggests 8/255); l1 at least 0.1 (less suggests linf); l0 whole.
 * VT_E_USAGE: out of range, or NULL. */
vt_status vt_eps_parse(const char *text, vt_norm norm, double *out, vt_err *e);
/* Sets s->search by the choice "search", for a subject that is open; auto is the fastest that this processor has.
 * VT_E_USAGE: it has none of what was asked for, or the model is not computed here. */
vt_status vt_search_parse(const vt_choices *c, vt_subject *s, vt_err *e);
/* Reads threads. Default: all processors; for an external model 1, since each thread has a process of its own. */
vt_status vt_threads_parse(const vt_choices *c, const vt_subject *s, int *threads, vt_err *e);
/* Opens the model (weights NULL: the choice "oracle") for s->data, which is open, and fits it to image `first`. */
vt_status vt_eval_options_subject(const vt_eval_options *v, vt_subject *s, const char *weights, int32_t first,
                                  vt_err *e);
