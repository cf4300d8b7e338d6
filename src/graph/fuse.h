/* SPDX-License-Identifier: MIT */
/* What makes a graph faster without changing what it computes, up to the order of sums: nodes that other nodes do
 * better together, and maps with their channels last, as the kernels want them. Both readings, float and double, see
 * it. */
#pragma once

#include "graph/graph.h"

/* Joins nodes, counting them in g->fused, and if all are to be joined puts channels last where that is faster; then
 * sets the floats of constants and vt_graph_packs. VT_E_MEMORY: g may be half done. */
vt_status vt_graph_fuse(vt_graph *g, vt_fusion how, vt_err *e);

/* ---- its parts (graph/layout.c); false: no memory ---- */

/* Rebuilds g's nodes with channels last around convolutions; moves that do that already are gone. */
bool vt_graph_order(vt_graph *g);
/* Sets `packed` of convolutions and linear maps, in the nodes' parameters, to weights in the order of the float
 * kernels, and vt_move_looks at moves. */
bool vt_graph_pack(vt_graph *g);
/* Gives convolutions and linear maps of g parameters of their own, for they are another graph's, and vt_graph_packs. */
bool vt_graph_repack(vt_graph *g);
