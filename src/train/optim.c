/* SPDX-License-Identifier: MIT */
/* The registry of src/train/optim_*.c, in both precisions. */
#include "train/optim.h"

#include <string.h>

#define VT_PLUGIN(x) extern const VT_R(vt_optim_def) VT_R(vt_optim_def_##x);
#include "optims.inc"
#undef VT_PLUGIN

static const VT_R(vt_optim_def) *const defs[] = {
#define VT_PLUGIN(x) &VT_R(vt_optim_def_##x),
#include "optims.inc"
#undef VT_PLUGIN
};

const VT_R(vt_optim_def) *const *VT_R(vt_optim_defs)(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const VT_R(vt_optim_def) *VT_R(vt_optim_find)(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}
