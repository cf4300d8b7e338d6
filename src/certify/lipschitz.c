/* SPDX-License-Identifier: MIT */
#define VT_DOUBLE /* operators of their double copy */
#include "certify/lipschitz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/progress.h"
#include "certify/relax.h"
#include "certify/spread.h"
#include "linalg/gemm.h"

/* A difference of logits is pulled back through the affine operators before it to values that are not affine
 * (leaves), so that |difference| <= sum of reach times distance over leaves, and of reach times own errors over what
 * lies between. */
struct vt_lipschitz {
    vt_spread s;
    vt_certify_options o;
    int64_t classes; /* of the output; 1: two classes, logit 0 and it */
    double constant;
    bool *in_tail, *leaf; /* [n_values] */
    double **a, *slack;   /* [n_values] the pulled-back row, a bound of its rounding errors' length */
    double *reach;        /* [rooms][pairs][n_tail] */
    int *tail, n_tail;    /* values */
    int64_t rooms, *of;   /* labels whose reach is there; -1: none */
};

enum { KEPT_LABELS = 64, LONGEST = 4096 /* of values that more classes are pulled back through */ };

/* Returns how many differences of logits a label has. */
static int64_t pairs_of(const vt_lipschitz *l) { return l->classes == 1 ? 1 : l->classes - 1; }

/* ---- the last affine operators ---- */

/* Sets in_tail, leaf and tail (the values that a difference is pulled back through) and takes the memory for rows and
 * reach; false: no memory. */
static bool find_tail(vt_lipschitz *l) {
    const vt_graph *g = l->s.g;
    vt_heap *h = &l->s.heap;
    const size_t all = (size_t)g->n_values;
    l->in_tail = vt_heap_take(h, all, sizeof(bool)), l->leaf = vt_heap_take(h, all, sizeof(bool));
    l->a = vt_heap_take(h, all, sizeof *l->a), l->slack = vt_heap_take(h, all, sizeof(double));
    l->tail = vt_heap_take(h, all, sizeof(int));
    if (!l->in_tail || !l->leaf || !l->a || !l->slack || !l->tail) return false;
    l->in_tail[vt_root_of(g, g->output)] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const vt_node *n = &g->nodes[i];
        const bool few = l->classes <= KEPT_LABELS || g->values[n->out].n <= LONGEST; /* of many pairs */
        l->leaf[n->out] = !l->s.at[i].rule->affine || !few;
        for (int k = 0; l->in_tail[n->out] && !l->leaf[n->out] && k < n->n_in; k++)
            if (vt_spread_moves(&l->s, n->in[k])) l->in_tail[n->in[k]] = true;
    }
    l->leaf[g->input] = true;
    for (int v = 0; v < g->n_values; v++) {
        if (!l->in_tail[v]) continue;
        l->tail[l->n_tail++] = v;
        if (!(l->a[v] = vt_heap_take(h, g->values[v].n + 1, sizeof(double)))) return false;
    }
    l->rooms = l->classes <= KEPT_LABELS ? l->classes == 1 ? 2 : l->classes : 1;
    l->reach = vt_heap_take(h, (size_t)(l->rooms * pairs_of(l)) * (size_t)l->n_tail, sizeof(double));
    l->of = vt_heap_take(h, (size_t)l->rooms, sizeof *l->of);
    for (int64_t k = 0; l->of && k < l->rooms; k++) l->of[k] = -1;
    return l->reach && l->of;
}

