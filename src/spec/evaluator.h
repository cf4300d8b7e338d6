/* SPDX-License-Identifier: MIT */
/* What a specification is about, computed: outputs Y of inputs X, in float32 with gradients, and in double. A network
 * of an ONNX file takes X in the file's own order and gives Y as the file does; one of a checkpoint takes pixels in
 * [0,1], [C,H,W], and gives logits. */
#pragma once

#include "graph/network.h"
#include "models/model.h"

/* One of the two; both outlive its evaluators. */
typedef struct vt_spec_network {
    const vt_network *graph;
    const vt_model *model;
    int inputs, outputs;
} vt_spec_network;

void vt_spec_network_of(vt_spec_network *n, const vt_network *graph, const vt_model *model);

typedef struct vt_evaluator_f32 vt_evaluator_f32;
typedef struct vt_evaluator_f64 vt_evaluator_f64;

/* Opens one thread's evaluator; gradient: vt_evaluator_gradient may follow a forward. On failure *out is NULL. */
vt_status vt_evaluator_open_f32(vt_evaluator_f32 **out, const vt_spec_network *n, bool gradient, vt_err *e);
vt_status vt_evaluator_open_f64(vt_evaluator_f64 **out, const vt_spec_network *n, bool gradient, vt_err *e);
void vt_evaluator_close_f32(vt_evaluator_f32 *v); /* accept NULL */
void vt_evaluator_close_f64(vt_evaluator_f64 *v);
/* Writes y [outputs] of x [inputs]. */
void vt_evaluator_forward_f32(vt_evaluator_f32 *v, double *y, const float *x);
void vt_evaluator_forward_f64(vt_evaluator_f64 *v, double *y, const double *x);
/* Writes dx [inputs], the gradient of sum dy y (dy [outputs]) at x, that of the last forward. */
void vt_evaluator_gradient_f32(vt_evaluator_f32 *v, float *dx, const float *dy, const float *x);
void vt_evaluator_gradient_f64(vt_evaluator_f64 *v, double *dx, const double *dy, const double *x);
