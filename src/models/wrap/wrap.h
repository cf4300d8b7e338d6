/* SPDX-License-Identifier: MIT */
/* Known cheats, to test whoever judges: a wrap is one file wrap_*.c that makes a checkpoint look robust without making
 * it so. It alters the network before sessions are opened, or stands around a classifier, or both. */
#pragma once

#include "core/opt.h"
#include "models/wrap/classifier.h"

typedef struct vt_wrap_def {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL */
    /* Changes the network itself. [may be NULL] */
    void (*alter)(vt_config *c, const void *params);
    /* Stands around *c, which it then owns; on failure *c is as it was. [may be NULL] */
    vt_status (*cover)(vt_classifier *c, const void *params, vt_err *e);
    bool after_head; /* the cover treats logits alone: it is left out where another head is put on */
} vt_wrap_def;

const vt_wrap_def *const *vt_wrap_defs(int *n);
const vt_wrap_def *vt_wrap_find(const char *name); /* NULL: unknown */

/* A parsed `--wrap` spec. */
typedef struct vt_wrap {
    const vt_wrap_def *def; /* NULL: none */
    void *params;
    char id[200]; /* canonical "name:key=value,..." */
} vt_wrap;

/* "name" or "name:key=value,...". */
vt_status vt_wrap_parse(vt_wrap *out, const char *spec, vt_err *e);
void vt_wrap_free(vt_wrap *w); /* accepts a zeroed one */

/* The two halves; w NULL or empty: nothing. The model first, before anything is opened on it. */
vt_status vt_wrap_model(const vt_wrap *w, vt_model *m, vt_err *e);
vt_status vt_wrap_classifier(const vt_wrap *w, vt_classifier *c, bool other_head, vt_err *e);
