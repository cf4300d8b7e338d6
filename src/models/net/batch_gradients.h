/* SPDX-License-Identifier: MIT */
/* Logits, losses, input and parameter gradients of a batch, in either precision: what another framework can be
 * compared with, and what gradcheck differentiates numerically. */
#pragma once

#include "models/model.h"
#include "nn/loss.h"

/* Doubles hold the results of both precisions (float values are exact in them). */
typedef struct vt_batch_gradients {
    int n, classes;
    size_t pixels;
    double *logits;  /* [n, classes] */
    double *loss;    /* [n] */
    double *dx;      /* [n, pixels], gradient of the sum over images */
    double *dparams; /* [params.total] in the model's layout, gradient of the mean over images; NULL: not asked for */
} vt_batch_gradients;

/* Computes all of that in float. x [n, pixels]; labels [n]; targets [n] for dlr_t, else NULL; dz [n, classes]:
 * cotangents of the linear loss, or NULL. param_grads: dparams too. Freed after a failure. */
vt_status vt_batch_gradients_run_f32(vt_batch_gradients *out, const vt_model *m, const double *x, int n,
                                     const int64_t *labels, const int64_t *targets, const double *dz, vt_loss_kind kind,
                                     bool param_grads, vt_err *e);
/* Computes all of that in double, from the arguments of vt_batch_gradients_run_f32. */
vt_status vt_batch_gradients_run_f64(vt_batch_gradients *out, const vt_model *m, const double *x, int n,
                                     const int64_t *labels, const int64_t *targets, const double *dz, vt_loss_kind kind,
                                     bool param_grads, vt_err *e);
void vt_batch_gradients_free(vt_batch_gradients *p); /* accepts a zeroed one */
