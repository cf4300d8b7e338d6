/* SPDX-License-Identifier: MIT */
/* eval --surrogate WEIGHTS: the second checkpoint, whose gradients transfer attacks follow. */
#ifndef VT_CLI_SURROGATE_H
#define VT_CLI_SURROGATE_H

#include "cli/cli.h"
#include "eval/subject.h"

/* Opens it by its own metadata alone: the options of VT_MODEL_ARGS are the main checkpoint's, which is there and says
 * the side of the images that are attacked, for files that leave theirs open. */
vt_status vt_cli_surrogate_open(vt_subject *s, const vt_cli *c, vt_err *e);

#endif
