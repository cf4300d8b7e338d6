/* SPDX-License-Identifier: MIT */
/* DIR/run.json: the command line, and what depends on the machine and the moment, kept out of the deterministic files.
 */
#ifndef VT_CLI_RUN_JSON_H
#define VT_CLI_RUN_JSON_H

#include <jansson.h>
#include "cli/cli.h"

/* more: further keys, or NULL. */
vt_status vt_cli_run_json(const vt_cli *c, const char *dir, int threads, double seconds, const json_t *more, vt_err *e);

#endif
