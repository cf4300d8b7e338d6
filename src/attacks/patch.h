/* SPDX-License-Identifier: MIT */
/* The patch threat: any `count` squares of `size` pixels; inside them pixels are free in [0,1], outside nothing moves.
 * Once its squares are chosen it is a box, and attacks that work in boxes work in it unchanged: where the squares lie
 * is decided here, by options that every such attack takes (`where`, `places`), through the oracle. */
#pragma once

#include "base/opt.h"
#include "attacks/ball.h"
#include "attacks/oracle.h"

enum { VT_PATCH_MOST = 16, VT_LOCATIONS_MOST = 64, VT_PLACES_MOST = 1 << 28 };

/* size 0: no patch threat. */
typedef struct vt_patch {
    int size, count;
    bool aligned; /* squares begin at tokens, else anywhere */
    int grid;     /* multiples of this many pixels; vt_patch_fit sets it */
} vt_patch;

/* Parses "patch:size=16,count=1,aligned=0"; VT_E_USAGE names what is wrong with it. */
vt_status vt_patch_parse(vt_patch *out, const char *text, vt_err *e);
/* Sets the grid for a model; refuses squares larger than its images, and those that are aligned and no whole tokens. */
vt_status vt_patch_fit(vt_patch *p, const vt_config *c, const char *path, vt_err *e);

typedef struct vt_square {
    int y, x;
} vt_square;

typedef struct vt_squares {
    int size, n;
    vt_square at[VT_PATCH_MOST];
} vt_squares;

/* Makes the squares' ball: lo = 0 and hi = 1 inside, lo = hi = x outside; linf, radius 1. Keeps lo, hi, squares. */
void vt_ball_squares(vt_ball *b, const vt_squares *s, vt_shape shape, const float *x, float *lo, float *hi);

/* Returns how many places a square can have in an image: those of the grid. */
int vt_patch_places(const vt_patch *p, vt_shape shape);
/* Returns place k of them, row by row. */
vt_square vt_patch_place(const vt_patch *p, vt_shape shape, int k);
/* Copies picture [channels, size, size] into x [shape] at each square; a later one covers an earlier one. */
void vt_patch_paste(float *x, const vt_squares *s, vt_shape shape, const float *picture);
/* Computes g [channels, size, size], the gradient of the picture, from dx [shape], that of the image which
 * vt_patch_paste made with the same squares; dx becomes 0 inside them. */
void vt_patch_paste_backward(float *g, float *dx, const vt_squares *s, vt_shape shape);

/* ---- where ---- */

typedef enum vt_where {
    VT_WHERE_SALIENCY,
    VT_WHERE_ATTENTION,
    VT_WHERE_RANDOM,
    VT_WHERE_CENTRE,
    VT_WHERE_CORNER,
    VT_WHERE_ANY /* at random, and squares may overlap those of other locations */
} vt_where;

typedef struct vt_place {
    int where, places; /* places 0: all, by VT_WHERE_ANY */
} vt_place;

extern const vt_opt vt_place_opts[]; /* two rows and the end; offsets into vt_place */

/* Returns the block whose attention chooses by Patch-Fool's rule: the fifth, in shorter models at a third. */
int vt_patch_layer(const vt_tokens *t);
/* Returns the index of the patch token under the middle of a square. */
int vt_patch_token(const vt_tokens *t, vt_square s, int size, vt_shape shape);

/* One image, and the rule by which its squares are chosen. */
typedef struct vt_patch_task {
    const float *x; /* [values of shape] */
    vt_shape shape;
    const vt_patch *patch;
    const vt_place *place;
    vt_rng rng;     /* the attack's, for where=random */
    bool surrogate; /* saliency is the surrogate's */
} vt_patch_task;

size_t vt_patch_work_len(vt_shape shape); /* floats of scratch that the choice takes */
/* Returns the squares that a choice needs room for. */
int vt_patch_room(const vt_patch *p, const vt_place *place, vt_shape shape);
/* Returns the most locations that a choice gives; all: how many places there are (vt_patch_places). */
int vt_patch_locations(const vt_place *place, int all, int count);
/* Chooses squares [vt_patch_room] for all locations by the rule, the best first, none over another (but for
 * VT_WHERE_ANY); *n: how many, at most the number of locations times patch->count. One forward for attention, one
 * gradient for saliency. */
vt_status vt_patch_choose(vt_oracle *o, const vt_patch_task *t, vt_square *out, int *n, float *work);
