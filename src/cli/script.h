/* SPDX-License-Identifier: MIT */
/* What a script asks of a command: --json (one document on standard output, and nothing else), --quiet (nothing but
 * what went wrong), --fail-under (an exit status). */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "cli/cli.h"
#include "eval/report/summary.h"

#define VT_QUIET_ARG                                                                                                   \
    { "quiet", NULL, "print no table and no progress", VT_OF_OUTPUT }
#define VT_DRY_RUN_ARG                                                                                                 \
    { "dry-run", NULL, "print work, hours here and memory; run and write nothing", VT_OF_RUN }
#define VT_JSON_ARG                                                                                                    \
    { "json", NULL, "print one JSON document (docs/formats.md) and nothing else", VT_OF_OUTPUT }

/* After the command line is read: drops what is printed to standard output where it says so. */
vt_status vt_script_begin(const vt_cli *c, vt_err *e);
/* Is no progress to be shown? */
bool vt_script_quiet(void);
/* Where the document goes; NULL: none is asked for. */
FILE *vt_script_stream(void);
/* Prints o there and lets go of it; o NULL (no memory) only matters where a document is asked for. */
vt_status vt_script_print(json_t *o, vt_err *e);

/* --fail-under robust=P,clean=P */
typedef struct vt_floor {
    double clean, robust; /* percent of the images; NaN: not asked for */
} vt_floor;
#define VT_FLOOR_ARG                                                                                                   \
    {                                                                                                                  \
        "fail-under", "robust=P", "exit status 1 when fewer than P % are right (worst case); clean=P too, repeatable", \
            VT_OF_RUN                                                                                                  \
    }
vt_status vt_floor_parse(vt_floor *f, const vt_cli *c, bool attacked, vt_err *e);
/* VT_E_RANGE when a share of right images lies below its floor: the counts decide, not their intervals. */
vt_status vt_floor_check(const vt_floor *f, const vt_summary *s, vt_err *e);
