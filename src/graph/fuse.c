/* SPDX-License-Identifier: MIT */
#include "graph/fuse.h"

#include <stdlib.h>
#include <string.h>
#include "graph/conv.h"
#include "graph/elementwise.h"

/* The node that computes v alone for one reader; NULL: another operator, or more readers. */
static vt_node *maker(const vt_graph *g, int v, const char *op) {
    if (v < 0 || g->values[v].node < 0 || g->values[v].uses != 1) return NULL;
    vt_node *n = &g->nodes[g->values[v].node];
    return !strcmp(vt_op_at_f32(n->op)->name, op) ? n : NULL;
}

static bool is_constant(const vt_graph *g, int v) { return v >= 0 && vt_value_is_constant(&g->values[v]); }

/* One number for each of c channels of a map, of a constant that has that many or one; NULL: it has not, or (*failed)
 * no memory. k: the input of a broadcast node that it is. */
static double *each_channel(vt_graph *g, const vt_node *n, int k, int64_t c, bool *failed) {
    const vt_value *v = &g->values[n->in[k]];
    const vt_broadcast *b = n->with;
    const int64_t pixels = (int64_t)g->values[n->out].n / c;
    const bool one = v->n == 1, beside = b->rank == 2 && b->d[0] == c && b->d[1] == pixels && b->stride[k][0] == 1 &&
                                         b->stride[k][1] == 0;
    if (!one && !beside && !(pixels == 1 && v->n == (size_t)c)) return NULL;
    double *to = vt_heap_take(&g->heap, (size_t)c, sizeof *to);
    *failed = !to;
    for (int64_t i = 0; to && i < c; i++) to[i] = vt_value_real(v, one ? 0 : (size_t)i);
    return to;
}

static int add_constant(vt_graph *g, const double *v, int64_t n) {
    return vt_graph_value(g, &(vt_value){.dims = {1, {n}}, .n = (size_t)n, .reals = v, .node = -1, .alias = -1});
}

/* Puts node i in the place of its single input's: `in` has so many values. */
static bool replace(vt_graph *g, int i, int op, const int *in, int n_in, const void *with) {
    vt_node *n = &g->nodes[i];
    int *to = vt_heap_take(&g->heap, (size_t)n_in, sizeof *to);
    if (!to) return false;
    for (int k = 0; k < n_in; k++) {
        to[k] = in[k];
        if (in[k] >= 0) g->values[in[k]].uses++;
    }
    n->op = op, n->in = to, n->n_in = n_in, n->with = with;
    return true;
}

/* conv(x) f, conv(x) + t, of one number a channel: a factor of the weights, a bias. */
static bool fuse_conv(vt_graph *g, int i, bool *done) {
    vt_node *n = &g->nodes[i];
    const bool times = !strcmp(vt_op_at_f32(n->op)->name, "Mul");
    if (!times && strcmp(vt_op_at_f32(n->op)->name, "Add")) return true;
    for (int k = 0; k < 2 && !*done; k++) {
        const vt_node *conv = maker(g, n->in[k], "Conv");
        if (!conv || !is_constant(g, n->in[1 - k])) continue;
        const int64_t c = ((const vt_conv *)conv->with)->out;
        bool failed = false;
        int in[4] = {conv->in[0], conv->in[1], conv->n_in > 2 ? conv->in[2] : -1, conv->n_in > 3 ? conv->in[3] : -1};
        if (((const vt_conv *)conv->with)->w.n != 1) continue;
        double *v = each_channel(g, n, 1 - k, c, &failed);
        if (!v) return !failed;
        if (times && in[2] >= 0) {
            double *bias = vt_heap_take(&g->heap, (size_t)c, sizeof *bias);
            if (!bias) return false;
            for (int64_t j = 0; j < c; j++) bias[j] = v[j] * vt_value_real(&g->values[in[2]], (size_t)j);
            in[2] = add_constant(g, bias, c);
        }
        const int old = times ? in[3] : in[2];
        for (int64_t j = 0; old >= 0 && j < c; j++)
            v[j] = times ? v[j] * vt_value_real(&g->values[old], (size_t)j)
                         : v[j] + vt_value_real(&g->values[old], (size_t)j);
        const int made = add_constant(g, v, c);
        in[times ? VT_CONV_SCALE : 2] = made;
        if (made < 0 || (times && in[2] < -1)) return false;
        *done = true, g->fused[VT_FUSED_CONV] += conv->n_in <= VT_CONV_SCALE && times;
        if (!replace(g, i, conv->op, in, in[3] >= 0 ? 4 : 3, conv->with)) return false;
    }
    return true;
}

bool vt_graph_fuse(vt_graph *g) {
    static bool (*const ways[])(vt_graph *, int, bool *) = {fuse_conv};
    bool good = true;
    for (int i = 0; good && i < g->n_nodes; i++) {
        bool done = false;
        for (size_t k = 0; good && !done && k < sizeof ways / sizeof *ways; k++) good = ways[k](g, i, &done);
    }
    return good;
}
