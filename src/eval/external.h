/* SPDX-License-Identifier: MIT */
/* Adversarial images that another tool made, judged as ours are: norms in double on the float32 values, the box, and
 * the label by fresh forwards in float and in double. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include "attacks/ball.h"
#include "base/progress.h"
#include "eval/subject.h"
#include "eval/verify.h"
#include "data/adv_file.h"

#define VT_EXTERNAL_LIST(X)                                                                                            \
    X(BROKEN, "broken")       /* inside, right without perturbation and wrong with it */                               \
    X(ROBUST, "robust")       /* inside, right with it */                                                              \
    X(WRONG, "wrong")         /* the clean image is misclassified already */                                           \
    X(VIOLATION, "violation") /* outside of the ball or of [0,1], or not finite */
typedef enum vt_external_status {
#define VT_EXTERNAL_ENUM(id, text) VT_EXTERNAL_##id,
    VT_EXTERNAL_LIST(VT_EXTERNAL_ENUM)
#undef VT_EXTERNAL_ENUM
        VT_EXTERNAL_COUNT
} vt_external_status;

typedef struct vt_external_point {
    int64_t image;
    int label, clean; /* class of the clean image */
    vt_verdict v;
    double excess;               /* norm - eps, 0 when inside without allowance */
    int64_t outside, not_finite; /* values below 0 or above 1; NaN or infinite */
    vt_external_status status;
} vt_external_point;

typedef struct vt_external {
    const vt_subject *subject;
    const vt_adv_file *points;
    const int64_t *images; /* [points->n], which image each point belongs to */
    vt_norm norm;
    double eps;
    const char *eps_text;
    vt_patch patch;   /* size > 0: the patch threat, in place of norm and eps (which are linf and 1) */
    double allowance; /* of each value (vt_allowance) */
    int threads;
    vt_progress progress;
    const volatile sig_atomic_t *interrupt;
    vt_external_point *result;                             /* [points->n], by vt_external_run */
    int64_t count[VT_EXTERNAL_COUNT], borderline, allowed; /* allowed: inside by the allowance alone */
} vt_external;

/* Judges all points into f->result (freed by vt_external_free, also after a failure) and adds to the counts.
 * VT_E_NUMERIC: logits are not finite; VT_INTERRUPTED; VT_E_MEMORY. */
vt_status vt_external_run(vt_external *f, vt_err *e);
/* Frees the results, not what f was given; accepts a zeroed one. */
void vt_external_free(vt_external *f);
/* Returns what the allowance for rounding, which is of each value, adds to the radius in f's norm. */
double vt_external_allowance(const vt_external *f);

/* Prints at most `most` points (0: all), violations first, then how many are left out, and totals. */
void vt_external_table(FILE *out, const vt_external *f, int64_t most);
/* Writes a CSV of all points: a header line and a line for each. */
void vt_external_csv(FILE *out, const vt_external *f);
/* Returns totals and points (docs/formats.md); NULL: no memory. */
json_t *vt_external_json(const vt_external *f);
