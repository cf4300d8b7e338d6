/* SPDX-License-Identifier: MIT */
/* Attention as pictures: how much attention each patch of an image gets, from chosen heads of chosen blocks and by all
 * blocks together (attention rollout), on the image and under attack. */
#pragma once

#include <stdint.h>
#include "research/analysis/analyze.h"
#include "research/analysis/layers.h"

enum { VT_MAPS_COLUMNS = 48, VT_MAPS_IMAGES = 32, VT_MAPS_TEXT = 120 };

/* One map of each image: block -1 is the rollout; head -1 the mean over heads. */
typedef struct vt_map_column {
    int block, head;
} vt_map_column;

typedef struct vt_map_image {
    int32_t image;
    int label, predicted[2];
    uint8_t *rgb[2]; /* [3, side, side], owned; NULL: not attacked */
} vt_map_image;

typedef struct vt_maps {
    vt_map_column column[VT_MAPS_COLUMNS];
    int columns, images, heads;
    int side, grid, tokens; /* of the image in pixels, of the map in patches; at most, in a block */
    int passes;             /* 2: clean and attacked */
    bool class_query;    /* whose row is shown where a block has a class token; else the mean over the patches' rows */
    vt_map_image *image; /* [images] */
    double *values;      /* [images, passes, columns, grid, grid] shares of attention, at most 1 together */
} vt_maps;

/* Sets m's columns: `blocks` is "all" or "0,5,rollout" ("": first, middle, last and rollout), `heads` "all" or
 * "mean,0,2". VT_E_USAGE if the network has no such block or head, or for more than VT_MAPS_COLUMNS maps. */
vt_status vt_maps_choose(vt_maps *m, const vt_config *c, const char *blocks, const char *heads, vt_err *e);
/* Allocates maps of the first `images` images of a, at most all; after vt_maps_choose. VT_E_MEMORY frees all. */
vt_status vt_maps_open(vt_maps *m, const vt_analyze *a, const vt_config *c, int images, vt_err *e);
/* Frees what vt_maps_open allocated; also after its failure. */
void vt_maps_close(vt_maps *m);
/* The map [grid, grid] of an image (index into m->image), pass (0 clean, 1 attacked) and column. */
double *vt_maps_at(const vt_maps *m, int image, int pass, int column);
/* Name of a column: "block 3, head 1", "block 3, mean of 4 heads" or "rollout". */
void vt_maps_name(char out[64], const vt_maps *m, int column);

/* ---- one pass: begin, every layer in order, end ---- */

/* The product of all layers so far, (I + mean over heads of P) / 2 each (Abnar and Zuidema 2020). */
typedef struct vt_map_pass {
    vt_maps *maps;
    int image, pass, t; /* t: tokens so far; 0: none yet */
    double *rollout;    /* 3 [tokens, tokens]: the product, the next one, the layer's mean */
} vt_map_pass;
/* Starts the pass of one image, 0 clean or 1 attacked; VT_E_MEMORY. */
vt_status vt_map_begin(vt_map_pass *p, vt_maps *m, int image, int pass, vt_err *e);
/* Fills the maps of this layer's block and multiplies its attention into the rollout. */
void vt_map_layer(vt_map_pass *p, const vt_layer *l);
/* Writes the rollout's maps, if a layer was seen, and frees the pass; to be called also after a failure. */
void vt_map_end(vt_map_pass *p);

/* ---- what comes of it ---- */

/* attention_sheet.c: writes one SVG, a row for each image and pass, a column for each map, heat over the image in
 * grey. VT_E_MEMORY, or the failure of a picture; write errors stay in f for the caller to check. */
vt_status vt_maps_sheet(FILE *f, const vt_maps *m, const char *title, const vt_dataset *data, vt_err *e);
/* JSON of columns and images, without the maps' values; the caller owns it. NULL: no memory. */
json_t *vt_maps_json(const vt_maps *m, const vt_dataset *data);
