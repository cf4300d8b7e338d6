/* SPDX-License-Identifier: MIT */
/* How far a value of a graph may move, in l2, when the image moves by at most a radius: |computed at any point of the
 * ball - computed in double at the centre|, where "computed" is real arithmetic or float32 in any order of summation.
 * An operator's rule turns its inputs' distances into its own and adds what float32 and double lose there. Rules with
 * constants alone hold for any centre; others use lengths of values at the centre. */
#pragma once

#include "certify/certify.h"

#define VT_SPREAD_LARGEST 1e37 /* sums that float32 may not hold have no bound */

typedef struct vt_spread vt_spread;
typedef struct vt_spread_rule {
    vt_status (*open)(vt_spread *s, int node, vt_err *e); /* constants of the weights; NULL: none */
    void (*centre)(vt_spread *s, int node);               /* what it keeps of the values at the centre; NULL: nothing */
    /* Distance of the node's result from those of its inputs (s->d), and s->err[out], its own errors. */
    double (*spread)(vt_spread *s, int node);
    bool local;  /* it needs the centre */
    bool affine; /* its own backward is the adjoint of what it does to differences */
} vt_spread_rule;

enum { VT_SPREAD_KEPT = 6 };
typedef struct vt_spread_node {
    const vt_spread_rule *rule;
    double *gain, *most; /* affine: [n_in] bounds of the operator's norm, and of that without signs */
    double kept[VT_SPREAD_KEPT];
    int from, from_node; /* patterns of several nodes: the value and the node that they begin with */
} vt_spread_node;

struct vt_spread {
    const vt_graph *g;
    vt_heap heap;
    double **v;              /* [n_values] at the centre; constants */
    double *len, *top;       /* [n_values] of v: l2 norm, largest size */
    double *d, *err;         /* [n_values] distances; the part of them that the node's own errors are */
    vt_spread_node *at;      /* [n_nodes] */
    double *ones, *spare[2]; /* as long as the largest value */
    double *zero, *work;
    const double **x; /* [most inputs] */
    double **dx;
    bool *add;
    double largest; /* size of any number so far */
    bool exact;     /* errors are left out: for the constant alone */
    const vt_spread *like;
};

/* like: another one of the same graph, which has the norms; or NULL. VT_E_USAGE with the operator's name: it has no
 * rule. VT_E_NUMERIC: a norm is not finite. */
vt_status vt_spread_open(vt_spread *s, const vt_graph *g, const vt_spread *like, vt_err *e);
void vt_spread_close(vt_spread *s);
void vt_spread_centre(vt_spread *s, const double *x); /* values at x, and what rules keep of them */
/* Distances of all values for inputs within the radius. */
void vt_spread_ball(vt_spread *s, double radius);

/* ---- for rules ---- */

/* Is v there (not -1) and no constant? */
static inline bool vt_spread_moves(const vt_spread *s, int v) {
    return v >= 0 && !vt_value_is_constant(&s->g->values[v]);
}
bool vt_spread_is(const vt_spread *s, const vt_node *n, const char *op); /* is n of this operator? */
/* The node that computes v, if it is of this operator ("": any); else -1. */
int vt_spread_maker(const vt_spread *s, int v, const char *op);
/* y = op(x), and the products of dy with its Jacobian: into s->dx, of which the rule sets the wanted. */
void vt_spread_forward(const vt_spread *s, const vt_node *n, const double *const *x, double *y);
void vt_spread_backward(const vt_spread *s, const vt_node *n, const double *const *x, const double *dy);
/* l2 norm and largest size of v [n]. */
double vt_spread_length(const double *v, size_t n);
double vt_spread_top(const double *v, size_t n);

/* Errors of float32 of `units` in the last place of a result whose distance is `moved`, numbers below `floor` in size
 * counting as that. */
double vt_spread_units(vt_spread *s, int v, double units, double floor, double moved);

/* Length of what float32 and double may lose in n's result, in sums of `terms` products whose sizes have length `size`.
 */
double vt_spread_lost(const vt_spread *s, const vt_node *n, double terms, double size);

extern const vt_spread_rule vt_spread_affine;
/* The rule of node i by the nodes around it (spread_patterns.c), or NULL; sets from and kept. */
const vt_spread_rule *vt_spread_pattern(vt_spread *s, int i);
/* The rule of an operator that is not affine (spread_ops.c), or NULL. */
const vt_spread_rule *vt_spread_curved(const vt_spread *s, const vt_node *n);
