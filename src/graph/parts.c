/* SPDX-License-Identifier: MIT */
#include "graph/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "graph/fuse.h"
#include "graph/op.h"

enum { FEATURES_MOST = 1024 };

/* ---- features ---- */

/* Sets *h, without w and b, to how the numbers of a value are read as features (vt_network_features). */
static void read_sides(const vt_value *v, vt_head *h) {
    const int first = v->dims.rank > 0 && v->dims.d[0] == 1;
    const int64_t *d = v->dims.d + first;
    const int rank = v->dims.rank - first;
    *h = (vt_head){.outer = 1, .channels = v->n, .inner = 1};
    if (rank == 3 && (d[0] != d[1] || d[1] == d[2])) /* [C,H,W] */
        h->channels = (size_t)d[0], h->inner = v->n / h->channels;
    else if (rank == 3) /* [H,W,C] */
        h->channels = (size_t)d[2], h->outer = v->n / h->channels;
    else if (rank == 2) /* [T,D] */
        h->channels = (size_t)d[1], h->outer = v->n / h->channels, h->first = h->channels <= FEATURES_MOST / 2;
    h->features = h->channels * (1 + h->first);
}

size_t vt_network_features(const vt_network *n, int cut) {
    vt_head h;
    read_sides(&n->g->values[n->cuts[cut]], &h);
    return h.features;
}

void vt_network_set_head(vt_network *n, const double *w, const double *b, int rows) {
    vt_head *h = n->head;
    for (int r = 0; r < rows; r++) {
        h->b[r] = b ? (float)b[r] : 0;
        for (size_t k = 0; k < h->features; k++)
            h->w[(size_t)r * h->features + k] = w ? (float)w[(size_t)r * h->features + k] : (size_t)r == k;
    }
}

/* ---- cuts ---- */

/* Sets last [n_values] to the last node that reads each value; -1: none. */
static void find_last_readers(const vt_graph *g, int *last) {
    for (int v = 0; v < g->n_values; v++) last[v] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) last[g->nodes[i].in[k]] = i;
}

static double node_flops(const vt_graph *g, int i) {
    const vt_op_f32 *op = vt_op_at_f32(g->nodes[i].op);
    return op->flops ? op->flops(g, &g->nodes[i]) : 0;
}

/* Sets n->cuts and shares, for each VT_CUTS-th of the work `all`, to the last node before last_product whose result is
 * the only value that later nodes read; others stay. last: each value's last reader. */
static void choose_cuts(vt_network *n, const int *last, double all, int last_product) {
    const vt_graph *g = n->g;
    int open = last[g->input] >= 0;
    double done = 0;
    for (int i = 0; i < last_product; i++) {
        const vt_node *node = &g->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            bool counted = false;
            for (int j = 0; j < k; j++) counted = counted || node->in[j] == node->in[k];
            const int v = node->in[k];
            if (v >= 0 && !counted && !vt_value_is_constant(&g->values[v]) && last[v] == i) open--;
        }
        open += last[node->out] > i;
        done += node_flops(g, i);
        if (open != 1 || last[node->out] <= i || !(done > 0) || !g->values[node->out].n) continue;
        vt_head h;
        read_sides(&g->values[node->out], &h);
        if (h.features > 4 * FEATURES_MOST) continue;
        const int slot = (int)fmax(ceil(done / all * VT_CUTS - 1e-9), 1) - 1; /* the last one of each share stays */
        n->cuts[slot] = node->out, n->shares[slot] = done / all;
    }
}

vt_status vt_network_find_cuts(vt_network *n, vt_err *e) {
    const vt_graph *g = n->g;
    double all = 0;
    int *last = malloc(((size_t)g->n_values + 1) * sizeof *last), product = 0;
    if (!last) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its graph", g->path);
    for (int i = 0; i < g->n_nodes; i++)
        if (node_flops(g, i) > 0) all += node_flops(g, i), product = i;
    for (int i = 0; i < VT_CUTS; i++) n->cuts[i] = -1;
    find_last_readers(g, last);
    choose_cuts(n, last, all, product);
    free(last);
    n->n_cuts = 0;
    for (int i = 0; i < VT_CUTS; i++)
        if (n->cuts[i] >= 0) n->shares[n->n_cuts] = n->shares[i], n->cuts[n->n_cuts++] = n->cuts[i];
    return VT_OK;
}

