/* SPDX-License-Identifier: MIT */
/* vitrine doctor --against: a checkpoint beside its authors' own ONNX export. */
#pragma once

#include "cli/cli.h"

/* VT_E_NUMERIC: a layer differs. */
vt_status vt_cli_doctor_against(const vt_cli *c, vt_err *e);
