/* SPDX-License-Identifier: MIT */
/* Channels last: [1,C,sides] as [1,sides,C] around convolutions, which is how nn/convolve reads maps and how a linear
 * map or a norm of channels reads tokens, so that the transposes of an exported file mostly vanish. Elementwise nodes
 * keep the order of what they read; all others get theirs back by a move. */
#include <stdlib.h>
#include <string.h>
#include "graph/conv.h"
#include "graph/elementwise.h"
#include "graph/fuse.h"
#include "graph/matmul.h"
#include "graph/move.h"

/* A value of the old graph: its numbers are value `at` of the new one, channels last if c is not 0; `other`: the value
 * in the other order, with other_c channels if those are last, -1: there is none yet. */
typedef struct place {
    int at, other;
    int64_t c, pixels, other_c;
} place;

typedef struct layout {
    vt_graph *g;
    vt_node *old;
    place *place; /* [n_values] */
    int values;   /* of the old graph */
    int op_move, op_conv, op_concat;
} layout;

/* Adds a move of x to the other order, and returns its value; last: channels last, of c channels of `pixels`. -1: no
 * memory. */
static int add_move(layout *l, int x, int64_t c, int64_t pixels, bool last, const char *name) {
    vt_graph *g = l->g;
    vt_move *m = vt_heap_take(&g->heap, 1, sizeof *m);
    int *in = vt_heap_take(&g->heap, 1, sizeof *in);
    if (!m || !in || !(m->map = vt_heap_take(&g->heap, (size_t)(c * pixels) + 1, sizeof *m->map))) return -1;
    for (int64_t k = 0; k < c; k++)
        for (int64_t p = 0; p < pixels; p++)
            m->map[last ? p * c + k : k * pixels + p] = (int32_t)(last ? k * pixels + p : p * c + k);
    m->n = (size_t)(c * pixels), m->run = 1, in[0] = x;
    const vt_dims d = {3, {1, last ? pixels : c, last ? c : pixels}};
    const int y = vt_graph_value(g, &(vt_value){.dims = d, .n = m->n, .node = -1, .alias = -1});
    const vt_node n = {.op = l->op_move, .in = in, .n_in = 1, .out = y, .with = m, .name = name};
    return y >= 0 && vt_graph_node(g, &n) ? y : -1;
}

/* Returns the new value of v in the order that is wanted, moved there once if need be; c, pixels: its sides where the
 * order is channels last. -1: no memory. */
static int in_order(layout *l, int v, bool last, int64_t c, int64_t pixels, const char *name) {
    if (v < 0 || v >= l->values) return v;
    place *p = &l->place[v];
    if (last && p->c && p->c != c) /* as other channels */
        return (v = in_order(l, v, false, 0, 0, name)) < 0 ? -1 : add_move(l, v, c, pixels, true, name);
    if (p->c) c = p->c, pixels = p->pixels;
    if ((p->c != 0) == last || c == 1 || pixels == 1 || vt_value_is_constant(&l->g->values[v])) return p->at;
    if (p->other < 0 || (last && p->other_c != c)) p->other = add_move(l, p->at, c, pixels, last, name), p->other_c = c;
    return p->other;
}

static bool is_map(const vt_conv *p) {
    return p->w.n == 1 && p->w.in[0] == 1 && p->w.kernel[0] == 1 && !p->w.before[0];
}

/* Returns whether input k has as many numbers as the result. */
static bool is_full(const vt_graph *g, const vt_node *n, int k) { return g->values[n->in[k]].n == g->values[n->out].n; }
/* Returns whether input k is broadcast along the pixels of p's channels. */
static bool is_beside_channels(const vt_broadcast *b, int k, const place *p) {
    return b->rank == 2 && b->d[0] == p->c && b->d[1] == p->pixels && b->stride[k][0] == 1 && b->stride[k][1] == 0;
}

/* Returns the place of the input whose order an elementwise node takes over; NULL: it has none, or not all inputs fit
 * it. */
