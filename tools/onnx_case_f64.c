/* SPDX-License-Identifier: MIT */
#define VT_DOUBLE
#include "tools/onnx_case_run.h"
