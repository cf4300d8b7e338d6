/* SPDX-License-Identifier: MIT */
/* Branch and bound over inner numbers (Bunel et al. 2018): where lines lose most, the range of the number that a scalar
 * function reads is cut in two; ReLU's at 0, where both sides are straight. Ranges of all other numbers stay those of
 * the whole box, so that one half costs one row. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "base/progress.h"
#include "certify/relax.h"
#include "graph/op.h"

enum { FIRST_STEPS = 100, LATER = 30 /* steps of a smaller rate, from where the row before ended */ };
enum { LEAST_STEPS = 5, MOST_STEPS = 40 };

void vt_row_add_cuts(const vt_relax *r, vt_row *row, int v) {
    for (int k = 0; k < r->n_cuts; k++) {
        const vt_cut *c = &r->cuts[k];
        if (c->v != v || !(c->factor > 0)) continue;
        double *a = &vt_row_at(r, row, v)[c->i];
        *a -= c->side * c->factor;
        vt_row_add(row, c->side * c->factor * c->at);
        vt_row_add(row, -2 * VT_HALF_ULP64 * fabs(*a) * r->of[v].top[c->i]);
    }
}

void vt_relax_narrow(vt_relax *r, int v, size_t i, double lo, double hi) {
    vt_range_set(&r->of[v], i, lo, hi);
    for (int node = 0; node < r->g->n_nodes; node++) {
        bool reads = false;
        for (int k = 0; k < r->g->nodes[node].n_in; k++) reads = reads || r->g->nodes[node].in[k] == v;
        if (reads && r->how[node]->narrow) r->how[node]->narrow(r, node, i);
    }
}

/* Cuts the range to the cut's side. */
static void apply_cut(vt_relax *r, const vt_cut *c) {
    vt_relax_narrow(r, c->v, c->i, c->side > 0 ? c->at : c->lo, c->side > 0 ? c->hi : c->at);
}

/* Takes the last cut back. */
static void undo_cut(vt_relax *r) {
    const vt_cut *c = &r->cuts[--r->n_cuts];
    vt_relax_narrow(r, c->v, c->i, c->lo, c->hi);
}

/* Returns the best bound of the row in FIRST_STEPS steps; later (not first) from the knobs and factors that there are,
 * in as many as promise to reach 0: ten more like the last would. */
static double bound_row(vt_relax *r, int v, vt_row_fn set, const void *ctx, size_t i, bool first) {
    vt_row *row = &r->rows[0];
    double best = -INFINITY, last = -INFINITY;
    for (int step = 0; step <= (first ? FIRST_STEPS : MOST_STEPS) && !(best > 0); step++) {
        const double low = vt_row_bound(r, row, v, set, ctx, i);
        best = fmax(best, low); /* not a NaN */
        if (!first && step >= LEAST_STEPS && !(best + 10 * (low - last) > 0)) break;
        last = low;
        vt_row_step(r, row, v, step + (first ? 0 : LATER));
    }
    return best;
}

/* Sets *out to a cut where the last row lost most: at its least point, a function's lines and its value differ, times
 * the row's coefficient. false: it loses nothing. */
static bool choose_cut(const vt_relax *r, vt_cut *out) {
    vt_row *row = &r->rows[0];
    double most = 0;
    for (int node = 0; node < r->g->n_nodes; node++) {
        const vt_node *n = &r->g->nodes[node];
        if (r->how[node] != &vt_relax_scalar || !row->touched[n->out]) continue;
        const vt_ranges *x = &r->of[n->in[0]];
        const double *a = row->a[n->out], *y = row->y[n->out], *in = row->y[n->in[0]];
        const char *name = vt_op_at_f64(n->op)->name;
        const bool bent = strstr(name, "elu") && strcmp(name, "Gelu") != 0; /* at 0 */
        for (int k = 0; k < n->n_in; k++) row->x[k] = k ? r->of[n->in[k]].mid : in;
        vt_relax_forward(r, row, n->op, n, row->x, row->spare);
        for (size_t i = 0; i < r->g->values[n->out].n; i++) {
            const double lost = fabs(a[i]) * fabs(y[i] - row->spare[i]);
            const double at = bent && x->lo[i] < 0 && x->hi[i] > 0 ? 0 : x->lo[i] / 2 + x->hi[i] / 2;
            if (!(lost > most) || !(x->lo[i] < at && at < x->hi[i])) continue;
            most = lost;
            *out =
                (vt_cut){.v = n->in[0], .i = i, .side = in[i] > at ? 1 : -1, .at = at, .lo = x->lo[i], .hi = x->hi[i]};
        }
    }
    return most > 0;
}

/* After a half is proven: takes back cuts of which both are, and goes on to the other half of the last. false: none is
 * left. */
static bool next_half(vt_relax *r) {
    while (r->n_cuts && r->cuts[r->n_cuts - 1].second) undo_cut(r);
    if (!r->n_cuts) return false;
    vt_cut *c = &r->cuts[r->n_cuts - 1];
    c->second = true, c->side = -c->side, c->factor = c->rise = c->size2 = 0;
    apply_cut(r, c);
    return true;
}

vt_status vt_relax_split(vt_relax *r, int v, vt_row_fn set, const void *ctx, size_t i, double until, long most,
                         long *boxes, bool *yes) {
    vt_status s = VT_OK;
    *yes = false;
    vt_row_reset(r, &r->rows[0]);
    for (int rows = 0; vt_now() < until && !(most && *boxes >= most); rows++) {
        if (r->interrupt && *r->interrupt) {
            s = VT_INTERRUPTED;
            break;
        }
        ++*boxes;
        if (bound_row(r, v, set, ctx, i, !rows) > 0) {
            if (next_half(r)) continue;
            *yes = true;
            break;
        }
        if (r->n_cuts == VT_CUTS_DEEPEST || !choose_cut(r, &r->cuts[r->n_cuts])) break;
        apply_cut(r, &r->cuts[r->n_cuts++]);
    }
    while (r->n_cuts) undo_cut(r);
    return s;
}
