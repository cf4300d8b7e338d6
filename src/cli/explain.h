/* SPDX-License-Identifier: MIT */
/* vitrine info --explain: what became of every tensor of a file, and why. */
#ifndef VT_CLI_EXPLAIN_H
#define VT_CLI_EXPLAIN_H

#include "core/status.h"

/* Prints also when names are not understood, and then returns why not. names: --names, or NULL. */
vt_status vt_cli_explain(const char *path, const char *part, const char *names, vt_err *e);
/* Prints the tensors of a file whose names fit no scheme, and of no other one. */
void vt_cli_show_unknown(const char *path, const char *part);

#endif
