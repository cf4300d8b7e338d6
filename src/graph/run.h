/* SPDX-License-Identifier: MIT */
/* Computes a graph: logits of an image, and the product of a cotangent with their Jacobian. In float and in double from
 * one source; sums in one order, so that the same image has the same bits wherever it is computed. */
#pragma once

#include "base/mem.h"
#include "base/real.h"
#include "graph/plan.h"

typedef struct VT_R(vt_graph_run) {
    const vt_graph *g;
    const vt_plan *plan;
    real *block;
    const real **x; /* [most inputs of a node] */
    real **dx;
} VT_R(vt_graph_run);

/* Takes its memory from the arena (which may only measure); g and plan outlive it. */
void VT_R(vt_graph_run_plan)(VT_R(vt_graph_run) *r, const vt_graph *g, const vt_plan *plan, vt_arena *a);
/* Writes logits z [K] of the image x [C H W]; keeps in r what a backward reads. */
void VT_R(vt_graph_forward)(VT_R(vt_graph_run) *r, real *z, const real *x);
/* Writes to dx [C H W] the product of dz [K] with the logits' Jacobian, after a forward of the same x by a plan with
 * gradients. May be repeated. */
void VT_R(vt_graph_backward)(VT_R(vt_graph_run) *r, real *dx, const real *dz, const real *x);
