/* SPDX-License-Identifier: MIT */
#define VT_DOUBLE /* operators of their double copy */
#include "certify/relax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/progress.h"
#include "graph/op.h"
#include "parallel/threads.h"

/* By operator: how it is bounded if only its first input follows the image, only its second, or both do. */
static const struct {
    const char *op;
    const vt_relaxation *first, *second, *both;
} table[] = {
    {"Abs", &vt_relax_scalar, NULL, NULL},
    {"Add", &vt_relax_affine, &vt_relax_affine, &vt_relax_affine},
    {"AveragePool", &vt_relax_affine, NULL, NULL},
    {"Clip", &vt_relax_scalar, NULL, NULL},
    {"Concat", &vt_relax_affine, &vt_relax_affine, &vt_relax_affine},
    {"Conv", &vt_relax_affine, NULL, NULL},
    {"Div", &vt_relax_affine, &vt_relax_quotient, &vt_relax_quotient},
    {"Erf", &vt_relax_scalar, NULL, NULL},
    {"Exp", &vt_relax_scalar, NULL, NULL},
    {"Gelu", &vt_relax_scalar, NULL, NULL},
    {"LeakyRelu", &vt_relax_scalar, NULL, NULL},
    {"Log", &vt_relax_scalar, NULL, NULL},
    {"MatMul", &vt_relax_affine, &vt_relax_affine, &vt_relax_product},
    {"MaxPool", &vt_relax_windows_largest, NULL, NULL},
    {"Mul", &vt_relax_affine, &vt_relax_affine, &vt_relax_product},
    {"Neg", &vt_relax_affine, NULL, NULL},
    {"PRelu", &vt_relax_scalar, NULL, NULL},
    {"Pow", &vt_relax_power, NULL, NULL},
    {"Reciprocal", &vt_relax_scalar, NULL, NULL},
    {"ReduceMax", &vt_relax_largest, NULL, NULL},
    {"ReduceMean", &vt_relax_affine, NULL, NULL},
    {"ReduceSum", &vt_relax_affine, NULL, NULL},
    {"Relu", &vt_relax_scalar, NULL, NULL},
    {"Sigmoid", &vt_relax_scalar, NULL, NULL},
    {"Softmax", &vt_relax_softmax, NULL, NULL},
    {"Softplus", &vt_relax_scalar, NULL, NULL},
    {"Sqrt", &vt_relax_scalar, NULL, NULL},
    {"Sub", &vt_relax_affine, &vt_relax_affine, &vt_relax_affine},
    {"Tanh", &vt_relax_scalar, NULL, NULL},
    {"(gelu)", &vt_relax_scalar, NULL, NULL},
    {"(move)", &vt_relax_affine, NULL, NULL},
    {"(standardise)", &vt_relax_standardise, NULL, NULL},
};

bool vt_relax_is_square(const vt_graph *g, const vt_node *n) {
    return n->in[0] == n->in[1] && g->values[n->in[0]].n == g->values[n->out].n;
}

/* Is input k of n there and no constant? */
static bool follows_image(const vt_graph *g, const vt_node *n, int k) {
    return k < n->n_in && n->in[k] >= 0 && !vt_value_is_constant(&g->values[n->in[k]]);
}

const vt_relaxation *vt_relaxation_of(const vt_graph *g, const vt_node *n) {
    const char *name = vt_op_at_f64(n->op)->name;
    bool first = follows_image(g, n, 0), second = false;
    for (int k = 1; k < n->n_in; k++) second = second || follows_image(g, n, k);
    if (!strcmp(name, "Mul") && vt_relax_is_square(g, n)) return &vt_relax_square;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].op, name)) return !first ? table[i].second : second ? table[i].both : table[i].first;
    return NULL;
}

/* ---- memory ---- */

/* Returns n + 1 doubles of r's heap; sets *missing if there is no memory, and leaves it else. */
static double *take(vt_relax *r, size_t n, bool *missing) {
    double *p = vt_heap_take(&r->heap, n + 1, sizeof *p);
    if (!p) *missing = true;
    return p;
}

