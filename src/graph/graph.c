/* SPDX-License-Identifier: MIT */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"

bool vt_dims_count(const vt_dims *d, size_t *n) {
    *n = 1;
    for (int i = 0; i < d->rank; i++)
        if (d->d[i] < 0 || (size_t)d->d[i] > VT_GRAPH_VALUES || (*n *= (size_t)d->d[i]) > VT_GRAPH_VALUES) return false;
    return true;
}

bool vt_dims_equal(const vt_dims *a, const vt_dims *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->d[i] == b->d[i];
    return same;
}

const char *vt_dims_text(const vt_dims *d, char *buf, size_t size) {
    size_t at = (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < d->rank && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? "," : "", (long long)d->d[i]);
    if (at < size) snprintf(buf + at, size - at, "]");
    return buf;
}

/* ---- memory ---- */

typedef struct piece {
    void *before;
} piece;
enum { ALIGN = 64 };

bool vt_heap_fits(vt_heap *h, size_t n) {
    h->full = h->full || (h->most && n > h->most - h->bytes);
    return !h->full;
}

void *vt_heap_take(vt_heap *h, size_t count, size_t item) {
    size_t n;
    if (!vt_mul(count, item, &n) || !vt_add(n, ALIGN, &n)) return NULL;
    char *p = vt_heap_fits(h, n) ? vt_alloc(n) : NULL;
    if (!p) return NULL;
    ((piece *)p)->before = h->last;
    h->last = p, h->bytes += n;
    return p + ALIGN;
}

void vt_heap_free(vt_heap *h) {
    for (void *p = h->last, *before; p; p = before) {
        before = ((piece *)p)->before;
        free(p);
    }
    *h = (vt_heap){0};
}

/* ---- graphs ---- */

void vt_graph_free(vt_graph *g) {
    if (!g) return;
    vt_heap_free(&g->heap);
    free(g->values), free(g->nodes), free(g->path);
    free(g);
}

int vt_graph_value(vt_graph *g, const vt_value *v) {
    if (!vt_grow(&g->values, (size_t)g->n_values, sizeof *g->values)) return -1;
    g->values[g->n_values] = *v;
    return g->n_values++;
}

bool vt_graph_node(vt_graph *g, const vt_node *n) {
    if (!vt_grow(&g->nodes, (size_t)g->n_nodes, sizeof *g->nodes)) return false;
    g->values[n->out].node = g->n_nodes;
    g->nodes[g->n_nodes++] = *n;
    return true;
}

double vt_value_real(const vt_value *v, size_t i) {
    return v->integers ? (double)v->integers[i] : v->reals ? v->reals[i] : (double)v->floats[i];
}

void vt_graph_prune(vt_graph *g) {
    int kept = 0;
    for (int i = 0; i < g->n_values; i++) g->values[i].uses = 0;
    const int out = g->values[g->output].alias;
    g->values[out >= 0 ? out : g->output].uses = 1;
    for (int i = g->n_nodes - 1; i >= 0; i--) { /* from the output back */
        const vt_node *n = &g->nodes[i];
        for (int k = 0; g->values[n->out].uses && k < n->n_in; k++)
            if (n->in[k] >= 0) g->values[n->in[k]].uses++;
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (g->values[g->nodes[i].out].uses) {
            g->values[g->nodes[i].out].node = kept;
            g->nodes[kept++] = g->nodes[i];
        }
    g->n_nodes = kept;
}
