/* SPDX-License-Identifier: MIT */
/* vitrine falsify on lists: all instances of an instances.csv, and a verifier's results held against them. */
#pragma once

#include "cli/cli.h"
#include "spec/falsify.h"

/* --steps, --restarts, --seconds, --seed, --threads. Rounds have no limit by default where the time has one. */
vt_status vt_falsify_options_read(vt_falsify_options *o, const vt_cli *c, vt_err *e);
/* Opens both files, with what of a checkpoint must be known; what is wrong with them is VT_E_USAGE. */
vt_status vt_falsify_open(vt_spec_pair *p, const vt_cli *c, const char *model, const char *spec, vt_err *e);

vt_status vt_falsify_instances(const vt_cli *c, const char *csv, vt_err *e);
vt_status vt_falsify_referee(const vt_cli *c, const char *results, const char *csv, vt_err *e);
