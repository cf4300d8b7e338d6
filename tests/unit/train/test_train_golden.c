/* SPDX-License-Identifier: MIT */
/* Training against PyTorch's numbers, in double. */
#define VT_DOUBLE
#include "train_golden.h"
