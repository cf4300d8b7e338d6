/* SPDX-License-Identifier: MIT */
/* A model from an ONNX file. */
#pragma once

#include "models/model.h"

/* Does the file begin as one? */
bool vt_is_onnx(const char *path);
/* Opens an ONNX network as a model. */
vt_status vt_model_open_onnx(vt_model **out, const char *path, const vt_overrides *o, vt_err *e);
