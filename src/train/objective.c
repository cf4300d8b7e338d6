/* The registry of src/train/objective_*.c, in both precisions. */
#include "train/objective.h"

#include <string.h>

#define VT_PLUGIN(x) extern const VT_R(vt_objective_def) VT_R(vt_objective_def_##x);
#include "objectives.inc"
#undef VT_PLUGIN

static const VT_R(vt_objective_def) *const defs[] = {
#define VT_PLUGIN(x) &VT_R(vt_objective_def_##x),
#include "objectives.inc"
#undef VT_PLUGIN
};

const VT_R(vt_objective_def) *const *VT_R(vt_objective_defs)(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const VT_R(vt_objective_def) *VT_R(vt_objective_find)(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}
