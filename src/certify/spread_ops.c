/* SPDX-License-Identifier: MIT */
/* Operators that are not affine: the largest slope on the way from the centre, in closed form. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "certify/spectral.h"
#include "certify/spread.h"
#include "graph/matmul.h"
#include "graph/op.h"
#include "graph/reduce.h"
#include "graph/windows.h"

/* ---- functions of one number: moved(d, least, top) of numbers from `least` on (in size: up to `top`) ---- */

#define FUNCTION(name, value)                                                                                          \
    static double name(double d, double least, double top, const double *p) {                                          \
        (void)least, (void)top, (void)p;                                                                               \
        return value;                                                                                                  \
    }
FUNCTION(by_1, d)
FUNCTION(by_leaky, d *fmax(1, fabs((double)(float)p[0])))
FUNCTION(by_quarter, d / 4)
FUNCTION(by_erf, d * 1.1283791670955127)
FUNCTION(by_gelu, d * 1.13) /* 1.12891, and 1.1292 of the approximation with tanh */
FUNCTION(by_exp, d *exp(top + d))
FUNCTION(by_log, least > d ? d / (least - d) : INFINITY)
FUNCTION(by_sqrt, least > d ? d / (sqrt(least) + sqrt(least - d)) : INFINITY)
FUNCTION(by_inverse, least > d ? d / (least * (least - d)) : INFINITY)
FUNCTION(by_square, (2 * top + d) * d)
FUNCTION(by_cube, 3 * (top + d) * (top + d) * d)

enum { NOWHERE, SIZES, SIGNED }; /* what of the centre counts: least and largest size, or number */
typedef struct function {
    const char *op;
    double (*moved)(double d, double least, double top, const double *p);
    double units, floor; /* float32's error in units of its last place, of numbers of at least that size */
    int of;
} function;
static const function functions[] = {
    {"Abs", by_1, 0, 0, NOWHERE},       {"Clip", by_1, 1, 0, NOWHERE},
    {"Erf", by_erf, 8, 0, NOWHERE},     {"Exp", by_exp, 8, 0, SIGNED},
    {"Gelu", by_gelu, 8, 0, NOWHERE},   {"LeakyRelu", by_leaky, 4, 0, NOWHERE},
    {"Log", by_log, 8, 1, SIGNED},      {"Reciprocal", by_inverse, 4, 0, SIZES},
    {"Relu", by_1, 0, 0, NOWHERE},      {"Sigmoid", by_quarter, 16, 1, NOWHERE},
    {"Softplus", by_1, 16, 1, NOWHERE}, {"Sqrt", by_sqrt, 4, 0, SIGNED},
    {"Tanh", by_1, 8, 0, NOWHERE},      {"(gelu)", by_gelu, 8, 0, NOWHERE},
};
static const function powers[] = {{"Pow", by_square, 16, 0, SIZES}, {"Pow", by_cube, 16, 0, SIZES}};

enum { LEAST, TOP };

/* Returns how an operator's result follows one number: a Mul here is a value by itself, a square; NULL: no such
 * rule. */
static const function *function_of(const vt_spread *s, const vt_node *n) {
    if (vt_spread_is(s, n, "Mul")) return &powers[0]; /* of a value by itself */
    if (vt_spread_is(s, n, "Pow")) return &powers[s->v[n->in[1]][0] == 3];
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (vt_spread_is(s, n, functions[i].op)) return &functions[i];
    return NULL;
}

/* Keeps the least and the largest number (or size) of the input at the centre, where the slope depends on it. */
static void centre_function(vt_spread *s, int node) {
    const int x = s->g->nodes[node].in[0];
    const function *f = function_of(s, &s->g->nodes[node]);
    double *kept = s->at[node].kept;
    kept[LEAST] = INFINITY, kept[TOP] = -INFINITY;
    for (size_t i = 0; f->of && i < s->g->values[x].n; i++) {
        const double v = f->of == SIZES ? fabs(s->v[x][i]) : s->v[x][i];
        kept[LEAST] = fmin(kept[LEAST], v), kept[TOP] = fmax(kept[TOP], v);
    }
}

