/* SPDX-License-Identifier: MIT */
/* The double copy's entry points, for files that are compiled once and use both precisions (they include session.h as
 * float). session.c includes this page in its double copy, so the compiler holds the two declarations together. */
#pragma once

#include "models/model.h"
#include "nn/loss.h"

typedef struct vt_session_f64 vt_session_f64;

vt_status vt_session_open_f64(vt_session_f64 **out, const vt_model *m, int capacity, vt_grad_mode mode, vt_err *e);
size_t vt_session_bytes_f64(const vt_model *m, int capacity, vt_grad_mode mode);
int vt_session_feature_len_f64(const vt_model *m);
void vt_session_close_f64(vt_session_f64 *s);
const double *vt_session_forward_f64(vt_session_f64 *s, const double *x, int b, bool keep);
const double *vt_session_features_f64(const vt_session_f64 *s, int i, int *len);
void vt_session_backward_f64(vt_session_f64 *s, const double *dlogits, double *dx, double *grad);
double vt_loss_eval_f64(double *dz, const vt_loss *loss, const double *z, int classes);
int vt_argmax_f64(const double *z, int classes);
double vt_margin_f64(const double *z, int y, int classes);
