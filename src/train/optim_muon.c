/* SPDX-License-Identifier: MIT */
/* Muon, as Jordan's Muon and torch.optim.Muon: m = b m + (1 - b) g; u = (1 - b) g + b m (Nesterov's) or m; w *= 1 - lr
 * wd; w -= lr s N(u). N brings u's singular values near 1: u / (||u|| + 1e-7), then `steps` times X = a X + (b A + c
 * A A) X with A = X X^T. s is sqrt(max(1, rows / columns)) (Jordan), or 0.2 sqrt(max(rows, columns)): steps of the size
 * of Adam's, so that one lr serves both (Liu et al. 2025). A convolution's kernel is a matrix of its outputs. Theirs
 * multiply in bfloat16, this in the precision of training. */
#include <math.h>
#include <string.h>
#include "linalg/products.h"
#include "train/optim.h"

typedef struct params {
    double momentum;
    bool nesterov;
    int steps, size;
} params;

enum { ADAM, ORIGINAL }; /* size */

static const vt_opt opts[] = {
    VT_OPT_R("momentum", params, momentum, "decay of the mean", 0.95, 0, 0.9999),
    VT_OPT_B("nesterov", params, nesterov, "Nesterov's look-ahead", 1),
    VT_OPT_I("steps", params, steps, "of Newton-Schulz's iteration", 5, 1, 30),
    VT_OPT_C("size", params, size,
             "of a step: adam (0.2 sqrt(longer side)) or original (sqrt(rows / columns), 1 at least)", "adam|original",
             ADAM),
    VT_OPT_END,
};

/* Returns the reals of scratch that step_matrix takes. */
static size_t work_len(int rows, int cols) {
    size_t n = (size_t)rows * (size_t)cols, side = (size_t)(rows < cols ? rows : cols);
    return 2 * n + 2 * side * side;
}

/* Brings the singular values of x [r, c], r <= c, near 1, in place, by `steps` iterations of Newton and Schulz; y [r,
 * c], a, b [r, r]: scratch */
static void orthogonalise_matrix(real *x, real *y, real *a, real *b, int r, int c, int steps) {
    const real ka = (real)3.4445, kb = (real)-4.7750, kc = (real)2.0315;
    size_t n = (size_t)r * (size_t)c;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    real scale = (real)(1 / (sqrt(sum) + 1e-7));
    for (size_t i = 0; i < n; i++) x[i] *= scale;
    while (steps-- > 0) {
        VT_GEMM(NULL, false, true, r, r, c, 1, x, c, x, c, 0, a, r);
        memcpy(b, a, (size_t)r * (size_t)r * sizeof(real));
        VT_GEMM(NULL, false, false, r, r, r, kc, a, r, a, r, kb, b, r);
        memcpy(y, x, n * sizeof(real));
        VT_GEMM(NULL, false, false, r, c, r, 1, b, r, x, c, ka, y, c);
        memcpy(x, y, n * sizeof(real));
    }
}

/* Moves w [rows, cols] by a step along the orthogonalised momentum of g (vt_optim_def.step_matrix). */
static void step_matrix(real *w, void *const *state, const real *g, int rows, int cols, const void *params_, double lr,
                        double weight_decay, real *work) {
    const params *p = params_;
    const bool tall = rows > cols;
    const int r = tall ? cols : rows, c = tall ? rows : cols;
    const size_t n = (size_t)rows * (size_t)cols;
    real *m = state[0], *x = work, *y = x + n, *a = y + n, *b = a + (size_t)r * (size_t)r;
    const real keep = (real)p->momentum, take = (real)(1 - p->momentum);
    for (size_t i = 0; i < n; i++) {
        m[i] = keep * m[i] + take * g[i];
        size_t at = tall ? i % (size_t)cols * (size_t)rows + i / (size_t)cols : i;
        x[at] = p->nesterov ? take * g[i] + keep * m[i] : m[i];
    }
    orthogonalise_matrix(x, y, a, b, r, c, p->steps);
    double size = p->size == ADAM ? 0.2 * sqrt((double)c) : sqrt(tall ? (double)rows / cols : 1);
    const real stay = (real)(1 - lr * weight_decay), rate = (real)(lr * size);
    for (size_t i = 0; i < n; i++) {
        size_t at = tall ? i % (size_t)cols * (size_t)rows + i / (size_t)cols : i;
        w[i] = stay * w[i] - rate * x[at];
    }
}

const VT_R(vt_optim_def) VT_R(vt_optim_def_muon) = {
    .name = "muon",
    .summary = "momentum, orthogonalised, for the blocks' matrices; adamw for the rest",
    .reference = "Jordan et al. 2024, Muon; torch.optim.Muon; size adam: Liu et al. 2025, arXiv 2502.16982",
    .params_size = sizeof(params),
    .opts = opts,
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .others = "adamw",
    .work_len = work_len,
    .step_matrix = step_matrix,
};
