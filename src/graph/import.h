/* SPDX-License-Identifier: MIT */
/* From an ONNX file to a graph. Operators (graph/op.h) use the second half: inputs and attributes of the node at hand,
 * and what they emit. What is emitted with constant inputs is computed at once, in double, and is a constant. */
#pragma once

#include "graph/graph.h"
#include "graph/onnx.h"

/* How a file is to be read; zero: as it says itself. */
typedef struct vt_import_options {
    /* C, H, W where the file leaves them open or its input is flat: shape must agree with the file, usual stands where
     * neither says. 0: not told. */
    int64_t shape[3], usual[3];
    const char *output; /* of several; NULL: the only one */
    const char *layout; /* "nchw" or "nhwc" of an input of four sides; NULL: by which side is 1 or 3 */
    bool normalise;     /* the graph's input is (x - mean) / std of images x; mean and std of each channel, or of all */
    double mean[3], std[3];
    bool own_pixels; /* images are what the file takes, [0,255] or other: its first nodes are not asked */
    bool classifier; /* Softmax, LogSoftmax or Sigmoid before the output are left out: logits are wanted */
    vt_fusion fusion;
    bool as_file; /* input and output of any sides, as numbers in a row: [1,1,1,n] and [1,K]; no shape is asked for */
} vt_import_options;

/* Reads the graph of a file, which may be closed only after the graph: names stay in it. o NULL: no options.
 * VT_E_FORMAT names the node and what is not read; VT_E_MEMORY. *out is then NULL. */
vt_status vt_graph_import(vt_graph **out, vt_onnx *file, const vt_import_options *o, vt_err *e);

/* ---- for operators ---- */

typedef struct vt_import vt_import;

/* Fails with VT_E_FORMAT and "PATH: node NAME (Op) " before the formatted sentence; "PATH: " outside a node. */
__attribute__((format(printf, 3, 4))) vt_status vt_import_fail(vt_import *im, vt_err *e, const char *format, ...);
/* Returns the graph that is being built. */
vt_graph *vt_import_graph(const vt_import *im);
/* Returns the file's node at hand. */
const vt_onnx_node *vt_import_node(const vt_import *im);
/* Returns the file that is read. */
vt_onnx *vt_import_file(const vt_import *im);
/* Returns the opset of the file's operators. */
int64_t vt_import_opset(const vt_import *im);
int vt_import_op(const vt_import *im);                          /* the operator at hand */
void *vt_import_take(vt_import *im, size_t count, size_t item); /* memory of the graph; NULL: there is none */
vt_status vt_import_memory(vt_import *im, vt_err *e);           /* the sentence for that */

/* Returns the index of the value that is input k of the node at hand; -1: left out. */
int vt_input(const vt_import *im, int k);
/* Returns value v of the graph, valid until the next value is added. */
const vt_value *vt_import_value(const vt_import *im, int v);
/* Sets *v to the index of input k; VT_E_FORMAT if it is left out or holds integers. */
vt_status vt_real_input(vt_import *im, int k, int *v, vt_err *e);
/* Sets *v to the index of input k; VT_E_FORMAT if it is left out, or follows the image. */
vt_status vt_constant_input(vt_import *im, int k, int *v, vt_err *e);
/* VT_E_FORMAT unless the node at hand has least to most inputs, the first `least` of them not left out. */
vt_status vt_input_count(vt_import *im, int least, int most, vt_err *e);
/* Sets out to the constant integers of input k, *n of them; *has false: left out, VT_OK. VT_E_FORMAT for more than
 * `most`, or an input that is no constant of integers. */
