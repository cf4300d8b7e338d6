/* SPDX-License-Identifier: MIT */
#include "graph/run.h"

#include <string.h>
#include "graph/op.h"

void VT_R(vt_graph_run_plan)(VT_R(vt_graph_run) *r, const vt_graph *g, const vt_plan *plan, vt_arena *a) {
    size_t most = 1;
    for (int i = 0; i < g->n_nodes; i++)
        if ((size_t)g->nodes[i].n_in > most) most = (size_t)g->nodes[i].n_in;
    r->g = g, r->plan = plan;
    r->x = vt_arena_take(a, most, sizeof *r->x), r->dx = vt_arena_take(a, most, sizeof *r->dx);
    r->block = vt_arena_take(a, sizeof(real) == sizeof(double) ? plan->reals_double : plan->reals, sizeof(real));
}

static real *place_of(const VT_R(vt_graph_run) *r, size_t at) { return at == SIZE_MAX ? NULL : r->block + at; }

/* Returns a constant's numbers; in double, those of floats are written to *room first, which moves on. */
static const real *constant_of(const vt_value *v, real **room) {
#ifdef VT_DOUBLE
    if (v->reals) return v->reals;
    real *to = *room;
    for (size_t i = 0; i < v->n; i++) to[i] = (double)v->floats[i];
    *room += (v->n + 15) / 16 * 16;
    return to;
#else
    (void)room;
    return v->floats;
#endif
}

/* Sets r->x to the arrays that node n reads: the image, constants or values of the block; NULL: left out. */
static void set_inputs(VT_R(vt_graph_run) *r, const vt_node *n, const real *image) {
    real *room = r->block + r->plan->constants;
    for (int k = 0; k < n->n_in; k++) {
        const int v = n->in[k];
        r->x[k] = v < 0                                    ? NULL
                  : v == r->g->input                       ? image
                  : vt_value_is_constant(&r->g->values[v]) ? constant_of(&r->g->values[v], &room)
                                                           : place_of(r, r->plan->value[v]);
    }
}

void VT_R(vt_graph_forward)(VT_R(vt_graph_run) *r, real *z, const real *x) {
    const vt_graph *g = r->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        set_inputs(r, n, x);
        VT_R(vt_op_at)(n->op)->forward(&(VT_R(vt_call)){.g = g,
                                                        .n = n,
                                                        .x = r->x,
                                                        .y = place_of(r, r->plan->value[n->out]),
                                                        .work = r->block + r->plan->work});
    }
    const int out = vt_root_of(g, g->output);
    memcpy(z, out == g->input ? x : place_of(r, r->plan->value[out]), g->values[out].n * sizeof *z);
}

void VT_R(vt_graph_backward)(VT_R(vt_graph_run) *r, real *dx, const real *dz, const real *x) {
    const vt_graph *g = r->g;
    const int out = vt_root_of(g, g->output);
    memcpy(out == g->input ? dx : place_of(r, r->plan->gradient[out]), dz, g->values[out].n * sizeof *dz);
    if (r->plan->first[g->input]) memset(dx, 0, g->values[g->input].n * sizeof *dx);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const vt_node *n = &g->nodes[i];
        real *dy = place_of(r, r->plan->gradient[n->out]);
        if (!VT_R(vt_op_at)(n->op)->backward) continue;
        if (r->plan->first[n->out]) memset(dy, 0, g->values[n->out].n * sizeof *dy);
        set_inputs(r, n, x);
        for (int k = 0; k < n->n_in; k++) {
            const int v = n->in[k];
            real *to = v < 0 || vt_value_is_constant(&g->values[v]) ? NULL
                       : v == g->input                              ? dx
                                                                    : place_of(r, r->plan->gradient[v]);
            r->dx[k] = to == dy ? NULL : to; /* a sum's gradient, which is its input's (graph/plan) */
        }
        VT_R(vt_op_at)(n->op)->backward(&(VT_R(vt_call)){.g = g,
                                                         .n = n,
                                                         .x = r->x,
                                                         .y = place_of(r, r->plan->value[n->out]),
                                                         .dy = dy,
                                                         .dx = r->dx,
                                                         .add = r->plan->add[i],
                                                         .work = r->block + r->plan->work});
    }
}
