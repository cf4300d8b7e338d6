/* SPDX-License-Identifier: MIT */
/* eval --seeds 0,1,2: the evaluation once with each seed, and how far its results lie apart. */
#ifndef VT_CLI_EVAL_SEEDS_H
#define VT_CLI_EVAL_SEEDS_H

#include "cli/cli.h"

/* Calls once() with --seed N --out OUT/seed-N for every seed; then prints mean and range of every row of the table and
 * writes OUT/seeds.json. */
vt_status vt_eval_seeds(const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e);

#endif
