/* SPDX-License-Identifier: MIT */
/* vitrine doctor --logits: which reading of a checkpoint gives the logits that its own program gave. */
#pragma once

#include "cli/cli.h"

/* VT_E_NUMERIC: none does. */
vt_status vt_cli_doctor_logits(const vt_cli *c, vt_err *e);
