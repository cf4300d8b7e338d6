/* SPDX-License-Identifier: MIT */
/* The registry of src/train/penalty_*.c, in both precisions. */
#include "train/penalty.h"

#include <string.h>

#define VT_KIND VT_R(vt_penalty_def)
#define VT_KIND_NAME(x) VT_R(vt_penalty_def_##x)
#define VT_KIND_LIST "penalties.inc"
#include "base/registry.inc"

const VT_R(vt_penalty_def) *const *VT_R(vt_penalty_defs)(int *n) {
    *n = COUNT;
    return defs;
}

const VT_R(vt_penalty_def) *VT_R(vt_penalty_find)(const char *name) { return named(name); }
