/* SPDX-License-Identifier: MIT */
/* Attention that is all or nothing: Q K^T times a large number. Softmax gives one token all the weight, its derivative
 * vanishes, and the gradient no longer knows that attention can be moved. */
#include <stddef.h>
#include "inference/wrap.h"

typedef struct params {
    double factor;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("factor", params, factor, "multiplies the factor on Q K^T", 1000, 1, 1e6),
    VT_OPT_END,
};

static void alter(vt_config *c, const void *p) { c->attn_scale *= ((const params *)p)->factor; }

const vt_wrap_def vt_wrap_def_saturate = {
    .name = "saturate",
    .summary = "attention scores times a large number: softmax saturates inside",
    .reference = "Lovisotto et al. 2022, section 4 (why attacks need the scores before softmax)",
    .params_size = sizeof(params),
    .opts = opts,
    .alter = alter,
};
