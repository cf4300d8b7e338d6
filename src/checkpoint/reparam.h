/* SPDX-License-Identifier: MIT */
/* Weights that PyTorch stores in parts and multiplies in every forward (torch.nn.utils: weight_norm, spectral_norm,
 * prune; and the same as parametrizations) become the weights that they stand for, computed in double. */
#pragma once

#include "tensors/weights.h"

/* Parts that are of no such form, and adapters beside the weights (LoRA), are refused with what to do in PyTorch. */
vt_status vt_fold_parts(vt_tensors *st, vt_err *e);
