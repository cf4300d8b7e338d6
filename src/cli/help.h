/* SPDX-License-Identifier: MIT */
/* What help prints, of which tools/man.sh makes the manual pages. */
#pragma once

#include <stdio.h>
#include "cli/cli.h"

/* Prints all commands by sections, examples and exit statuses. */
void vt_help_all(FILE *f);
/* Prints a command's usage, options, details and examples, broken at 80 columns. */
void vt_help_command(FILE *f, const vt_command *c);
