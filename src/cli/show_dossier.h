/* SPDX-License-Identifier: MIT */
/* vitrine show --dossier: the auditor's page of a run, with the commands that give its numbers again. */
#pragma once

#include "cli/cli.h"

/* Writes the page of operand 0, with the other operands beside it, to --dossier FILE. VT_E_USAGE: a curve, a run of
 * another model, an option of the other page. */
vt_status vt_show_dossier(const vt_cli *c, vt_err *e);
