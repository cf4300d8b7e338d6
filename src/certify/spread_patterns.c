/* SPDX-License-Identifier: MIT */
/* Nodes that together do less than each of them may: numbers less their mean, rows over their lengths, sums of squares,
 * x h(x). */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "certify/spread.h"
#include "graph/elementwise.h"
#include "graph/move.h"
#include "graph/reduce.h"

/* The one number that constant v is, or NaN. */
static double number_of(const vt_spread *s, int v) {
    return v >= 0 && vt_value_is_constant(&s->g->values[v]) && s->g->values[v].n == 1 ? s->v[v][0] : NAN;
}

/* ---- x - mean(x): a projection, whose norm is 1 ---- */

static double spread_centred(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const int mean = n->in[1];
    const double moved = s->d[n->in[0]];
    vt_spread_affine.spread(s, node); /* its errors; and those of the mean, wherever that is subtracted */
    s->err[n->out] += s->at[node].most[1] * s->err[mean];
    return moved + (s->exact ? 0 : s->err[n->out]);
}

static vt_status open_centred(vt_spread *s, int node, vt_err *e) { return vt_spread_affine.open(s, node, e); }

static const vt_spread_rule centred = {.open = open_centred, .spread = spread_centred, .affine = true};

/* Does node i subtract from each number of x the mean of its own group? Tried with the group's number in the place of
 * each number: what is left must be 0. */
static bool is_centring(vt_spread *s, int i) {
    const vt_graph *g = s->g;
    const vt_node *n = &g->nodes[i];
    const int by = vt_spread_is(s, n, "Sub") ? vt_spread_maker(s, n->in[1], "ReduceMean") : -1, x = n->in[0];
    if (by < 0 || !vt_spread_moves(s, x) || g->values[n->out].n != g->values[x].n) return false;
    const vt_node *mean = &g->nodes[by];
    const int before = vt_spread_maker(s, mean->in[0], "(move)"), moved = mean->in[0];
    const vt_move *m = before >= 0 ? g->nodes[before].with : NULL;
    const size_t cols = ((const vt_row_size *)mean->with)->cols, all = g->values[x].n;
    if (moved != x && !(m && g->nodes[before].in[0] == x && m->apart && m->n == all)) return false;
    for (size_t p = 0; p < all; p++) {
        const int32_t to = moved == x ? (int32_t)p : m->map[p];
        if (to < 0) return false;
        s->v[x][to] = s->v[moved][p] = (double)(p / cols);
    }
    vt_spread_forward(s, mean, (const double *[]){s->v[moved]}, s->v[n->in[1]]);
    vt_spread_forward(s, n, (const double *[]){s->v[x], s->v[n->in[1]]}, s->v[n->out]);
    return vt_spread_top(s->v[n->out], all) == 0;
}

/* ---- sums or means of squares of rows: | |a|^2 - |b|^2 | <= (2 |a| + |b - a|) |b - a| ---- */

/* Returns the largest length of a row of v [rows, cols] at the centre, a bound from above; least: the smallest row's.
 * */
static double largest_row(const vt_spread *s, int v, size_t cols, bool least) {
    double best = least ? INFINITY : 0;
    for (size_t i = 0; i < s->g->values[v].n; i += cols) {
        const double here = vt_spread_length(s->v[v] + i, cols);
        if (least ? here < best : !(here <= best)) best = here;
    }
    return best;
}

/* Returns the length of the rows that a reducing node adds up. */
static size_t cols_of(const vt_spread *s, int node) { return ((const vt_row_size *)s->g->nodes[node].with)->cols; }

/* Keeps the largest length of a row at the centre. */
static void centre_squares(vt_spread *s, int node) {
    s->at[node].kept[0] = largest_row(s, s->at[node].from, cols_of(s, node), false);
}

