/* SPDX-License-Identifier: MIT */
/* The auditor's page of one evaluation: what was evaluated, what was found, what was not tested, and beside each number
 * the command that gives it again. A pure function of the run's files and of those of the runs beside it. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "eval/ledger.h"
#include "eval/report/summary.h"

/* Commands that give numbers again. */
typedef enum vt_again {
    VT_AGAIN_RUN,      /* the evaluation, into another folder; of an unfinished run: a copy of it goes on to the end */
    VT_AGAIN_SAME,     /* compares both ledgers; of an unfinished run: none */
    VT_AGAIN_VERIFY,   /* judges every stored point anew */
    VT_AGAIN_HEADER,   /* prints the ledger's first line */
    VT_AGAIN_FILES,    /* checks the hashes of the run's files */
    VT_AGAIN_MODEL,    /* prints the checkpoint's hash and settings */
    VT_AGAIN_QUERIES,  /* writes success over queries as numbers */
    VT_AGAIN_SELFTEST, /* of a run that has none; else compares it with that of the second run */
    VT_AGAIN_PAGE,     /* this page */
    VT_AGAIN_COUNT
} vt_again;

enum { VT_DOSSIER_OTHERS = 15, VT_COMMAND_ROOM = 16384 };

/* A run beside the page's own: of the same model, under another threat or on other images; or a folder of runs on
 * corrupted images. */
typedef struct vt_dossier_other {
    const char *name;   /* as the user calls it */
    vt_ledger *ledger;  /* of the run, or of the first one of the folder */
    vt_summary summary; /* of the run */
    json_t *sweep;      /* corruptions.json of the folder, which has no summary; NULL: a run */
    char *again;        /* the command that makes it; "": run.json names none */
} vt_dossier_other;

typedef struct vt_dossier {
    const char *name; /* of the model; "": unknown */
    const vt_ledger *ledger;
    const vt_summary *summary;
    const char *weights, *data;   /* paths; weights NULL: a model in another process */
    const char *images;           /* which, as typed; NULL: all */
    const json_t *run, *selftest; /* run.json, selftest.json; NULL: none */
    const char *verdict;          /* the self-test's, in a sentence; "": none was made */
    bool finished;                /* SHA256SUMS is there */
    char *again[VT_AGAIN_COUNT];  /* each of VT_COMMAND_ROOM; "": there is none */
    vt_dossier_other other[VT_DOSSIER_OTHERS];
    int n_others;
} vt_dossier;

/* Writes the page. VT_E_MEMORY, or a file of the run that cannot be read; a write error is left in f. */
vt_status vt_dossier_write(FILE *f, const vt_dossier *d, vt_err *e);
/* Writes the list of what was not tested, as items of HTML (dossier_untested.c). */
void vt_dossier_untested(FILE *f, const vt_dossier *d);
/* Returns what an attack is given to know: "gradients", "logits", ...; of a name that this program does not know
 * "unknown". */
const char *vt_dossier_knowledge(const char *attack);
