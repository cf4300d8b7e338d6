/* SPDX-License-Identifier: MIT */
/* The registry of src/train/penalty_*.c, in both precisions. */
#include "train/penalty.h"

#include <string.h>

#define VT_PLUGIN(x) extern const VT_R(vt_penalty_def) VT_R(vt_penalty_def_##x);
#include "penalties.inc"
#undef VT_PLUGIN

static const VT_R(vt_penalty_def) *const defs[] = {
#define VT_PLUGIN(x) &VT_R(vt_penalty_def_##x),
#include "penalties.inc"
#undef VT_PLUGIN
};

const VT_R(vt_penalty_def) *const *VT_R(vt_penalty_defs)(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const VT_R(vt_penalty_def) *VT_R(vt_penalty_find)(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}
