/* SPDX-License-Identifier: MIT */
/* One evaluation several times, each into a folder below --out, and a table of them. once() is vitrine eval with the
 * options that it is given. */
#pragma once

#include "cli/cli.h"

typedef vt_status (*vt_once_fn)(const vt_cli *c, vt_err *e);

/* --seeds 0,1,2: with --seed N --out OUT/seed-N; mean and range of every row of the table, and OUT/seeds.json. */
vt_status vt_eval_seeds(const vt_cli *c, vt_once_fn once, vt_err *e);

/* Does the command line ask for more than one corruption and severity (--corruption NAME, NAME,NAME or all)? */
bool vt_eval_many_corruptions(const vt_cli *c);
/* With --corruption NAME --severity S --out OUT/NAME-S; accuracies by corruption and severity with their means, and
 * OUT/corruptions.json and OUT/corruptions.csv. */
vt_status vt_eval_corruptions(const vt_cli *c, vt_once_fn once, vt_err *e);
