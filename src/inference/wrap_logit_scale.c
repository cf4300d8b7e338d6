/* SPDX-License-Identifier: MIT */
/* Logits times a large number: no prediction changes, but softmax rounds to one-hot and the gradient of cross-entropy
 * to zero. */
#include <stddef.h>
#include "inference/wrap.h"

typedef struct params {
    double factor;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("factor", params, factor, "multiplies every logit", 1000, 1, 1e9),
    VT_OPT_END,
};

static double factor(const void *p) { return ((const params *)p)->factor; }

const vt_wrap_def vt_wrap_def_logit_scale = {
    .name = "logit-scale",
    .summary = "logits times a large number: softmax saturates at the end",
    .reference = "Papernot et al. 2016 (distillation); broken by Carlini and Wagner 2017, section VIII",
    .params_size = sizeof(params),
    .opts = opts,
    .factor = factor,
};
