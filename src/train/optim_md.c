/* SPDX-License-Identifier: MIT */
/* Mirror descent with the potential psi(w) = |w|_p^p / p (Azizan and Hassibi; for attention: Julistiono, Tarzanagh and
 * Azizan, arXiv 2410.14581), entrywise: theta = grad psi(w) = sgn(w) |w|^(p-1);  theta -= lr g;  w = sgn(theta)
 * |theta|^(1/(p-1)). Near p = 1 a small weight hardly moves and zero stays zero, which is where the sparsity comes
 * from: a zero-initialised tensor never learns, so this is for attention matrices.
 * Ours: theta is the state, in double (a round trip through float w loses 1e-6 of it a step and swallows small ones),
 * and is never derived from w again after the start; weight decay adds to the gradient, as in SGD. The gradient is not
 * normalised by its q-norm, as the paper's synthetic runs do it: a step is elementwise here. */
#include <math.h>
#include <stddef.h>
#include "train/optim.h"

typedef struct params {
    double p;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("p", params, p, "exponent of the potential; 2: plain gradient descent", 1.1, 1.05, 4),
    VT_OPT_END,
};

/* Returns sgn(x) |x|^e; 0 at 0 */
static double signed_power(double x, double e) { return x != 0 ? copysign(exp(e * log(fabs(x))), x) : 0; }

/* Sets theta [n], the state, to sgn(w) |w|^(p - 1). */
static void start(void *const *state, const real *w, size_t n, const void *params_) {
    double *theta = state[0], e = ((const params *)params_)->p - 1;
    for (size_t i = 0; i < n; i++) theta[i] = signed_power((double)w[i], e);
}

/* Moves theta by lr (g + weight_decay w) downwards, and sets w [n] to what it stands for. */
static void step(real *w, void *const *state, const real *g, size_t n, const void *params_, double lr,
                 double weight_decay, int64_t t) {
    (void)t;
    double *theta = state[0], e = 1 / (((const params *)params_)->p - 1);
    for (size_t i = 0; i < n; i++) {
        theta[i] -= lr * ((double)g[i] + weight_decay * (double)w[i]);
        w[i] = (real)signed_power(theta[i], e);
    }
}

/* Tells whether a zero weight stays zero for good: with p = 1.1 a gradient of 0.01 takes it to (0.0005)^10 = 1e-33. */
static bool keeps_zero(const void *params_) { return ((const params *)params_)->p < 2; }

const VT_R(vt_optim_def) VT_R(vt_optim_def_md) = {
    .name = "md",
    .summary = "mirror descent with an l_p potential (p near 1: sparse weights)",
    .reference = "Julistiono et al. 2024, arXiv 2410.14581, l_p-AttGD with a constant step",
    .params_size = sizeof(params),
    .opts = opts,
    .slots = 1,
    .slot_name = {"dual"},
    .wide = true,
    .keeps_zero = keeps_zero,
    .start = start,
    .step = step,
};