/* reach [n_tail] of the label's logit less number i of the others. */
static void pull_pair(vt_lipschitz *l, int64_t label, int64_t i, double *reach) {
    vt_spread *s = &l->s;
    const vt_graph *g = s->g;
    for (int t = 0; t < l->n_tail; t++) {
        memset(l->a[l->tail[t]], 0, g->values[l->tail[t]].n * sizeof(double));
        l->slack[l->tail[t]] = 0;
    }
    double *z = l->a[vt_root_of(g, g->output)];
    if (l->classes == 1)
        z[0] = label ? 1 : -1;
    else
        z[label] = 1, z[i < label ? i : i + 1] = -1;
    for (int k = g->n_nodes - 1; k >= 0; k--) {
        const vt_node *n = &g->nodes[k];
        if (!l->in_tail[n->out] || l->leaf[n->out]) continue;
        const double size = vt_spread_length(l->a[n->out], g->values[n->out].n);
        double terms = (double)g->values[n->out].n + 16;
        for (int j = 0; j < n->n_in; j++) {
            s->x[j] = n->in[j] < 0 ? NULL : s->v[n->in[j]], s->add[j] = true;
            s->dx[j] = vt_spread_moves(s, n->in[j]) ? l->a[n->in[j]] : NULL;
            if (s->dx[j]) terms += (double)g->values[n->in[j]].n;
        }
        vt_spread_backward(s, n, s->x, l->a[n->out]);
        for (int j = 0; j < n->n_in; j++) {
            s->add[j] = false;
            if (s->dx[j])
                l->slack[n->in[j]] += s->at[k].most[j] * (l->slack[n->out] + terms * 2 * VT_HALF_ULP64 * size);
        }
    }
    for (int t = 0; t < l->n_tail; t++) {
        const int v = l->tail[t];
        const double size = vt_spread_length(l->a[v], g->values[v].n);
        reach[t] = (size + l->slack[v]) * (1 + 1e-12) + (double)l->n_tail * 4 * VT_HALF_ULP64 * size;
    }
}

/* Returns [pairs][n_tail] of a label. */
static const double *reach_of(vt_lipschitz *l, int64_t label) {
    const int64_t room = label % l->rooms, pairs = pairs_of(l);
    double *at = l->reach + (size_t)(room * pairs) * (size_t)l->n_tail;
    for (int64_t i = 0; l->of[room] != label && i < pairs; i++)
        pull_pair(l, label, i, at + (size_t)i * (size_t)l->n_tail);
    l->of[room] = label;
    return at;
}

/* How much a difference of logits may change, for the distances in s. */
static double change_of(const vt_lipschitz *l, const double *reach) {
    double sum = 0;
    for (int t = 0; t < l->n_tail; t++) {
        const int v = l->tail[t];
        const double by = l->leaf[v] ? l->s.d[v] : l->s.exact ? 0 : l->s.err[v];
        if (reach[t] != 0) sum += reach[t] * by;
    }
    return sum * (1 + 1e-12);
}

/* ---- all of it ---- */

/* Sets l->constant: a bound of how much any difference of logits changes for each unit of the input's; NaN if an
 * operator has none everywhere, INFINITY if one is not finite. */
static void find_constant(vt_lipschitz *l) {
    const vt_graph *g = l->s.g;
    l->constant = NAN;
    for (int i = 0; i < g->n_nodes; i++)
        if (l->s.at[i].rule->local) return;
    l->s.exact = true, l->constant = 0;
    vt_spread_ball(&l->s, 1);
    if (l->rooms == 1) l->constant = sqrt(2) * (1 + 1e-15) * l->s.d[vt_root_of(g, g->output)];
    for (int64_t label = 0; l->rooms > 1 && label < l->rooms; label++) {
        const double *reach = reach_of(l, label);
        for (int64_t i = 0; i < pairs_of(l); i++) {
            const double here = change_of(l, reach + (size_t)i * (size_t)l->n_tail);
            if (!(here <= l->constant)) l->constant = isnan(here) ? INFINITY : here; /* NaN: not everywhere */
        }
    }
    l->s.exact = false;
}

/* Opens *out; like: one whose norms and constant are taken over, or NULL. VT_E_NUMERIC: the constant is not finite;
 * *out is NULL after a failure. */
