/* SPDX-License-Identifier: MIT */
/* Starts this program again as a child: that is how vitrine table trains and evaluates. */
#pragma once

#include "base/status.h"

/* vt_runner.start (table/schedule.h): starts `vitrine words` as a child, its output appended to the file log. *id:
 * its process. The child is killed if this process ends. VT_E_USAGE, VT_E_IO. */
vt_status vt_spawn(void *ctx, char *const *words, const char *log, long *id, vt_err *e);
/* vt_runner.wait: waits for any child. *id: its process; *code: exit status, or 128 + its signal. VT_E_IO. */
vt_status vt_spawn_wait(void *ctx, long *id, int *code, vt_err *e);
