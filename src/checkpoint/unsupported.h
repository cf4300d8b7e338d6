/* SPDX-License-Identifier: MIT */
/* Networks that vitrine does not compute (ResNets and other architectures), recognised by the names of their tensors
 * so that a refusal can say what they are. */
#pragma once

#include "checkpoint/rename.h"
#include "models/detect.h"

/* "a ResNet", to stand after "is "; NULL: none that is known. rows [n]: of a state dict whose names have been
 * rewritten, what they were. */
const char *vt_unsupported_network(const vt_tensors *st);
const char *vt_unsupported_of(const vt_tensors *st, const vt_names_row *rows, int n);

#define VT_READS                                                                                                       \
    "vitrine reads ViT, DeiT, ConViT, Swin and XCiT; `vitrine eval " VT_OPTION                                         \
    "oracle` evaluates any other network where it "                                                                    \
    "runs, say in PyTorch"