/* Has value v memory of its own, and reals? */
static bool is_root(const vt_graph *g, int v) { return g->values[v].alias < 0 && !g->values[v].integers; }

/* Takes what one thread's row needs: coefficients of every value, scratch, knobs; sets *missing without memory. */
static void take_row(vt_relax *r, vt_row *row, size_t longest, size_t inputs, size_t work, bool *missing) {
    const vt_graph *g = r->g;
    row->a = vt_heap_take(&r->heap, (size_t)g->n_values, sizeof *row->a);
    row->touched = vt_heap_take(&r->heap, (size_t)g->n_values, sizeof *row->touched);
    row->x = vt_heap_take(&r->heap, inputs, sizeof *row->x), row->dx = vt_heap_take(&r->heap, inputs, sizeof *row->dx);
    row->add = vt_heap_take(&r->heap, inputs, sizeof *row->add);
    row->work = take(r, work, missing), row->spare = take(r, longest, missing);
    if (!row->a || !row->touched || !row->x || !row->dx || !row->add) *missing = true;
    for (int v = 0; !*missing && v < g->n_values; v++)
        if (is_root(g, v) && !vt_value_is_constant(&g->values[v])) row->a[v] = take(r, g->values[v].n, missing);
    if (!*missing && !vt_row_take_knobs(r, row)) *missing = true;
}

/* Takes the ranges of value v, of a constant with its numbers; sets *missing without memory. */
static void take_ranges(vt_relax *r, int v, bool *missing) {
    const vt_value *x = &r->g->values[v];
    vt_ranges *s = &r->of[v];
    double *all = take(r, 6 * x->n, missing);
    if (!all) return;
    *s = (vt_ranges){all, all + x->n, all + 2 * x->n, all + 3 * x->n, all + 4 * x->n, all + 5 * x->n};
    for (size_t i = 0; vt_value_is_constant(x) && i < x->n; i++)
        s->lo[i] = s->hi[i] = s->mid[i] = vt_value_real(x, i), s->top[i] = fabs(s->mid[i]);
}

/* Takes all memory that r needs for its graph and threads; false: there is not so much. */
static bool take_all(vt_relax *r) {
    const vt_graph *g = r->g;
    size_t longest = 1, inputs = 2, work = 1;
    bool missing = false;
    r->of = vt_heap_take(&r->heap, (size_t)g->n_values, sizeof *r->of);
    r->tight = vt_heap_take(&r->heap, (size_t)g->n_values, sizeof *r->tight);
    r->planes = vt_heap_take(&r->heap, (size_t)g->n_nodes + 1, sizeof *r->planes);
    r->rows = vt_heap_take(&r->heap, (size_t)r->threads, sizeof *r->rows);
    if (!r->of || !r->tight || !r->planes || !r->rows) return false;
    for (int v = 0; v < g->n_values; v++) {
        if (is_root(g, v)) take_ranges(r, v, &missing);
        if (g->values[v].n > longest) longest = g->values[v].n;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        const vt_op_f64 *op = vt_op_at_f64(n->op);
        for (int back = 0; op->work && back < 2; back++)
            if (op->work(g, n, back) > work) work = op->work(g, n, back);
        if ((size_t)n->n_in > inputs) inputs = (size_t)n->n_in;
        if (r->how[i]->planes) r->planes[i] = take(r, r->how[i]->planes(g, n), &missing);
        for (int k = 0; r->how[i]->curved && k < n->n_in; k++)
            if (follows_image(g, n, k)) r->tight[n->in[k]] = true;
    }
    r->zero = take(r, longest, &missing);
    for (int k = 0; k < 3; k++) r->spare[k] = take(r, longest, &missing);
    r->n_low = 2 * longest, r->low = take(r, r->n_low, &missing);
    for (int t = 0; t < r->threads; t++) take_row(r, &r->rows[t], longest, inputs, work, &missing);
    return !missing;
}

