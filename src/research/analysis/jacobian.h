/* SPDX-License-Identifier: MIT */
/* The Jacobian of a network's logits with respect to its input at one image, in double: rows by exact backward passes.
 * Few classes: all rows are kept, and J v is a product. Many: J v is a central difference of the logits, J^T u one
 * backward pass. */
#pragma once

#include "research/analysis/operator.h"
#include "models/model.h"

struct vt_session_f64;

typedef struct vt_jacobian {
    struct vt_session_f64 *session;
    size_t pixels;
    int classes;
    bool dense;
    double *x;      /* [pixels] where it is taken */
    double *z;      /* [classes] logits there */
    double *rows;   /* dense: [classes, pixels] */
    double *v, *dz; /* [pixels], [classes] scratch */
} vt_jacobian;

/* Returns the bytes that vt_jacobian_open allocates for this model, with rows if vt_jacobian_dense. */
size_t vt_jacobian_bytes(const vt_model *m);
/* Whether all rows should be kept: at most 64 MiB of rows and 256 classes. */
bool vt_jacobian_dense(const vt_model *m);
/* Allocates for a model and its borrowed session s, which must give input gradients. VT_E_MEMORY. */
vt_status vt_jacobian_open(vt_jacobian *j, struct vt_session_f64 *s, const vt_model *m, bool dense, vt_err *e);
/* Frees the buffers, not the session; accepts a zeroed one. */
void vt_jacobian_close(vt_jacobian *j);
/* Moves to x [pixels]: keeps it with its logits z and, if dense, all rows of the Jacobian there. */
void vt_jacobian_at(vt_jacobian *j, const double *x);
/* Its two products, y [classes] = J v and x [pixels] = J^T u; borrows j. */
vt_operator vt_jacobian_operator(vt_jacobian *j);

/* |f(x + d) - f(x)|_2 / |d|_2 with d = t (to - x), x of vt_jacobian_at: Proposition 1's ratio; 0 if to is x. */
double vt_jacobian_ratio(vt_jacobian *j, const double *to, double t);
