/* SPDX-License-Identifier: MIT */
#include "models/arch.h"

#include <string.h>

#define VT_PLUGIN(x) extern const vt_arch vt_arch_##x;
#include "archs.inc"
#undef VT_PLUGIN

static const vt_arch *const archs[] = {
#define VT_PLUGIN(x) &vt_arch_##x,
#include "archs.inc"
#undef VT_PLUGIN
};

const vt_arch *const *vt_archs(int *n) {
    *n = (int)(sizeof archs / sizeof *archs);
    return archs;
}

const vt_arch *vt_arch_find(const char *name) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (!strcmp(archs[i]->name, name)) return archs[i];
    return NULL;
}
