/* SPDX-License-Identifier: MIT */
/* A network that an ONNX file holds: its graph, and plans to compute it. */
#pragma once

#include <jansson.h>
#include "base/shape.h"
#include "graph/import.h"
#include "graph/plan.h"

enum { VT_CUTS = 12 };

/* Logits w f + b of features f: of the graph's output, seen as [outer, channels, inner], the mean of each channel,
 * after (first) the channels of outer 0. */
typedef struct vt_head {
    size_t outer, channels, inner, features;
    bool first;
    float *w, *b; /* [classes, features], [classes] */
} vt_head;

typedef struct vt_network {
    vt_onnx *file;         /* NULL: made from another network (graph/parts.h) */
    vt_import_options how; /* the file was read by; texts are the file's or constant */
    vt_graph *g;
    vt_plan plan[2]; /* without and with gradients */
    vt_shape shape;  /* of an image */
    int classes;
    vt_head *head;             /* after the graph's output; NULL: that are the logits */
    int n_cuts, cuts[VT_CUTS]; /* values where it can be cut (graph/parts.h) */
    double shares[VT_CUTS];    /* of the work of its products, up to there */
} vt_network;

/* Opens an ONNX file. Where the options tell no normalisation and the graph's first nodes expect pixels of [0,255],
 * images of [0,1] are scaled to that (o->classifier alone). */
vt_status vt_network_open(vt_network **out, const char *path, const vt_import_options *o, vt_err *e);
/* The same of a file that is mapped already, which it closes whatever comes of it; path, which must outlive it: for
 * sentences. */
vt_status vt_network_open_mapped(vt_network **out, const char *path, vt_mapped file, const vt_import_options *o,
                                 vt_err *e);
vt_status vt_network_plan(vt_network *n, vt_err *e); /* the plans of its graph; for graph/parts */
void vt_network_close(vt_network *n);                /* accepts NULL */
/* Returns the bytes that n holds: constants, weights in the order of the kernels, plans; beside it are sessions. */
size_t vt_network_bytes(const vt_network *n);
/* Returns what the file is and what became of it, for `vitrine info`: producer, input, output, operators by count
 * before and after constants were folded, parameters, bytes of a gradient step. NULL: no memory, or a name is no
 * UTF-8. */
json_t *vt_network_json(const vt_network *n);
