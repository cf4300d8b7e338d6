/* SPDX-License-Identifier: MIT */
/* One evaluation several times, each into a folder below --out, and a table of them: once() is vitrine eval with the
 * options that it is given. And --fail-under, which one evaluation or each of several has to reach. */
#pragma once

#include "cli/cli.h"
#include "eval/report/summary.h"

typedef vt_status (*vt_once_fn)(const vt_cli *c, vt_err *e);

/* --seeds 0,1,2: with --seed N --out OUT/seed-N; mean and range of every row of the table, and OUT/seeds.json. */
vt_status vt_eval_seeds(const vt_cli *c, vt_once_fn once, vt_err *e);

/* Does the command line ask for more than one corruption and severity (--corruption NAME, NAME,NAME or all)? */
bool vt_eval_many_corruptions(const vt_cli *c);
/* With --corruption NAME --severity S --out OUT/NAME-S; accuracies by corruption and severity with their means, and
 * OUT/corruptions.json and OUT/corruptions.csv. */
vt_status vt_eval_corruptions(const vt_cli *c, vt_once_fn once, vt_err *e);

/* --fail-under robust=P,clean=P */
typedef struct vt_floor {
    double clean, robust; /* percent of the images; NaN: not asked for */
} vt_floor;
#define VT_FLOOR_ARG                                                                                                   \
    {                                                                                                                  \
        "fail-under", "robust=P", "exit status 1 when fewer than P % are right (worst case); clean=P too, repeatable", \
            VT_OF_RUN                                                                                                  \
    }
/* attacked: the run has an attack, without which there is no robust accuracy. */
vt_status vt_floor_parse(vt_floor *f, const vt_cli *c, bool attacked, vt_err *e);
/* VT_E_RANGE when a share of right images lies below its floor: the counts decide, not their intervals. */
vt_status vt_floor_check(const vt_floor *f, const vt_summary *s, vt_err *e);
