/* SPDX-License-Identifier: MIT */
/* Few grey levels before the network: x' = round((levels - 1) x) / (levels - 1). The derivative is zero wherever it
 * exists, which is what automatic differentiation hands to an attack; `through` passes the network's own (BPDA). */
#include <math.h>
#include <stddef.h>
#include "inference/wrap.h"

typedef struct params {
    int levels, gradient;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("levels", params, levels, "grey levels of each channel", 8, 2, 65536),
    VT_OPT_C("gradient", params, gradient, "what backward claims of the rounding", "zero|through", 0),
    VT_OPT_END,
};

/* Sets y [pixels] to x rounded to the levels. */
static void see(const void *p, vt_rng *key, const float *x, float *y, size_t pixels) {
    const float top = (float)(((const params *)p)->levels - 1);
    (void)key;
    for (size_t i = 0; i < pixels; i++) y[i] = nearbyintf(x[i] * top) / top;
}

static bool hides_gradient(const void *p) { return ((const params *)p)->gradient == 0; }

const vt_wrap_def vt_wrap_def_quantise = {
    .name = "quantise",
    .summary = "pixels rounded to a few grey levels before the network",
    .reference = "Buckman et al. 2018; broken by Athalye et al. 2018, section 5.3",
    .params_size = sizeof(params),
    .opts = opts,
    .see = see,
    .hides_gradient = hides_gradient,
};
