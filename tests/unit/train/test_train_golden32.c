/* SPDX-License-Identifier: MIT */
/* Training against PyTorch's numbers, in float. */
#include "train_golden.h"
