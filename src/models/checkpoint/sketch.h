/* SPDX-License-Identifier: MIT */
/* A map to fill in: every tensor of a state dict with the canonical name that its own name and shape suggest, '?' where
 * nothing does, and the values that no tensor tells. What is written is a map (models/checkpoint/rename.h) but for its
 * blanks, which vt_rename_parse refuses. */
#ifndef VT_MODELS_CHECKPOINT_SKETCH_H
#define VT_MODELS_CHECKPOINT_SKETCH_H

#include <stdio.h>
#include "models/checkpoint/names.h"

enum { VT_SKETCH_MOST = 4096 }; /* tensors; looking for what repeats takes their square */

/* st as it was read, before any names were applied. `map` names the file that the user will write, in the comment that
 * says how to go on. */
vt_status vt_sketch(FILE *f, const vt_tensors *st, const char *map, vt_err *e);

/* ---- between sketch.c and sketch_guess.c ---- */

enum { VT_SKETCH_WEIGHT, VT_SKETCH_BIAS, VT_SKETCH_MEAN, VT_SKETCH_VARIANCE, VT_SKETCH_PARTS };

/* Tensors of one layer, weight, bias and what else stands beside them; of all blocks as one. */
typedef struct vt_unit {
    char base[256];     /* the name up to the last part, with {i} for the block: "layers.{i}.ln1"; a lone tensor: all */
    const char *suffix; /* of base: behind the block's number, else all of it */
    char sep;           /* between base and the last part; 0: a lone tensor */
    bool block;
    const vt_tensor *t[VT_SKETCH_PARTS]; /* of the first block; of a lone tensor the first */
    char part[VT_SKETCH_PARTS][24];      /* the last parts of their names: weight or alpha, bias or beta, ... */
    bool mixed;                          /* other units' names begin like this one's: no star */
    const char *role;                    /* canonical name without the last part, "blocks.{i}.norm1"; NULL: blank */
    int item, items;                     /* of several that are joined: which, from 1 on, and how many; else 0 */
    const char *why;                     /* printed after its shape; or NULL */
} vt_unit;

typedef struct vt_sketch_units {
    vt_unit *u;
    int n, blocks;       /* blocks: how many were folded, 0: none */
    int64_t width;       /* the most frequent length of vectors */
    int64_t flat, inner; /* columns of a Linear patch embedding, or 0; width of attention */
    bool fused;          /* q, k and v are one matrix, whose order of rows nothing tells */
} vt_sketch_units;

/* Gives units their roles. */
void vt_sketch_guess(vt_sketch_units *s);

#endif
