/* Naming schemes of checkpoints: a file names_*.c recognises a state dict and maps its names. timm's names are the
 * canonical ones (the parameter tables and detection of arch_*.c use them). */
#ifndef VT_MODELS_NAMES_H
#define VT_MODELS_NAMES_H

#include "io/safetensors.h"
#include "models/model.h"

typedef struct vt_names_def {
    const char *name, *summary;
    /* Does the file use these names? */
    bool (*probe)(const vt_st *st);
    /* Name in the file of a canonical tensor; buf for one that must be composed. */
    const char *(*file_name)(const char *canonical, char *buf, size_t size);
} vt_names_def;

const vt_names_def *const *vt_names_defs(int *n);

#endif
