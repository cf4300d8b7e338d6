/* DIR/run.json: the command line, and what depends on the machine and the moment, kept out of the deterministic files.
 */
#ifndef VT_CLI_RUN_JSON_H
#define VT_CLI_RUN_JSON_H

#include "cli/cli.h"

vt_status vt_cli_run_json(const vt_cli *c, const char *dir, int threads, double seconds, vt_err *e);

#endif
