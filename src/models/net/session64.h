/* SPDX-License-Identifier: MIT */
/* The double copy's entry points, for files that are compiled once and use both precisions (they include session.h as
 * float). session.c includes this page in its double copy, so the compiler holds the two declarations together. */
#pragma once

#include "models/model.h"
#include "nn/loss.h"

typedef struct vt_session_f64 vt_session_f64;

/* Opens a session (vt_session_open) in double. */
vt_status vt_session_open_f64(vt_session_f64 **out, const vt_model *m, int capacity, vt_grad_mode mode, vt_err *e);
/* Returns the bytes that it takes. */
size_t vt_session_bytes_f64(const vt_model *m, int capacity, vt_grad_mode mode);
/* Returns the numbers of vt_session_features_f64. */
int vt_session_feature_len_f64(const vt_model *m);
/* Accepts NULL. */
void vt_session_close_f64(vt_session_f64 *s);
/* Computes logits [b,K], valid until the next call, of x [b,3,h,w]; keep: a backward may follow. */
const double *vt_session_forward_f64(vt_session_f64 *s, const double *x, int b, bool keep);
/* Returns what the heads read of image i of the last forward, *len numbers, valid until the next call. */
const double *vt_session_features_f64(const vt_session_f64 *s, int i, int *len);
/* Computes dx [b,3,h,w] (NULL: not wanted) and adds to grad [params.total] (NULL: not wanted), after a kept forward. */
void vt_session_backward_f64(vt_session_f64 *s, const double *dlogits, double *dx, double *grad);
/* Returns a loss at logits z [K]; dz [K]: its gradient, or NULL. */
double vt_loss_eval_f64(double *dz, const vt_loss *loss, const double *z, int classes);
/* Returns the class of the largest logit, the lowest among equals. */
int vt_argmax_f64(const double *z, int classes);
/* Returns max_{j != y} z_j - z_y. */
double vt_margin_f64(const double *z, int y, int classes);
