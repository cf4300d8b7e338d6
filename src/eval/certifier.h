/* SPDX-License-Identifier: MIT */
/* Methods that prove images robust: a file src/eval/certify_X.c each, found by its file's name. `vitrine eval --certify
 * NAME:key=value,...` asks one of them about every image that is classified right, at the run's threat. What it answers
 * depends on image, parameters and the image's random numbers alone: budgets are counted in steps, never in seconds. */
#pragma once

#include <signal.h>
#include "base/opt.h"
#include "attacks/ball.h"
#include "inference/classifier.h"

typedef struct vt_eval_options vt_eval_options;
struct vt_record;

typedef struct vt_certificate {
    bool certified;   /* proven at the run's threat; else undecided */
    double radius;    /* largest proven radius where the method knows one; NaN: it answers the run's threat alone */
    int64_t forwards; /* of the model, or bounds computed, which the image cost */
    const volatile sig_atomic_t *interrupt; /* set by the caller: VT_INTERRUPTED once it is set; NULL: never */
} vt_certificate;

enum { VT_CERTIFIER_TEXT = 700 }; /* bytes of a sentence */

typedef struct vt_certifier_def {
    const char *name, *summary, *reference;
    bool estimates; /* proves with a probability: a verdict within the classifier's own doubt contradicts nothing */
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL */
    /* Refuses a threat, norm, wrap or network that the method does not know, with VT_E_USAGE, and makes what all images
     * share (a graph, constants; NULL: nothing). Called before a run exists, and again before its first image. */
    vt_status (*prepare)(void **shared, const void *params, const vt_eval_options *v, vt_err *e);
    void (*release)(void *shared); /* accepts NULL */
    /* State of a worker, which certifies one image at a time; workers of one thread take turns while they wait for the
     * classifier. NULL: none. */
    vt_status (*open)(void **self, const void *shared, const void *params, const vt_eval_options *v, vt_err *e);
    void (*close)(void *self); /* accepts NULL */
    /* Certifies an image x [pixels], which the model classifies right, as *out (zeroed, radius NaN). self: the worker's
     * state; c: its classifier with the wrap; key: random numbers of this image. */
    vt_status (*image)(void *self, const vt_classifier *c, const vt_rng *key, const float *x, int32_t label,
                       vt_certificate *out, vt_err *e);
    /* Writes the reports' sentence [VT_CERTIFIER_TEXT]: of which classifier (wrapped or plain), which threat, with what
     * probability, for which arithmetic. */
    void (*sentence)(const void *params, const vt_eval_options *v, char *text, size_t size);
} vt_certifier_def;

/* Returns all methods [*n], in the order of their files. */
const vt_certifier_def *const *vt_certifier_defs(int *n);
const vt_certifier_def *vt_certifier_find(const char *name); /* NULL: unknown */

/* A parsed `--certify` spec. */
typedef struct vt_certifier {
    const vt_certifier_def *def; /* NULL: none */
    void *params;
    char id[200]; /* canonical "name:key=value,..." */
} vt_certifier;

/* Parses "name" or "name:key=value,...". */
vt_status vt_certifier_parse(vt_certifier *out, const char *spec, vt_err *e);
void vt_certifier_free(vt_certifier *c); /* accepts a zeroed one */
/* ---- for methods that bound the network itself ---- */

/* Refuses, in the words of method `name`, another threat than `norm`, a wrap, and a model in another process. */
vt_status vt_certifier_network(const char *name, vt_norm norm, const vt_eval_options *v, vt_err *e);
/* An image in double, and the threat: part of a worker's state. */
typedef struct vt_certifier_image {
    double *x, eps;
    const int *head; /* output of each class; NULL: the same */
    size_t n;
} vt_certifier_image;
/* Takes its memory, to be freed as x; VT_E_MEMORY. */
vt_status vt_certifier_image_open(vt_certifier_image *i, const vt_eval_options *v, vt_err *e);
/* Sets it to x [n], and returns the output of class `label`: with restricted classes it has to win against all outputs,
 * which is more than is asked. */
int vt_certifier_image_set(vt_certifier_image *i, const float *x, int label);

/* Refuses what the method of v->certify does not know; nothing without one. */
vt_status vt_certifier_check(const vt_eval_options *v, vt_err *e);
/* Certifies image r->image, x of class r->label, and fills the record (eval/ledger.h) but for its hash and target. */
vt_status vt_certify_record(struct vt_record *r, const vt_eval_options *v, void *self, const vt_classifier *c,
                            const float *x, vt_err *e);
