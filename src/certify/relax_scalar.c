/* SPDX-License-Identifier: MIT */
/* Functions of one number. For any slope k the line k x + b lies below f on [l, u] if b is the least value of f(x) - k
 * x there, which is taken at an end, at a kink or where f' = k: all of them are known in closed form. So every slope
 * gives a valid line, and how slopes are chosen matters for tightness alone. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "graph/op.h"

enum { ANY, CONVEX, CONCAVE, BENT }; /* BENT: convex below 0, concave above */

struct vt_scalar {
    const char *op;
    int shape;
    double (*f)(double x, const double *p);
    double (*slope)(double x, const double *p);
    /* Where f' = k, and kinks: at most 3; NULL: none. */
    int (*turns)(double k, const double *p, double *x);
    double units, floor; /* float32's error in units of its last place, of numbers of at least that size (GELU: of x) */
};

/* Functions and their derivatives of x, and parameters p; and where a derivative is k, or a kink is. */
#define FUNCTION(name, value)                                                                                          \
    static double name(double x, const double *p) {                                                                    \
        (void)p;                                                                                                       \
        return value;                                                                                                  \
    }
/* One place at `here` if it `exists`; PLACES: and at minus that. */
#define PLACE(name, exists, here)                                                                                      \
    static int name(double k, const double *p, double *x) {                                                            \
        (void)p, (void)k;                                                                                              \
        if (exists) x[0] = here;                                                                                       \
        return exists;                                                                                                 \
    }
#define PLACES(name, exists, here)                                                                                     \
    static int name(double k, const double *p, double *x) {                                                            \
        (void)p;                                                                                                       \
        if (exists) x[0] = here, x[1] = -x[0];                                                                         \
        return (exists) ? 2 : 0;                                                                                       \
    }

#define ROOT_PI 1.7724538509055160273
FUNCTION(f_relu, x > 0 ? x : 0)
FUNCTION(d_relu, x > 0)
FUNCTION(f_leaky, x > 0 ? x : (double)(float)p[0] * x)
FUNCTION(d_leaky, x > 0 ? 1 : (double)(float)p[0])
FUNCTION(f_abs, fabs(x))
FUNCTION(d_abs, x > 0 ? 1 : -1)
PLACE(t_zero, true, 0)
FUNCTION(f_clip, x<p[0] ? p[0] : x> p[1] ? p[1] : x)
FUNCTION(d_clip, x >= p[0] && x <= p[1])
static int t_clip(double k, const double *p, double *x) {
    (void)k;
    x[0] = p[0], x[1] = p[1];
    return 2;
}
FUNCTION(f_exp, exp(x))
PLACE(t_exp, k > 0, log(k))
FUNCTION(f_log, log(x))
FUNCTION(d_log, 1 / x)
PLACE(t_log, k > 0, 1 / k)
FUNCTION(f_sqrt, sqrt(x))
FUNCTION(d_sqrt, 0.5 / sqrt(x))
PLACE(t_sqrt, k > 0, 0.25 / (k * k))
FUNCTION(f_inverse, 1 / x)
FUNCTION(d_inverse, -1 / (x * x))
PLACES(t_inverse, k < 0, sqrt(-1 / k))
FUNCTION(f_rsqrt, 1 / sqrt(x))
FUNCTION(d_rsqrt, -0.5 / (x * sqrt(x)))
PLACE(t_rsqrt, k < 0, pow(-2 * k, -2.0 / 3))
FUNCTION(f_square, x *x)
FUNCTION(d_square, 2 * x)
PLACE(t_square, true, k / 2)
FUNCTION(f_cube, x *x *x)
FUNCTION(d_cube, 3 * x * x)
PLACES(t_cube, k >= 0, sqrt(k / 3))
FUNCTION(f_sigmoid, 1 / (1 + exp(-x)))
FUNCTION(d_sigmoid, f_sigmoid(-fabs(x), p) * f_sigmoid(fabs(x), p))
/* s (1 - s) = k: with its smaller root s, log(s / (1 - s)) */
PLACES(t_sigmoid, k > 0 && k <= 0.25, log(2 * k / (1 + sqrt(1 - 4 * k) - 2 * k)))
FUNCTION(f_tanh, tanh(x))
FUNCTION(d_tanh, 1 / (cosh(x) * cosh(x)))
PLACES(t_tanh, k > 0 && k <= 1, acosh(1 / sqrt(k)))
FUNCTION(f_erf, erf(x))
FUNCTION(d_erf, 2 / ROOT_PI * exp(-x * x))
PLACES(t_erf, k > 0 && k * ROOT_PI / 2 <= 1, sqrt(-log(k *ROOT_PI / 2)))
FUNCTION(f_softplus, fmax(x, 0) + log1p(exp(-fabs(x))))
PLACE(t_softplus, k > 0 && k < 1, log(k / (1 - k)))