/* Returns how far f(x) may move when x moves by s->d: by f's largest slope on the way, and float32's error. */
static double spread_function(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const function *f = function_of(s, n);
    const double *kept = s->at[node].kept;
    const double d = s->d[n->in[0]], moved = f->moved(d, kept[LEAST], kept[TOP], n->with);
    /* GELU's numbers below 0 are what is left of the input's */
    const double lost = f->moved == by_gelu ? 16 * VT_HALF_ULP32 * (s->len[n->in[0]] + d) : 0;
    const double all = vt_spread_units(s, n->out, f->units, f->floor, moved) + (s->exact ? 0 : lost);
    s->err[n->out] += lost;
    return all;
}

static const vt_spread_rule steady = {.spread = spread_function},
                            by_centre = {.centre = centre_function, .spread = spread_function, .local = true};

/* ---- products of two values: a b - A B = A (b - B) + (a - A) B + (a - A) (b - B) ---- */

enum { OF_A, OF_B, BOTH, LENGTHS };

/* Returns how far (l2) a product a b may move when a and b move by s->d, by factors kept at the centre; sets s->err. */
static double spread_product(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const double *kept = s->at[node].kept, a = s->d[n->in[0]], b = s->d[n->in[1]];
    const double size = kept[LENGTHS] * (s->len[n->in[0]] + a) * (s->len[n->in[1]] + b);
    s->err[n->out] = vt_spread_lost(s, n, vt_relax_terms(s->g, n), size);
    return kept[OF_A] * b + kept[OF_B] * a + kept[BOTH] * a * b + (s->exact ? 0 : s->err[n->out]);
}

/* Factors of b's distance, or of a's: the root of the largest sum of squares of what one number of it meets. */
static void centre_elements(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    double *kept = s->at[node].kept, fewest = INFINITY;
    for (int k = 0; k < 2; k++) {
        const size_t count = s->g->values[n->in[1 - k]].n;
        const double *x[2] = {s->ones, s->ones};
        x[k] = s->v[n->in[k]];
        vt_spread_forward(s, n, x, s->spare[0]); /* stretched to the result's sides */
        s->dx[k] = NULL, s->dx[1 - k] = s->spare[1];
        vt_spread_backward(s, n, x, s->spare[0]);
        kept[k == 0 ? OF_A : OF_B] = sqrt(vt_spread_top(s->spare[1], count)) * (1 + 1e-9);
        fewest = fmin(fewest, (double)s->g->values[n->out].n / (double)count);
    }
    kept[BOTH] = kept[LENGTHS] = sqrt(fewest) * (1 + 1e-15);
}

static const vt_spread_rule elements = {.centre = centre_elements, .spread = spread_product, .local = true};

enum { GRAM = 64 }; /* matrices with that many rows or columns are bounded by their Gram matrix, others by sums */

/* Takes room for Gram matrices of the centre; VT_E_MEMORY. */
static vt_status open_matrices(vt_spread *s, int node, vt_err *e) {
    s->at[node].gain = vt_heap_take(&s->heap, 2 * GRAM * GRAM, sizeof(double));
    return s->at[node].gain ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", s->g->path);
}

/* Bound of the norm of a matrix: by its lengths' sum, rows' and columns' sums, or Gram matrix. */
static double matrix_above(const double *a, int rows, int cols, double *work) {
    double most = 0, widest = 0;
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (int j = 0; j < cols; j++) sum += fabs(a[(size_t)i * (size_t)cols + (size_t)j]);
        most = fmax(most, sum);
    }
    for (int j = 0; j < cols; j++) {
        double sum = 0;
        for (int i = 0; i < rows; i++) sum += fabs(a[(size_t)i * (size_t)cols + (size_t)j]);
        widest = fmax(widest, sum);
    }
    double best = fmin(sqrt(most * widest) * (1 + 1e-9), vt_spread_length(a, (size_t)rows * (size_t)cols));
    if (rows <= GRAM || cols <= GRAM) best = fmin(best, vt_norm_above(a, rows, cols, cols, 4, work));
    return best;
}

