/* SPDX-License-Identifier: MIT */
/* Muon, as Jordan's Muon and torch.optim.Muon: m = b m + (1 - b) g; u = (1 - b) g + b m (Nesterov's) or m; w *= 1 - lr
 * wd; w -= lr s N(u). N brings u's singular values near 1: u / (||u|| + 1e-7), then `steps` times X = a X + (b A + c
 * A A) X with A = X X^T. s is sqrt(max(1, rows / columns)) (Jordan), or 0.2 sqrt(max(rows, columns)): steps of the size
 * of Adam's, so that one lr serves both (Liu et al. 2025). A convolution's kernel is a matrix of its outputs. Theirs
 * multiply in bfloat16, this in the precision of training.
 * With `orthogonal`, for networks of known Lipschitz constant, w then goes to the nearest matrix
 * with singular values 1, by Newton and Schulz's cubic iteration X = 1.5 X - 0.5 X X^T X (Bjorck and Bowie 1971); of
 * embedding and head too. */
#include <math.h>
#include <string.h>
#include "linalg/products.h"
#include "train/optim.h"

typedef struct params {
    double momentum;
    bool nesterov, orthogonal;
    int steps, size;
} params;

enum { ADAM, ORIGINAL }; /* size */
#define NEAR 1e-3        /* from here on each iteration squares the distance, until rounding ends it */

static const vt_opt opts[] = {
    VT_OPT_R("momentum", params, momentum, "decay of the mean", 0.95, 0, 0.9999),
    VT_OPT_B("nesterov", params, nesterov, "Nesterov's look-ahead", 1),
    VT_OPT_I("steps", params, steps, "of Newton-Schulz's iteration", 5, 1, 30),
    VT_OPT_C("size", params, size,
             "of a step: adam (0.2 sqrt(longer side)) or original (sqrt(rows / columns), 1 at least)", "adam|original",
             ADAM),
    VT_OPT_B("orthogonal", params, orthogonal,
             "every matrix, embedding and head too, is brought back to singular values 1 after each step", 0),
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

/* Brings the singular values of x [r, c], r <= c, to 1, in place; y [r, c], a [r, r]: scratch. Values up to sqrt(3)
 * converge; what is farther off than one step is first divided by its Frobenius norm. Stops where rounding lets
 * nothing come nearer; a matrix without full rank never does, and is left after 60 iterations. */
static void retract_matrix(real *x, real *y, real *a, int r, int c) {
    const size_t n = (size_t)r * (size_t)c;
    double last = INFINITY;
    for (int times = 0; times < 60; times++) {
        double off = 0, sum = 0;
        VT_GEMM(NULL, false, true, r, r, c, 1, x, c, x, c, 0, a, r);
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++) off = fmax(off, fabs((double)a[i * r + j] - (i == j)));
        for (int i = 0; i < r; i++) sum += (double)a[i * r + i];
        if (!(off > 0) || (off < NEAR && off > last / 2)) return;
        const real scale = times == 0 && off > 0.5 && sum > 0 ? (real)(1 / sqrt(sum)) : 1;
        for (size_t i = 0; i < n; i++) x[i] *= scale, y[i] = x[i];
        VT_GEMM(NULL, false, false, r, c, r, (real)-0.5 * scale * scale, a, r, y, c, (real)1.5, x, c);
        last = off;
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
        x[at] = stay * w[i] - rate * x[at];
    }
    if (p->orthogonal) retract_matrix(x, y, a, r, c);
    for (size_t i = 0; i < n; i++) w[i] = x[tall ? i % (size_t)cols * (size_t)rows + i / (size_t)cols : i];
}

/* Takes embedding and head too (vt_optim_def.everywhere). */
static bool takes_everything(const void *params_) { return ((const params *)params_)->orthogonal; }

const VT_R(vt_optim_def) VT_R(vt_optim_def_muon) = {
    .name = "muon",
    .summary = "momentum, orthogonalised, for the blocks' matrices; adamw for the rest",
    .reference = "Jordan et al. 2024, Muon; torch.optim.Muon; size adam: Liu et al. 2025, arXiv 2502.16982",
    .params_size = sizeof(params),
    .opts = opts,
    .slots = 1,
    .slot_name = {"momentum_buffer"},
    .others = "adamw",
    .everywhere = takes_everything,
    .work_len = work_len,
    .step_matrix = step_matrix,
};
