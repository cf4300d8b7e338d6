/* SPDX-License-Identifier: MIT */
/* A network that an ONNX file holds: its graph, and plans to compute it. */
#pragma once

#include "base/shape.h"
#include "graph/import.h"
#include "graph/plan.h"

typedef struct vt_network {
    vt_onnx *file;
    vt_graph *g;
    vt_plan plan[2]; /* without and with gradients */
    vt_shape shape;  /* of an image */
    int classes;
} vt_network;

vt_status vt_network_open(vt_network **out, const char *path, const vt_import_options *o, vt_err *e);
void vt_network_close(vt_network *n); /* accepts NULL */
