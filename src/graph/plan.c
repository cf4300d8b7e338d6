/* SPDX-License-Identifier: MIT */
#include "graph/plan.h"

#include <stdlib.h>
#include <string.h>
#include "graph/op.h"

enum { ALIGN = 16 }; /* reals: 64 bytes of floats */

/* Numbers that are needed from one step to another; node i is computed in step i, its backward in step 2n - 1 - i. */
typedef struct span {
    int from, to;
    size_t size, *at;
} span;

static size_t round_up(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* qsort order of spans: largest first, then by start. */
static int by_size(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

/* A span that has its place: reals `at` to `end` of the block, in these steps. */
typedef struct place {
    int from, to;
    size_t at, end;
} place;

/* Places spans, largest first, each at the lowest place that is free while it is needed. Returns the block's size.
 * placed [n]: by place, so that one pass over those before it finds a span's (networks of files have up to
 * VT_GRAPH_NODES nodes, of two spans each). */
static size_t place_spans(span *s, size_t n, place *placed) {
    size_t all = 0;
    qsort(s, n, sizeof *s, by_size);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0, k = 0;
        for (const place *p = placed; k < i && !(p->at >= at + s[i].size && p->from <= s[i].to && s[i].from <= p->to);
             k++, p++)
            if (p->end > at && p->from <= s[i].to && s[i].from <= p->to) at = p->end;
        for (k = i; k && placed[k - 1].at > at; k--) placed[k] = placed[k - 1];
        placed[k] = (place){s[i].from, s[i].to, at, at + s[i].size};
        *s[i].at = at;
        if (at + s[i].size > all) all = at + s[i].size;
    }
    return all;
}

static bool passes_back(const vt_node *n) { return vt_op_at_f32(n->op)->backward != NULL; }

/* Sets `to` [n_values], -1 at first, to the last step in which each value is written or read. */
static void last_reads(const vt_graph *g, bool gradient, int *to) {
    const int n = g->n_nodes;
    for (int i = 0; i < n; i++) {
        const vt_node *node = &g->nodes[i];
        const unsigned keep = gradient && passes_back(node) ? vt_op_at_f32(node->op)->keep : 0;
        const int back = 2 * n - 1 - i;
        if (keep & VT_KEEP_Y) to[node->out] = back;
        if (to[node->out] < i) to[node->out] = i;
        for (int k = 0; k < node->n_in; k++) {
            const int v = node->in[k], until = keep & VT_KEEP_X ? back : i;
            if (v >= 0 && to[v] < until) to[v] = until;
        }
    }
    const int out = vt_root_of(g, g->output);
    if (to[out] < n) to[out] = n;
}

/* Sets p->first and add: which backward writes a gradient first and which add; from [n_values]: the step in which each
 * begins, -1: none. */
static void order_gradients(const vt_graph *g, vt_plan *p, int *from) {
    const int n = g->n_nodes, out = vt_root_of(g, g->output);
    for (int i = 0; i < g->n_values; i++) p->first[i] = true, from[i] = -1;
    p->first[out] = false, from[out] = n;
    for (int i = n - 1; i >= 0; i--) {
        const vt_node *node = &g->nodes[i];
        for (int k = 0; passes_back(node) && k < node->n_in; k++) {
            const int v = node->in[k];
            if (v < 0 || vt_value_is_constant(&g->values[v])) continue;
            p->add[i][k] = !p->first[v];
            if (p->first[v]) from[v] = 2 * n - 1 - i;
            p->first[v] = false;
        }
    }
}

/* Sets owner [n_values] to the value in whose gradient's place v's is: a sum hands its gradient on to an input that
 * nothing else reads. */
static void find_owners(const vt_graph *g, int *owner) {
    const int add = vt_op_find_f32("Add");
    for (int i = 0; i < g->n_values; i++) owner[i] = i;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const vt_node *n = &g->nodes[i];
        for (int k = 0; n->op == add && k < n->n_in; k++) {
            const vt_value *v = &g->values[n->in[k]];
            if (v->node >= 0 && v->uses == 1 && v->n == g->values[n->out].n) owner[n->in[k]] = owner[n->out];
        }
    }
}

