/* SPDX-License-Identifier: MIT */
/* The operators as a table, in the order of their files. */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "graph/op.h"

#define VT_KIND VT_R(vt_op)
#define VT_KIND_NAME(x) VT_R(vt_op_##x)
#define VT_KIND_LIST "ops.inc"
#include "base/registry.inc"

const VT_R(vt_op) *VT_R(vt_op_at)(int i) { return i >= 0 && i < COUNT ? defs[i] : NULL; }

int VT_R(vt_op_find)(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(defs[i]->name, name)) return i;
    return -1;
}

bool VT_R(vt_op_compute)(const vt_graph *g, const vt_node *n, const real *const *x, real *y) {
    const VT_R(vt_op) *op = defs[n->op];
    const size_t most = op->work ? op->work(g, n, false) : 0;
    real *work = vt_alloc((most + 1) * sizeof *work);
    if (work) op->forward(&(VT_R(vt_call)){.g = g, .n = n, .x = x, .y = y, .work = work});
    free(work);
    return work != NULL;
}

#ifndef VT_DOUBLE
void vt_graph_flops(const vt_graph *g, double *forward, double *gradient) {
    *forward = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (defs[g->nodes[i].op]->flops) *forward += defs[g->nodes[i].op]->flops(g, &g->nodes[i]);
    *gradient = 2 * *forward;
}

int vt_graph_straight_through(const vt_graph *g) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += defs[g->nodes[i].op]->straight_through;
    return n;
}
#endif