static const place *order_of(const layout *l, const vt_node *n) {
    const vt_graph *g = l->g;
    const int each = vt_op_at_f32(n->op)->each;
    const place *p = NULL;
    for (int k = 0; each && k < n->n_in; k++)
        if (n->in[k] >= 0 && l->place[n->in[k]].c && is_full(g, n, k)) p = &l->place[n->in[k]];
    for (int k = 0; p && each == VT_EACH_BROADCAST && k < n->n_in; k++) {
        const vt_value *v = &g->values[n->in[k]];
        const bool full = is_full(g, n, k) && (!vt_value_is_constant(v) || v->n == 1);
        if (!full && v->n != 1 && !is_beside_channels(n->with, k, p)) p = NULL;
    }
    return p;
}

/* Adds node n in the order of p, its inputs brought to it, and sets its result's place; false: no memory. */
static bool turn_elementwise(layout *l, vt_node *n, const place *p) {
    vt_graph *g = l->g;
    const place order = *p;
    if (vt_op_at_f32(n->op)->each == VT_EACH_BROADCAST) {
        vt_broadcast *b = vt_heap_take(&g->heap, 1, sizeof *b);
        if (!b) return false;
        *b = (vt_broadcast){.rank = 2, .d = {order.pixels, order.c}};
        for (int k = 0; k < n->n_in; k++) {
            const bool full = is_full(g, n, k);
            b->stride[k][0] = full ? order.c : 0, b->stride[k][1] = full || g->values[n->in[k]].n != 1;
        }
        bool joins = true; /* one row, if no input has a number for each channel */
        for (int k = 0; k < n->n_in; k++) joins = joins && b->stride[k][0] == b->stride[k][1] * order.c;
        if (joins) {
            b->rank = 1, b->d[0] = order.pixels * order.c;
            for (int k = 0; k < n->n_in; k++) b->stride[k][0] = b->stride[k][1];
        }
        n->with = b;
    }
    l->place[n->out] = (place){n->out, -1, order.c, order.pixels, 0};
    for (int k = 0; k < n->n_in; k++)
        if (is_full(g, n, k) && (n->in[k] = in_order(l, n->in[k], true, order.c, order.pixels, n->name)) < 0)
            return false;
    return vt_graph_node(g, n);
}

/* Adds a Conv of one image with channels last, and sets its shape and its result's place; false: no memory. */
static bool turn_conv(layout *l, vt_node *n) {
    vt_graph *g = l->g;
    vt_conv *p = vt_heap_take(&g->heap, 1, sizeof *p);
    if (!p) return false;
    *p = *(const vt_conv *)n->with;
    const vt_windows *w = &p->w;
    p->last = true, n->with = p;
    p->shape = (vt_convolution){.in = (int)w->channels, .out = (int)p->out, .groups = (int)p->groups};
    p->shape.h = (int)w->in[1], p->shape.w = (int)w->in[2], p->shape.ho = (int)w->out[1], p->shape.wo = (int)w->out[2];
    for (int k = 0; k < 2; k++) {
        p->shape.kernel[k] = (int)w->kernel[1 + k], p->shape.stride[k] = (int)w->stride[1 + k];
        p->shape.step[k] = (int)w->dilation[1 + k], p->shape.before[k] = (int)w->before[1 + k];
    }
    l->place[n->out] = (place){n->out, -1, p->out, w->pixels_out, 0};
    n->in[0] = in_order(l, n->in[0], true, w->channels, w->pixels_in, n->name);
    return n->in[0] >= 0 && vt_graph_node(g, n);
}

/* Adds a move of what has its channels last, by one that looks up where its numbers are now; none where they lie so
 * already, or where the result would have its channels last. Sets the result's place. false: no memory. */
