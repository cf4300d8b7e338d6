/* SPDX-License-Identifier: MIT */
#include "models/arch.h"

#include <string.h>

#define VT_KIND vt_arch
#define VT_KIND_NAME(x) vt_arch_##x
#define VT_KIND_LIST "archs.inc"
#include "core/registry.inc"

const vt_arch *const *vt_archs(int *n) {
    *n = COUNT;
    return defs;
}

const vt_arch *vt_arch_find(const char *name) { return named(name); }
