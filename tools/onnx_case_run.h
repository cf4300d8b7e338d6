/* SPDX-License-Identifier: MIT */
/* One forward and, if dz is not NULL, one vjp of a graph; in float (onnx_case.c) and in double (onnx_case_f64.c). */
#pragma once

#include <stdlib.h>
#include "graph/run.h"

void compute_case_f64(const vt_graph *g, const vt_plan *p, const double *x, double *z, double *dx, const double *dz);
void compute_case_f32(const vt_graph *g, const vt_plan *p, const double *x, double *z, double *dx, const double *dz);

void VT_R(compute_case)(const vt_graph *g, const vt_plan *p, const double *x, double *z, double *dx, const double *dz) {
    VT_R(vt_graph_run) run;
    vt_arena measure = {0};
    VT_R(vt_graph_run_plan)(&run, g, p, &measure);
    vt_arena a = {.base = calloc(1, measure.used + 64), .size = measure.used + 64};
    const size_t n = g->values[g->input].n, n_z = g->values[g->output].n;
    real *r = calloc(2 * (n + n_z), sizeof *r), *rx = r, *rdx = rx + n, *rz = rdx + n, *rdz = rz + n_z;
    if (!a.base || !r) abort();
    for (size_t i = 0; i < n; i++) rx[i] = (real)x[i];
    VT_R(vt_graph_run_plan)(&run, g, p, &a);
    VT_R(vt_graph_forward)(&run, rz, rx);
    for (size_t i = 0; i < n_z; i++) z[i] = (double)rz[i], rdz[i] = dz ? (real)dz[i] : 0;
    if (dz) VT_R(vt_graph_backward)(&run, rdx, rdz, rx);
    for (size_t i = 0; dz && i < n; i++) dx[i] = (double)rdx[i];
    free(r), free(a.base);
}
