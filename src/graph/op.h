/* SPDX-License-Identifier: MIT */
/* What an operator is: a file op_X.c, compiled for float and for double, which defines VT_R(vt_op_X). Its import turns
 * a node of an ONNX file into nodes of the graph, with shapes and parameters checked; forward and backward compute one
 * such node. Most are made by the macros of graph/elementwise.h and graph/reduce.h. */
#pragma once

#include "base/real.h"
#include "graph/import.h"

/* One node's arrays. */
typedef struct VT_R(vt_call) {
    const vt_graph *g;
    const vt_node *n;
    const real *const *x; /* [n_in]; NULL: left out, or not kept */
    real *y;              /* backward: NULL where it is not kept */
    const real *dy;
    real *const *dx; /* [n_in] NULL: not wanted */
    const bool *add; /* [n_in] dx[k] is added to, else overwritten */
    real *work;      /* of work() */
} VT_R(vt_call);

/* What backward reads. */
enum { VT_KEEP_X = 1, VT_KEEP_Y = 2 };
/* It computes number by number: of one input; or of several, broadcast as its vt_broadcast says. */
enum { VT_EACH_ONE = 1, VT_EACH_BROADCAST };

typedef struct VT_R(vt_op) {
    const char *name;    /* ONNX's; in parentheses: of no file, other operators' imports emit it */
    const char *summary; /* what of it is read, where that is not all; or NULL */
    int since;           /* opset of its first version that is read; 0: all */
    /* Attributes that are reals, with their defaults, of what the macros make; ends at NULL. */
    struct {
        const char *name;
        double value;
    } attr[4];
    vt_status (*import)(vt_import *im, vt_err *e); /* NULL: of no file */
    void (*forward)(const VT_R(vt_call) *c);
    void (*backward)(const VT_R(vt_call) *c); /* NULL: its result does not follow its inputs' changes */
    size_t (*work)(const vt_graph *g, const vt_node *n, bool backward); /* reals; NULL: none */
    unsigned keep;
    bool straight_through; /* backward is not its derivative: it passes what a rounding does not (BPDA) */
    int each;              /* 0: it is not elementwise */
    double (*flops)(const vt_graph *g, const vt_node *n); /* of its products, forward; NULL: none */
} VT_R(vt_op);

const VT_R(vt_op) *VT_R(vt_op_at)(int i); /* NULL: past the last */
int VT_R(vt_op_find)(const char *name);   /* -1: unknown */

/* Writes to y what node n computes of x; false: no memory. */
bool VT_R(vt_op_compute)(const vt_graph *g, const vt_node *n, const real *const *x, real *y);

/* dx is a sum: its element i of what backward gives. */
#define VT_GIVE(c, k, i, v) ((c)->dx[k][i] = (c)->add[k] ? (c)->dx[k][i] + (v) : (v))

/* An operator whose import emits others. */
#define VT_OP_EMITS(id, name_, import_, ...)                                                                           \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_, .import = import_, __VA_ARGS__};