vt_status vt_relax_open(vt_relax **out, const vt_graph *g, int threads, vt_err *e) {
    *out = NULL;
    vt_relax *r = calloc(1, sizeof *r);
    if (!r) return vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    double gradient;
    vt_graph_flops(g, &r->flops, &gradient);
    r->g = g, r->threads = threads;
    r->how = vt_heap_take(&r->heap, (size_t)g->n_nodes + 1, sizeof *r->how);
    vt_status s = r->how ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    for (int i = 0; s == VT_OK && i < g->n_nodes; i++)
        if (!(r->how[i] = vt_relaxation_of(g, &g->nodes[i])))
            s = vt_fail(e, VT_E_USAGE, "%s: no bounds are known for operator %s (node %s)", g->path,
                        vt_op_at_f64(g->nodes[i].op)->name, *g->nodes[i].name ? g->nodes[i].name : "without name");
        else if ((s = vt_relax_check_types(g, &g->nodes[i], e)) == VT_OK)
            r->wild = r->wild || vt_relax_is_wild(g, &g->nodes[i]);
    if (s == VT_OK && !take_all(r)) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    for (int i = 0; s == VT_OK && i < g->n_nodes; i++)
        if (r->how[i]->open) r->how[i]->open(r, i);
    if (s == VT_OK)
        *out = r;
    else
        vt_relax_close(r);
    return s;
}

void vt_relax_close(vt_relax *r) {
    if (!r) return;
    vt_heap_free(&r->heap);
    free(r);
}

/* ---- calls of operators ---- */

double *vt_row_at(const vt_relax *r, vt_row *row, int v) {
    if (v < 0 || !row->a[v]) return NULL;
    if (!row->touched[v]) memset(row->a[v], 0, r->g->values[v].n * sizeof(double));
    row->touched[v] = true;
    return row->a[v];
}

void vt_relax_forward(const vt_relax *r, const vt_row *row, int op, const vt_node *n, const double *const *x,
                      double *y) {
    vt_op_at_f64(op)->forward(&(vt_call_f64){.g = r->g, .n = n, .x = x, .y = y, .work = row->work});
}

void vt_relax_backward(const vt_relax *r, int op, const vt_node *n, const double *const *x, const double *dy,
                       double *const *dx, vt_row *row) {
    for (int k = 0; k < n->n_in; k++) row->add[k] = true;
    vt_op_at_f64(op)->backward(&(vt_call_f64){.g = r->g,
                                              .n = n,
                                              .x = x,
                                              .y = r->of[n->out].mid,
                                              .dy = dy,
                                              .dx = dx,
                                              .add = row->add,
                                              .work = row->work});
}

double vt_relax_loss(const vt_graph *g, const vt_node *n, double terms, double size, double largest) {
    double in = 0;
    for (int k = 0; k < n->n_in; k++) in += n->in[k] >= 0 ? (double)g->values[n->in[k]].n : 0;
    /* Four more roundings than products: of constants, of a factor, of the result. */
    const double u = terms > 0 ? (terms + 4) * VT_HALF_ULP32 : 0;
    const double here = (in + (double)g->values[n->out].n + 16) * 2 * VT_HALF_ULP64;
    return (u < 0.5 ? u / (1 - u) * (1 + 1e-6) + here : INFINITY) * size + terms * VT_TINY32 * (1 + largest);
}

bool vt_relax_is_wild(const vt_graph *g, const vt_node *n) {
    const char *name = vt_op_at_f64(n->op)->name;
    const bool divides = !strcmp(name, "Div");
    if (!divides && strcmp(name, "Mul") != 0 && strcmp(name, "MatMul") != 0 && strcmp(name, "Conv") != 0) return false;
    for (int k = 0; k < n->n_in; k++) {
        const vt_value *x = n->in[k] < 0 ? NULL : &g->values[n->in[k]];
        for (size_t i = 0; x && vt_value_is_constant(x) && i < x->n; i++) {
            const double size = fabs(vt_value_real(x, i));
            if (!(size <= 1e18) || (divides && k && size < 1e-18)) return true;
        }
    }
    return false;
}