/* x/2 (1 + erf(x / p)), p[0] or the root of 2, or with p[0] = 1 its approximation with tanh. Its derivative less 1/2 is
 * odd: it rises from 0 to `turn` and falls from there to 1/2. */
static double turn_of(const double *p) { return p[0] == 1 ? 1.418504 : p[0] > 1 ? p[0] : M_SQRT2; }
static double f_gelu(double x, const double *p) {
    if (p[0] != 1) return x / 2 * erfc(-x / turn_of(p));
    return x / (1 + exp(-4 / ROOT_PI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
}
static double d_gelu(double x, const double *p) {
    const double s = turn_of(p);
    if (p[0] != 1) return erfc(-x / s) / 2 + x * exp(-x * x / (s * s)) / (ROOT_PI * s);
    const double z = 2 / ROOT_PI * M_SQRT1_2 * (x + 0.044715 * x * x * x), up = f_sigmoid(2 * z, p);
    return up + 2 * x * up * f_sigmoid(-2 * z, p) * 2 / ROOT_PI * M_SQRT1_2 * (1 + 3 * 0.044715 * x * x);
}

/* Returns where the derivative is 1/2 + rise between a and b, at which it is on either side of that. */
static double find_slope(double rise, const double *p, double a, double b) {
    double fa = d_gelu(a, p) - 0.5 - rise, fb = d_gelu(b, p) - 0.5 - rise, x = a;
    for (int i = 0; i < 90 && fa != fb; i++) {
        x = i % 3 == 2 ? a / 2 + b / 2 : a - fa * (b - a) / (fb - fa);
        const double fx = d_gelu(x, p) - 0.5 - rise;
        if (fabs(fx) <= 1e-15) break;
        if ((fx < 0) == (fa < 0))
            a = x, fa = fx;
        else
            b = x, fb = fx;
    }
    return x;
}

static int t_gelu(double k, const double *p, double *x) {
    const double side = k < 0.5 ? -1 : 1, rise = fabs(k - 0.5), turn = turn_of(p);
    if (!(rise <= d_gelu(turn, p) - 0.5)) return 0;
    x[0] = side * find_slope(rise, p, 0, turn);
    if (rise <= 0.5) return 1;
    x[1] = side * find_slope(rise, p, turn, 40);
    return 2;
}

static const vt_scalar functions[] = {
    {"Abs", CONVEX, f_abs, d_abs, t_zero, 0, 0},
    {"Clip", ANY, f_clip, d_clip, t_clip, 1, 0},
    {"Erf", BENT, f_erf, d_erf, t_erf, 8, 0},
    {"Exp", CONVEX, f_exp, f_exp, t_exp, 8, 0},
    {"Gelu", ANY, f_gelu, d_gelu, t_gelu, 16, 0},
    {"LeakyRelu", ANY, f_leaky, d_leaky, t_zero, 4, 0},
    {"Log", CONCAVE, f_log, d_log, t_log, 8, 1},
    {"PRelu", ANY, f_leaky, d_leaky, t_zero, 4, 0},
    {"Reciprocal", ANY, f_inverse, d_inverse, t_inverse, 4, 0},
    {"Relu", CONVEX, f_relu, d_relu, t_zero, 0, 0},
    {"Sigmoid", BENT, f_sigmoid, d_sigmoid, t_sigmoid, 16, 1},
    {"Softplus", CONVEX, f_softplus, f_sigmoid, t_softplus, 16, 1},
    {"Sqrt", CONCAVE, f_sqrt, d_sqrt, t_sqrt, 4, 0},
    {"Tanh", BENT, f_tanh, d_tanh, t_tanh, 8, 0},
    {"(gelu)", ANY, f_gelu, d_gelu, t_gelu, 16, 0},
};
static const vt_scalar cube = {"Pow", ANY, f_cube, d_cube, t_cube, 16, 0};
const vt_scalar vt_scalar_reciprocal = {"Reciprocal", ANY, f_inverse, d_inverse, t_inverse, 4, 0};
const vt_scalar vt_scalar_square = {"Pow", CONVEX, f_square, d_square, t_square, 16, 0};
const vt_scalar vt_scalar_rsqrt = {"Sqrt", CONVEX, f_rsqrt, d_rsqrt, t_rsqrt, 8, 0};

/* Least (sign 1) or largest (-1) value of f(x) - k x on [l, u], rounded outward. */
static double intercept(const vt_scalar *f, const double *p, double l, double u, double k, double sign) {
    double x[5] = {l, u}, best = INFINITY,
           size = f->f == f_gelu ? 1e-4 : 0; /* places that are searched for err by less */
    const int n = 2 + f->turns(k, p, x + 2);
    for (int i = 0; i < n; i++) {
        if (!(x[i] >= l && x[i] <= u)) continue;
        const double y = f->f(x[i], p), v = sign * (y - k * x[i]);
        if (!(v >= best)) best = v; /* a NaN stays */
        size = fmax(size, fabs(y) + fabs(k * x[i]));
    }
    return sign * (best - 1e-14 * size);
}

/* The slope whose line is nearest to f at the middle of [l, u], which is the one of least area, among slopes between
 * a and b: that distance is convex in the slope. */
static double search_slope(const vt_scalar *f, const double *p, double l, double u, double a, double b, double sign) {
    const double m = l / 2 + u / 2;
    for (int i = 0; i < 40; i++) {
        const double k1 = a + (b - a) * 0.382, k2 = a + (b - a) * 0.618;
        const double v1 = sign * (intercept(f, p, l, u, k1, sign) + k1 * m);
        const double v2 = sign * (intercept(f, p, l, u, k2, sign) + k2 * m);
        if (v1 > v2)
            b = k2;
        else
            a = k1;
    }
    return (a + b) / 2;
}

/* Returns whether f is convex or concave on [l, u], or neither (ANY). */
static int shape_of(const vt_scalar *f, const double *p, double l, double u) {
    if (f->shape == BENT) return u <= 0 ? CONVEX : l >= 0 ? CONCAVE : ANY;
    if (f->f == f_inverse) return l > 0 ? CONVEX : CONCAVE;
    if (f->f == f_cube) return l >= 0 ? CONVEX : u <= 0 ? CONCAVE : ANY;
    if (f->f == f_gelu) return l >= -M_SQRT2 && u <= M_SQRT2 ? CONVEX : fmin(u, -l) <= -1.42 ? CONCAVE : ANY;
    if (f->f == f_leaky) return p[0] <= 1 ? CONVEX : CONCAVE;
    return f->shape;
}

const vt_scalar *vt_scalar_of(const char *op) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].op, op)) return &functions[i];
    return NULL;
}

