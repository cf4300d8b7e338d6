/* SPDX-License-Identifier: MIT */
/* What help prints, of which tools/man.sh makes the manual pages. */
#pragma once

#include <stdio.h>
#include "cli/cli.h"

void vt_help_all(FILE *f);
void vt_help_command(FILE *f, const vt_command *c);
