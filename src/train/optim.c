/* SPDX-License-Identifier: MIT */
/* The registry of src/train/optim_*.c, in both precisions. */
#include "train/optim.h"

#include <string.h>

#define VT_KIND VT_R(vt_optim_def)
#define VT_KIND_NAME(x) VT_R(vt_optim_def_##x)
#define VT_KIND_LIST "optims.inc"
#include "base/registry.inc"

const VT_R(vt_optim_def) *const *VT_R(vt_optim_defs)(int *n) {
    *n = COUNT;
    return defs;
}

const VT_R(vt_optim_def) *VT_R(vt_optim_find)(const char *name) { return named(name); }
