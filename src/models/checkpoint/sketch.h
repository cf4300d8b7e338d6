/* SPDX-License-Identifier: MIT */
/* A map to fill in: every tensor of a state dict with the canonical name that its own name and shape suggest, '?' where
 * nothing does, and the values that no tensor tells. What is written is a map (models/checkpoint/rename.h) but for its
 * blanks, which vt_rename_parse refuses. */
#ifndef VT_MODELS_CHECKPOINT_SKETCH_H
#define VT_MODELS_CHECKPOINT_SKETCH_H

#include <stdio.h>
#include "models/checkpoint/names.h"

enum { VT_SKETCH_MOST = 4096 }; /* tensors; looking for what repeats takes their square */

/* st as it was read, before any names were applied. known: what vt_names_apply made of another handle of the file,
 * whose lines then stand in place of guesses; NULL: nothing. `map` names the file that the user will write, in the
 * comment that says how to go on. */
vt_status vt_sketch(FILE *f, const vt_tensors *st, const vt_names *known, const char *map, vt_err *e);

/* ---- between sketch.c and sketch_guess.c ---- */

/* Tensors of one layer, weight, bias and what else stands beside them; of all blocks as one. */
typedef struct vt_unit {
    char base[256];     /* the name up to the last part, with {i} for the block: "layers.{i}.ln1"; a lone tensor: all */
    const char *suffix; /* of base: behind the block's number, else all of it */
    char sep;           /* between base and the last part; 0: a lone tensor */
    bool block;
    const vt_tensor *weight, *bias, *stat[2]; /* of the first block; alone: weight; BatchNorm's mean and variance */
    char weight_name[64], bias_name[64];      /* the last parts: weight, bias; or alpha, beta */
    bool mixed;                               /* other units' names begin like this one's: no star */
    const char *role; /* canonical name without the last part, "blocks.{i}.norm1"; NULL: blank */
    int part;         /* of several that are joined: which, from 1 on; else 0 */
    int parts;        /* how many these are */
} vt_unit;

typedef struct vt_sketch_units {
    vt_unit *u;
    int n, blocks; /* blocks: how many were folded, 0: none */
    int64_t width; /* the most frequent length of vectors */
    bool linear;   /* the patch embedding is a Linear */
    bool cls;
    int64_t inner; /* width of attention */
} vt_sketch_units;

/* Gives units their roles. */
void vt_sketch_guess(vt_sketch_units *s);

#endif
