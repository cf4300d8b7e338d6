/* SPDX-License-Identifier: MIT */
#define VT_DOUBLE /* operators of their double copy */
#include "certify/spread.h"

#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "graph/op.h"

/* ---- for rules ---- */

bool vt_spread_is(const vt_spread *s, const vt_node *n, const char *op) {
    (void)s;
    return !strcmp(vt_op_at_f64(n->op)->name, op);
}

int vt_spread_maker(const vt_spread *s, int v, const char *op) {
    const int node = v >= 0 ? s->g->values[v].node : -1;
    return node >= 0 && (!*op || vt_spread_is(s, &s->g->nodes[node], op)) ? node : -1;
}

void vt_spread_forward(const vt_spread *s, const vt_node *n, const double *const *x, double *y) {
    vt_op_at_f64(n->op)->forward(&(vt_call_f64){.g = s->g, .n = n, .x = x, .y = y, .work = s->work});
}

void vt_spread_backward(const vt_spread *s, const vt_node *n, const double *const *x, const double *dy) {
    vt_op_at_f64(n->op)->backward(&(vt_call_f64){.g = s->g,
                                                 .n = n,
                                                 .x = x,
                                                 .y = s->v[n->out],
                                                 .dy = dy,
                                                 .dx = s->dx,
                                                 .add = s->add,
                                                 .work = s->work});
}

double vt_spread_length(const double *v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i] * v[i];
    return sqrt(sum) * (1 + ((double)n + 8) * VT_HALF_ULP64) + 1e-150 * sqrt((double)n); /* squares below 1e-300 */
}

double vt_spread_top(const double *v, size_t n) {
    double top = 0;
    for (size_t i = 0; i < n && !isnan(top); i++)
        if (!(fabs(v[i]) <= top)) top = fabs(v[i]);
    return top;
}

double vt_spread_units(vt_spread *s, int v, double units, double floor, double moved) {
    const double each = units * (floor * VT_HALF_ULP32 + VT_TINY32);
    s->err[v] = units * VT_HALF_ULP32 * (1 + 1e-6) * (s->len[v] + moved) + each * sqrt((double)s->g->values[v].n);
    return moved + (s->exact ? 0 : s->err[v]);
}

double vt_spread_lost(const vt_spread *s, const vt_node *n, double terms, double size) {
    if (!(size < VT_SPREAD_LARGEST)) return INFINITY;
    return vt_relax_loss(s->g, n, terms, size, 0) +
           vt_relax_loss(s->g, n, terms, 0, s->largest) * sqrt((double)s->g->values[n->out].n);
}

/* ---- memory ---- */

/* Returns n + 1 doubles; sets *missing without memory. */
static double *take_doubles(vt_spread *s, size_t n, bool *missing) {
    double *p = vt_heap_take(&s->heap, n + 1, sizeof *p);
    if (!p) *missing = true;
    return p;
}

/* Takes the values' numbers (constants are filled in), lengths and distances; false: no memory. */
static bool take_values(vt_spread *s) {
    const vt_graph *g = s->g;
    bool missing = false;
    s->v = vt_heap_take(&s->heap, (size_t)g->n_values, sizeof *s->v);
    double **const lists[] = {&s->len, &s->top, &s->d, &s->err};
    for (int k = 0; k < 4; k++) *lists[k] = take_doubles(s, (size_t)g->n_values, &missing);
    for (int v = 0; s->v && !missing && v < g->n_values; v++) {
        const vt_value *x = &g->values[v];
        if (x->alias >= 0 || x->integers || !(s->v[v] = take_doubles(s, x->n, &missing))) continue;
        for (size_t i = 0; vt_value_is_constant(x) && i < x->n; i++) s->v[v][i] = vt_value_real(x, i);
    }
    return s->v && !missing;
}

/* Takes all that s needs for its graph; false: no memory. */
static bool take_all(vt_spread *s) {
    const vt_graph *g = s->g;
    size_t longest = 1, inputs = 2, work = 1;
    bool missing = false;
    for (int v = 0; v < g->n_values; v++)
        if (g->values[v].n > longest) longest = g->values[v].n;
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        const vt_op_f64 *op = vt_op_at_f64(n->op);
        for (int back = 0; op->work && back < 2; back++)
            if (op->work(g, n, back) > work) work = op->work(g, n, back);
        if ((size_t)n->n_in > inputs) inputs = (size_t)n->n_in;
    }
    s->at = vt_heap_take(&s->heap, (size_t)g->n_nodes + 1, sizeof *s->at);
    s->x = vt_heap_take(&s->heap, inputs, sizeof *s->x), s->dx = vt_heap_take(&s->heap, inputs, sizeof *s->dx);
    s->add = vt_heap_take(&s->heap, inputs, sizeof *s->add);
    s->ones = take_doubles(s, longest, &missing), s->zero = take_doubles(s, longest, &missing),
    s->work = take_doubles(s, work, &missing);
    for (int k = 0; k < 2; k++) s->spare[k] = take_doubles(s, longest, &missing);
    for (size_t i = 0; !missing && i < longest; i++) s->ones[i] = 1;
    return s->at && s->x && s->dx && s->add && !missing && take_values(s);
}

