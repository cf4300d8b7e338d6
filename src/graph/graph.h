/* SPDX-License-Identifier: MIT */
/* A network as a graph of operators with fixed shapes, for one image: values, and nodes in the order in which they are
 * computed. Built by graph/import from an ONNX file; read by graph/run, in float and in double. Values that depend on
 * the weights alone are constants: nodes that would compute them are gone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { VT_RANK = 8 };
#ifndef VT_GRAPH_BITS
#define VT_GRAPH_BITS 28
#endif
#define VT_GRAPH_VALUES ((size_t)1 << VT_GRAPH_BITS) /* numbers of one value, at most */
/* What a file can make its import take: nodes after constants are computed; bytes of constants and index tables, SPARE
 * and TIMES those of the file. */
enum { VT_GRAPH_NODES = 1 << 15, VT_GRAPH_TIMES = 32 };
#define VT_GRAPH_SPARE ((size_t)1 << 29)

typedef struct vt_dims {
    int rank; /* 0: one number */
    int64_t d[VT_RANK];
} vt_dims;

/* Their product; false: a side is negative or above VT_GRAPH_VALUES, even beside one of 0, or the product is. */
bool vt_dims_count(const vt_dims *d, size_t *n);
/* Returns whether rank and all sides are equal. */
bool vt_dims_equal(const vt_dims *a, const vt_dims *b);
/* Returns buf: "[1,3,32,32]", cut to size. */
const char *vt_dims_text(const vt_dims *d, char *buf, size_t size);

/* Zeroed pieces of memory that are freed together. */
typedef struct vt_heap {
    void *last;
    size_t bytes, most; /* of all; that it may take, 0: any number */
    bool full;          /* more than `most` was asked for */
} vt_heap;
void *vt_heap_take(vt_heap *h, size_t count, size_t item); /* aligned to 64 bytes; NULL: no memory, or full */
/* Whether n more bytes fit; else it is full. For scratch beside it, too. */
bool vt_heap_fits(vt_heap *h, size_t n);
/* Frees all pieces and empties it. */
void vt_heap_free(vt_heap *h);

typedef struct vt_value {
    const char *name; /* in the file, or NULL */
    vt_dims dims;
    size_t n;
    bool integer; /* integers and truth values: constants alone */
    int type;     /* of a tensor of the file (vt_onnx_type), else 0 */
    /* A constant has integers, or reals in double, or an initializer's floats, of which the double copy is exact. */
    const int64_t *integers;
    const double *reals;
    const float *floats;
    int node;  /* that computes it; -1: a constant, the input or an alias */
    int alias; /* the same numbers with other sides; -1: it has memory of its own. Nodes read and write no alias */
    int uses;  /* inputs of nodes that it is */
} vt_value;

/* Returns whether the value has numbers of its own, which do not follow the image. */
static inline bool vt_value_is_constant(const vt_value *v) { return v->integers || v->reals || v->floats; }

/* What a node computes is its operator's (graph/op.h): y = f(in). */
typedef struct vt_node {
    int op;           /* index of its operator */
    int *in, n_in;    /* values; -1: left out */
    int out;          /* value */
    const void *with; /* the operator's parameters, or NULL */
    const char *name; /* of the file's node that it comes from, for sentences */
} vt_node;

/* Which pixels the first nodes expect, by their constants: of [0,1], where they subtract a mean or the like, or of
 * [0,255]. */
typedef enum vt_pixel_scale { VT_PIXELS_OPEN, VT_PIXELS_UNIT, VT_PIXELS_BYTES } vt_pixel_scale;
/* Which nodes the fusion joins. GELU alone: for bounds, which are tighter of it than of what it is written with. None:
 * for tests. */
typedef enum vt_fusion { VT_FUSE_ALL, VT_FUSE_GELU, VT_FUSE_NONE } vt_fusion;
/* Nodes that the fusion made, by what they are. */
typedef enum vt_fused {
    VT_FUSED_CONV,

    VT_FUSED_NORM,
    VT_FUSED_GELU,
    VT_FUSED_LINEAR,
    VT_FUSED_KINDS
} vt_fused;

typedef struct vt_graph {
    char *path;
    int fused[VT_FUSED_KINDS];
    vt_value *values;
    vt_node *nodes;
    int n_values, n_nodes;
    int input, output; /* values: [1,C,H,W] and [1,K] */
    /* What import found. */
    const char *input_name, *output_name; /* the file's */
    bool channels_last, flat;             /* the file's input is [N,H,W,C], or [N, C H W] */
    bool one_logit;                       /* its output is [N,1]; logits are 0 and that */
    const char *left_out;                 /* the operator before the output that is not computed, or NULL */
    vt_pixel_scale pixels;
    vt_heap heap;
} vt_graph;

/* Returns the value whose memory v uses: itself, or what it is an alias of. */
static inline int vt_root_of(const vt_graph *g, int v) { return g->values[v].alias >= 0 ? g->values[v].alias : v; }

/* Frees the graph with all its memory; accepts NULL. */
void vt_graph_free(vt_graph *g);
/* Appends a copy of v and returns its index; -1: no memory. */
int vt_graph_value(vt_graph *g, const vt_value *v);
/* Appends a copy of n and sets `node` of its result; false: no memory. */
bool vt_graph_node(vt_graph *g, const vt_node *n);
/* Returns number i of a constant as a double, from whichever array it has. */
double vt_value_real(const vt_value *v, size_t i);
/* Sets *forward to the floating-point operations (2 a multiply-add) of the matrix products of a forward, and *gradient
 * to those of a gradient step, forward and back: twice as many. */
void vt_graph_flops(const vt_graph *g, double *forward, double *gradient);
/* Returns the number of nodes that round to a grid (quantised files), whose gradient is passed straight through:
 * backward pass differentiable approximation, Athalye et al. 2018. 0: the gradient is exact. */
int vt_graph_straight_through(const vt_graph *g);
/* Removes nodes whose result nothing reads; sets `uses` of all values, and `node` of kept ones, anew. */
void vt_graph_prune(vt_graph *g);
