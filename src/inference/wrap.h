/* SPDX-License-Identifier: MIT */
/* Wraps: one file wrap_*.c each. It alters the network before sessions are opened, or stands around a classifier, or
 * both. Most are known cheats, to test the self-test, which make a checkpoint look robust without making it so; those
 * with `around` are defences that can be certified. */
#pragma once

#include "base/opt.h"
#include "base/shape.h"
#include "inference/classifier.h"

typedef struct vt_wrap_def {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL */
    /* Changes the network itself. [may be NULL] */
    void (*alter)(vt_config *c, const void *params);
    /* What the network sees in place of x [pixels]: y. key: the image's, and the wrap's; its step counts the calls.
     * [may be NULL] */
    void (*see)(const void *params, vt_rng *key, const float *x, float *y, size_t pixels);
    /* Multiplies the logits; left out where another head is put on. [may be NULL] */
    double (*factor)(const void *params);
    /* Is the gradient reported as zero? [may be NULL] */
    bool (*hides_gradient)(const void *params);
    /* Puts a classifier of its own around *c, which it then owns, instead of see and factor: a defence, whose answer
     * takes several queries. On failure *c is as it was. [may be NULL] */
    vt_status (*around)(vt_classifier *c, const void *params, vt_shape shape, vt_err *e);
    /* Of such a wrap: refuses options that do not suit images of that shape; turns the cost of a forward and of a
     * gradient of the network into those of the wrapped classifier. */
    vt_status (*fit)(const void *params, vt_shape shape, vt_err *e);
    void (*cost)(const void *params, double *forward, double *gradient);
    bool blurs; /* no single kept forward stands for its answer: no attention can be looked at */
} vt_wrap_def;

/* Returns all wraps [*n], in the order of their files. */
const vt_wrap_def *const *vt_wrap_defs(int *n);
const vt_wrap_def *vt_wrap_find(const char *name); /* NULL: unknown */

/* A parsed `--wrap` spec. */
typedef struct vt_wrap {
    const vt_wrap_def *def; /* NULL: none */
    void *params;
    char id[200]; /* canonical "name:key=value,..." */
} vt_wrap;

/* Parses "name" or "name:key=value,...". */
vt_status vt_wrap_parse(vt_wrap *out, const char *spec, vt_err *e);
void vt_wrap_free(vt_wrap *w); /* accepts a zeroed one */

bool vt_wrap_covers(const vt_wrap *w); /* does it stand around a classifier? */
/* Alters the model's configuration, before anything is opened on it; w NULL or empty: not at all. */
vt_status vt_wrap_model(const vt_wrap *w, vt_model *m, vt_err *e);
bool vt_wrap_defends(const vt_wrap *w); /* is it a defence, with `around`? */
/* Refuses options of a defence that do not suit images of that shape; other wraps suit all. */
vt_status vt_wrap_fit(const vt_wrap *w, vt_shape shape, vt_err *e);
/* Turns the cost of a forward and a gradient of the network into those of the wrapped classifier. */
void vt_wrap_cost(const vt_wrap *w, double *forward, double *gradient);
/* Puts the wrap around *c, of images of that shape, which it then owns; other_head: a defence and a factor on the
 * logits are left out. w NULL or empty: nothing. On failure *c is as it was. */
vt_status vt_wrap_classifier(const vt_wrap *w, vt_classifier *c, vt_shape shape, bool other_head, vt_err *e);
