/* SPDX-License-Identifier: MIT */
/* A run that several ranks write. Rank 0 has the run's own ledger, every other one a part, OUT/ranks/K, a ledger of the
 * same header; OUT may be one folder that all see, or one on each machine. Parts end in the run's ledger when the
 * evaluation does, and whoever goes on with the run (any number of ranks, or a process alone) first takes over those
 * that a killed one left. A line is there once, in whatever order and how often parts are taken over. */
#pragma once

#include "parallel/team.h"
#include "eval/ledger.h"

typedef struct vt_run_place {
    const char *out;
    bool resume, allow_mixed; /* as --resume and --allow-mixed */
    vt_team *team;
    const int32_t *images; /* [n_images] of the evaluation, which its header does not name */
    size_t n_images;
} vt_run_place;

/* Makes a run in place->out (NULL: in memory), or with resume opens the one there, and takes over its parts. *out: its
 * ledger, or a rank's part. VT_E_USAGE: ranks of other headers, by rank 0's allow_mixed, or images. Agrees. */
vt_status vt_parts_open(vt_ledger **out, const vt_run_place *place, vt_header *header, size_t pixels, vt_err *e);
/* Takes over what parts hold into rank 0's ledger l, syncs it and removes them; after a failure they are kept. l of
 * other ranks is their part, and must not be written to any more. Agrees. */
vt_status vt_parts_take(vt_ledger *l, const vt_run_place *place, vt_err *e);

/* Sets *out [*n], to be freed, to the lines that all other ranks have added to their ledgers since each had `from`:
 * which images stand. They are in nobody's file but their writer's. Agrees. */
vt_status vt_parts_news(const vt_ledger *l, size_t from, vt_team *t, vt_record **out, size_t *n, vt_err *e);
