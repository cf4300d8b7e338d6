/* SPDX-License-Identifier: MIT */
/* Reads an ONNX file (protobuf wire format; field numbers of onnx.proto3, IR versions 3 to 10) without trusting a byte:
 * every length and count is checked against what is there, nothing recurses, texts are copied, tensors stay where they
 * lie. What the operators mean is graph/import's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"
#include "graph/graph.h"
#include "graph/wire.h"

/* TensorProto.DataType */
typedef enum vt_onnx_type {
    VT_ONNX_FLOAT = 1,
    VT_ONNX_UINT8,
    VT_ONNX_INT8,
    VT_ONNX_UINT16,
    VT_ONNX_INT16,
    VT_ONNX_INT32,
    VT_ONNX_INT64,
    VT_ONNX_STRING,
    VT_ONNX_BOOL,
    VT_ONNX_FLOAT16,
    VT_ONNX_DOUBLE,
    VT_ONNX_UINT32,
    VT_ONNX_UINT64,
    VT_ONNX_BFLOAT16 = 16
} vt_onnx_type;

/* A tensor, of an initializer or an attribute. */
typedef struct vt_onnx_tensor {
    char *name;
    int type;
    vt_dims dims;
    size_t n;      /* elements */
    vt_slice data; /* raw_data (elements of the type, little-endian), or a file's beside the model */
    vt_slice body; /* the message, for typed fields where there is no raw data */
    bool raw;
} vt_onnx_tensor;

typedef struct vt_onnx_node {
    char *name, *op, *domain;
    char **in, **out; /* texts; "": left out */
    int n_in, n_out;
    vt_slice body;
    /* In a function: the node that calls it, whose attributes this one's may be, and the function, which has defaults.
     */
    const struct vt_onnx_node *caller;
    vt_slice function;
    const char **mistyped; /* set to the name of an attribute that is asked for as another kind; NULL: not wanted */
} vt_onnx_node;

/* An operator that the file defines, by nodes. */
typedef struct vt_onnx_function {
    char *name, *domain;
    char **in, **out;
    int n_in, n_out, n_nodes;
    vt_onnx_node *nodes;
} vt_onnx_function;

/* An input or output of the graph: -1 a side that the file does not fix. */
typedef struct vt_onnx_value {
    char *name;
    int type;
    bool shaped; /* dims are there */
    vt_dims dims;
} vt_onnx_value;

typedef struct vt_onnx {
    const char *path;
    char *producer, *version; /* "" where the file does not say */
    int64_t ir, opset;        /* of the domain "" */
    vt_onnx_node *nodes;
    vt_onnx_tensor *tensors; /* initializers */
    vt_onnx_value *inputs, *outputs;
    vt_onnx_function *functions;
    int n_nodes, n_tensors, n_inputs, n_outputs, n_functions;
    /* private */
    vt_mapped file;
    struct vt_onnx_external {
        char *name;
        vt_mapped file;
    } * external;
    int n_external;
    vt_heap heap;
} vt_onnx;

enum { VT_ONNX_OPSET_LEAST = 6, VT_ONNX_OPSET_MOST = 24 };

/* Returns whether a file's first bytes [n] are those of a ModelProto (ir_version first). */
bool vt_onnx_begins(const uint8_t *bytes, size_t n);
/* Opens `path`, which must outlive it. External data is read from files beside it alone. VT_E_FORMAT names what is
 * wrong; nothing is left open then. */
vt_status vt_onnx_open(vt_onnx **out, const char *path, vt_err *e);
/* The same of a file that is mapped already, which it closes whatever comes of it; path: for sentences. */
vt_status vt_onnx_open_mapped(vt_onnx **out, const char *path, vt_mapped file, vt_err *e);
void vt_onnx_close(vt_onnx *m); /* accepts NULL */
/* Gives the file's pages back until they are read again. */
void vt_onnx_release(const vt_onnx *m);
/* Returns the bytes of the file and of its external data. */
size_t vt_onnx_bytes(const vt_onnx *m);
/* Adds the bytes of the file and of its external data, in the order of their first use, to sha. */
void vt_onnx_hash(const vt_onnx *m, vt_sha *sha);

/* ---- attributes of a node: false where it has none of that name, or (n->mistyped) one of another kind ---- */

/* Sets *out to an integer attribute. */
bool vt_onnx_int(const vt_onnx_node *n, const char *name, int64_t *out);
/* Sets *out to a float attribute. */
bool vt_onnx_float(const vt_onnx_node *n, const char *name, double *out);
bool vt_onnx_text(const vt_onnx_node *n, const char *name, char *out, size_t size); /* cut at size */
/* Sets out to up to `most` integers of a list attribute; *count: how many there are. */
bool vt_onnx_ints(const vt_onnx_node *n, const char *name, int64_t *out, int most, int *count);
/* Sets out to up to `most` floats of a list attribute; *count: how many there are. */
bool vt_onnx_floats(const vt_onnx_node *n, const char *name, double *out, int most, int *count);
/* Sets *out to a tensor attribute, checked as vt_onnx_read_tensor does; *has false: there is none, VT_OK. */
vt_status vt_onnx_attribute_tensor(vt_onnx *m, const vt_onnx_node *n, const char *name, vt_onnx_tensor *out, bool *has,
                                   vt_err *e);
/* Writes the name of attribute i, cut at size; false past the last. */
bool vt_onnx_attribute(const vt_onnx_node *n, int i, char *name, size_t size);

/* Sets *t to a tensor of the message `body`, checked; its data point into the file. VT_E_FORMAT: malformed, too large,
 * or of a type not read. */
vt_status vt_onnx_read_tensor(vt_onnx *m, vt_slice body, vt_onnx_tensor *t, vt_err *e);
/* Writes a real tensor's elements to out [t->n] as doubles; VT_E_FORMAT for other types, or another number of
 * elements. */
vt_status vt_onnx_reals(const vt_onnx *m, const vt_onnx_tensor *t, double *out, vt_err *e);
/* Writes an integer tensor's elements (bool: 0, 1) to out [t->n]; VT_E_FORMAT for reals, or another number of
 * elements. */
vt_status vt_onnx_integers(const vt_onnx *m, const vt_onnx_tensor *t, int64_t *out, vt_err *e);
/* Returns whether a data type is float, double, float16 or bfloat16. */
bool vt_onnx_is_real(int type);
