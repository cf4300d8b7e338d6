/* SPDX-License-Identifier: MIT */
/* Certified radii: for which ball around a point a graph's largest logit is proven to stay the label's. Holds for real
 * arithmetic and for float32 in any order of summation (certify/relax.h). */
#pragma once

#include <signal.h>
#include "graph/graph.h"

#define VT_CERTIFY_FARTHEST 0x1p20 /* no radius above it is tried */

typedef enum vt_certify_norm { VT_CERTIFY_LINF, VT_CERTIFY_L2, VT_CERTIFY_L1, VT_CERTIFY_NORMS } vt_certify_norm;
extern const char *const vt_certify_norm_names[]; /* "linf", "l2", "l1" */

typedef struct vt_certify_options {
    vt_certify_norm norm;
    bool unboxed;   /* perturbed points may leave [0,1] */
    double radius;  /* is this one certified? 0: the largest */
    double seconds; /* of each point */
    long boxes;     /* for which bounds are computed at each point, or so; 0: no limit */
    bool intervals; /* intervals alone: for networks that were trained with them */
    bool plain;     /* bounds of inputs too large to be halved are not improved by gradient steps */
    int threads;
    const volatile sig_atomic_t *interrupt; /* VT_INTERRUPTED, without a sentence, once it is set; NULL: never */
} vt_certify_options;

typedef struct vt_certified {
    double radius; /* certified; 0: none */
    double margin; /* lower bound of the smallest logit difference at that radius */
    long boxes;    /* for which bounds were computed */
    double seconds;
} vt_certified;

typedef struct vt_certify vt_certify;
/* VT_E_USAGE: an operator of g has no bounds, whose name is said. g outlives it. */
vt_status vt_certify_open(vt_certify **out, const vt_graph *g, const vt_certify_options *o, vt_err *e);
void vt_certify_close(vt_certify *c); /* accepts NULL */
/* x: the graph's input [C H W]; label: class of its logits. A misclassified point has radius 0. */
vt_status vt_certify_point(vt_certify *c, const double *x, int64_t label, vt_certified *out, vt_err *e);
/* What the certificate holds for, as a sentence. */
extern const char *const vt_certify_arithmetic;
