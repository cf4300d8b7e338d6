/* SPDX-License-Identifier: MIT */
/* What makes a graph faster without changing what it computes, up to the order of sums: nodes that other nodes do
 * better together, and maps with their channels last, as the kernels want them. Both readings, float and double, see
 * it. */
#pragma once

#include "graph/graph.h"

/* Joins nodes, counting them in g->fused, and puts channels last where that is faster (joins false: neither); then sets
 * the floats of constants and brings the weights into the order of the float kernels. */
vt_status vt_graph_fuse(vt_graph *g, bool joins, vt_err *e);

/* ---- its parts (graph/layout.c); false: no memory ---- */

/* Puts channels last around convolutions; moves that do that already are gone. */
bool vt_graph_order(vt_graph *g);
/* Brings the weights of convolutions and linear maps into the order of the float kernels. */
bool vt_graph_pack(vt_graph *g);
/* vt_graph_pack of a graph whose nodes' parameters are another graph's: it gets its own. */
bool vt_graph_repack(vt_graph *g);