/* Keeps OF_A and OF_B, the largest norms of A's and B's matrices at the centre, and how often one matrix is used. */
static void centre_matrices(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_matmul *p = n->with;
    const int rows[2] = {p->ta ? p->k : p->m, p->tb ? p->n : p->k},
              cols[2] = {p->ta ? p->m : p->k, p->tb ? p->k : p->n};
    const double alpha = fabs(p->alpha), shared = sqrt((double)p->count) * (1 + 1e-15);
    double *kept = s->at[node].kept;
    for (int k = 0; k < 2; k++) {
        const size_t *at = k ? p->b : p->a;
        double most = 0;
        for (size_t i = 0; i < p->count; i++)
            if (!i || at[i] != at[i - 1])
                most = fmax(most, matrix_above(s->v[n->in[k]] + at[i], rows[k], cols[k], s->at[node].gain));
        kept[k ? OF_B : OF_A] = alpha * most * (p->apart[1 - k] ? 1 : shared) * (1 + 1e-15);
    }
    kept[BOTH] = kept[LENGTHS] = alpha * (p->apart[0] || p->apart[1] ? 1 : shared) * (1 + 1e-15);
}

static const vt_spread_rule matrices = {.open = open_matrices,
                                        .centre = centre_matrices,
                                        .spread = spread_product,
                                        .local = true};

/* ---- a / b: a / b - A / B = ((a - A) - (A / B) (b - B)) / b ---- */

enum { FACTOR_A, FACTOR_B, NEAREST };

/* Keeps the least |b|, and the roots of the largest sums of squares of the quotients, and of ones, that share one b
 * or a. */
static void centre_quotient(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    double *kept = s->at[node].kept;
    const size_t nb = s->g->values[n->in[1]].n, ny = s->g->values[n->out].n;
    /* squares of the result where a number of b was used: the adjoint of stretching b, which is that of 1 b */
    s->dx[0] = NULL, s->dx[1] = s->spare[1];
    for (size_t i = 0; i < nb; i++) s->spare[0][i] = 1;
    double *ones = s->spare[0], *squares = s->v[n->out];
    for (size_t i = 0; i < ny; i++) squares[i] *= squares[i];
    const int mul = vt_op_find_f64("Mul");
    vt_node times = *n;
    times.op = mul;
    vt_spread_backward(s, &times, (const double *[]){s->ones, ones}, squares);
    kept[FACTOR_B] = sqrt(vt_spread_top(s->spare[1], nb)) * (1 + 1e-9);
    kept[FACTOR_A] = sqrt((double)ny / (double)s->g->values[n->in[0]].n) * (1 + 1e-15);
    kept[NEAREST] = INFINITY;
    for (size_t i = 0; i < nb; i++) kept[NEAREST] = fmin(kept[NEAREST], fabs(s->v[n->in[1]][i]));
    for (int k = 0; k < 2; k++) s->x[k] = s->v[n->in[k]];
    vt_spread_forward(s, n, s->x, s->v[n->out]); /* as it was */
}

/* Returns how far a / b may move; INFINITY if b, moving by s->d, may reach 0. */
static double spread_quotient(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const double *kept = s->at[node].kept, a = vt_spread_moves(s, n->in[0]) ? s->d[n->in[0]] : 0, b = s->d[n->in[1]];
    if (!(kept[NEAREST] > b)) return s->err[n->out] = INFINITY;
    return vt_spread_units(s, n->out, 8, 0, (kept[FACTOR_A] * a + kept[FACTOR_B] * b) / (kept[NEAREST] - b));
}

static const vt_spread_rule quotient = {.centre = centre_quotient, .spread = spread_quotient, .local = true};

/* ---- softmax: the Jacobian diag(p) - p p^T has norm at most max p, and at most max 2 p (1 - p) by its rows' sums (a
 * closed form near its norm: Yudin et al. 2025), so at most 1/2; p moves in log odds by at most sqrt 2 times the
 * scores' distance ---- */

