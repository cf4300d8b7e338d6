/* SPDX-License-Identifier: MIT */
/* Tensors whose rows stand in another order in the file than in timm's: put into timm's, once they are read. */
#pragma once

#include "models/model.h"

/* What m->config says of the file (qkv_rows, class_last, embed_scale), applied to m->w. */
vt_status vt_model_reorder(vt_model *m, vt_err *e);
