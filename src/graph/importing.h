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

/* Returns the value that a text of the file names, or -1. */
int vt_import_find(const vt_import *im, const char *name);
/* Names value v as the file does; VT_E_FORMAT: the name is taken. */
vt_status vt_import_name(vt_import *im, const char *name, int v, vt_err *e);
/* Sets *v to a value of these sides without numbers, not in the graph yet; VT_E_FORMAT: they are more than 2^28. */
vt_status vt_import_new_value(vt_import *im, const vt_dims *dims, bool integer, vt_value *v, vt_err *e);
vt_status vt_import_add_value(vt_import *im, const vt_value *v, int *out, vt_err *e);
/* What the file asks for: images [N,C,H,W] or [N,H,W,C], or numbers in a row [N, C H W]; a batch of `rows`. */
typedef struct vt_input_form {
    int64_t shape[3], rows; /* C, H, W */
    bool channels_last, flat;
} vt_input_form;

/* Makes the graph's input [1,C,H,W], and names what nodes of the file read as its input; sets *f to what the file asks
 * for. VT_E_FORMAT: not one real input of known sides. */
vt_status vt_import_input(vt_import *im, vt_input_form *f, vt_err *e);
/* Makes logits [1,K] of the file's output the graph's output, and sets g->output_name, left_out and one_logit.
 * VT_E_FORMAT: no such output, or of other sides. */
vt_status vt_import_output(vt_import *im, const vt_input_form *f, vt_err *e);
/* Returns which pixels the first nodes of a pruned graph expect, by their constants; VT_PIXELS_OPEN: unknown. */
vt_pixel_scale vt_find_pixels(const vt_graph *g);