static vt_status open_like(vt_lipschitz **out, const vt_graph *g, const vt_certify_options *o, const vt_lipschitz *like,
                           vt_err *e) {
    *out = NULL;
    vt_lipschitz *l = calloc(1, sizeof *l);
    if (!l) return vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    l->o = *o, l->classes = (int64_t)g->values[g->output].n;
    vt_status s = vt_blas_reserve(1, e);
    if (s == VT_OK) s = vt_spread_open(&l->s, g, like ? &like->s : NULL, e);
    if (s == VT_OK && !find_tail(l)) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    if (s == VT_OK && like) l->constant = like->constant;
    if (s == VT_OK && !like) find_constant(l);
    if (s == VT_OK && !isnan(l->constant) && !isfinite(l->constant))
        s = vt_fail(e, VT_E_NUMERIC, "%s: the Lipschitz constant is %g: there is no bound", g->path, l->constant);
    if (s == VT_OK)
        *out = l;
    else
        vt_lipschitz_close(l);
    return s;
}

vt_status vt_lipschitz_open(vt_lipschitz **out, const vt_graph *g, const vt_certify_options *o, vt_err *e) {
    return open_like(out, g, o, NULL, e);
}

vt_status vt_lipschitz_copy(vt_lipschitz **out, const vt_lipschitz *from, vt_err *e) {
    return open_like(out, from->s.g, &from->o, from, e);
}

void vt_lipschitz_close(vt_lipschitz *l) {
    if (!l) return;
    vt_spread_close(&l->s);
    free(l);
}

double vt_lipschitz_constant(const vt_lipschitz *l) { return l->constant; }

/* Lower bound of the smallest difference of logits within the radius around the centre. */
static double margin_of(vt_lipschitz *l, int64_t label, double radius) {
    const double *reach = reach_of(l, label), *z = l->s.v[vt_root_of(l->s.g, l->s.g->output)];
    double worst = INFINITY;
    vt_spread_ball(&l->s, radius);
    for (int64_t i = 0; i < pairs_of(l); i++) {
        const double by = l->classes == 1 ? label ? z[0] : -z[0] : z[label] - z[i < label ? i : i + 1];
        const double here = by - 4 * VT_HALF_ULP64 * fabs(by) - change_of(l, reach + (size_t)i * (size_t)l->n_tail);
        if (!(here >= worst)) worst = here;
        if (isnan(here)) return -INFINITY;
    }
    return worst;
}

/* Returns whether the radius is proven; counts it in out->boxes, and sets out's radius and margin if it is the largest
 * proven so far (margin also at the first). */
static bool try_radius(vt_lipschitz *l, int64_t label, double radius, vt_certified *out) {
    const double margin = margin_of(l, label, radius);
    out->boxes++;
    if (margin > 0 ? radius >= out->radius : out->boxes == 1) out->margin = margin;
    if (margin > 0 && radius > out->radius) out->radius = radius;
    return margin > 0;
}

vt_status vt_lipschitz_point(vt_lipschitz *l, const double *x, int64_t label, vt_certified *out, vt_err *e) {
    (void)e;
    const double begun = vt_now(),
                 farthest = l->o.unboxed ? VT_CERTIFY_FARTHEST : sqrt((double)l->s.g->values[l->s.g->input].n);
    *out = (vt_certified){0};
    vt_spread_centre(&l->s, x);
    if (try_radius(l, label, 0, out) && l->o.radius > 0)
        try_radius(l, label, l->o.radius, out);
    else if (out->margin > 0 && !try_radius(l, label, farthest, out)) {
        double good = 0, bad = farthest;
        for (int i = 0; i < 80 && !(bad <= good * (1 + 1e-9)) && bad > 0x1p-40; i++) {
            const double at = good > 0 ? sqrt(good * bad) : bad / 8;
            *(try_radius(l, label, at, out) ? &good : &bad) = at;
        }
    }
    out->seconds = vt_now() - begun;
    return VT_OK;
}
