/* SPDX-License-Identifier: MIT */
/* Minibatch SGD for the two-layer networks of lab/two_layer.h, in float: constant step, indices drawn with replacement
 * and keyed by (seed, run, step). */
#pragma once

#include "research/lab/lab.h"
#include "research/lab/two_layer.h"

typedef struct vt_sgd_points { /* borrowed */
    const float *x, *y;        /* [n, in], [n, out] */
    int n;
} vt_sgd_points;

/* One measurement of a curve: means over the points. */
typedef struct vt_measure {
    double loss;  /* of the net's fit */
    double error; /* squares: sum over outputs of (f - y)^2; classes: share of wrong ones */
} vt_measure;

typedef struct vt_sgd {
    vt_two_layer net;
    vt_sgd_points train, test;
    int batch, steps;
    double rate;
    double l1, l2; /* + l1 |a|_1 + l2 / 2 |a|^2 on a mask, its parameters before a softmax */
    double decay;  /* + decay / 2 (|W1|^2 + |W2|^2) */
    uint32_t run;  /* keys the batches, with lab->seed */
    int marks;     /* measurements on the way; the last is after the last step */
} vt_sgd;

/* Trains theta [parameters] from where it is. curve [marks][2]: train (its first test.n points) and test; NULL: none.
 * VT_E_NUMERIC if a loss is not finite, VT_E_MEMORY; stops on an interrupt. */
vt_status vt_sgd_run(float *theta, vt_measure (*curve)[2], const vt_sgd *s, const vt_lab *lab, vt_err *e);

/* Mean loss and error of theta on p's points; VT_E_NUMERIC if the mean loss is not finite. */
vt_status vt_two_layer_measure(vt_measure *out, const vt_sgd_points *p, const float *theta, const vt_two_layer *n,
                               vt_err *e);
/* f [points, out] of x [points, in]; VT_E_MEMORY. */
vt_status vt_two_layer_outputs(float *f, const float *x, int points, const float *theta, const vt_two_layer *n,
                               vt_err *e);
/* Euclidean norm of one tensor of theta. */
double vt_two_layer_norm(const float *theta, const vt_two_layer *n, vt_tensor t);
