/* SPDX-License-Identifier: MIT */
#include "spec/evaluator.h"

#include <stdlib.h>
#include "graph/run.h"
#include "models/net/session.h"

struct VT_R(vt_evaluator) {
    const vt_spec_network *n;
    bool gradient;
    VT_R(vt_graph_run) run;
    VT_R(vt_session) *session;
    real *y;
    void *block;
};

#ifndef VT_DOUBLE
void vt_spec_network_of(vt_spec_network *n, const vt_network *graph, const vt_model *model) {
    *n = (vt_spec_network){.graph = graph, .model = model};
    n->inputs = graph ? (int)vt_shape_values(graph->shape) : (int)vt_config_input_pixels(&model->config);
    n->outputs = graph ? graph->classes : model->config.classes;
}
#endif

/* Takes v's output y [outputs] and, for a graph, the run's memory from arena a (which may only measure). */
static void plan_memory(VT_R(vt_evaluator) *v, vt_arena *a) {
    const vt_network *g = v->n->graph;
    v->y = vt_arena_take(a, (size_t)v->n->outputs, sizeof *v->y);
    if (g) VT_R(vt_graph_run_plan)(&v->run, g->g, &g->plan[v->gradient], a);
}

/* Allocates v->block and, for a model, opens the session; the caller closes v also after a failure. */
static vt_status take_memory(VT_R(vt_evaluator) *v, vt_err *e) {
    vt_arena a = {0};
    plan_memory(v, &a);
    if (!(v->block = vt_alloc(a.used))) return vt_fail(e, VT_E_MEMORY, "no memory for a network (%zu bytes)", a.used);
    plan_memory(v, &(vt_arena){.base = v->block, .size = a.used});
    if (v->n->graph) return VT_OK;
    return VT_R(vt_session_open)(&v->session, v->n->model, 1, v->gradient ? VT_GRAD_INPUT : VT_GRAD_NONE, e);
}

vt_status VT_R(vt_evaluator_open)(VT_R(vt_evaluator) **out, const vt_spec_network *n, bool gradient, vt_err *e) {
    *out = NULL;
    VT_R(vt_evaluator) *v = calloc(1, sizeof *v);
    if (!v) return vt_fail(e, VT_E_MEMORY, "no memory for a network");
    v->n = n, v->gradient = gradient;
    vt_status s = take_memory(v, e);
    if (s == VT_OK)
        *out = v;
    else
        VT_R(vt_evaluator_close)(v);
    return s;
}

void VT_R(vt_evaluator_close)(VT_R(vt_evaluator) *v) {
    if (!v) return;
    VT_R(vt_session_close)(v->session);
    free(v->block);
    free(v);
}

void VT_R(vt_evaluator_forward)(VT_R(vt_evaluator) *v, double *y, const real *x) {
    const real *z = v->y;
    if (v->session)
        z = VT_R(vt_session_forward)(v->session, x, 1, v->gradient);
    else
        VT_R(vt_graph_forward)(&v->run, v->y, x);
    for (int k = 0; k < v->n->outputs; k++) y[k] = (double)z[k];
}

void VT_R(vt_evaluator_gradient)(VT_R(vt_evaluator) *v, real *dx, const real *dy, const real *x) {
    if (v->session)
        VT_R(vt_session_backward)(v->session, dy, dx, NULL);
    else
        VT_R(vt_graph_backward)(&v->run, dx, dy, x);
}
