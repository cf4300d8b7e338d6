/* SPDX-License-Identifier: MIT */
/* Noise on the pixels, new at every call: x' = x + sigma N(0, 1). The draws are keyed by the image's key and the number
 * of the call since it began, so that a run repeats itself to the bit for any number of threads, while two calls at one
 * point differ, as a cheat's would. */
#include <stddef.h>
#include "inference/wrap.h"

typedef struct params {
    double sigma;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("sigma", params, sigma, "standard deviation in pixel units", 0.05, 1e-6, 1),
    VT_OPT_END,
};

/* Sets y [pixels] to x with noise, and moves the key on. */
static void see(const void *p, vt_rng *key, const float *x, float *y, size_t pixels) {
    const float sigma = (float)((const params *)p)->sigma;
    vt_rng_normals(key, y, pixels);
    key->step++;
    for (size_t i = 0; i < pixels; i++) y[i] = x[i] + sigma * y[i];
}

const vt_wrap_def vt_wrap_def_noise = {
    .name = "noise",
    .summary = "Gaussian noise on the pixels, new at every call",
    .reference = "Athalye et al. 2018, section 5.4 (stochastic gradients)",
    .params_size = sizeof(params),
    .opts = opts,
    .see = see,
};
