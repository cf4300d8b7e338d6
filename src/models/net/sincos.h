/* SPDX-License-Identifier: MIT */
/* Positions that are computed, not learned: sines and cosines of a patch's row and column. Nothing stores them. */
#ifndef VT_MODELS_NET_SINCOS_H
#define VT_MODELS_NET_SINCOS_H

#include "core/real.h"
#include "models/config.h"

/* out [side^2, dim], patches row by row; kind is neither learned nor none. */
void VT_R(vt_sincos)(real *out, vt_positions_kind kind, int side, int dim);

#endif
