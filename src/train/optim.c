/* SPDX-License-Identifier: MIT */
/* The registry of src/train/optim_*.c, in both precisions. */
#include "train/optim.h"

#include <string.h>

#define VT_KIND VT_R(vt_optim_def)
#define VT_KIND_NAME(x) VT_R(vt_optim_def_##x)
#define VT_KIND_LIST "optims.inc"
#define VT_KIND_DEFS VT_R(vt_optim_defs)
#define VT_KIND_FIND VT_R(vt_optim_find)
#include "base/registry.inc"
