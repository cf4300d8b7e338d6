/* SPDX-License-Identifier: MIT */
/* A model's matrices in bfloat16, in the order of the products that use them (core/products.h): each of them as a
 * forward and as a backward multiplies by it. */
#pragma once

#include "core/products.h"
#include "models/model.h"

/* The model, which must be prepared before (vt_model_prepare) if it will be, outlives it and does not change. */
vt_status vt_model_pack(vt_packed **out, const vt_model *m, vt_err *e);
size_t vt_model_packed_bytes(const vt_model *m); /* 0: this processor multiplies no bfloat16 */