static bool turn_move(layout *l, vt_node *n) {
    vt_graph *g = l->g;
    const vt_move *old = n->with;
    const place *x = &l->place[n->in[0]], from = *x;
    const vt_dims *d = &g->values[n->out].dims;
    const bool whole = old->n == g->values[n->in[0]].n;
    bool same = whole && from.c, turns = whole && !from.c && d->rank > 2 && d->d[0] == 1 && d->d[1] > 0;
    const int64_t c = d->rank > 2 ? d->d[1] : 1, pixels = (int64_t)old->n / (c > 0 ? c : 1);
    for (size_t i = 0; turns && i < old->n; i++)
        turns = old->map[i] == (int32_t)((int64_t)i % pixels * c + (int64_t)i / pixels);
    if (turns) {
        l->place[n->out] = (place){from.at, -1, c, pixels, 0};
        return true;
    }
    if (!from.c) {
        n->in[0] = from.at;
        return vt_graph_node(g, n);
    }
    vt_move *m = vt_heap_take(&g->heap, 1, sizeof *m);
    if (!m || !(m->map = vt_heap_take(&g->heap, old->n + 1, sizeof *m->map))) return false;
    for (size_t i = 0; i < old->n; i++) {
        const int64_t o = old->map[i];
        m->map[i] = o < 0 ? -1 : (int32_t)(o % from.pixels * from.c + o / from.pixels);
        same = same && m->map[i] == (int32_t)i;
    }
    if (same) {
        l->place[n->out].at = from.at;
        return true;
    }
    m->n = old->n, m->fill = old->fill;
    vt_move_runs(m);
    n->with = m, n->in[0] = from.at;
    return vt_graph_node(g, n);
}

/* Returns whether n joins maps, with their channels last, along their channels. */
static bool joins_channels(const layout *l, const vt_node *n) {
    const vt_concat *p = n->with;
    bool good = n->op == l->op_concat && p->outer == 1;
    for (int k = 0; good && k < n->n_in; k++) {
        const place *x = &l->place[n->in[k]];
        good = x->c && x->pixels == l->place[n->in[0]].pixels && x->c * x->pixels == (int64_t)p->part[k];
    }
    return good;
}

/* Adds a Concat of maps with channels last, and sets its result's place; false: no memory. */
static bool turn_concat(layout *l, vt_node *n) {
    vt_concat *p = vt_heap_take(&l->g->heap, 1, sizeof *p);
    const int64_t pixels = l->place[n->in[0]].pixels;
    int64_t c = 0;
    if (!p || !(p->part = vt_heap_take(&l->g->heap, (size_t)n->n_in, sizeof *p->part))) return false;
    p->outer = (size_t)pixels;
    for (int k = 0; k < n->n_in; k++) {
        p->part[k] = (size_t)l->place[n->in[k]].c, c += l->place[n->in[k]].c;
        n->in[k] = l->place[n->in[k]].at;
    }
    l->place[n->out] = (place){n->out, -1, c, pixels, 0}, n->with = p;
    return vt_graph_node(l->g, n);
}

/* Adds node n to the new graph, in the order of its inputs if its operator has a way, else in the old one; false: no
 * memory. */
static bool turn_node(layout *l, vt_node *n) {
    const place *p = order_of(l, n);
    if (p) return turn_elementwise(l, n, p);
    if (n->op == l->op_conv && is_map(n->with)) return turn_conv(l, n);
    if (n->op == l->op_move) return turn_move(l, n);
    if (joins_channels(l, n)) return turn_concat(l, n);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] >= 0 && (n->in[k] = in_order(l, n->in[k], false, 0, 0, n->name)) < 0) return false;
    return vt_graph_node(l->g, n);
}

