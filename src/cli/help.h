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
extern const char *const vt_help_titles[VT_GROUPS];

/* The group of this command's option; VT_GROUP_RUN for all that the table of groups does not name. */
vt_group vt_help_group(const vt_command *c, const char *name);
/* Is a row of such a table about c's option `name`? "name": of every command that has it; "show name": of show alone.
 */
bool vt_help_row(const char *row, const vt_command *c, const char *name);

/* "WEIGHTS --data D --norm N ...": the operand and the options of c that choose model, data and threat, but for the
 * threat's radius, as far as the command `to` takes them; quoted for a shell. */
void vt_cli_again(char *out, size_t size, const vt_cli *c, const vt_command *to);

/* Of a command with `ranks`, behind its details. */
#define VT_HELP_RANKS                                                                                                  \
    "Several processes can share the work, on one machine or many: mpirun -n N vitrine-mpi with the same words "       \
    "(docs/cluster.md)."

void vt_help_all(FILE *f);
void vt_help_command(FILE *f, const vt_command *c);

#endif