enum { UNDER_HALF, OVER_HALF, WIDEST };

/* Keeps the largest probability up to 1/2, the least above it, and the widest row of scores. */
static void centre_softmax(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_row_size *r = n->with;
    double *kept = s->at[node].kept;
    kept[UNDER_HALF] = 0, kept[OVER_HALF] = 1, kept[WIDEST] = 0;
    for (size_t i = 0; i < r->rows; i++) {
        const double *x = s->v[n->in[0]] + i * r->cols;
        double least = x[0], most = x[0];
        for (size_t j = 1; j < r->cols; j++) least = fmin(least, x[j]), most = fmax(most, x[j]);
        const double p = vt_spread_top(s->v[n->out] + i * r->cols, r->cols);
        if (p <= 0.5) kept[UNDER_HALF] = fmax(kept[UNDER_HALF], p * (1 + 1e-9));
        if (!(p <= 0.5)) kept[OVER_HALF] = fmin(kept[OVER_HALF], p * (1 - 1e-9));
        kept[WIDEST] = fmax(kept[WIDEST], most - least);
    }
}

/* Returns how far softmax may move: the slope is at most the largest p, or 2 p (1 - p) above 1/2, after p has moved
 * too. */
static double spread_softmax(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_row_size *r = n->with;
    const double *kept = s->at[node].kept, scale = r->scale != 0 ? fabs(r->scale) : 1, d = scale * s->d[n->in[0]];
    const double turn = exp(sqrt(2) * d) * (1 + 1e-12);
    const double up = 1 / (1 + (1 / kept[UNDER_HALF] - 1) / turn), down = 1 / (1 + (1 / kept[OVER_HALF] - 1) * turn);
    double slope = 0.5;
    if (up <= 0.5 && down >= 0.5 && !s->exact) slope = fmin(0.5, fmax(up, 2 * down * (1 - down)) * (1 + 1e-9) + 1e-9);
    const double moved = slope * d, far = 2 * (scale * kept[WIDEST] + 2 * d), cols = (double)r->cols;
    vt_spread_units(s, n->out, (far + cols + 32) * (1 + 1e-3), 0, moved);
    return moved + (s->exact ? 0 : s->err[n->out]);
}

static const vt_spread_rule softmax = {.centre = centre_softmax, .spread = spread_softmax};

/* ---- (x - mean) / sqrt(var + eps): the Jacobian's norm is at most the divisor's inverse, and a row's deviation (the
 * root of its variance) moves by at most the distance over the root of the row's length ---- */

enum { DEVIATION, LARGEST, ROW_PARTS }; /* of each row: the deviation; largest size of a number */

/* Takes room for two numbers a row; VT_E_MEMORY. */
static vt_status open_standardise(vt_spread *s, int node, vt_err *e) {
    const vt_row_size *r = s->g->nodes[node].with;
    s->at[node].gain = vt_heap_take(&s->heap, ROW_PARTS * r->rows + 1, sizeof(double));
    return s->at[node].gain ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for bounds", s->g->path);
}

/* Keeps each row's deviation and largest size at the centre. */
static void centre_standardise(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_row_size *r = n->with;
    double *kept = s->at[node].gain, *c = s->spare[0];
    for (size_t i = 0; i < r->rows; i++, kept += ROW_PARTS) {
        const double *x = s->v[n->in[0]] + i * r->cols;
        double mean = 0;
        for (size_t j = 0; j < r->cols; j++) mean += x[j] / (double)r->cols;
        for (size_t j = 0; j < r->cols; j++) c[j] = x[j] - mean;
        kept[LARGEST] = vt_spread_top(x, r->cols);
        kept[DEVIATION] = vt_spread_length(c, r->cols) / sqrt((double)r->cols);
    }
}

/* Returns how far standardised rows may move: d over the least deviation a row may have; INFINITY: float32 may find
 * 0. */