/* ---- networks that share constants ---- */

/* Sets *out to a network with n's constants and copies of its values and nodes, to be closed also after a failure; no
 * plans. */
static vt_status share_graph(vt_network **out, const vt_network *n, vt_err *e) {
    const vt_graph *from = n->g;
    vt_network *p = *out = calloc(1, sizeof *p);
    vt_graph *g = p ? p->g = calloc(1, sizeof *g) : NULL;
    if (!g) return vt_fail(e, VT_E_MEMORY, "%s: no memory for a part of it", from->path);
    *g = *from, g->heap = (vt_heap){0};
    g->path = strdup(from->path);
    g->values = malloc(((size_t)from->n_values + 1) * sizeof *g->values);
    g->nodes = malloc(((size_t)from->n_nodes + 1) * sizeof *g->nodes);
    p->shape = n->shape, p->classes = n->classes;
    if (!g->path || !g->values || !g->nodes)
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for a part of it", from->path);
    memcpy(g->values, from->values, (size_t)from->n_values * sizeof *g->values);
    memcpy(g->nodes, from->nodes, (size_t)from->n_nodes * sizeof *g->nodes);
    return VT_OK;
}

/* Gives p a head of zeros with `classes` rows on its graph's output, and sets p->classes. */
static vt_status take_head(vt_network *p, int classes, vt_err *e) {
    vt_head *h = p->head = vt_heap_take(&p->g->heap, 1, sizeof *h);
    if (h) read_sides(&p->g->values[p->g->output], h);
    if (!h || !(h->w = vt_heap_take(&p->g->heap, (size_t)classes * h->features, sizeof *h->w)) ||
        !(h->b = vt_heap_take(&p->g->heap, (size_t)classes, sizeof *h->b)))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for a head of %d rows", p->g->path, classes);
    memset(h->w, 0, (size_t)classes * h->features * sizeof *h->w), memset(h->b, 0, (size_t)classes * sizeof *h->b);
    p->classes = classes;
    return VT_OK;
}

vt_status vt_network_cut(vt_network **out, const vt_network *n, int cut, int classes, vt_err *e) {
    vt_status s = share_graph(out, n, e);
    if (s == VT_OK) (*out)->g->output = n->cuts[cut], vt_graph_prune((*out)->g), s = vt_network_plan(*out, e);
    if (s == VT_OK) s = take_head(*out, classes, e);
    if (s != VT_OK) vt_network_close(*out), *out = NULL;
    return s;
}

/* Sets value v's floats, in memory of g, to its numbers moved by `share`, keyed by seed and v; its reals go. */
static vt_status move_constant(vt_graph *g, int v, double share, uint64_t seed, vt_err *e) {
    vt_value *c = &g->values[v];
    const vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("selftest twin"), .image = (uint32_t)v};
    float *to = vt_heap_take(&g->heap, c->n + 1, sizeof *to);
    for (size_t k = 0; to && k < c->n; k++) to[k] = (float)vt_value_real(c, k);
    if (!to || !vt_rng_move_rows(&r, to, c->n, (size_t)(c->dims.rank ? c->dims.d[0] : 1), share))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for a perturbed copy", g->path);
    c->floats = to, c->reals = NULL;
    return VT_OK;
}

vt_status vt_network_move_weights(vt_network **out, const vt_network *n, double share, uint64_t seed, vt_err *e) {
    vt_status s = share_graph(out, n, e);
    vt_graph *g = s == VT_OK ? (*out)->g : NULL;
    for (int i = 0; s == VT_OK && i < g->n_nodes; i++)
        for (int k = 0; s == VT_OK && node_flops(g, i) > 0 && k < g->nodes[i].n_in; k++) {
            const int v = g->nodes[i].in[k];
            const bool moved =
                v >= 0 && vt_value_is_constant(&g->values[v]) && g->values[v].floats != n->g->values[v].floats;
            if (v >= 0 && vt_value_is_constant(&g->values[v]) && g->values[v].dims.rank >= 2 && !moved)
                s = move_constant(g, v, share, seed, e);
        }
    if (s == VT_OK && !vt_graph_repack(g)) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for a perturbed copy", g->path);
    if (s == VT_OK) s = vt_network_plan(*out, e);
    if (s != VT_OK) vt_network_close(*out), *out = NULL;
    return s;
}
