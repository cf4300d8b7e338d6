/* SPDX-License-Identifier: MIT */
/* The registry of src/train/penalty_*.c, in both precisions. */
#include "train/penalty.h"

#include <string.h>

#define VT_KIND VT_R(vt_penalty_def)
#define VT_KIND_NAME(x) VT_R(vt_penalty_def_##x)
#define VT_KIND_LIST "penalties.inc"
#include "core/registry.inc"

const VT_R(vt_penalty_def) *const *VT_R(vt_penalty_defs)(int *n) {
    *n = COUNT;
    return defs;
}

const VT_R(vt_penalty_def) *VT_R(vt_penalty_find)(const char *name) { return named(name); }

double VT_R(vt_penalty_apply)(const VT_R(vt_penalty_def) *d, real *grad, real *state, real *work, const real *w,
                              const vt_model *m, const void *params) {
    for (int k = 0; d->parts && k < d->parts(m); k++) d->advance(state, work, w, m, params, k);
    return d->apply(grad, state, work, w, m, params);
}
