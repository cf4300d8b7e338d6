/* SPDX-License-Identifier: MIT */
/* Names of tensors in checkpoints. timm's names (>= 0.9) are the canonical ones: parameter tables and detection of
 * arch_*.c use them. A name map (checkpoint/rename.h) rewrites others: those of libraries (names_known.c,
 * maps/known/X.map), recognised by a few tensors; those of one lab (maps/X.map), recognised if they fit all tensors;
 * and --names for a user's own. */
#pragma once

#include <stdio.h>
#include "checkpoint/rename.h"
#include "models/model.h"

/* A library whose names are known. */
typedef struct vt_names_def {
    const char *name, *summary;
    const char *head; /* a pattern of the classifier's tensors: without them it is a base model */
    bool own_class;   /* what the classifier reads is the class's own: one beside a prefix may read anything else */
    /* A Swin pads before it shifts windows, timm afterwards: other tokens meet if a stage is no multiple of its window.
     */
    bool pads_first;
} vt_names_def;

/* Returns the libraries whose names are known; *n: how many. */
const vt_names_def *vt_names_defs(int *n);
/* The library whose names the file uses, or that is called so; NULL: none. */
const vt_names_def *vt_names_def_of(const vt_tensors *st);
/* Returns a library's names by their name, or NULL. */
const vt_names_def *vt_names_def_named(const char *name);
/* Lines of a map for this file, malloc'ed (NULL: no memory). Its `set` lines count less than metadata and config.json.
 */
char *vt_names_known_map(const vt_tensors *st, const vt_names_def *d);
/* VT_E_FORMAT, with a sentence: it is a model of this library that vitrine does not compute, or one without
 * classifier. */
vt_status vt_names_refuse(const vt_tensors *st, const vt_names_def *d, vt_err *e);

/* The maps that are compiled in. */
typedef struct vt_names_map {
    const char *name, *text; /* a comment in the first line is its summary */
} vt_names_map;
/* Returns the name maps that are compiled in; *n: how many. */
const vt_names_map *vt_names_maps(int *n);

/* What was done to a state dict. */
typedef struct vt_names {
    char naming[80];         /* "timm", "map vit-postnorm, whose patterns cover the file": for messages */
    bool asked;              /* an option names it: what the map sets wins over metadata and config.json */
    const vt_names_def *def; /* NULL: a map alone */
    vt_rename *map;
    vt_names_row *rows; /* of the tensors as the file had them, in memory of the vt_tensors */
    int n_rows;
    const char *own_map; /* the map of maps/ that was recognised, not named by an option; or NULL */
    const char *order;   /* of a Linear patch embedding by an option, or NULL */
    const char *beside;  /* what a classifier beside the prefix of all other names begins with ("fc."), or NULL */
    char assumed[72];    /* how the head was read without proof by tensors, or "" (vt_head_settle) */
} vt_names;

/* Recognises the names of st and rewrites them to timm's. `wish`: NULL, a library's name, the name of a map that is
 * compiled in, or a map file. order: of the columns of a Linear patch embedding by an option, "chw", "hwc" or NULL. On
 * failure *n holds what was found so far. */
vt_status vt_names_apply(vt_names *n, vt_tensors *st, const char *wish, const char *order, vt_err *e);
/* Returns s, or VT_E_FORMAT with the network's name if s refuses names, shapes or detection and two tensors are known
 * to be of a network that is not computed. */
vt_status vt_names_blame(const vt_names *n, const vt_tensors *st, vt_status s, vt_err *e);
/* Was the patch embedding a Linear? */
bool vt_names_linear(const vt_names *n);
/* Frees the map; accepts a zeroed one. */
void vt_names_close(vt_names *n);

/* A network that is not computed, by the names of its tensors: "a ResNet", to stand after "is "; NULL: none that is
 * known. rows [n]: of a state dict whose names have been rewritten, what they were. */
const char *vt_unsupported_network(const vt_tensors *st, const vt_names_row *rows, int n);
#define VT_READS                                                                                                       \
    "vitrine reads ViT, DeiT, ConViT, Swin and XCiT; `vitrine eval " VT_OPTION                                         \
    "oracle` evaluates any other network where it runs, say in PyTorch"

/* Puts rows that stand in another order in the file than in timm's (m->config: qkv_rows, class_last) into timm's, in
 * m->w, and multiplies the patch embedding by embed_scale. Fails for want of memory alone. */
vt_status vt_model_reorder(vt_model *m, vt_err *e);

enum { VT_MAP_TEMPLATE_MOST = 4096 }; /* tensors; looking for what repeats takes their square */
/* Writes a name map to fill in: a line for every tensor of a state dict as it was read, with its shape and ? for its
 * name, and a line for every value that tensors do not hold. vt_rename_parse refuses it while a ? is left. VT_E_RANGE:
 * more tensors than VT_MAP_TEMPLATE_MOST. */
vt_status vt_map_template(FILE *f, const vt_tensors *st, vt_err *e);
