/* SPDX-License-Identifier: MIT */
/* Where the numbers of a graph lie while it is computed: one block, in which values and gradients that are never needed
 * at one time share their places. Counted in reals, so that float and double have one plan. */
#pragma once

#include "graph/graph.h"

typedef struct vt_plan {
    size_t *value, *gradient; /* [n_values] where it begins; SIZE_MAX: nowhere */
    bool *first;              /* [n_values] no operator writes its gradient, which is zero */
    bool **add;               /* [n_nodes][n_in]: the node's backward adds to that input's gradient */
    size_t reals;             /* of the block: values, gradients, then room for the operators' work */
    size_t work;              /* where that begins */
    size_t constants;         /* where doubles of a node's float constants begin (double alone) */
    size_t reals_double;      /* the block in double */
} vt_plan;

/* Sets *p to places of all values and, with `gradient`, of all gradients; its arrays are in the graph's memory. */
vt_status vt_graph_plan(vt_plan *p, vt_graph *g, bool gradient, vt_err *e);
