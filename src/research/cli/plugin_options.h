/* SPDX-License-Identifier: MIT */
/* The options of the lab or analysis that is named on the command line: rows of its vt_opt table, given as flags of
 * the command. */
#pragma once

#include "cli/cli.h"
#include "base/opt.h"

typedef struct vt_plugin_options {
    const char *what, *name; /* "lab", "attgd" */
    const vt_opt *opts;      /* may be NULL */
} vt_plugin_options;

/* For vt_command.find: *out: --key as an option; VT_E_UNKNOWN suggests the nearest of its own and the command's. */
vt_status vt_plugin_options_find(const vt_plugin_options *o, const vt_cli *c, const char *key, vt_arg *out, vt_err *e);
/* Sets *params [size], for the caller to free, also after a failure: the defaults, then flags and (if the command has
 * it) --set key=value in the command line's order. VT_E_UNKNOWN for another key, VT_E_USAGE for a --set without
 * key=value, VT_E_MEMORY; or vt_opt_set's failure. */
vt_status vt_plugin_options_parse(const vt_plugin_options *o, const vt_cli *c, size_t size, void **params, vt_err *e);