/* Affine operators, if these of their inputs alone follow the image: 1 the first, 2 the second, 3 both, 4 any. */
static const struct {
    const char *op;
    int inputs;
} affine[] = {{"Add", 4},    {"AveragePool", 4}, {"Concat", 4},    {"Conv", 1}, {"Div", 1},
              {"MatMul", 1}, {"MatMul", 2},      {"Mul", 1},       {"Mul", 2},  {"Neg", 4},
              {"(move)", 4}, {"ReduceMean", 4},  {"ReduceSum", 4}, {"Sub", 4}};

/* Returns the rule of node i by its operator, pattern and which inputs follow the image; NULL: none is known. */
static const vt_spread_rule *rule_of(vt_spread *s, int i) {
    const vt_node *n = &s->g->nodes[i];
    int moves = 0;
    for (int k = 0; k < n->n_in; k++) moves |= vt_spread_moves(s, n->in[k]) ? k ? 2 : 1 : 0;
    const vt_spread_rule *rule = vt_spread_pattern(s, i);
    for (size_t k = 0; !rule && k < sizeof affine / sizeof *affine; k++)
        if (vt_spread_is(s, n, affine[k].op) && (affine[k].inputs == 4 || affine[k].inputs == moves))
            rule = &vt_spread_affine;
    return rule ? rule : vt_spread_curved(s, n);
}

vt_status vt_spread_open(vt_spread *s, const vt_graph *g, const vt_spread *like, vt_err *e) {
    *s = (vt_spread){.g = g, .like = like};
    if (!take_all(s)) return vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", g->path);
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        if (!(s->at[i].rule = rule_of(s, i)))
            return vt_fail(e, VT_E_USAGE, "%s: no Lipschitz bound is known for operator %s (node %s)", g->path,
                           vt_op_at_f64(n->op)->name, *n->name ? n->name : "without name");
        VT_TRY(vt_relax_check_types(g, n, e));
        if (!like && vt_relax_is_wild(g, n))
            return vt_fail(e, VT_E_NUMERIC,
                           "%s: operator %s has factors beyond 1e18, whose products float32 may not hold: there is no "
                           "bound",
                           g->path, vt_op_at_f64(n->op)->name);
        if (s->at[i].rule->open) VT_TRY(s->at[i].rule->open(s, i, e));
    }
    return VT_OK;
}

void vt_spread_close(vt_spread *s) { vt_heap_free(&s->heap); }

/* ---- bounds ---- */

/* Sets a bound of v's length, and its largest magnitude, from its numbers at the centre. */
static void measure_value(vt_spread *s, int v) {
    s->len[v] = vt_spread_length(s->v[v], s->g->values[v].n), s->top[v] = vt_spread_top(s->v[v], s->g->values[v].n);
}

void vt_spread_centre(vt_spread *s, const double *x) {
    const vt_graph *g = s->g;
    memcpy(s->v[g->input], x, g->values[g->input].n * sizeof *x);
    measure_value(s, g->input);
    for (int i = 0; i < g->n_nodes; i++) {
        const vt_node *n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++) s->x[k] = n->in[k] < 0 ? NULL : s->v[n->in[k]];
        vt_spread_forward(s, n, s->x, s->v[n->out]);
        measure_value(s, n->out);
        if (s->at[i].rule->centre) s->at[i].rule->centre(s, i);
    }
}

void vt_spread_ball(vt_spread *s, double radius) {
    const vt_graph *g = s->g;
    s->largest = s->top[g->input] + radius;
    s->d[g->input] = s->largest < VT_SPREAD_LARGEST ? radius : INFINITY, s->err[g->input] = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const int out = g->nodes[i].out;
        const double d = s->at[i].rule->spread(s, i) * (1 + 1e-12);
        s->d[out] = s->top[out] + d < VT_SPREAD_LARGEST && d >= 0 ? d : INFINITY;
        if (s->top[out] + d > s->largest) s->largest = s->top[out] + d;
    }
}
