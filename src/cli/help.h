/* SPDX-License-Identifier: MIT */
/* What help prints, and the same as manual pages in mdoc(7). */
#pragma once

#include <stdio.h>
#include "cli/cli.h"

extern const char *const vt_help_titles[VT_ABOUTS]; /* of the groups of options */

/* Of a command with `ranks`, behind its details. */
#define VT_HELP_RANKS                                                                                                  \
    "Several processes can share the work, on one machine or many: mpirun -n N vitrine-mpi with the same words "       \
    "(docs/cluster.md)."

void vt_help_all(FILE *f);
void vt_help_command(FILE *f, const vt_command *c);

void vt_man_all(FILE *f);                          /* vitrine(1) */
void vt_man_command(FILE *f, const vt_command *c); /* vitrine-NAME(1) */
vt_status vt_man_recipe(FILE *f, vt_err *e);       /* vitrine-recipe(5): the keys of a recipe */