vt_lines vt_scalar_lines(const vt_scalar *f, const double *p, double l, double u, int policy) {
    const double m = l / 2 + u / 2, at = f->slope(m, p);
    double chord = u > l ? (f->f(u, p) - f->f(l, p)) / (u - l) : at;
    const int shape = shape_of(f, p, l, u);
    vt_lines s = {.kl = shape == CONVEX ? at : chord, .ku = shape == CONVEX ? chord : at};
    if (shape == ANY && u > l) {
        const double a = fmin(fmin(f->slope(l, p), f->slope(u, p)), fmin(chord, at));
        const double b = fmax(fmax(f->slope(l, p), f->slope(u, p)), fmax(fmax(chord, at), f->slope(0, p)));
        s.kl = search_slope(f, p, l, u, a, b, 1), s.ku = search_slope(f, p, l, u, a, b, -1);
    }
    if (policy && (f->f == f_relu || f->f == f_leaky) && l < 0 && u > 0) s.kl = f->slope(policy == 1 ? -1 : 1, p);
    s.bl = intercept(f, p, l, u, s.kl, 1), s.bu = intercept(f, p, l, u, s.ku, -1);
    s.lo = intercept(f, p, l, u, 0, 1), s.hi = intercept(f, p, l, u, 0, -1);
    return s;
}