/* Allocates p's arrays in the graph's memory, all places nowhere; false: no memory. */
static bool take_arrays(vt_plan *p, vt_graph *g) {
    size_t inputs = 0;
    for (int i = 0; i < g->n_nodes; i++) inputs += (size_t)g->nodes[i].n_in;
    bool *add = vt_heap_take(&g->heap, inputs + 1, sizeof *add);
    p->value = vt_heap_take(&g->heap, (size_t)g->n_values, sizeof *p->value);
    p->gradient = vt_heap_take(&g->heap, (size_t)g->n_values, sizeof *p->gradient);
    p->first = vt_heap_take(&g->heap, (size_t)g->n_values, sizeof *p->first);
    p->add = vt_heap_take(&g->heap, (size_t)g->n_nodes + 1, sizeof *p->add);
    if (!add || !p->value || !p->gradient || !p->first || !p->add) return false;
    for (int i = 0; i < g->n_nodes; i++) p->add[i] = add, add += g->nodes[i].n_in;
    for (int i = 0; i < g->n_values; i++) p->value[i] = p->gradient[i] = SIZE_MAX;
    return true;
}

/* Sets p->work, constants, reals and reals_double: after the values, the operators' work and the doubles of constants
 * that are floats. */
static void place_work(vt_plan *p, const vt_graph *g, bool gradient) {
    size_t work = 0, constants = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        size_t wide = 0;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0 && vt_value_is_constant(&g->values[n->in[k]]) && !g->values[n->in[k]].reals)
                wide += round_up(g->values[n->in[k]].n);
        if (wide > constants) constants = wide;
        for (int back = 0; back <= gradient && vt_op_at_f32(n->op)->work; back++) {
            const size_t w = vt_op_at_f32(n->op)->work(g, n, back != 0);
            if (w > work) work = w;
        }
    }
    p->work = p->reals, p->constants = p->work + round_up(work);
    p->reals = p->constants, p->reals_double = p->constants + constants;
}

vt_status vt_graph_plan(vt_plan *p, vt_graph *g, bool gradient, vt_err *e) {
    const size_t n = (size_t)g->n_values;
    span *s = calloc(2 * n + 1, sizeof *s);
    place *placed = calloc(2 * n + 1, sizeof *placed);
    int *to = calloc(n + 1, sizeof *to), *from = calloc(n + 1, sizeof *from), *until = calloc(n + 1, sizeof *until);
    int *owner = calloc(n + 1, sizeof *owner);
    size_t count = 0;
    *p = (vt_plan){0};
    bool good = s && placed && to && from && until && owner && take_arrays(p, g);
    if (good) {
        for (size_t i = 0; i < n; i++) to[i] = -1;
        last_reads(g, gradient, to);
        order_gradients(g, p, from);
        find_owners(g, owner);
        for (int i = 0; i < g->n_nodes; i++) {
            const int v = g->nodes[i].out, back = 2 * g->n_nodes - 1 - i;
            const size_t size = round_up(g->values[v].n);
            s[count++] = (span){i, to[v], size, &p->value[v]};
            if (!gradient) continue;
            if (owner[v] != v) { /* it comes later */
                until[owner[v]] = until[owner[v]] > back ? until[owner[v]] : back;
                continue;
            }
            s[count++] = (span){p->first[v] ? back : from[v], back > until[v] ? back : until[v], size, &p->gradient[v]};
        }
        p->reals = place_spans(s, count, placed);
        for (int i = 0; gradient && i < g->n_nodes; i++)
            p->gradient[g->nodes[i].out] = p->gradient[owner[g->nodes[i].out]];
        place_work(p, g, gradient);
    }
    free(s), free(placed), free(to), free(from), free(until), free(owner);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its graph", g->path);
}