static double spread_standardise(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const vt_row_size *r = n->with;
    const double *kept = s->at[node].gain, cols = (double)r->cols, d = s->d[n->in[0]],
                 u = VT_HALF_ULP32 * (cols + 8) * 1.001;
    double slope = 0, lost = 0;
    for (size_t i = 0; i < r->rows; i++, kept += ROW_PARTS) {
        const double top = kept[LARGEST] + d, wide = d / sqrt(cols) + 1e-12 * top;
        const double most = kept[DEVIATION] * (1 + 1e-9) + wide, least = fmax(kept[DEVIATION] * (1 - 1e-9) - wide, 0);
        /* float32: the mean is off, so is each number less it; then the sum of squares, the root, the product */
        const double off = u * 3 * top, off2 = (2 * most + off) * off + u * (most + off) * (most + off);
        const double square = (least * least + r->eps) * (1 - 1e-12), rest = square - off2;
        if (!(rest > 0) || square < VT_LEAST_SQUARE32 || 4 * cols * fmax(top, most * most * cols) > VT_SPREAD_LARGEST)
            return s->err[n->out] = INFINITY;
        const double row = off / sqrt(rest) + fmin(most / sqrt(rest), 2) * (off2 / rest / 2 + 8 * VT_HALF_ULP32);
        lost += row * row * cols * 1.1, slope = fmax(slope, 1 / sqrt(square));
    }
    s->err[n->out] = sqrt(lost);
    return slope * d * (1 + 1e-9) + (s->exact ? 0 : s->err[n->out]);
}

static const vt_spread_rule standardise = {.open = open_standardise,
                                           .centre = centre_standardise,
                                           .spread = spread_standardise,
                                           .local = true};

/* ---- the largest of some numbers: no further apart than they are ---- */

/* Returns how far the largest of some numbers may move: as far as they do, times how many windows see one. */
static double spread_largest(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    double moved = 0, seen = 1;
    for (int k = 0; vt_spread_is(s, n, "MaxPool") && k < 3; k++) seen *= (double)vt_windows_overlap(n->with, k);
    for (int k = 0; k < n->n_in; k++) {
        if (!vt_spread_moves(s, n->in[k])) continue;
        const double times = (double)s->g->values[n->out].n / (double)s->g->values[n->in[k]].n;
        moved += s->d[n->in[k]] * sqrt(fmax(seen, times)) * (1 + 1e-15);
    }
    return vt_spread_units(s, n->out, 0, 0, moved);
}

static const vt_spread_rule largest = {.spread = spread_largest};

/* Distance after slopes of 1 above 0 and constants below. */
static double spread_sloped(vt_spread *s, int node) {
    const vt_node *n = &s->g->nodes[node];
    const double steepest = vt_spread_top(s->v[n->in[1]], s->g->values[n->in[1]].n);
    return vt_spread_units(s, n->out, 1, 0, s->d[n->in[0]] * fmax(1, steepest));
}

static const vt_spread_rule sloped = {.spread = spread_sloped};

const vt_spread_rule *vt_spread_curved(const vt_spread *s, const vt_node *n) {
    static const struct {
        const char *op;
        const vt_spread_rule *rule;
    } others[] = {{"Max", &largest},     {"MaxPool", &largest},           {"Min", &largest},  {"ReduceMax", &largest},
                  {"Softmax", &softmax}, {"(standardise)", &standardise}, {"Div", &quotient}, {"MatMul", &matrices}};
    const bool two = n->n_in > 1 && vt_spread_moves(s, n->in[1]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vt_spread_is(s, n, others[i].op)) return others[i].rule;
    if (vt_spread_is(s, n, "PRelu")) /* slopes may repeat the input along a side, which moves more */
        return two || s->g->values[n->in[0]].n != s->g->values[n->out].n ? NULL : &sloped;
    if (vt_spread_is(s, n, "Mul")) return vt_relax_is_square(s->g, n) ? &by_centre : &elements;
    if (vt_spread_is(s, n, "Pow")) {
        const double power = vt_relax_exponent(s->g, n);
        return power == 2 || power == 3 ? &by_centre : NULL;
    }
    const function *f = function_of(s, n);
    return !f ? NULL : f->of ? &by_centre : &steady;
}
