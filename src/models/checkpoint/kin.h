/* SPDX-License-Identifier: MIT */
/* Networks that vitrine does not compute (ResNets and other architectures), recognised by the names of their tensors
 * so that a refusal can say what they are. */
#ifndef VT_MODELS_CHECKPOINT_KIN_H
#define VT_MODELS_CHECKPOINT_KIN_H

#include "io/safetensors.h"

/* "a ResNet", to stand behind "is "; NULL: none that is known. */
const char *vt_kin(const vt_tensors *st);

#define VT_READS "vitrine reads ViT, DeiT, ConViT, Swin and XCiT"

#endif
