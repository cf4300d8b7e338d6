/* Naming schemes of checkpoints: a file names_*.c recognises a state dict and reads off its tensors what they tell.
 * timm's names are the canonical ones (the parameter tables of arch_*.c use them). */
#ifndef VT_MODELS_NAMES_H
#define VT_MODELS_NAMES_H

#include "io/safetensors.h"
#include "models/model.h"

typedef struct vt_names_def {
    const char *name, *summary;
    /* Does the file use these names? */
    bool (*probe)(const vt_st *st);
    /* Fills what shapes tell (zero / unset for what they cannot: heads, ln_eps, scale, mean, std) and the sources. */
    vt_status (*detect)(const vt_st *st, vt_config *c, vt_source src, vt_err *e);
    /* Name in the file of a canonical tensor; buf for one that must be composed. */
    const char *(*file_name)(const char *canonical, char *buf, size_t size);
} vt_names_def;

const vt_names_def *const *vt_names_defs(int *n);

#endif
