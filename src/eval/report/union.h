/* SPDX-License-Identifier: MIT */
/* The union of threats: of several runs of one model on the same images, each under a threat of its own, the images
 * that stand in all of them (Maini, Wong and Kolter 2020, "Adversarial Robustness Against the Union of Multiple
 * Perturbation Models", section 3; Tramer and Boneh 2019 call an attacker who chooses per image the max adversary). */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "eval/ledger.h"

enum { VT_UNION_MOST = 16 };

typedef struct vt_union_run {
    const char *name; /* as the user calls it, borrowed; NULL: its folder */
    const vt_ledger *ledger;
    char threat[120];
    int64_t right; /* images that stand under this threat: right, and broken by no attack in the ball */
    int64_t alone; /* of those that fall in the union the ones that fall here alone */
} vt_union_run;

typedef struct vt_union {
    vt_union_run runs[VT_UNION_MOST]; /* name and ledger are the caller's to set, and n */
    int n;
    int64_t images, clean, right;
} vt_union;

/* Sets images, clean and right, and threat, right and alone of each run. VT_E_USAGE for runs of other models, data or
 * images, naming the first two that differ, and without attacks or of a curve; fails for an unfinished one. */
vt_status vt_union_make(vt_union *u, vt_err *e);
json_t *vt_union_json(const vt_union *u); /* NULL: no memory */
/* Writes a vt_union as a Markdown table (for vt_text_of, hence the untyped pointer). */
void vt_union_md(FILE *f, const void *u);
