/* SPDX-License-Identifier: MIT */
/* The registry of src/train/penalty_*.c, in both precisions. */
#include "train/penalty.h"

#include <string.h>

#define VT_KIND VT_R(vt_penalty_def)
#define VT_KIND_NAME(x) VT_R(vt_penalty_def_##x)
#define VT_KIND_LIST "penalties.inc"
#define VT_KIND_DEFS VT_R(vt_penalty_defs)
#define VT_KIND_FIND VT_R(vt_penalty_find)
#include "base/registry.inc"