/* Returns how far sums (or means) of squares may move when their rows move by d. */
static double spread_squares(vt_spread *s, int node) {
    const vt_spread_node *at = &s->at[node];
    const double cols = (double)cols_of(s, node), d = s->d[at->from];
    const double part = vt_spread_is(s, &s->g->nodes[node], "ReduceMean") ? 1 / cols : 1;
    vt_spread_units(s, s->g->nodes[node].out, cols + 32, 0, (2 * at->kept[0] + d) * d * part);
    return (2 * at->kept[0] + d) * d * part + (s->exact ? 0 : s->err[s->g->nodes[node].out]);
}

static const vt_spread_rule squares = {.centre = centre_squares, .spread = spread_squares, .local = true};

/* The value whose squares node `square` makes, or -1. */
static int squared_value(const vt_spread *s, int square) {
    if (square < 0) return -1;
    const vt_node *n = &s->g->nodes[square];
    if (s->g->values[n->in[0]].n != s->g->values[n->out].n) return -1;
    if (vt_spread_is(s, n, "Mul") && vt_relax_is_square(s->g, n)) return n->in[0];
    return vt_spread_is(s, n, "Pow") && number_of(s, n->in[1]) == 2 ? n->in[0] : -1;
}

/* The value whose rows' squares node i adds up, or -1. */
static int summed_value(const vt_spread *s, int i) {
    if (i < 0 || (!vt_spread_is(s, &s->g->nodes[i], "ReduceSum") && !vt_spread_is(s, &s->g->nodes[i], "ReduceMean")))
        return -1;
    const int x = squared_value(s, vt_spread_maker(s, s->g->nodes[i].in[0], ""));
    return x >= 0 && vt_spread_moves(s, x) ? x : -1;
}

/* ---- rows over their lengths, x / sqrt(|x|^2 + floor) or x / sqrt(max(|x|^2, floor)), squares summed or averaged:
 * the Jacobian's norm is at most the divisor's inverse ---- */

/* Keeps the least length of a row at the centre. */
static void centre_direction(vt_spread *s, int node) {
    vt_spread_node *at = &s->at[node];
    at->kept[0] = largest_row(s, at->from, (size_t)at->kept[2], true) * (1 - 1e-9);
}

/* Returns how far rows over their lengths may move: d over the least divisor; INFINITY: it may be 0. */
static double spread_direction(vt_spread *s, int node) {
    const vt_spread_node *at = &s->at[node];
    const double floor = at->kept[1], cols = at->kept[2], part = at->kept[3], d = s->d[at->from];
    const double near = fmax(at->kept[0] - d, 0), square = fmax(near * near * part, floor) * (1 - 1e-12);
    const int out = s->g->nodes[node].out;
    if (!(square > 0x1p-80)) return s->err[out] = INFINITY; /* float32 loses it */
    return vt_spread_units(s, out, cols + 64, 0, d / sqrt(square));
}

static const vt_spread_rule direction = {.centre = centre_direction, .spread = spread_direction, .local = true};

/* Is node i of that kind? Sets from and kept. */
static bool is_direction(vt_spread *s, int i) {
    const vt_graph *g = s->g;
    const vt_node *n = &g->nodes[i];
    vt_spread_node *at = &s->at[i];
    const int root = vt_spread_is(s, n, "Div") ? vt_spread_maker(s, n->in[1], "Sqrt") : -1;
    if (root < 0) return false;
    int sum = vt_spread_maker(s, g->nodes[root].in[0], "");
    at->kept[1] = 0;
    for (int k = 0; sum >= 0 && k < 2; k++) {
        const vt_node *m = &g->nodes[sum];
        const bool floor = vt_spread_is(s, m, "Add") || vt_spread_is(s, m, "Max");
        if (!floor || m->n_in != 2 || !(number_of(s, m->in[1 - k]) >= 0)) continue;
        at->kept[1] = (double)(float)number_of(s, m->in[1 - k]) * (1 - 1e-6), sum = vt_spread_maker(s, m->in[k], "");
        break;
    }
    const int x = summed_value(s, sum);
    if (x < 0 || x != n->in[0]) return false;
    const vt_row_size *rows = g->nodes[sum].with;
    const vt_broadcast *b = n->with;
    if (b->rank < 1 || b->stride[1][b->rank - 1] != 0 || b->d[b->rank - 1] != (int64_t)rows->cols) return false;
    if (g->values[n->out].n != g->values[x].n || g->values[n->in[1]].n != rows->rows) return false;
    at->kept[2] = (double)rows->cols, at->from = x;
    at->kept[3] = vt_spread_is(s, &g->nodes[sum], "ReduceMean") ? 1 / (double)rows->cols : 1;
    return true;
}

