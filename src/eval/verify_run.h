/* SPDX-License-Identifier: MIT */
/* Checks a finished run again from its files: every clean prediction and every stored point, by the judge alone, and
 * every certificate by its method, with nothing but weights and data. Everything that differs from the ledger is a
 * finding, one sentence each. */
#pragma once

#include <signal.h>
#include "base/progress.h"
#include "eval/ledger.h"
#include "eval/subject.h"

/* Sentences, in the order in which they were found: the first VT_FINDINGS_KEPT of n, for a file can hold damage
 * without end. */
enum { VT_FINDINGS_KEPT = 100 };
typedef struct vt_findings {
    char *text[VT_FINDINGS_KEPT];
    size_t n;
    bool lost; /* no memory to keep one of the first */
} vt_findings;
/* Adds a sentence; without memory sets f->lost. */
__attribute__((format(printf, 2, 3))) void vt_findings_add(vt_findings *f, const char *format, ...);
/* Accepts a zeroed one. */
void vt_findings_free(vt_findings *f);

typedef struct vt_run_verifier {
    const vt_ledger *ledger;
    const vt_subject *subject;
    const char *box; /* the file of a run under the box threat; NULL: unknown */
    int threads;
    vt_progress progress;
    const volatile sig_atomic_t *interrupt;
    /* what was looked at: clean predictions; stored points, and of these the broken and the borderline */
    int64_t clean, points, broken, borderline;
    int64_t certificates; /* proved again */
    int64_t open;  /* of both, those that the model leaves open: its votes, or answers that differ when asked again */
    int64_t moved; /* of both, those with a margin that is not the ledger's to the last bit */
    bool exact;    /* same compiler and product kernels: margins were compared to the last bit */
} vt_run_verifier;

/* Attacks the images that a run with certify-first left out, since they are certified, by its own attacks; a broken one
 * is a finding. *n: how many there are. VT_E_USAGE: the run has none, or attacks that need what a run does not hold (a
 * surrogate, targets). */
vt_status vt_attack_skipped(const vt_run_verifier *r, size_t *n, vt_findings *found, vt_err *e);
/* VT_E_USAGE when there is nothing to check: an unfinished run, a broken image without its tensor. */
vt_status vt_verify_run(vt_run_verifier *r, vt_findings *found, vt_err *e);
