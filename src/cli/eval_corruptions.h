/* SPDX-License-Identifier: MIT */
/* eval --corruption NAME, NAME,NAME or all, without --severity or with several names: one evaluation for each
 * corruption and severity, and a table of them. */
#ifndef VT_CLI_EVAL_CORRUPTIONS_H
#define VT_CLI_EVAL_CORRUPTIONS_H

#include "cli/cli.h"

/* Does the command line ask for more than one corruption and severity? */
bool vt_eval_many_corruptions(const vt_cli *c);
/* Calls once() with --corruption NAME --severity S --out OUT/NAME-S for each; then prints the accuracies by corruption
 * and severity with their means, and writes OUT/corruptions.json and OUT/corruptions.csv. */
vt_status vt_eval_corruptions(const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e);

#endif