vt_status vt_integer_input(vt_import *im, int k, int64_t *out, int most, int *n, bool *has, vt_err *e);
/* Returns an integer attribute of the node at hand, or `otherwise` without it. */
int64_t vt_attr_int(const vt_import *im, const char *name, int64_t otherwise);
/* Returns a real attribute of the node at hand, or `otherwise`, rounded to float as the file's would be. */
double vt_attr_real(const vt_import *im, const char *name, double otherwise);
/* Returns whether a text attribute, by default `otherwise`, is `text`. */
bool vt_attr_is(const vt_import *im, const char *name, const char *text, const char *otherwise);
/* Sets out to the integers of an attribute, or of input k (-1: none such), where newer opsets have them; *n of them,
 * *has false: neither is there, VT_OK. VT_E_FORMAT for more than `most`. */
vt_status vt_integers(vt_import *im, const char *name, int k, int64_t *out, int most, int *n, bool *has, vt_err *e);
/* Sets *out to the axis counted from the front; VT_E_FORMAT unless -rank <= axis < rank. */
vt_status vt_axis(vt_import *im, int64_t axis, int rank, int *out, vt_err *e);

/* Sets *y to the result of op(in), of sides dims; computed at once if all inputs are constant. integer: its numbers are
 * integers. with: parameters in the graph's memory, or NULL. VT_E_FORMAT, VT_E_MEMORY, as all vt_emit_ functions. */
vt_status vt_emit(vt_import *im, int op, const int *in, int n_in, const vt_dims *dims, bool integer, const void *with,
                  int *y, vt_err *e);
/* Sets *y to op by name of two values, "Add", "Mul", ..., elementwise with broadcasting; VT_E_FORMAT if sides do not
 * fit. */
vt_status vt_emit_binary(vt_import *im, const char *op, int a, int b, int *y, vt_err *e);
/* Sets *y to op of n inputs, elementwise, broadcast together; at most VT_SIDES_MOST of graph/elementwise.h.
 * VT_E_FORMAT: one is left out, or sides do not fit. */
vt_status vt_emit_broadcast(vt_import *im, int op, const int *in, int n, bool integer, int *y, vt_err *e);
/* Sets *y to op by name of one value, "Exp", ..., elementwise; with: its two parameters, copied, or NULL. */
vt_status vt_emit_unary(vt_import *im, const char *op, int x, const double *with, int *y, vt_err *e);
vt_status vt_emit_real(vt_import *im, double v, int *y, vt_err *e); /* a constant of no side */
/* Sets *y to a constant of reals v, which stay where they are. */
vt_status vt_emit_reals(vt_import *im, const vt_dims *dims, const double *v, int *y, vt_err *e);
/* Sets *y to a constant of integers v, which stay where they are. */
vt_status vt_emit_integers(vt_import *im, const vt_dims *dims, const int64_t *v, int *y, vt_err *e);
/* Sets *y to the convolution of x by the node's attributes (graph/windows.h); bias -1: none. */
vt_status vt_emit_conv(vt_import *im, int x, int weights, int bias, int *y, vt_err *e);
/* Sets *y to the same numbers with other sides, an alias of x; VT_E_FORMAT if their counts differ. */
vt_status vt_emit_reshape(vt_import *im, int x, const vt_dims *dims, int *y, vt_err *e);
/* Sets *y to a value of sides dims; its number at (i_0, i_1, ...) is x's at sum of table[d][i_d], or `fill` where one
 * of them is VT_MOVE_FILL. */
#define VT_MOVE_FILL INT64_MIN
vt_status vt_emit_move(vt_import *im, int x, const vt_dims *dims, int64_t *const *table, double fill, int *y,
                       vt_err *e);
/* Sets *y to x's numbers at the places of map [count of dims], -1: fill. map is in the graph's memory and overwritten
 * if x is itself a move. */
vt_status vt_emit_map(vt_import *im, int x, const vt_dims *dims, int32_t *map, double fill, int *y, vt_err *e);
vt_status vt_emit_expand(vt_import *im, int x, const vt_dims *dims, int *y, vt_err *e); /* numpy's broadcast_to */
/* Sets *y to a list of one number a channel, [C], as [C,1,1,...] beside a value of `rank` sides. */
vt_status vt_emit_beside_channels(vt_import *im, int v, int rank, int *y, vt_err *e);
/* Sets *y to a value of sides dims, whose side k is side from[k] of x (-1: none, broadcast), and its number i there x's
 * number first[k] + i step[k]. first NULL: 0, step NULL: 1. */
