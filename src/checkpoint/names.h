/* SPDX-License-Identifier: MIT */
/* Naming schemes of checkpoints. timm's names (>= 0.9) are the canonical ones: the parameter tables and detection of
 * arch_*.c use them. A file names_*.c recognises a state dict and gives the lines of a map (checkpoint/rename.h)
 * that rewrite it; files maps/X.map do the same without code, for the models of one lab, and --names for a user's own.
 */
#pragma once

#include "checkpoint/rename.h"
#include "models/model.h"

typedef struct vt_names_def {
    const char *name, *summary;
    /* Does the file use these names? At most one scheme may say so. */
    bool (*recognises)(const vt_tensors *st);
    const char *head; /* a pattern of the classifier's tensors: without them it is a base model */
    bool own_class;   /* what the classifier reads is the class's own: one beside a prefix may read anything else */
    /* Lines of a map. What `set` says there counts less than metadata and config.json. */
    const char *(*map)(const vt_tensors *st);
    /* A sentence if it is a model that vitrine does not compute, or NULL. */
    vt_status (*check)(const vt_tensors *st, vt_err *e);
    /* The same once the configuration is known, or NULL. */
    vt_status (*check_config)(const vt_config *c, const char *path, vt_err *e);
} vt_names_def;

const vt_names_def *const *vt_names_defs(int *n);

/* The probe of names_swin_old: timm's own scheme must not take such a file. */
bool vt_names_old_swin(const vt_tensors *st);

/* Swin where a stage is no multiple of its window: timm shifts, then pads; Hugging Face and torchvision pad, then
 * shift, and other tokens meet. For check_config. */
vt_status vt_names_check_padding(const vt_config *c, const char *path, vt_err *e);

/* The maps that are compiled in. */
typedef struct vt_names_map {
    const char *name, *text; /* a comment in the first line is its summary */
} vt_names_map;
const vt_names_map *vt_names_maps(int *n);

/* What was done to a state dict. */
typedef struct vt_names {
    char scheme[80];         /* for people: "timm", "map vit-postnorm (its patterns cover the file exactly)" */
    bool asked;              /* by name or file: what the map sets wins over metadata and config.json */
    const vt_names_def *def; /* NULL: a map alone */
    vt_rename *map;
    vt_names_row *rows; /* of the tensors as the file had them, in memory of the vt_tensors */
    int n_rows;
    const char *own_map; /* the shipped map that applied unasked, or NULL */
    const char *order;   /* of a Linear patch embedding, where an option tells; or NULL */
    const char *beside;  /* what a classifier beside the prefix of all other names begins with ("fc."), or NULL */
    char supposed[72];   /* what no tensor tells of the head as it was read, or "" (checkpoint/head.h) */
} vt_names;

/* Recognises the names of st and rewrites them to timm's. `wish`: NULL, the name of a scheme or of a map that is
 * compiled in, or a map file. On failure *n holds what was found so far. */
vt_status vt_names_apply(vt_names *n, vt_tensors *st, const char *wish, vt_err *e);
/* The same where an option says how the columns of a Linear patch embedding run ("chw", "hwc"; NULL: it does not). */
vt_status vt_names_apply_order(vt_names *n, vt_tensors *st, const char *wish, const char *order, vt_err *e);
/* A refusal of names, shapes or detection names the network instead where two tensors tell it (unsupported.h). */
vt_status vt_names_blame(const vt_names *n, const vt_tensors *st, vt_status s, vt_err *e);
/* Was the patch embedding a Linear? */
bool vt_names_linear(const vt_names *n);
void vt_names_close(vt_names *n);
