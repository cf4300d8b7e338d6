/* SPDX-License-Identifier: MIT */
/* Certified l2 radii from Lipschitz bounds (Tsuzuku et al. 2018): the label's logit less another is larger than it may
 * change within the ball. One forward an image; see certify/spread.h for what is bounded and for which arithmetic. */
#pragma once

#include "certify/certify.h"

typedef struct vt_lipschitz vt_lipschitz;
/* VT_E_USAGE: an operator of g has no bound; VT_E_NUMERIC: a norm is not finite. Of o, unboxed and radius count. g
 * outlives it. */
vt_status vt_lipschitz_open(vt_lipschitz **out, const vt_graph *g, const vt_certify_options *o, vt_err *e);
/* Another one for the same graph, for another thread, which costs no norms. from outlives it. */
vt_status vt_lipschitz_copy(vt_lipschitz **out, const vt_lipschitz *from, vt_err *e);
void vt_lipschitz_close(vt_lipschitz *l); /* accepts NULL */
/* Returns the Lipschitz constant in l2 of any difference of two logits; NAN: it is bounded only near given images. */
double vt_lipschitz_constant(const vt_lipschitz *l);
/* As vt_certify_point; boxes: balls that were tried. */
vt_status vt_lipschitz_point(vt_lipschitz *l, const double *x, int64_t label, vt_certified *out, vt_err *e);
