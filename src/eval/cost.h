/* What a gradient costs beside a forward, measured: the ratio by products (the header's gradient_cost) knows nothing of
 * caches and of what is not a product. */
#ifndef VT_EVAL_COST_H
#define VT_EVAL_COST_H

#include "models/model.h"

/* Median over pairs of calls on one image in the middle of the box, about a third of a second; NaN: it cannot be
 * opened. */
double vt_measure_gradient_cost(const vt_model *m);

#endif
