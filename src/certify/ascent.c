/* SPDX-License-Identifier: MIT */
/* Better lines for one row (alpha-CROWN, Xu et al. 2021): its bound as a function of slopes and planes is raised by
 * Adam. The gradient is that at the row's least point; it only guides, since every choice gives a valid bound. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "certify/relax.h"

/* Returns how many knobs (lines that may be chosen) the node's relaxation has; 0: none. */
static size_t knobs_of(const vt_relax *r, int node) {
    return r->how[node]->knobs ? r->how[node]->knobs(r->g, &r->g->nodes[node]) : 0;
}

bool vt_row_take_knobs(vt_relax *r, vt_row *row) {
    double ***const lists[] = {&row->knob, &row->now, &row->rise, &row->size2};
    for (int k = 0; k < 4; k++) {
        double **list = *lists[k] = vt_heap_take(&r->heap, (size_t)r->g->n_nodes + 1, sizeof *list);
        if (!list) return false;
        for (int i = 0; i < r->g->n_nodes; i++)
            if (knobs_of(r, i) && !(list[i] = vt_heap_take(&r->heap, knobs_of(r, i), sizeof **list))) return false;
    }
    row->y = vt_heap_take(&r->heap, (size_t)r->g->n_values, sizeof *row->y);
    for (int v = 0; row->y && v < r->g->n_values; v++)
        if (row->a[v] && !(row->y[v] = vt_heap_take(&r->heap, r->g->values[v].n + 1, sizeof(double)))) return false;
    return row->y != NULL;
}

void vt_row_reset(const vt_relax *r, vt_row *row) {
    for (int i = 0; i < r->g->n_nodes; i++) {
        const size_t n = knobs_of(r, i);
        if (!n) continue;
        memset(row->rise[i], 0, n * sizeof(double)), memset(row->size2[i], 0, n * sizeof(double));
        if (r->how[i] == &vt_relax_scalar) /* its planes begin with the lower slopes */
            memcpy(row->knob[i], r->planes[i], n * sizeof(double));
        else
            memset(row->knob[i], 0, n * sizeof(double));
    }
}

/* Returns the step `step` of Adam, of that rate, along `rise`; m, v: its two means. */
static double adam_step(double *m, double *v, double rise, int step, double rate) {
    *m = 0.9 * *m + 0.1 * rise, *v = 0.99 * *v + 0.01 * rise * rise;
    const double first = 1 - pow(0.9, step + 1), second = 1 - pow(0.99, step + 1);
    return rate * pow(0.96, step) * (*m / first) / (sqrt(*v / second) + 1e-12);
}

/* Moves a row's knobs of the node by one step of Adam along rise [knobs_of], within the rule's limits; updates its two
 * means. step counts from 0. */
static void turn_knobs(const vt_relax *r, vt_row *row, int node, const double *rise, int step) {
    double least, most;
    r->how[node]->limits(r->g, &r->g->nodes[node], &least, &most);
    for (size_t i = 0; i < knobs_of(r, node); i++) {
        double *k = &row->knob[node][i];
        const double to = *k + adam_step(&row->rise[node][i], &row->size2[node][i], rise[i], step, 0.25);
        *k = to > most ? most : to > least ? to : least; /* a NaN becomes the least */
    }
}

void vt_row_step(vt_relax *r, vt_row *row, int v, int step) {
    const vt_graph *g = r->g;
    for (int i = 0; i <= g->values[v].node; i++) {
        const vt_node *n = &g->nodes[i];
        if (!row->touched[n->out]) continue;
        if (r->how[i]->fore) {
            double *rise = row->now[i];
            r->how[i]->fore(r, i, row, rise);
            if (rise) turn_knobs(r, row, i, rise, step);
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            row->x[k] = n->in[k] < 0 ? NULL : row->y[n->in[k]] ? row->y[n->in[k]] : r->of[n->in[k]].mid;
        vt_relax_forward(r, row, n->op, n, row->x, row->y[n->out]);
    }
    for (int k = 0; k < r->n_cuts; k++) {
        vt_cut *c = &r->cuts[k];
        if (row->touched[c->v])
            c->factor += adam_step(&c->rise, &c->size2, c->side * (c->at - row->y[c->v][c->i]), step, 0.1);
        if (!(c->factor > 0)) c->factor = 0;
    }
}
