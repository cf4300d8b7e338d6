/* SPDX-License-Identifier: MIT */
/* Bounds of every value of a graph over a box of inputs: intervals, and linear functions of the input found by
 * back-substitution (CROWN, Zhang et al. 2018). They hold for real arithmetic and for float32 in any order of
 * summation, convolutions of 3 x 3 by Winograd's too: each node's result may differ from its formula by `err`, which
 * also covers the double rounding here. How an operator is bounded is a row of relax.c; a family of operators is a file
 * relax_X.c. */
#pragma once

#include "certify/certify.h"

#define VT_HALF_ULP32 0x1p-24
#define VT_HALF_ULP64 0x1p-53
#define VT_TINY32 0x1p-120      /* more than what float32 loses below its smallest normal number, a term */
#define VT_LARGEST32 3e38       /* sums that float32 may not hold have no bound */
#define VT_LEAST_SQUARE32 1e-30 /* variances below it either: their squares may vanish */

/* Of one value, [n] each: lo <= value <= hi; mid, rad and top = |mid| + rad follow from them. */
typedef struct vt_ranges {
    double *lo, *hi, *err, *mid, *rad, *top;
} vt_ranges;

/* A linear function in the course of back-substitution: sum of a[v] . value v, plus c, bounds it from below. */
typedef struct vt_row {
    double **a;            /* [n_values] of computed values and the input */
    bool *touched;         /* [n_values] a[v] counts, else it is zero */
    double best;           /* r->intervals: the largest bound on the way */
    double c, size, terms; /* constant; sum of absolute values and number of what was added to it */
    double *work, *spare;  /* for operators: of backward, and as long as the largest value */
    const double **x;      /* room for one call's arrays: [most inputs] */
    double **dx;
    bool *add;
    /* Steps toward better lines (ascent.c). Any knob gives valid bounds. */
    double **knob, **now, **rise, **size2; /* [n_nodes] knobs, how the bound rises with each, Adam's means of it */
    double **y;                            /* [n_values] at the row's least point, along its linear functions */
} vt_row;

/* Number i of value v is at least `at` (side 1) or at most (-1). */
typedef struct vt_cut {
    int v, side;
    bool second; /* the other side is done */
    size_t i;
    double at, lo, hi; /* range without the cut */
    /* factor >= 0 of side (at - number), which is at most 0 and is added to the row (beta-CROWN, Wang et al. 2021);
     * rise and size2 are Adam's means of how the bound rises with it. */
    double factor, rise, size2;
} vt_cut;
#define VT_CUTS_DEEPEST 400

typedef struct vt_relax vt_relax;
typedef struct vt_relaxation {
    size_t (*planes)(const vt_graph *g, const vt_node *n); /* doubles that it keeps a node; NULL: none */
    void (*open)(vt_relax *r, int node);                   /* once, before any box; NULL: nothing */
    /* Sets lo, hi and err of the node's result, and its planes, from the ranges of its inputs. */
    vt_status (*bound)(vt_relax *r, int node, vt_err *e);
    /* Replaces row->a[out] by functions of the inputs, so that the row stays a lower bound. */
    void (*back)(const vt_relax *r, int node, vt_row *row);
    bool curved; /* its planes profit from tight ranges of its inputs */
    /* row->y[out] from its inputs', along what `back` put in the place of the node, and rise[i]: how the row's bound
     * changes with knob i. NULL: no knobs, and the operator itself is good enough. */
    void (*fore)(const vt_relax *r, int node, vt_row *row, double *rise);
    size_t (*knobs)(const vt_graph *g, const vt_node *n); /* NULL: none */
    void (*limits)(const vt_graph *g, const vt_node *n, double *least, double *most);
    /* Sets its planes anew, and no range, after that of number i of an input has changed. NULL: rows read its planes
     * alone, which then hold for any narrower range. */
    void (*narrow)(vt_relax *r, int node, size_t i);
} vt_relaxation;

struct vt_relax {
    const vt_graph *g;
    vt_heap heap;
    vt_ranges *of;             /* [n_values] */
    double **planes;           /* [n_nodes] */
    const vt_relaxation **how; /* [n_nodes] */
    const double *zero;        /* as long as the largest value */
    double *spare[3];          /* the same, to write */
    bool *tight;               /* [n_values] an input of a curved node */
    bool wild;                 /* vt_relax_is_wild of some node */
    double largest;            /* size of any number so far */
    double *low;               /* room for results of vt_relax_rows */
    size_t n_low;
    int threads;
    double flops;   /* of one row, or so */
    vt_row *rows;   /* [threads] */
    int policy;     /* lower slopes of ReLU: 0 the nearer of 0 and 1, 1 all 0, 2 all 1 */
    bool intervals; /* values are bounded by those of their inputs alone; rows by every value that they come to */
    int steps;      /* of each row toward better lines */
    const volatile sig_atomic_t *interrupt; /* as in vt_certify_options */
    double until;                           /* vt_now() after which rows have no bound; 0: never */
    /* Inputs of the box that are no further from the centre than the radius count. linf: all of the box. */
    vt_certify_norm norm;
    const double *centre;
    double radius;
    vt_cut cuts[VT_CUTS_DEEPEST]; /* only inputs that meet them all count, for ranges and rows */
    int n_cuts;
};

/* The row of an operator's node; NULL: it has no bounds. */
const vt_relaxation *vt_relaxation_of(const vt_graph *g, const vt_node *n);
/* VT_E_USAGE with the operator's name: it has no bounds. */
vt_status vt_relax_open(vt_relax **out, const vt_graph *g, int threads, vt_err *e);
void vt_relax_close(vt_relax *r); /* accepts NULL */

