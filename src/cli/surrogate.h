/* SPDX-License-Identifier: MIT */
/* eval --surrogate WEIGHTS: the second checkpoint, whose gradients transfer attacks follow. */
#ifndef VT_CLI_SURROGATE_H
#define VT_CLI_SURROGATE_H

#include "cli/cli.h"
#include "eval/describe.h"

typedef struct vt_cli_surrogate {
    vt_model *model; /* NULL: none was given */
    char name[VT_WEIGHTS_NAME];
} vt_cli_surrogate;

/* Opens it by its own metadata alone: the options of VT_MODEL_ARGS are the main checkpoint's. side: of the images that
 * are attacked, for files that leave theirs open. */
vt_status vt_cli_surrogate_open(vt_cli_surrogate *s, const vt_cli *c, int side, vt_err *e);
void vt_cli_surrogate_close(vt_cli_surrogate *s); /* accepts a zeroed one */

#endif
