/* SPDX-License-Identifier: MIT */
/* Asked by every command that computes with a checkpoint before it does: refuses a model whose configuration would
 * be a guess. */
#ifndef VT_CLI_KNOWN_H
#define VT_CLI_KNOWN_H

#include "cli/cli.h"

/* Refuses a model of which something is open (models/checkpoint/doubt): one sentence with everything that is missing
 * and the values it may have, the doctor's command line, which finds them, and this one with the options to add; no
 * value is put into it, since none is likelier than the others. What was assumed is said on stderr. c NULL: for a
 * checkpoint that takes no options here; the command at the end writes them into a copy of it. */
vt_status vt_cli_known(const vt_cli *c, const vt_model *m, vt_err *e);
/* The lines on stderr alone: which part of the file was read, what was assumed. */
void vt_cli_say_assumed(const vt_model *m);

#endif
