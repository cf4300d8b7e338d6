/* SPDX-License-Identifier: MIT */
/* A twin of a network: a copy with slightly perturbed weights, so nearly the same function, but with gradients of
 * its own. An adversarial point that is found on the twin and breaks the original too was found without the
 * original's gradients. */
#pragma once

#include "models/model.h"

/* How far the weights of a matrix are moved: normal, this share of the root mean square of the row. */
#define VT_TWIN_SHARE 0.01

/* *out is a model of its own (prepared; free to outlive m): m seen a little out of focus. Matrices are moved by
 * VT_TWIN_SHARE, attention takes the usual 1/sqrt(width of a head) where it is more than four times sharper, and
 * nothing that stands around a classifier of m stands around the twin's. The same for every draw of one seed. */
vt_status vt_model_twin(vt_model **out, const vt_model *m, uint64_t seed, vt_err *e);