/* ---- x (1 + erf(c x)), x sigmoid(c x), with any c: the largest slopes of 2 x Phi(x) and of x sigmoid(x) ---- */

enum { SLOPE, SIZE };

/* Returns how far a gated value may move: d times the gate's largest slope. */
static double spread_gated(vt_spread *s, int node) {
    const vt_spread_node *at = &s->at[node];
    const int out = s->g->nodes[node].out;
    const double d = s->d[at->from], size = at->kept[SIZE] * (s->len[at->from] + d);
    s->err[out] = 32 * VT_HALF_ULP32 * size + 64 * VT_TINY32 * sqrt((double)s->g->values[out].n);
    return at->kept[SLOPE] * d + (s->exact ? 0 : s->err[out]);
}

static const vt_spread_rule gated = {.spread = spread_gated};

/* The value of which v is a multiple by a few constant numbers, and (*by) the factor; v itself and 1 otherwise. */
static int multiple_of(const vt_spread *s, int v, double *by) {
    *by = 1;
    for (int step = 0; step < 3; step++) {
        const int node = vt_spread_maker(s, v, "");
        const vt_node *n = node >= 0 ? &s->g->nodes[node] : NULL;
        const bool times = n && vt_spread_is(s, n, "Mul"), over = n && vt_spread_is(s, n, "Div");
        const int k = times && !isnan(number_of(s, n->in[0])) ? 1 : 0;
        if ((!times && !over) || isnan(number_of(s, n->in[1 - k])) || s->g->values[n->in[k]].n != s->g->values[v].n)
            break;
        *by = times ? *by * number_of(s, n->in[1 - k]) : *by / number_of(s, n->in[1 - k]);
        v = n->in[k];
    }
    return v;
}

/* Is node i a product of that kind? Sets from and kept. */
static bool is_gated(vt_spread *s, int i) {
    const vt_graph *g = s->g;
    const vt_node *n = &g->nodes[i];
    if (!vt_spread_is(s, n, "Mul") || n->in[0] == n->in[1]) return false;
    for (int k = 0; k < 2; k++) {
        double by, inner;
        const int x = multiple_of(s, n->in[k], &by), add = vt_spread_maker(s, n->in[1 - k], "Add");
        int gate = vt_spread_maker(s, n->in[1 - k], "Sigmoid");
        for (int j = 0; add >= 0 && j < 2; j++)
            if (number_of(s, g->nodes[add].in[1 - j]) == 1) gate = vt_spread_maker(s, g->nodes[add].in[j], "Erf");
        if (gate < 0 || !vt_spread_moves(s, x) || multiple_of(s, g->nodes[gate].in[0], &inner) != x) continue;
        if (g->values[x].n != g->values[n->out].n || !isfinite(by) || !isfinite(inner)) continue;
        s->at[i].from = x;
        s->at[i].kept[SLOPE] = fabs(by) * (add >= 0 ? 2 * 1.12891 : 1.0999), s->at[i].kept[SIZE] = 2 * fabs(by);
        return true;
    }
    return false;
}

const vt_spread_rule *vt_spread_pattern(vt_spread *s, int i) {
    if (is_centring(s, i)) return &centred;
    if ((s->at[i].from = summed_value(s, i)) >= 0) return &squares;
    return is_direction(s, i) ? &direction : is_gated(s, i) ? &gated : NULL;
}
