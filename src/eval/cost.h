/* SPDX-License-Identifier: MIT */
/* What forwards and gradients of a model cost on this machine, measured. The ratio that is computed from matrix
 * products (gradient_cost in the header) leaves out caches and everything that is not a product. */
#ifndef VT_EVAL_COST_H
#define VT_EVAL_COST_H

#include "models/model.h"

/* A gradient in forwards: median over pairs of calls on one image in the middle of the box, about a third of a second;
 * NaN: it cannot be opened. */
double vt_measure_gradient_cost(const vt_model *m);

/* Seconds of processor time of one image's forward, gradient (a forward and a backward) and verdict (a forward in float
 * and one in double), on each of `threads` threads while all of them are at work. About as long again as above. */
typedef struct vt_seconds {
    double forward, gradient, verdict;
} vt_seconds;
vt_status vt_measure_seconds(vt_seconds *s, const vt_model *m, int threads, vt_err *e);

#endif
