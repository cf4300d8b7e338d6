/* SPDX-License-Identifier: MIT */
/* vitrine info --json. */
#ifndef VT_CLI_INFO_JSON_H
#define VT_CLI_INFO_JSON_H

#include <jansson.h>
#include "models/model.h"

/* What vitrine info --json prints: the checkpoint's name, hash and sizes, every value of its configuration with who
 * told it. NULL: no memory. */
json_t *vt_cli_info_json(const vt_model *m);

#endif
