/* SPDX-License-Identifier: MIT */
/* Regression data of UAM's synthetic experiments: x ~ N(0, I), y = G*(x) without noise, where G* is a two-layer network
 * of lab/two_layer.h after the true mask a* (`relevant` ones at random places, else zeros) or after
 * self-attention (eq. 3). Random weights N(0, (scale sqrt(2 / fan-in))^2), no biases.
 * Self-attention's are Glorot's, W_Q and W_K doubled. */
#pragma once

#include "research/lab/sgd.h"

typedef struct vt_teacher {
    vt_two_layer net;
    int relevant; /* inputs that count; of self-attention all */
    float *theta; /* [parameters]; of a mask: a* in front */
    float *x, *y; /* train and then test points */
    int train, test;
    double power; /* mean over test points of |y|^2 */
} vt_teacher;

/* Returns the bytes that vt_teacher_open allocates for the network and train + test points. */
size_t vt_teacher_bytes(const vt_two_layer *net, int train, int test);
/* Draws the network and train + test points, keyed by (lab->seed, run). VT_E_MEMORY leaves out closed. */
vt_status vt_teacher_open(vt_teacher *out, const vt_two_layer *net, int relevant, double scale, int train, int test,
                          uint32_t run, const vt_lab *lab, vt_err *e);
/* Frees and zeroes t; accepts a zeroed one. */
void vt_teacher_close(vt_teacher *t);

/* The first n training points, borrowed from t. */
vt_sgd_points vt_teacher_train(const vt_teacher *t, int n);
/* All test points, borrowed from t. */
vt_sgd_points vt_teacher_test(const vt_teacher *t);
/* Whether the teacher's output depends on an input: its mask is one there; always for self-attention. */
bool vt_teacher_relevant(const vt_teacher *t, int input);

/* PGD on x against 1/2 |f(x) - y|^2 with y = G*(x) held: a point of the ball, [n, in]. */
typedef enum vt_robust_norm { VT_ROBUST_L2, VT_ROBUST_LINF } vt_robust_norm;
typedef struct vt_robust {
    vt_robust_norm norm;
    double eps;
    int steps, points;    /* of the test set, the first ones */
    bool irrelevant_only; /* moves no input that counts: then G* is constant on the ball, all error is the net's own */
    uint32_t run;
} vt_robust;
typedef struct vt_robust_result {
    double clean, error; /* mean over points of the sum over outputs of (f - y)^2, before and after */
    double share;        /* of the perturbations' energy on inputs that do not count */
} vt_robust_result;
/* Attacks net's theta by PGD on the first test points, against 1/2 |f(x) - y|^2 with y = G*(x) held, and measures
 * before and after. VT_E_MEMORY, VT_E_NUMERIC if a loss is not finite. */
vt_status vt_teacher_attack(vt_robust_result *out, const vt_robust *r, const vt_teacher *t, const float *theta,
                            const vt_two_layer *net, const vt_lab *lab, vt_err *e);
