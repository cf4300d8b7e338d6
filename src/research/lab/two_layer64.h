/* SPDX-License-Identifier: MIT */
/* The double copy's entry points, for files that are compiled once (they include two_layer.h as float). two_layer.c
 * includes this page in its double copy, so the compiler holds the two declarations together. */
#pragma once

#include "research/lab/two_layer.h"

void vt_two_layer_init_f64(double *theta, const vt_two_layer *n, double scale, uint64_t seed, uint32_t run);
size_t vt_two_layer_work_f64(const vt_two_layer *n, int batch, int hessian);
double vt_two_layer_loss_f64(double *grad, double *dx, double *f, const double *x, const double *y, const double *theta,
                             int batch, const vt_two_layer *n, double *work);
void vt_two_layer_hessian_f64(double *hv, const double *v, const double *x, const double *y, const double *theta,
                              int batch, const vt_two_layer *n, double *work);
void vt_two_layer_mask_f64(double *m, const double *theta, const vt_two_layer *n);
