/* SPDX-License-Identifier: MIT */
/* Papers whose released evaluators can be run beside corrected ones (`vitrine eval --as-published PAPER`): which
 * attacks a row of the paper's tables is, as published and corrected, and the table of both, a pure function of the
 * ledger. */
#pragma once

#include "attacks/ball.h"
#include "eval/report/summary.h"

typedef struct vt_published_row {
    const char *label, *published, *corrected; /* "PGD-2", two specs */
    const char *why;                           /* what the published evaluator does differently, one sentence */
} vt_published_row;

enum { VT_PUBLISHED_ROWS = 5 };

typedef struct vt_paper {
    const char *name, *citation;
    double eps;                               /* the radius that its evaluator has built in; 0: the run's */
    vt_published_row rows[VT_PUBLISHED_ROWS]; /* ends at label NULL, or at the end */
} vt_paper;

/* Finds a paper by name, in any case; VT_E_USAGE for an unknown one, with the nearest name or all. */
vt_status vt_paper_find(const vt_paper **out, const char *name, vt_err *e);
/* Refuses, with VT_E_USAGE, a threat that the paper's evaluators do not have: a norm but linf, patches (as typed, or
 * NULL), a radius more than 5 % from theirs. */
vt_status vt_paper_fits(const vt_paper *p, vt_norm norm, const char *patch, double eps, const char *eps_text,
                        vt_err *e);

struct vt_named_attack; /* eval/options.h */
/* Adds "as_published" to a header; entries: two a row, its published and its corrected one. VT_E_MEMORY. */
vt_status vt_published_describe(vt_header *header, const vt_paper *p, const struct vt_named_attack *entries, vt_err *e);

/* A row of the table: what an attack leaves standing as published, and what it leaves corrected. */
typedef struct vt_published_pair {
    const char *label, *why;
    int64_t published, corrected, total; /* right under the evaluator; of all images */
    double points;                       /* published minus corrected, in points */
} vt_published_pair;
/* Fills row i of the two numbers beside each other; false: past the end, or a run without --as-published. */
bool vt_published_pair_at(const vt_summary *s, int i, vt_published_pair *out);
/* Writes "specformer: Hu et al. ..." and returns text; NULL: a run without --as-published. */
const char *vt_published_title(const vt_summary *s, char *text, size_t size);
