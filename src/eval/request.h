/* SPDX-License-Identifier: MIT */
/* An evaluation as it was asked for: pairs of a name and a text (a command line's options, or those of a caller of the
 * library), opened and checked. The order of the calls is that of the functions below; sentences name the options. */
#ifndef VT_EVAL_REQUEST_H
#define VT_EVAL_REQUEST_H

#include "core/choices.h"
#include "eval/evaluate.h"

enum { VT_REQUEST_ATTACKS = 64 };

/* Asked of each checkpoint before anything is computed with it: is nothing of it a guess? other: it is not the model
 * that is judged, and the choices do not tell of it. */
typedef vt_status (*vt_known_fn)(void *ctx, const vt_model *m, bool other, vt_err *e);

/* Everything that an evaluation holds: zero it, and close it whatever happened. */
typedef struct vt_request {
    vt_eval v; /* points into the rest */
    vt_subject subject;
    vt_targets targets;
    int32_t *images;
    vt_attack attacks[VT_REQUEST_ATTACKS];
    const vt_choices *c; /* of the caller */
    vt_known_fn known;
    void *known_ctx;
    const volatile sig_atomic_t *interrupt; /* ends waiting for models in other processes too */
    bool shared; /* by ranks, each of which opens it: nothing is measured that might differ between them */
} vt_request;

/* A norm's name; NULL: linf. */
vt_status vt_request_norm(const char *text, vt_norm *out, vt_err *e);
/* eps in pixel units: above 0; linf at most 1 (8 suggests 8/255); l1 at least 0.1 (less suggests linf). */
vt_status vt_request_eps(const char *text, vt_norm norm, double *out, vt_err *e);

/* norm or threat: a patch is free in [0,1], which is linf 1 as far as its pixels go. */
vt_status vt_request_threat(vt_request *r, vt_err *e);
/* profile, attack, individual, eight-bit; a surrogate that no attack of the run asks gets one that does. */
vt_status vt_request_attacks(vt_request *r, vt_err *e);
/* One more entry: the whole attack, or `individual` its stage k. */
vt_status vt_request_add(vt_request *r, const char *spec, bool individual, int k, vt_scoring scoring, vt_err *e);
/* targets, eps, seed, exhaustive, expect-robust, and what needs an `out`. */
vt_status vt_request_terms(vt_request *r, vt_err *e);
/* data, images, then the model (weights NULL: the choice `oracle`), search, surrogate, threads, batch: r->v is ready to
 * be run.
 */
vt_status vt_request_open(vt_request *r, const char *weights, vt_err *e);
void vt_request_close(vt_request *r); /* accepts a zeroed one */

/* The choice "search": s->search, of a subject that is open; auto is the fastest that this processor has. VT_E_USAGE
 * where it has none of what was asked for, or the model is not computed here. */
vt_status vt_request_search(const vt_choices *c, vt_subject *s, vt_err *e);

/* Parts of vt_request_open for commands that ask otherwise. The subject: data are open, `first` is an image of it. */
vt_status vt_request_subject(vt_request *r, vt_subject *s, const char *weights, int32_t first, vt_err *e);
/* threads: of a model in another process by default 1, since each thread has a process of its own. */
vt_status vt_request_threads(const vt_choices *c, const vt_subject *s, int *threads, vt_err *e);
/* v->threads and v->batch, of v->n_images: of a model in another process by default what the ledger says that is to be
 * resumed, else what the model measures to be best, else as many as it takes at once, 64 at most. */
vt_status vt_request_pace(const vt_request *r, const vt_subject *s, vt_eval *v, vt_err *e);

#endif
