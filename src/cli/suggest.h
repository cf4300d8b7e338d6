/* SPDX-License-Identifier: MIT */
/* What was probably meant by an unknown option. */
#ifndef VT_CLI_SUGGEST_H
#define VT_CLI_SUGGEST_H

#include "cli/cli.h"

/* Refuses an option that the command has not ("--" left out, a value behind = may follow): with what other tools call
 * so, else the nearest name. */
vt_status vt_cli_unknown_option(const vt_command *c, const char *given, vt_err *e);

#endif
