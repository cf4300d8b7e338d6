/* SPDX-License-Identifier: MIT */
#include "graph/fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "graph/conv.h"
#include "graph/elementwise.h"
#include "graph/matmul.h"
#include "graph/move.h"
#include "graph/reduce.h"

static bool is_op(const vt_node *n, const char *op) { return !strcmp(vt_op_at_f32(n->op)->name, op); }

/* Returns the node of operator `op` that computes v, which one input alone reads; NULL: there is none (v may be -1). */
static vt_node *node_making(const vt_graph *g, int v, const char *op) {
    if (v < 0 || g->values[v].node < 0 || g->values[v].uses != 1) return NULL;
    vt_node *n = &g->nodes[g->values[v].node];
    return is_op(n, op) ? n : NULL;
}

/* Has node n's result as many numbers as its input k? Then it has them in that order: sides that the other input would
 * stretch are none (values are known here without their sides). */
static bool keeps_numbers(const vt_graph *g, const vt_node *n, int k) {
    return g->values[n->out].n == g->values[n->in[k]].n;
}

static bool is_constant(const vt_graph *g, int v) { return v >= 0 && vt_value_is_constant(&g->values[v]); }

/* Returns one number for each of c channels of a map, of node n's constant input k, if it has that many or one; NULL:
 * it has not, or (*failed) no memory. */
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

/* Returns a new constant [n] of v, which stays where it is; -1: no memory. */
static int add_constant(vt_graph *g, const double *v, int64_t n) {
    return vt_graph_value(g, &(vt_value){.dims = {1, {n}}, .n = (size_t)n, .reals = v, .node = -1, .alias = -1});
}

/* Makes node i compute op of `in` [n_in] with parameters `with`, and counts their uses; false: no memory. */
static bool replace_node(vt_graph *g, int i, int op, const int *in, int n_in, const void *with) {
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

/* Joins conv(x) f or conv(x) + t, of one number a channel, into a Conv with a factor of the weights or a bias, if node
 * i is such a Mul or Add; then *done. false: no memory. */
static bool fuse_conv(vt_graph *g, int i, bool *done) {
    vt_node *n = &g->nodes[i];
    const bool times = is_op(n, "Mul");
    if (!times && !is_op(n, "Add")) return true;
    for (int k = 0; k < 2 && !*done; k++) {
        const vt_node *conv = node_making(g, n->in[k], "Conv");
        if (!conv || !is_constant(g, n->in[1 - k]) || !keeps_numbers(g, n, k)) continue;
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
            if (in[2] < 0) return false;
        }
        const int old = times ? in[3] : in[2];
        for (int64_t j = 0; old >= 0 && j < c; j++)
            v[j] = times ? v[j] * vt_value_real(&g->values[old], (size_t)j)
                         : v[j] + vt_value_real(&g->values[old], (size_t)j);
        const int made = add_constant(g, v, c);
        in[times ? VT_CONV_SCALE : 2] = made;
        if (made < 0) return false;
        *done = true, g->fused[VT_FUSED_CONV] += conv->n_in <= VT_CONV_SCALE && times;
        if (!replace_node(g, i, conv->op, in, in[3] >= 0 ? 4 : 3, conv->with)) return false;
    }
    return true;
}

/* Returns the one number that value v is, or NaN. */
static double number_of(const vt_graph *g, int v) {
    return is_constant(g, v) && g->values[v].n == 1 ? vt_value_real(&g->values[v], 0) : NAN;
}

/* Returns the other input of a node of two inputs of which one is this number; -1: it is none (n may be NULL). */
static int beside_number(const vt_graph *g, const vt_node *n, double number) {
    for (int k = 0; n && k < 2; k++)
        if (number_of(g, n->in[k]) == number) return n->in[1 - k];
    return -1;
}

/* Joins 0.5 (x (1 + erf(x / s))), s about the root of 2, into (gelu) of x, if node i is that; then *done. false: no
 * memory. */
static bool fuse_gelu(vt_graph *g, int i, bool *done) {
    const int whole = is_op(&g->nodes[i], "Mul") ? beside_number(g, &g->nodes[i], 0.5) : -1;
    const vt_node *times = node_making(g, whole, "Mul");
    for (int k = 0; times && k < 2 && !*done; k++) {
        const int x = times->in[k];
        if (!keeps_numbers(g, times, 0) || !keeps_numbers(g, times, 1)) continue;
        const vt_node *erf = node_making(g, beside_number(g, node_making(g, times->in[1 - k], "Add"), 1), "Erf");
        const vt_node *div = erf ? node_making(g, erf->in[0], "Div") : NULL;
        const double s = div && div->in[0] == x ? number_of(g, div->in[1]) : NAN;
        if (!(fabs(s - sqrt(2.0)) < 1e-6)) continue;
        double *with = vt_heap_take(&g->heap, 2, sizeof *with);
        if (!with) return false;
        with[0] = s, *done = true, g->fused[VT_FUSED_GELU]++;
        if (!replace_node(g, i, vt_op_find_f32("(gelu)"), &x, 1, with)) return false;
    }
    return true;
}

