/* SPDX-License-Identifier: MIT */
/* A reader of pickles that executes nothing: it knows the opcodes and names that a saved state dict needs
 * (torch/serialization.py, docs/formats.md), builds a tree of plain nodes and refuses everything else with its name and
 * byte offset. What training saves beside the weights (argparse's Namespace, ...) becomes opaque nodes. */
#pragma once

#include "tensors/tensors.h"

typedef enum vt_node_kind { /* plain values up to TEXT */
                            VT_NODE_NONE,
                            VT_NODE_BOOL,   /* i */
                            VT_NODE_INT,    /* i */
                            VT_NODE_REAL,   /* r */
                            VT_NODE_TEXT,   /* text: UTF-8 as far as the file is right, no zero at the end */
                            VT_NODE_BYTES,  /* text */
                            VT_NODE_TUPLE,  /* list */
                            VT_NODE_LIST,   /* list */
                            VT_NODE_SET,    /* list */
                            VT_NODE_DICT,   /* list: key, value, key, value, ... */
                            VT_NODE_NAME,   /* row of the table of names */
                            VT_NODE_STORE,  /* store */
                            VT_NODE_TENSOR, /* tensor */
                            VT_NODE_OPAQUE  /* row; list: the arguments (a tuple) that made it and, if it was given one,
                                               its state */
} vt_node_kind;

typedef struct vt_node vt_node;

typedef struct vt_node_list {
    vt_node **v;
    uint32_t n, room;
} vt_node_list;

typedef struct vt_node_text {
    const char *s;
    size_t n;
} vt_node_text;

/* torch.FloatStorage and the like: a named block of numbers somewhere in the file. */
typedef struct vt_node_store {
    vt_node_text key;
    vt_dtype dtype;
    bool untyped; /* numel counts bytes */
    int64_t numel;
    int64_t view, view_numel; /* the part that is meant (legacy view_metadata); else 0 and numel */
} vt_node_store;

typedef struct vt_node_tensor {
    const vt_node *store;
    vt_dtype dtype;
    int ndim;
    int64_t offset, shape[VT_ST_MAX_DIMS], stride[VT_ST_MAX_DIMS]; /* items */
} vt_node_tensor;

struct vt_node {
    vt_node_kind kind;
    uint8_t seen; /* for those who walk the tree */
    uint16_t row;
    union {
        int64_t i;
        double r;
        vt_node_text text;
        vt_node_list list;
        vt_node_store *store;
        vt_node_tensor *tensor;
    } u;
};

/* Reads one pickle from bytes[*at..n) into *out and moves *at past it; VT_E_FORMAT for what is refused. Nodes are of
 * st's allowance, texts point into `bytes`. part: "data.pkl, ", for sentences. stores (or NULL): gets the storages met.
 * e: not NULL. */
vt_status vt_pickle_read(vt_node **out, vt_tensors *st, const uint8_t *bytes, size_t n, size_t *at, const char *part,
                         vt_node_list *stores, vt_err *e);

/* Returns whether a text is exactly s. */
bool vt_text_is(vt_node_text t, const char *s);
bool vt_node_is(const vt_node *n, const char *text);       /* is it this text, or these bytes? */
const vt_node *vt_node_item(const vt_node *n, uint32_t i); /* of a tuple, a list or what made an OPAQUE; else NULL */
bool vt_node_int(const vt_node *n, int64_t *out);          /* false: it is no whole number (or NULL) */
/* Returns the value under a key that is this text or these bytes, of two the later; NULL: there is none, or n is no
 * DICT. */
vt_node *vt_node_get(const vt_node *n, const char *key);
/* Reads into *dtype and *swap (big-endian) NumPy's dtype("f4", ...) with the state (3, "<", ...); false: it is not
 * read. */
bool vt_node_dtype(const vt_node *n, vt_dtype *dtype, bool *swap);
const char *vt_node_name(const vt_node *n); /* "argparse.Namespace" of NAME and OPAQUE, else what kind it is */

/* ---- from the tree to the tensors of a state dict ---- */

/* Where a file keeps its storages; asked only for those whose tensors are wanted. */
typedef struct vt_stores {
    vt_status (*find)(void *ctx, const vt_node_store *s, const uint8_t **bytes, size_t *n, vt_err *e);
    void *ctx;
    bool big_endian;
} vt_stores;

/* Adds the state dict inside root to st, with notes on the rest, class names, and timm's training arguments; sets
 * st->part, parts, inside. want: as in vt_weights_open. VT_E_FORMAT: no tensors, or refused; VT_E_UNKNOWN: no entry
 * `want`. */
vt_status vt_state_add(vt_tensors *st, vt_node *root, const vt_stores *from, const char *want, vt_err *e);
/* Adds one tensor to st: in place if contiguous and little-endian, else gathered into memory of st. VT_E_FORMAT: it
 * leaves its storage or overlaps itself, or the file lacks that storage or part of it. */
vt_status vt_state_tensor(vt_tensors *st, const char *name, const vt_node_tensor *t, const vt_stores *from, vt_err *e);

/* ---- between pickle.c and pickle_names.c ---- */

typedef struct vt_pickle {
    vt_tensors *st;
    const uint8_t *p;
    size_t n, at, op; /* op: where the opcode at work begins */
    int kind;         /* what the table of opcodes says of it: what it makes, ... */
    uint32_t width;   /* ... and the bytes of its argument, or how many values it takes */
    const char *part;
    vt_node_list stack, memo;
    vt_node_list *stores;
    char *arena;
    size_t arena_left;
    vt_err *e;
} vt_pickle;

/* Fails with VT_E_FORMAT: "PATH: byte N: ...", N being where the opcode at work begins. */
__attribute__((format(printf, 2, 3))) vt_status vt_pickle_bad(vt_pickle *u, const char *fmt, ...);
void *vt_pickle_take(vt_pickle *u, size_t bytes); /* zeroed; NULL: u->e says why */
/* Returns a new node of that kind in the arena, otherwise zero; NULL: u->e says why. */
vt_node *vt_pickle_node(vt_pickle *u, vt_node_kind kind);
/* Appends a node (NULL: a mark or a gap) to a list of the arena, which may move; fails with u->e's code. */
vt_status vt_pickle_append(vt_pickle *u, vt_node_list *l, vt_node *n);

/* Sets *out to a NAME for `module`.`name` if that is in the table of names; VT_E_FORMAT for all others. */
vt_status vt_pickle_global(vt_pickle *u, vt_node **out, vt_node_text module, vt_node_text name);
/* Sets *out to what a call of the name `callee` with the tuple `args` stands for, without calling it; VT_E_FORMAT:
 * arguments that it does not take. */
vt_status vt_pickle_call(vt_pickle *u, vt_node **out, const vt_node *callee, vt_node *args);
/* Sets *out to the storage that a persistent id names, and appends it to u->stores if wanted; VT_E_FORMAT: none is
 * named. */
vt_status vt_pickle_persistent(vt_pickle *u, vt_node **out, const vt_node *id);