/* ---- as operators ---- */

enum { KL, BL, KU, BU, PARTS };

static size_t planes_scalar(const vt_graph *g, const vt_node *n) { return PARTS * g->values[n->out].n; }

/* Bounds f, of parameters p, of number i of the node's input; keeps its lines and their error, and returns them. */
static vt_lines bound_number(vt_relax *r, int node, const vt_scalar *f, const double *p, size_t i) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *x = &r->of[n->in[0]];
    const size_t count = r->g->values[n->out].n;
    double *at = r->planes[node];
    const vt_lines s = vt_scalar_lines(f, p, x->lo[i], x->hi[i], r->policy);
    at[KL * count + i] = s.kl, at[BL * count + i] = s.bl, at[KU * count + i] = s.ku, at[BU * count + i] = s.bu;
    const double top = f->f == f_gelu ? x->top[i] : fmax(fmax(fabs(s.lo), fabs(s.hi)), f->floor);
    const double kept = fmax(fabs(s.kl), fabs(s.ku)) * x->top[i] + fmax(fabs(s.bl), fabs(s.bu)) + top;
    r->of[n->out].err[i] = f->units * VT_HALF_ULP32 * top * (1 + 1e-6) + f->units * VT_TINY32 + 1e-14 * kept;
    return s;
}

/* Bounds f of every number of the node's input and keeps its lines; f's parameters of number i are at p + i step. */
static vt_status bound_by(vt_relax *r, int node, const vt_scalar *f, const double *p, size_t step) {
    const int out = r->g->nodes[node].out;
    const vt_ranges *y = &r->of[out];
    for (size_t i = 0; i < r->g->values[out].n; i++) {
        const vt_lines s = bound_number(r, node, f, p ? p + i * step : NULL, i);
        y->lo[i] = s.lo - y->err[i], y->hi[i] = s.hi + y->err[i];
    }
    return VT_OK;
}

/* Returns the slope below 0 of each number of a PRelu: minus its value at -1. */
static const double *slopes_below(vt_relax *r, const vt_node *n) {
    double *x = r->spare[0], *y = r->spare[1];
    for (size_t i = 0; i < r->g->values[n->in[0]].n; i++) x[i] = -1;
    vt_relax_forward(r, &r->rows[0], n->op, n, (const double *[]){x, r->of[n->in[1]].mid}, y);
    for (size_t i = 0; i < r->g->values[n->out].n; i++) y[i] = -y[i];
    return y;
}

/* Bounds an operator of the table; VT_E_NUMERIC: its input may leave where the function is defined; VT_E_USAGE:
 * none. */
static vt_status bound_scalar(vt_relax *r, int node, vt_err *e) {
    const vt_node *n = &r->g->nodes[node];
    const char *name = vt_op_at_f64(n->op)->name;
    const bool sloped = !strcmp(name, "PRelu"), repeats = r->g->values[n->in[0]].n != r->g->values[n->out].n;
    const vt_scalar *f = vt_scalar_of(name);
    if (!f || (sloped && repeats))
        return vt_fail(e, VT_E_USAGE, "%s: no bounds are known for operator %s", r->g->path, name);
    const bool hole = f->f == f_inverse, positive = f->f == f_log || f->f == f_sqrt;
    const vt_ranges *x = &r->of[n->in[0]];
    for (size_t k = 0; k < r->g->values[n->out].n; k++)
        if ((hole && x->lo[k] <= 0 && x->hi[k] >= 0) || (positive && x->lo[k] <= 0))
            return vt_fail(e, VT_E_NUMERIC, "%s: %s of numbers down to %g", r->g->path, name, x->lo[k]);
    return sloped ? bound_by(r, node, f, slopes_below(r, n), 1) : bound_by(r, node, f, n->with, 0);
}

/* Sets the lines of number i anew. */
static void narrow_scalar(vt_relax *r, int node, size_t i) {
    const vt_node *n = &r->g->nodes[node];
    const char *name = vt_op_at_f64(n->op)->name;
    bound_number(r, node, vt_scalar_of(name), strcmp(name, "PRelu") ? n->with : slopes_below(r, n) + i, i);
}

