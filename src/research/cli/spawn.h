/* SPDX-License-Identifier: MIT */
/* Starts this program again as a child: that is how vitrine table trains and evaluates. */
#pragma once

#include "base/status.h"

/* vt_runner.start and vt_runner.wait (table/schedule.h). A child ends with its parent, however that ends. */
vt_status vt_spawn(void *ctx, char *const *words, const char *log, long *id, vt_err *e);
vt_status vt_spawn_wait(void *ctx, long *id, int *code, vt_err *e);
