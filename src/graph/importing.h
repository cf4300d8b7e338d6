/* SPDX-License-Identifier: MIT */
/* What graph/import and graph/import_ends share: a file on its way to a graph. */
#pragma once

#include <jansson.h>
#include "graph/import.h"

struct vt_import {
    vt_onnx *file;
    vt_graph *g;
    const vt_import_options *o;
    json_t *names; /* of the file's values: their numbers in g */
    const vt_onnx_node *node;
    int op;
    int depth;    /* of functions that call functions */
    size_t calls; /* nodes of functions that were read */
};

/* The value that a text of the file names, or -1. */
int vt_import_find(const vt_import *im, const char *name);
/* Names value v as the file does; VT_E_FORMAT: the name is taken. */
vt_status vt_import_name(vt_import *im, const char *name, int v, vt_err *e);
/* *v: a value of these sides, not in the graph yet; VT_E_FORMAT: too many numbers. */
vt_status vt_import_new_value(vt_import *im, const vt_dims *dims, bool integer, vt_value *v, vt_err *e);
vt_status vt_import_add_value(vt_import *im, const vt_value *v, int *out, vt_err *e);
/* What the file asks for: images [N,C,H,W] or [N,H,W,C], or numbers in a row [N, C H W]; a batch of `rows`. */
typedef struct vt_input_form {
    int64_t shape[3], rows; /* C, H, W */
    bool channels_last, flat;
} vt_input_form;

/* Makes the graph's input [1,C,H,W], and names what nodes of the file read as its input; f: what the file asks for. */
vt_status vt_import_input(vt_import *im, vt_input_form *f, vt_err *e);
/* Makes logits [1,K] of the file's output the graph's output. */
vt_status vt_import_output(vt_import *im, const vt_input_form *f, vt_err *e);
/* Which pixels the first nodes of a pruned graph expect, by their constants. */
vt_pixel_scale vt_find_pixels(const vt_graph *g);
