/* SPDX-License-Identifier: MIT */
/* What help prints, and what an option is about. */
#ifndef VT_CLI_HELP_H
#define VT_CLI_HELP_H

#include <stdio.h>
#include "cli/cli.h"

/* Options that say the same in every command; model, data and threat are what a printed command must repeat. */
typedef enum vt_group {
    VT_GROUP_MODEL,
    VT_GROUP_DATA,
    VT_GROUP_THREAT,
    VT_GROUP_ATTACK,
    VT_GROUP_OUTPUT,
    VT_GROUP_RUN
} vt_group;
#define VT_GROUPS 6

/* "WEIGHTS --data D --norm N ...": the operand and the options of c that choose model, data and threat, but for the
 * threat's radius, as far as the command `to` takes them; quoted for a shell. */
void vt_cli_again(char *out, size_t size, const vt_cli *c, const vt_command *to);

void vt_help_all(FILE *f);
void vt_help_command(FILE *f, const vt_command *c);

#endif
