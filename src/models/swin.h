/* SPDX-License-Identifier: MIT */
/* What Swin's description and computation share (Liu et al. 2021): the geometry of its stages, and the slots of its
 * tensors. config.dim, heads, hidden and attn_scale are the first stage's; the width and the MLP double from stage to
 * stage, the side halves. */
#pragma once

#include "models/vit.h"

typedef struct vt_swin_stage {
    int side, dim, heads, hidden; /* tokens a side, width, attention heads, MLP width */
    int window, shift;            /* tokens a side of a window; shift of the odd blocks, 0: none */
    int windows;                  /* of an image, the padded ones too */
    int depth, first;             /* blocks, and the index of the first one among all */
    double scale;
} vt_swin_stage;

/* Returns stage s of config.stages. As timm does: a window is never larger than the stage, and what fits into one
 * window is not shifted. */
vt_swin_stage vt_swin_stage_of(const vt_config *c, int s);

/* Layers of the parameter table: patch embedding; for each stage its merging (from the second on) and its blocks; the
 * norm and the head. */
static inline int vt_swin_merge_layer(const vt_swin_stage *g, int s) { return g->first + s; }
/* Returns the layer of block `block` (among all blocks) of stage s. */
static inline int vt_swin_block_layer(const vt_swin_stage *g, int s, int block) { return g->first + s + 1 + block; }
/* Returns the layer of final norm and head, the last one. */
static inline int vt_swin_head_layer(const vt_config *c) { return c->depth + c->stages; }

/* Slots of vt_swin_merge_layer; the first and the last layer have a ViT's. */
enum { VT_SWIN_MERGE_NORM, VT_SWIN_MERGE_W = VT_SWIN_MERGE_NORM + VT_NORM_SLOTS };
/* Of a block: its relative position bias. */
enum { VT_SLOT_BIAS_TABLE = VT_SLOT_OWN };