/* Is the second input of an elementwise operation, which has a number for each row, one number along rows of cols? */
static bool takes_rows(const vt_broadcast *b, size_t cols) {
    return b->rank > 0 && b->stride[1][b->rank - 1] == 0 && b->d[b->rank - 1] == (int64_t)cols;
}

/* Joins d / sqrt(mean(d^2) + eps) of d = x - mean(x) into (standardise) of x, if node i is that; then *done. false: no
 * memory. */
static bool fuse_standardise(vt_graph *g, int i, bool *done) {
    const vt_node *n = &g->nodes[i];
    const vt_node *root = is_op(n, "Div") ? node_making(g, n->in[1], "Sqrt") : NULL;
    const vt_node *sum = root ? node_making(g, root->in[0], "Add") : NULL;
    for (int k = 0; sum && k < 2 && !*done; k++) {
        const double eps = number_of(g, sum->in[1 - k]);
        const vt_node *mean = node_making(g, sum->in[k], "ReduceMean"),
                      *square = mean ? node_making(g, mean->in[0], "Pow") : NULL;
        if (isnan(eps) || !square || number_of(g, square->in[1]) != 2 || square->in[0] != n->in[0]) continue;
        const int d = n->in[0];
        const vt_node *less = g->values[d].node >= 0 ? &g->nodes[g->values[d].node] : NULL;
        const vt_node *centre = less && is_op(less, "Sub") ? node_making(g, less->in[1], "ReduceMean") : NULL;
        if (!centre || centre->in[0] != less->in[0]) continue;
        const vt_row_size *a = mean->with, *b = centre->with;
        const vt_broadcast *rows = less->with;
        if (a->rows != b->rows || a->cols != b->cols || g->values[d].n != a->rows * a->cols) continue;
        if (!takes_rows(rows, a->cols) || !takes_rows(n->with, a->cols) || !keeps_numbers(g, n, 0)) continue;
        vt_row_size *with = vt_heap_take(&g->heap, 1, sizeof *with);
        if (!with) return false;
        *with = (vt_row_size){.rows = a->rows, .cols = a->cols, .eps = eps}, *done = true;
        if (!replace_node(g, i, vt_op_find_f32("(standardise)"), &less->in[0], 1, with)) return false;
    }
    return true;
}

/* Returns node n's constant input k of one number for each of `cols` columns of the rows it computes; -1: it is
 * none. */
static int beside_columns(const vt_graph *g, const vt_node *n, int k, size_t cols) {
    const vt_broadcast *b = n->with;
    const int v = n->in[k], last = b->rank - 1;
    const bool along = b->rank > 0 && b->stride[k][last] == 1 && b->d[last] == (int64_t)cols;
    return along && is_constant(g, v) && g->values[v].n == cols ? v : -1;
}

/* Joins standardised rows, times a scale, plus a shift, into (norm), if node i is that; then *done. false: no
 * memory. */
static bool fuse_norm(vt_graph *g, int i, bool *done) {
    const vt_node *n = &g->nodes[i];
    for (int k = 0; is_op(n, "Add") && k < 2 && !*done; k++) {
        const vt_node *times = node_making(g, n->in[k], "Mul");
        for (int j = 0; times && j < 2 && !*done; j++) {
            const vt_node *rows = node_making(g, times->in[j], "(standardise)");
            if (!rows || !keeps_numbers(g, times, j) || !keeps_numbers(g, n, k)) continue;
            const size_t cols = ((const vt_row_size *)rows->with)->cols;
            const int in[3] = {rows->in[0], beside_columns(g, times, 1 - j, cols), beside_columns(g, n, 1 - k, cols)};
            if (in[1] < 0 || in[2] < 0) continue;
            *done = true, g->fused[VT_FUSED_NORM]++;
            if (!replace_node(g, i, vt_op_find_f32("(norm)"), in, 3, rows->with)) return false;
            n = &g->nodes[i];
        }
    }
    return true;
}

/* Joins a product with one constant matrix, plus a bias, into a MatMul of three inputs, if node i is that; then *done.
 * false: no memory. */