vt_status vt_relax_check_types(const vt_graph *g, const vt_node *n, vt_err *e) {
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] >= 0 && g->values[n->in[k]].integers)
            return vt_fail(e, VT_E_USAGE, "%s: operator %s has integers among reals, of which no bounds are known",
                           g->path, vt_op_at_f64(n->op)->name);
    return VT_OK;
}

void vt_relax_around(vt_relax *r, int v, const double *mid, const double *rad) {
    const vt_ranges *y = &r->of[v];
    for (size_t i = 0; i < r->g->values[v].n; i++)
        y->lo[i] = mid[i] - (rad[i] + y->err[i]), y->hi[i] = mid[i] + (rad[i] + y->err[i]);
}

void vt_range_set(const vt_ranges *y, size_t i, double lo, double hi) {
    y->lo[i] = lo, y->hi[i] = hi, y->mid[i] = lo / 2 + hi / 2;
    y->rad[i] = fmax(hi - y->mid[i], y->mid[i] - lo) * (1 + 4 * VT_HALF_ULP64);
    y->top[i] = fmax(fabs(lo), fabs(hi));
}

/* ---- bounds ---- */

/* Returns the row's least value by the intervals of the values that it has come to, those of nodes up to `node`. */
static double least_by_intervals(const vt_relax *r, const vt_row *row, int node) {
    double sum = 0, size = 0, terms = row->terms + 16;
    for (int v = 0; v < r->g->n_values; v++) {
        const vt_ranges *x = &r->of[v];
        if (!row->touched[v] || r->g->values[v].node > node) continue;
        for (size_t k = 0; k < r->g->values[v].n; k++) {
            sum += row->a[v][k] * (row->a[v][k] > 0 ? x->lo[k] : x->hi[k]);
            size += fabs(row->a[v][k]) * x->top[k];
        }
        terms += (double)r->g->values[v].n;
    }
    return row->c + sum - terms * 2 * VT_HALF_ULP64 * (size + row->size);
}

void vt_row_substitute(const vt_relax *r, vt_row *row, int v) {
    const vt_graph *g = r->g;
    for (int i = g->values[v].node; i >= 0; i--) {
        const int out = g->nodes[i].out;
        if (r->n_cuts) vt_row_add_cuts(r, row, out);
        if (!row->touched[out]) continue;
        const double *a = row->a[out], *err = r->of[out].err;
        double lost = 0;
        if (r->intervals) row->best = fmax(row->best, least_by_intervals(r, row, i));
        for (size_t k = 0; k < g->values[out].n; k++) lost += fabs(a[k]) * err[k];
        row->terms += (double)g->values[out].n;
        vt_row_add(row, -lost);
        r->how[i]->back(r, i, row);
    }
}

typedef struct row_job {
    vt_relax *r;
    int v;
    vt_row_fn set;
    const void *ctx;
    double *low;
} row_job;

double vt_row_bound(const vt_relax *r, vt_row *row, int v, vt_row_fn set, const void *ctx, size_t i) {
    memset(row->touched, 0, (size_t)r->g->n_values * sizeof *row->touched);
    row->c = row->size = row->terms = 0, row->best = -INFINITY;
    set(ctx, i, vt_row_at(r, row, v));
    vt_row_substitute(r, row, v);
    const double low = vt_row_least(r, row);
    return r->intervals ? fmax(low, row->best) : low;
}

/* Bounds linear function i of the job from below (an item of vt_for_each): the best of its steps, into low[i]. */
static vt_status bound_row(void *ctx, int thread, size_t i, vt_err *e) {
    (void)e;
    const row_job *j = ctx;
    vt_row *row = &j->r->rows[thread];
    double best = -INFINITY;
    if (j->r->interrupt && *j->r->interrupt) return VT_INTERRUPTED;
    vt_row_reset(j->r, row);
    for (int step = 0; step <= j->r->steps && !(j->r->until > 0 && vt_now() > j->r->until); step++) {
        const double low = vt_row_bound(j->r, row, j->v, j->set, j->ctx, i);
        if (!(low <= best)) best = low; /* a NaN stays */
        if (step < j->r->steps) vt_row_step(j->r, row, j->v, step);
    }
    j->low[i] = best;
    return VT_OK;
}

