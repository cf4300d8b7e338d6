/* SPDX-License-Identifier: MIT */
/* A model from an ONNX file. */
#pragma once

#include "models/model.h"

/* Does the file begin as one? */
bool vt_is_onnx(const char *path);
/* Opens an ONNX network as a model. VT_E_FORMAT: o does not allow ONNX files; VT_E_USAGE: o has an option that is of a
 * checkpoint. *out NULL on failure. */
vt_status vt_model_open_onnx(vt_model **out, const char *path, const vt_overrides *o, vt_err *e);
