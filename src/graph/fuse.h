/* SPDX-License-Identifier: MIT */
/* What makes a graph faster without changing what it computes, up to the order of sums: nodes that other nodes do
 * better together, and maps with their channels last, as the kernels want them. Both readings, float and double, see
 * it. */
#pragma once

#include "graph/graph.h"

/* Joins nodes (graph/fuse.c), counting what it found in g->fused; returns false without memory. The graph is pruned
 * afterwards. */
bool vt_graph_fuse(vt_graph *g);
/* Puts channels last around convolutions (graph/layout.c); moves that do that already are gone. */
bool vt_graph_order(vt_graph *g);
/* Brings the weights of convolutions and linear maps into the order of the float kernels; constants have their floats.
 */
bool vt_graph_pack(vt_graph *g);
/* vt_graph_pack of a graph whose nodes' parameters are another graph's: it gets its own. */
bool vt_graph_repack(vt_graph *g);