static vt_status bound_square(vt_relax *r, int node, vt_err *e) {
    (void)e;
    return bound_by(r, node, &vt_scalar_square, NULL, 0);
}

double vt_relax_exponent(const vt_graph *g, const vt_node *n) {
    const vt_value *b = &g->values[n->in[1]];
    if (!vt_value_is_constant(b) || !b->n || g->values[n->in[0]].n != g->values[n->out].n) return NAN;
    for (size_t i = 1; i < b->n; i++)
        if (vt_value_real(b, i) != vt_value_real(b, 0)) return NAN;
    return vt_value_real(b, 0);
}

/* The exponent is a constant. */
static vt_status bound_power(vt_relax *r, int node, vt_err *e) {
    const double power = vt_relax_exponent(r->g, &r->g->nodes[node]);
    if (isnan(power)) return vt_fail(e, VT_E_USAGE, "%s: no bounds are known for Pow with many exponents", r->g->path);
    if (power != 2 && power != 3)
        return vt_fail(e, VT_E_USAGE, "%s: no bounds are known for Pow with exponent %g, only with 2 and 3", r->g->path,
                       power);
    return bound_by(r, node, power == 2 ? &vt_scalar_square : &cube, NULL, 0);
}

/* Knobs are the lower slopes of ReLU between its ends: for any of [0, 1] the line passes through 0. */
static bool is_open(const vt_ranges *x, size_t i) { return x->lo[i] < 0 && x->hi[i] > 0; }
static bool is_relu(const vt_node *n) { return !strcmp(vt_op_at_f64(n->op)->name, "Relu"); }
static size_t knobs_scalar(const vt_graph *g, const vt_node *n) { return is_relu(n) ? g->values[n->out].n : 0; }

static void limits_scalar(const vt_graph *g, const vt_node *n, double *least, double *most) {
    (void)g, (void)n;
    *least = 0, *most = 1;
}

/* Replaces f(x) by its lower line where its coefficient is positive, its upper one where it is negative. */
static void back_scalar(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *x = &r->of[n->in[0]];
    const double *dy = row->a[n->out], *at = r->planes[node], *knob = row->knob[node];
    const size_t count = r->g->values[n->out].n;
    double *dx = vt_row_at(r, row, n->in[0]);
    for (size_t i = 0; i < count; i++) {
        if (dy[i] == 0) continue;
        if (knob && dy[i] > 0 && is_open(x, i)) {
            dx[i] += dy[i] * knob[i];
            continue;
        }
        const size_t k = dy[i] < 0 ? KU : KL;
        dx[i] += dy[i] * at[k * count + i];
        vt_row_add(row, dy[i] * at[(k + 1) * count + i]);
    }
}

/* Sets y along the lines that back_scalar took, and rise to how the bound changes with each ReLU's slope. */
static void fore_scalar(const vt_relax *r, int node, vt_row *row, double *rise) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *s = &r->of[n->in[0]];
    const double *dy = row->a[n->out], *at = r->planes[node], *knob = row->knob[node], *x = row->y[n->in[0]];
    const size_t count = r->g->values[n->out].n;
    for (size_t i = 0; i < count; i++) {
        const size_t k = dy[i] < 0 ? KU : KL;
        const bool free = knob && dy[i] > 0 && is_open(s, i);
        row->y[n->out][i] = free ? knob[i] * x[i] : at[k * count + i] * x[i] + at[(k + 1) * count + i];
        if (knob) rise[i] = free ? dy[i] * x[i] : 0;
    }
}

#define SCALAR(bound_, narrow_)                                                                                        \
    {                                                                                                                  \
        .planes = planes_scalar, .bound = bound_, .back = back_scalar, .curved = true, .fore = fore_scalar,            \
        .knobs = knobs_scalar, .limits = limits_scalar, .narrow = narrow_                                              \
    }
const vt_relaxation vt_relax_scalar = SCALAR(bound_scalar, narrow_scalar);
const vt_relaxation vt_relax_square = SCALAR(bound_square, NULL);
const vt_relaxation vt_relax_power = SCALAR(bound_power, NULL);
