/* SPDX-License-Identifier: MIT */
/* Running the self-test and writing what it found: shared by selftest and eval. */
#pragma once

#include "cli/cli.h"
#include "selftest/selftest.h"

/* The verdict on the terminal and, with --out, in selftest.json. ledger: a finished run of v, or NULL. points_only:
 * what gradients are, nothing of what attacks find. */
vt_status vt_cli_selftest(const vt_cli *c, const vt_eval_options *v, const vt_attack *attack, const vt_ledger *ledger,
                          bool points_only, vt_err *e);
