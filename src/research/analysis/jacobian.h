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

/* Bytes that one takes; dense by vt_jacobian_dense. */
size_t vt_jacobian_bytes(const vt_model *m);
bool vt_jacobian_dense(const vt_model *m); /* at most 64 MiB of rows, and as many classes as an iteration has steps */
vt_status vt_jacobian_open(vt_jacobian *j, struct vt_session_f64 *s, const vt_model *m, bool dense, vt_err *e);
void vt_jacobian_close(vt_jacobian *j); /* accepts a zeroed one */
/* Takes it at x [pixels]. */
void vt_jacobian_at(vt_jacobian *j, const double *x);
/* Its two products, y [classes] = J v and x [pixels] = J^T u. */
vt_operator vt_jacobian_operator(vt_jacobian *j);

/* |f(x + d) - f(x)|_2 / |d|_2 with d = t (to - x): Proposition 1's ratio; 0 when to is x. */
double vt_jacobian_ratio(vt_jacobian *j, const double *to, double t);
