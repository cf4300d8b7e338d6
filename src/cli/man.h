/* SPDX-License-Identifier: MIT */
/* Manual pages in mdoc(7), from the tables that help is printed from: what a page says is what the program takes. */
#ifndef VT_CLI_MAN_H
#define VT_CLI_MAN_H

#include <stdio.h>
#include "cli/cli.h"

void vt_man_all(FILE *f);                          /* vitrine(1) */
void vt_man_command(FILE *f, const vt_command *c); /* vitrine-NAME(1) */
vt_status vt_man_recipe(FILE *f, vt_err *e);       /* vitrine-recipe(5): the keys of a recipe */

#endif