/* Bounds of all values for inputs in [lo, hi]. VT_E_NUMERIC: some are not finite or crossed. */
vt_status vt_relax_box(vt_relax *r, const double *lo, const double *hi, vt_err *e);
/* low[i], i < n: lower bounds of linear functions of value v; set(ctx, i, a) writes function i's coefficients into a,
 * which is zero. */
typedef void (*vt_row_fn)(const void *ctx, size_t i, double *a);
vt_status vt_relax_rows(vt_relax *r, int v, size_t n, vt_row_fn set, const void *ctx, double *low, vt_err *e);

/* split.c: is linear function i of value v above 0, by branch and bound over numbers that scalar functions read?
 * vt_relax_box has bounded the box before. *boxes counts rows; it ends (*yes false) after vt_now() is `until`, or
 * *boxes `most` (0: no limit). VT_INTERRUPTED. */
vt_status vt_relax_split(vt_relax *r, int v, vt_row_fn set, const void *ctx, size_t i, double until, long most,
                         long *boxes, bool *yes);

/* ---- of one row ---- */

/* Replaces value v's coefficients by the input's. */
void vt_row_substitute(const vt_relax *r, vt_row *row, int v);
/* relax_ball.c: over ball and box of inputs; row->y of the input is the point, or near it. */
double vt_row_least(const vt_relax *r, vt_row *row);
/* Returns a lower bound of linear function i of value v, as the row's knobs and the cuts' factors are. */
double vt_row_bound(const vt_relax *r, vt_row *row, int v, vt_row_fn set, const void *ctx, size_t i);
/* Sets the range of number i of value v, and planes of all that read it, after vt_relax_box. */
void vt_relax_narrow(vt_relax *r, int v, size_t i, double lo, double hi);
/* Adds the factors of cuts of value v. */
void vt_row_add_cuts(const vt_relax *r, vt_row *row, int v);
/* ascent.c: takes the knobs' memory; sets them as `bound` left them; one step, of cuts' factors too. false: no memory.
 */
bool vt_row_take_knobs(vt_relax *r, vt_row *row);
void vt_row_reset(const vt_relax *r, vt_row *row);
void vt_row_step(vt_relax *r, vt_row *row, int v, int step);

/* ---- for operators ---- */

double *vt_row_at(const vt_relax *r, vt_row *row, int v); /* coefficients of value v, to add to; NULL: a constant */
static inline void vt_row_add(vt_row *row, double term) {
    row->c += term, row->size += term < 0 ? -term : term, row->terms++;
}
/* y = op(x), of node n by operator `op` (its own: n->op), in double. */
void vt_relax_forward(const vt_relax *r, const vt_row *row, int op, const vt_node *n, const double *const *x,
                      double *y);
/* Adds the products of dy with op's Jacobian at x to the row's coefficients of n's inputs. */
void vt_relax_backward(const vt_relax *r, int op, const vt_node *n, const double *const *x, const double *dy,
                       double *const *dx, vt_row *row);
/* Rounding errors of float32 and double in a sum of `terms` products whose absolute values add up to `size`; largest:
 * size of any number before it, by which an underflow in a product of two constants (fusion's) may be multiplied. */
double vt_relax_loss(const vt_graph *g, const vt_node *n, double terms, double size, double largest);
/* The exponent of Pow n if one constant is that of all its numbers, else NaN. */
double vt_relax_exponent(const vt_graph *g, const vt_node *n);
/* Does Mul n multiply each number of a value by itself, and not the value by itself with other sides? */
bool vt_relax_is_square(const vt_graph *g, const vt_node *n);
/* Has n a constant factor whose product with another one float32 may not hold? */
bool vt_relax_is_wild(const vt_graph *g, const vt_node *n);
/* VT_E_USAGE: n reads integers among reals, which ONNX's types forbid. */
vt_status vt_relax_check_types(const vt_graph *g, const vt_node *n, vt_err *e);
/* Products that node n adds up for each number of its result. */
double vt_relax_terms(const vt_graph *g, const vt_node *n);
/* The same if float32 may compute n by Winograd's F(2x2, 3x3) (nn/convolve), else 0. Its tiles also add up and take off
 * numbers beside the window: their absolute values, through |A| (|G w G'| |B'| |x| |B|) |A'|, are at most VT_TILE_SIZE
 * times those of the window, wherever x is the same all over the map; in l2, by Schur's test, wherever the norm of the
 * operator without signs is that of a map that holds a whole window. */
double vt_relax_tile_terms(const vt_node *n);
#define VT_TILE_SIZE 16
/* Sets lo and hi of number i, and mid, rad and top. */
void vt_range_set(const vt_ranges *y, size_t i, double lo, double hi);
/* Sets lo and hi to mid -+ (rad + err). */
void vt_relax_around(vt_relax *r, int v, const double *mid, const double *rad);

/* Lines below and above a function of one number over [l, u]. */
typedef struct vt_lines {
    double kl, bl, ku, bu, lo, hi;
} vt_lines;
typedef struct vt_scalar vt_scalar;
extern const vt_scalar vt_scalar_reciprocal, vt_scalar_square, vt_scalar_rsqrt;
const vt_scalar *vt_scalar_of(const char *op); /* NULL: an operator of another kind */
vt_lines vt_scalar_lines(const vt_scalar *f, const double *p, double l, double u, int policy);

extern const vt_relaxation vt_relax_affine, vt_relax_scalar, vt_relax_square, vt_relax_power, vt_relax_product,
    vt_relax_quotient, vt_relax_softmax, vt_relax_standardise, vt_relax_largest, vt_relax_windows_largest;