vt_status vt_relax_rows(vt_relax *r, int v, size_t n, vt_row_fn set, const void *ctx, double *low, vt_err *e) {
    return vt_for_each(n, (double)n * r->flops < 1e7 ? 1 : r->threads, bound_row, &(row_job){r, v, set, ctx, low}, e);
}

/* Function i: number list[i / 2] of the value, or (i odd) minus it. */
static void set_unit(const void *ctx, size_t i, double *a) { a[((const size_t *)ctx)[i / 2]] = i % 2 ? -1 : 1; }

/* Bounds of value v by back-substitution, where its interval does not already say which side of 0 it is on. */
static vt_status tighten(vt_relax *r, int v, vt_err *e) {
    const vt_ranges *y = &r->of[v];
    const size_t n = r->g->values[v].n;
    size_t *list = (size_t *)r->spare[0], some = 0;
    const vt_relaxation *by = NULL;
    bool sign = true; /* all that matters */
    for (int i = r->g->values[v].node + 1; i < r->g->n_nodes; i++)
        for (int k = 0; k < r->g->nodes[i].n_in; k++)
            if (r->g->nodes[i].in[k] == v && (by = r->how[i])->curved)
                sign = sign && !strcmp(vt_op_at_f64(r->g->nodes[i].op)->name, "Relu");
    for (size_t i = 0; i < n; i++)
        if (!sign || (y->lo[i] < 0 && y->hi[i] > 0)) list[some++] = i;
    VT_TRY(vt_relax_rows(r, v, 2 * some, set_unit, list, r->low, e));
    for (size_t k = 0; k < some; k++) {
        const size_t i = list[k];
        if (r->low[2 * k] > y->lo[i]) y->lo[i] = r->low[2 * k];
        if (-r->low[2 * k + 1] < y->hi[i]) y->hi[i] = -r->low[2 * k + 1];
    }
    return VT_OK;
}

/* mid, rad and top of value v; VT_E_NUMERIC: its bounds are none. */
static vt_status finish(vt_relax *r, int v, vt_err *e) {
    const vt_ranges *y = &r->of[v];
    for (size_t i = 0; i < r->g->values[v].n; i++) {
        if (!(y->lo[i] <= y->hi[i]) || !isfinite(y->lo[i]) || !isfinite(y->hi[i]))
            return vt_fail(e, VT_E_NUMERIC, "%s: bounds [%g, %g] are not finite or crossed", r->g->path, y->lo[i],
                           y->hi[i]);
        vt_range_set(y, i, y->lo[i], y->hi[i]);
        r->largest = fmax(r->largest, y->top[i]);
    }
    if (r->largest > VT_LARGEST32) return vt_fail(e, VT_E_NUMERIC, "%s: float32 may not hold a value", r->g->path);
    return VT_OK;
}

vt_status vt_relax_box(vt_relax *r, const double *lo, const double *hi, vt_err *e) {
    const vt_graph *g = r->g;
    if (r->wild) return vt_fail(e, VT_E_NUMERIC, "%s: float32 may not hold products of its constants", g->path);
    r->largest = 0;
    memcpy(r->of[g->input].lo, lo, g->values[g->input].n * sizeof *lo);
    memcpy(r->of[g->input].hi, hi, g->values[g->input].n * sizeof *hi);
    VT_TRY(finish(r, g->input, e));
    for (int i = 0; i < g->n_nodes; i++) {
        const int out = g->nodes[i].out;
        VT_TRY(r->how[i]->bound(r, i, e));
        if (r->tight[out] && !r->intervals) VT_TRY(tighten(r, out, e));
        VT_TRY(finish(r, out, e));
    }
    return VT_OK;
}
