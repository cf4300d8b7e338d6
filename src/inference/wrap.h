/* SPDX-License-Identifier: MIT */
/* Known cheats, to test the self-test: a wrap is one file wrap_*.c that makes a checkpoint look robust without making
 * it so. It alters the network before sessions are opened, or stands around a classifier, or both. */
#pragma once

#include "base/opt.h"
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
/* Puts the wrap around *c, which it then owns; other_head: its factor on the logits is left out. w NULL or empty:
 * nothing. On failure *c is as it was. */
vt_status vt_wrap_classifier(const vt_wrap *w, vt_classifier *c, bool other_head, vt_err *e);