vt_status vt_emit_affine(vt_import *im, int x, const vt_dims *dims, const int *from, const int64_t *first,
                         const int64_t *step, int *y, vt_err *e);
/* Sets *y to x with its side order[k] as side k. */
vt_status vt_emit_transpose(vt_import *im, int x, const int *order, int *y, vt_err *e);
/* Sets *y to x's numbers along `axis` from `from` on, n of them, by `step`; to x itself if those are all. */
vt_status vt_emit_slice(vt_import *im, int x, int axis, int64_t from, int64_t n, int64_t step, int *y, vt_err *e);
/* Sets *y to op(a) op(b) times alpha, with numpy's rules for stacks of matrices; ta, tb: transposed. */
vt_status vt_emit_matmul(vt_import *im, int a, int b, bool ta, bool tb, double alpha, int *y, vt_err *e);
/* Sets *y to x with m [n, x's side], in the graph's memory, multiplied along `axis`, which is then n long. */
vt_status vt_emit_matrix(vt_import *im, int x, int axis, const double *m, int64_t n, int *y, vt_err *e);
/* Sets *y to x with its number at[i] replaced by u's number i, or reduced with it: none, add, mul, max, min.
 * VT_E_FORMAT: another reduction, or over 64 of them for one number. */
vt_status vt_emit_scatter(vt_import *im, int x, int u, const int32_t *at, const char *reduction, int *y, vt_err *e);
/* Sets *map to the places in x, one for each number of input k, that constant indices k mean along an axis, as
 * GatherElements has them. */
vt_status vt_import_element_map(vt_import *im, int x, int k, int axis, int32_t **map, vt_err *e);
/* Sets *map to the places in x, or of its slices of *slice numbers, that lists of constant indices k mean, as GatherND
 * has them; batch: leading sides that both have. */
vt_status vt_import_place_map(vt_import *im, int x, int k, int batch, int32_t **map, size_t *slice, vt_err *e);
vt_status vt_import_extreme(vt_import *im, bool least, vt_err *e); /* ArgMax and ArgMin of constants */
vt_status vt_import_scatter_elements(vt_import *im, vt_err *e);
vt_status vt_emit_cast(vt_import *im, int x, int type, int *y, vt_err *e);
vt_status vt_emit_concat(vt_import *im, const int *in, int n, int axis, int *y, vt_err *e);
/* Makes value v output k of the node at hand; nothing if that is left out, VT_E_FORMAT if its name is taken. */
vt_status vt_output(vt_import *im, int k, int v, vt_err *e);

/* Sets *y to a tensor of the file as a constant; VT_E_FORMAT for NaN or a type that is not read. */
vt_status vt_import_constant(vt_import *im, const vt_onnx_tensor *t, int *y, vt_err *e);
/* Writes to y what node n computes of x, in double (graph/ops.c); false: no memory. */
bool vt_op_compute_f64(const vt_graph *g, const vt_node *n, const double *const *x, double *y);

/* Imports an elementwise operator of one input, with its real attributes. */
vt_status vt_import_unary(vt_import *im, vt_err *e);
/* Imports an elementwise operator of two inputs. */
vt_status vt_import_binary(vt_import *im, vt_err *e);
vt_status vt_import_variadic(vt_import *im, vt_err *e); /* one or more inputs, pair by pair */
vt_status vt_import_truth(vt_import *im, vt_err *e);    /* of two, with a truth value */
vt_status vt_import_bits(vt_import *im, vt_err *e);     /* of two constant integers */
vt_status vt_import_bits_of(vt_import *im, int a, int b, vt_err *e);
