/* SPDX-License-Identifier: MIT */
/* SGD with momentum, as torch.optim.SGD: g += wd w; buf = momentum buf + g (first step: buf = g); w -= lr buf. */
#include <stddef.h>
#include "train/optim.h"

typedef struct params {
    double momentum;
    bool nesterov;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("momentum", params, momentum, "share of the last update kept", 0.9, 0, 0.9999),
    VT_OPT_B("nesterov", params, nesterov, "Nesterov's look-ahead", 0),
    VT_OPT_END,
};

/* Moves w [n] by a step along g and its momentum, the state, weight decay added to g (vt_optim_def.step). */
static void step(real *w, void *const *state, const real *g, size_t n, const void *params_, double lr,
                 double weight_decay, int64_t t) {
    (void)t;
    const params *p = params_;
    real *buf = state[0], mu = (real)p->momentum, wd = (real)weight_decay, rate = (real)lr;
    for (size_t i = 0; i < n; i++) {
        real d = g[i] + wd * w[i];
        buf[i] = mu * buf[i] + d;
        w[i] -= rate * (p->nesterov ? d + mu * buf[i] : buf[i]);
    }
}

const VT_R(vt_optim_def) VT_R(vt_optim_def_sgd) = {
    .name = "sgd",
    .summary = "stochastic gradient descent with momentum",
    .reference = "torch.optim.SGD, dampening 0",
    .params_size = sizeof(params),
    .opts = opts,
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .step = step,
};