static bool fuse_linear(vt_graph *g, int i, bool *done) {
    const vt_node *n = &g->nodes[i];
    for (int k = 0; is_op(n, "Add") && k < 2 && !*done; k++) {
        const vt_node *product = node_making(g, n->in[k], "MatMul");
        const vt_matmul *p = product ? product->with : NULL;
        if (!p || product->n_in > 2 || p->count != 1 || p->alpha != 1 || !is_constant(g, product->in[1]) ||
            !keeps_numbers(g, n, k))
            continue;
        const int in[3] = {product->in[0], product->in[1], beside_columns(g, n, 1 - k, (size_t)p->n)};
        if (in[2] < 0) continue;
        *done = true, g->fused[VT_FUSED_LINEAR]++;
        if (!replace_node(g, i, product->op, in, 3, p)) return false;
    }
    return true;
}

/* Joins the softmax of a multiple into a Softmax with a scale, if node i is that; then *done. false: no memory. */
static bool fuse_softmax(vt_graph *g, int i, bool *done) {
    const vt_node *n = &g->nodes[i];
    if (!is_op(n, "Softmax")) return true;
    const vt_node *times = node_making(g, n->in[0], "Mul"), *over = node_making(g, n->in[0], "Div"),
                  *one = times ? times : over;
    for (int k = 0; one && k < (over ? 1 : 2) && !*done; k++) {
        const double f = number_of(g, one->in[1 - k]), scale = over ? 1 / f : f;
        if (!isfinite(scale) || scale == 0) continue;
        vt_row_size *with = vt_heap_take(&g->heap, 1, sizeof *with);
        if (!with) return false;
        *with = *(const vt_row_size *)n->with, with->scale = scale, *done = true;
        if (!replace_node(g, i, n->op, &one->in[k], 1, with)) return false;
    }
    return true;
}

/* Makes node i a product with transposed right matrices, and their move one of runs of at least 8, if it is a product
 * whose right matrices were moved number by number; then *done. false: no memory. */
static bool fuse_transpose(vt_graph *g, int i, bool *done) {
    const vt_node *n = &g->nodes[i], *from = is_op(n, "MatMul") ? node_making(g, n->in[1], "(move)") : NULL;
    const vt_move *old = from ? from->with : NULL;
    const vt_matmul *p = n->with;
    if (!old || old->run > 1 || p->tb || old->n % ((size_t)p->k * (size_t)p->n)) return true;
    vt_move *m = vt_heap_take(&g->heap, 1, sizeof *m);
    vt_matmul *with = vt_heap_take(&g->heap, 1, sizeof *with);
    if (!m || !with || !(m->map = vt_heap_take(&g->heap, old->n + 1, sizeof *m->map))) return false;
    m->n = old->n, m->fill = old->fill, *with = *p, with->tb = true;
    const size_t rows = (size_t)p->k, cols = (size_t)p->n;
    for (size_t j = 0; j < old->n; j++) {
        const size_t matrix = j / (rows * cols), c = j / rows % cols, r = j % rows;
        m->map[j] = old->map[matrix * rows * cols + r * cols + c];
    }
    vt_move_runs(m);
    if (m->run < 8) return true;
    const int in[2] = {n->in[0], n->in[1]};
    ((vt_node *)from)->with = m, *done = true;
    return replace_node(g, i, n->op, in, 2, with);
}

/* Joins what it can of each node, the first way that does; false: no memory. */
static bool fuse_nodes(vt_graph *g, vt_fusion how) {
    static bool (*const ways[])(vt_graph *, int, bool *) = {fuse_gelu,   fuse_conv,    fuse_standardise, fuse_norm,
                                                            fuse_linear, fuse_softmax, fuse_transpose};
    const size_t count = how == VT_FUSE_ALL ? sizeof ways / sizeof *ways : how == VT_FUSE_GELU;
    bool good = true;
    for (int i = 0; good && i < g->n_nodes; i++) {
        bool done = false;
        for (size_t k = 0; good && !done && k < count; k++) good = ways[k](g, i, &done);
    }
    return good;
}

/* Sets floats of constants that nodes read, beside their doubles or integers; false: no memory. */
static bool round_constants(vt_graph *g) {
    for (int i = 0; i < g->n_values; i++) {
        vt_value *v = &g->values[i];
        if (!v->uses || !vt_value_is_constant(v) || v->floats) continue;
        float *f = vt_heap_take(&g->heap, v->n + 1, sizeof *f);
        if (!f) return false;
        for (size_t k = 0; k < v->n; k++) f[k] = (float)vt_value_real(v, k);
        v->floats = f;
    }
    return true;
}

vt_status vt_graph_fuse(vt_graph *g, vt_fusion how, vt_err *e) {
    bool good = fuse_nodes(g, how);
    if (how != VT_FUSE_NONE) vt_graph_prune(g);
    if (how == VT_FUSE_ALL) {
        good = good && vt_graph_order(g);
        if (good) vt_graph_prune(g);
    }
    good = good && round_constants(g) && vt_graph_pack(g);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its graph", g->path);
}