bool vt_graph_order(vt_graph *g) {
    layout l = {.g = g, .old = g->nodes, .values = g->n_values, .op_move = vt_op_find_f32("(move)")};
    const int nodes = g->n_nodes;
    l.op_conv = vt_op_find_f32("Conv"), l.op_concat = vt_op_find_f32("Concat");
    l.place = calloc((size_t)l.values + 1, sizeof *l.place);
    bool good = l.place != NULL;
    g->nodes = NULL, g->n_nodes = 0;
    for (int i = 0; good && i < l.values; i++) l.place[i] = (place){i, -1, 0, 0, 0};
    for (int i = 0; good && i < nodes; i++) good = turn_node(&l, &l.old[i]);
    const int root = vt_root_of(g, g->output), at = good ? in_order(&l, root, false, 0, 0, "") : -1;
    if (at != g->output) g->values[g->output].alias = at;
    free(l.place), free(l.old);
    return good && at >= 0;
}

/* Sets p->shape and packed of a linear map, as the convolution of a column of pixels, if it is one product of two or
 * more rows with a constant; false: no memory. */
static bool pack_linear(vt_graph *g, const vt_node *n) {
    vt_matmul *p = (vt_matmul *)(uintptr_t)n->with;
    if (p->ta || p->count != 1 || p->alpha != 1 || p->m < 2 || !vt_value_is_constant(&g->values[n->in[1]])) return true;
    const float *b = g->values[n->in[1]].floats;
    const size_t k = (size_t)p->k, cols = (size_t)p->n;
    p->shape = (vt_convolution){.in = p->k, .out = p->n, .groups = 1, .h = p->m, .w = 1, .ho = p->m, .wo = 1};
    for (int i = 0; i < 2; i++) p->shape.kernel[i] = p->shape.stride[i] = p->shape.step[i] = 1;
    float *to = vt_heap_take(&g->heap, vt_convolution_packed(&p->shape), sizeof *to);
    float *turned = p->tb ? NULL : malloc(k * cols * sizeof *turned);
    const bool good = to && (p->tb || turned);
    for (size_t i = 0; good && !p->tb && i < k; i++)
        for (size_t j = 0; j < cols; j++) turned[j * k + i] = b[i * cols + j];
    if (good) vt_convolution_pack(to, &p->shape, p->tb ? b : turned, NULL);
    if (good) p->packed = to;
    free(turned);
    return good;
}

/* Sets `packed` of a Conv with channels last that nn/convolve fits; false: no memory. */
static bool pack_conv(vt_graph *g, const vt_node *n) {
    vt_conv *p = (vt_conv *)(uintptr_t)n->with;
    if (!p->last || !vt_convolution_fits(&p->shape)) return true;
    float *to = vt_heap_take(&g->heap, vt_convolution_packed(&p->shape), sizeof *to);
    if (!to) return false;
    vt_convolution_pack(to, &p->shape, g->values[n->in[1]].floats,
                        n->n_in > VT_CONV_SCALE ? g->values[n->in[VT_CONV_SCALE]].floats : NULL);
    p->packed = to;
    return true;
}

bool vt_graph_pack(vt_graph *g) {
    const int conv = vt_op_find_f32("Conv"), matmul = vt_op_find_f32("MatMul"), move = vt_op_find_f32("(move)");
    bool good = true;
    for (int i = 0; good && i < g->n_nodes; i++) {
        if (g->nodes[i].op == conv) good = pack_conv(g, &g->nodes[i]);
        if (g->nodes[i].op == matmul) good = pack_linear(g, &g->nodes[i]);
        if (g->nodes[i].op == move)
            good = vt_move_look((vt_move *)(uintptr_t)g->nodes[i].with, g->values[g->nodes[i].in[0]].n);
    }
    return good;
}

bool vt_graph_repack(vt_graph *g) {
    const int conv = vt_op_find_f32("Conv"), matmul = vt_op_find_f32("MatMul");
    for (int i = 0; i < g->n_nodes; i++) {
        vt_node *n = &g->nodes[i];
        const size_t size = n->op == conv ? sizeof(vt_conv) : n->op == matmul ? sizeof(vt_matmul) : 0;
        void *own = size ? vt_heap_take(&g->heap, 1, size) : NULL;
        if (size && !own) return false;
        if (own) n->with = memcpy(own, n->with, size);
    }
    return vt_graph_pack(g);
}
