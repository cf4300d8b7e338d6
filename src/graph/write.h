/* SPDX-License-Identifier: MIT */
/* Writes a network as an ONNX file (opset 17, float32): values and nodes are added in the order in which they are
 * computed, then the file is written whole. The same calls give the same bytes. A value is a number from 0 on; if
 * memory runs out, every later call returns -1 and vt_put_file says so. */
#pragma once

#include <stdio.h>
#include "graph/graph.h"

typedef struct vt_put vt_put;

/* An attribute: of n integers, or of the integer v[0] where n is 0. Lists of them end at name NULL. */
typedef struct vt_put_attr {
    const char *name;
    int n;
    int64_t v[VT_RANK];
} vt_put_attr;

#define VT_DIMS(...) (&(vt_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

vt_put *vt_put_open(void);    /* NULL: no memory */
void vt_put_close(vt_put *p); /* accepts NULL */
int vt_put_failed(vt_put *p); /* for a caller without memory: as if there were none here; returns -1 */
/* Sets what the names of the values to be added begin with, "blocks.0." (cut after 47 bytes). */
void vt_put_scope(vt_put *p, const char *scope);

/* ---- values that are there from the start ---- */

/* Adds the graph's input, with a symbolic batch: dims are those of one image. */
int vt_put_input(vt_put *p, const char *name, const vt_dims *dims);
/* Adds an initializer of float32 numbers, which stay where they are until the file is written. A name that is there
 * already is that initializer. */
int vt_put_floats(vt_put *p, const char *name, const vt_dims *dims, const float *data);
/* Adds, as vt_put_floats does, a matrix [rows, cols] of which the transpose [cols, rows] is written. */
int vt_put_transposed(vt_put *p, const char *name, int64_t rows, int64_t cols, const float *data);
int vt_put_integers(vt_put *p, int n, const int64_t *v);                    /* [n], copied */
int vt_put_integer_table(vt_put *p, const vt_dims *dims, const int64_t *v); /* copied */
/* Adds doubles, to a graph of float32 that may hold no double, as the sum of up to three float32 initializers. It is
 * exact if formed in double, as vitrine's double reading does, and is rounded once in float32. One number: dims
 * NULL. */
int vt_put_reals(vt_put *p, const vt_dims *dims, const double *v);
int vt_put_real(vt_put *p, double v);

/* ---- nodes; each returns its output ---- */

/* Adds a node of operator op; -1 if an input is -1 or there is no memory, which the file's writing tells. attr: up
 * to a name of NULL, or NULL. */
int vt_put_node(vt_put *p, const char *op, const int *in, int n_in, const vt_put_attr *attr);
int vt_put_unary(vt_put *p, const char *op, int a);
int vt_put_binary(vt_put *p, const char *op, int a, int b);
/* Adds Softmax and the like along an axis, which may count from the end; Gather's indices are `b` (-1: one input). */
int vt_put_along(vt_put *p, const char *op, int a, int b, int64_t axis);
int vt_put_reduce(vt_put *p, const char *op, int a, int64_t axis); /* the side stays, of length 1 */
/* Adds a Reshape of a; dims: 0 keeps its side at that place. */
int vt_put_reshape(vt_put *p, int a, const vt_dims *dims);
/* Adds a Transpose: side k of the result is side order->d[k] of a. */
int vt_put_transpose(vt_put *p, int a, const vt_dims *order);
/* Adds a with the last two of its `rank` sides exchanged; vt_put_times_transposed: a product of a with b^T. */
int vt_put_transpose_last(vt_put *p, int a, int rank);
int vt_put_times_transposed(vt_put *p, int a, int b, int rank);
int vt_put_concat(vt_put *p, int a, int b, int64_t axis);
/* Adds a's numbers [from, to) along an axis. */
int vt_put_slice(vt_put *p, int a, int64_t axis, int64_t from, int64_t to);
/* Adds zeros before and after a's numbers along an axis of `rank`. */
int vt_put_pad(vt_put *p, int a, int rank, int axis, int64_t before, int64_t after);

/* ---- the file ---- */

/* Names a node's output: the scope and this. */
void vt_put_name(vt_put *p, int v, const char *name);
/* Makes v the graph's only output, [N, classes], under this name; empties the scope. */
void vt_put_output(vt_put *p, int v, const char *name, int64_t classes);
void vt_put_note(vt_put *p, const char *key, const char *value); /* metadata; copied */
/* Writes the file whole or not at all; graph: its name there. VT_E_RANGE: protobuf's limit of 2 GB; VT_E_IO. */
vt_status vt_put_file(const vt_put *p, const char *graph, const char *path, vt_err *e);
/* Writes the file to a stream, whose own errors are the caller's to look for; path: for sentences. VT_E_RANGE,
 * VT_E_MEMORY. */
vt_status vt_put_stream(const vt_put *p, const char *graph, FILE *to, const char *path, vt_err *e);
/* Sets *nodes and *numbers to the nodes and the numbers of float initializers so far. */
void vt_put_size(const vt_put *p, int *nodes, size_t *numbers);
