/* SPDX-License-Identifier: MIT */
/* The Hessian of a checkpoint's mean cross-entropy over a set of images, with respect to everything that training moves
 * (all parameters but buffers), as a symmetric operator: products by central differences of exact gradients in double.
 * A vector's components are those parameters in the model's order, without the gaps between tensors. */
#pragma once

#include <signal.h>
#include "research/numeric/lanczos.h"
#include "base/progress.h"
#include "models/model.h"

struct vt_hessian_worker;

typedef struct vt_hessian {
    const vt_model *model;
    int threads;
    size_t n;      /* parameters */
    double *theta; /* [params.total], as the model keeps them: where the Hessian is taken; the caller may move it */
    /* Whose loss it is; the caller's, who may change them between products. */
    const float *x; /* [images, 3, h, w] */
    const int *labels;
    size_t images;
    double step;                            /* of the differences, relative to 1 + |theta| */
    const volatile sig_atomic_t *interrupt; /* or NULL */
    vt_progress *progress;                  /* or NULL: a step for every gradient */
    size_t gradients;                       /* of single images, spent so far */
    struct vt_hessian_worker *workers;
    double *moved[2]; /* theta + h u, theta - h u */
} vt_hessian;

/* Opens sessions on min(threads, images) threads; theta: the model's weights; x, labels, images: the caller's. */
vt_status vt_hessian_open(vt_hessian *h, const vt_model *m, size_t images, int threads, vt_err *e);
/* Frees all that is h's; accepts a zeroed one. */
void vt_hessian_close(vt_hessian *h);
/* Returns the bytes that vt_hessian_open allocates with these numbers, sessions included. */
size_t vt_hessian_bytes(const vt_model *m, size_t images, int threads);

/* Sets *loss to the mean cross-entropy in nats of the images, and gradient [n] and their logits [images, K], each or
 * NULL. A gradient adds to h->gradients. VT_E_MEMORY, VT_INTERRUPTED. */
vt_status vt_hessian_loss(vt_hessian *h, double *loss, double *gradient, double *logits, vt_err *e);
/* The product y = H v, which takes two gradients of every image; borrows h. */
vt_symmetric vt_hessian_operator(vt_hessian *h);
/* d [n] = |theta|, entry by entry, for vt_relative. */
void vt_hessian_size(const vt_hessian *h, double *d);

/* How good the products are. */
typedef struct vt_hessian_check {
    double symmetry; /* |u^T H v - v^T H u| / (|u| |H v|), u and v of random signs */
    double halved;   /* |H w - H' w| / |H w|, H' with half the step */
} vt_hessian_check;
/* Checks the products; w: along [n], best the first eigenvector. Four products, memory of 4 n numbers. */
vt_status vt_hessian_examine(vt_hessian_check *out, vt_hessian *h, const double *along, uint64_t seed, vt_err *e);

/* Changes theta in every block that has both matrices: `up` (and its bias) times factor, `down` divided by it (and
 * its bias, unless that is W_O's). The function stays the same for VT_WEIGHT_V and VT_WEIGHT_O (o = P v is linear in
 * both) and for VT_WEIGHT_Q and VT_WEIGHT_K (a score is <q, k>). */
void vt_hessian_rescale(vt_hessian *h, vt_weight_kind up, vt_weight_kind down, double factor);
/* VT_E_USAGE if a block of the model has no such two matrices of its own. */
vt_status vt_hessian_can_rescale(const vt_model *m, vt_weight_kind up, vt_weight_kind down, vt_err *e);
