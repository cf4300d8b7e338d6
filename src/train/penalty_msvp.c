/* SPDX-License-Identifier: MIT */
/* Maximum singular value penalisation: sum over blocks, branches q, k, v and the parts of their matrices of
 * lambda sigma_max^2 (Hu et al. 2024, eq. 11 and 13). sigma is estimated by power iteration with vectors u, v that live
 * as long as the run (algorithm 1); they are normalised in every iteration and the penalty is added once, after the
 * last one, as the authors' code does (the algorithm as printed does neither). u and v count as constants.
 * Parts: rows are the paper's heads (row h d.. of W, out x in, make head h); columns are what the code cuts; whole is
 * the matrix. A branch with lambda 0 is left out: no term, and its vectors rest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "linalg/svd.h"
#include "models/model.h"
#include "nn/nn.h"
#include "train/penalty.h"

enum { ROWS, COLUMNS, WHOLE };
enum { POWER, SVD };
enum { BRANCHES = 3 };
static const vt_weight_kind branches[BRANCHES] = {VT_WEIGHT_Q, VT_WEIGHT_K, VT_WEIGHT_V};
static const double TINY = 1e-12; /* the code's floor of a norm */

typedef struct params {
    double lambda[BRANCHES];
    int split, iterations, method;
} params;

static const vt_opt opts[] = {
    VT_OPT_3("lambda", params, lambda,
             "weight of sigma_max^2 for W_Q,W_K,W_V; belongs to an optimiser and a number of steps: under sgd a "
             "direction that the loss leaves alone shrinks by exp(-2 lambda sum(lr) / (1 - momentum)); with tied q and "
             "k their one matrix has that of W_Q",
             0, 0, 1),
    VT_OPT_C("split", params, split,
             "what is penalised: heads as output rows (paper) or input columns (released code), or whole matrices",
             "rows|columns|whole", 0),
    VT_OPT_I("iterations", params, iterations, "power iterations a step", 1, 1, 100),
    VT_OPT_C("method", params, method, "how sigma is found; svd: exact, at every step, slow", "power|svd", 0),
    VT_OPT_END,
};

/* The parts of one matrix: part h is [rows, cols] at offset + h stride, rows ld apart. */
typedef struct cut {
    size_t offset, stride;
    int parts, rows, cols, ld;
} cut;

/* Returns how `split` cuts a matrix into parts. */
static cut cut_of(const vt_matrix *w, int split) {
    cut c = {.offset = w->offset, .parts = split == WHOLE ? 1 : w->heads, .rows = w->rows, .cols = w->cols};
    c.ld = w->cols;
    if (split == ROWS) c.rows /= c.parts, c.stride = (size_t)c.rows * (size_t)c.ld;
    if (split == COLUMNS) c.cols /= c.parts, c.stride = (size_t)c.cols;
    return c;
}

/* Returns the length of the state of a matrix: u [rows], v [cols] of part 0, of part 1, ... */
static size_t cut_len(const cut *c) { return (size_t)c->parts * (size_t)(c->rows + c->cols); }

/* Tells whether the penalty has a weight. */
static bool active(const void *params_) {
    const params *p = params_;
    return p->lambda[0] > 0 || p->lambda[1] > 0 || p->lambda[2] > 0;
}

/* Fails with VT_E_SHAPE for a model without one of the matrices, or whose heads do not divide one. */
static vt_status check(const void *params_, const vt_model *m, vt_err *e) {
    const params *p = params_;
    if (!vt_model_blocks(m))
        return vt_fail(e, VT_E_SHAPE, "msvp: a %s model has no attention to penalise", m->config.arch);
    for (int b = 0; b < vt_model_blocks(m); b++)
        for (int k = 0; k < BRANCHES; k++) {
            vt_matrix w;
            if (!vt_model_matrix(m, b, branches[k], &w))
                return vt_fail(e, VT_E_SHAPE, "msvp: block %d of this %s model has no %s to penalise", b,
                               m->config.arch, vt_weight_kind_name(branches[k]));
            if ((p->split == ROWS && w.rows % w.heads) || (p->split == COLUMNS && w.cols % w.heads))
                return vt_fail(e, VT_E_SHAPE,
                               "msvp: %s of block %d is %d x %d, which %d heads do not divide; set msvp.split to whole",
                               vt_weight_kind_name(branches[k]), b, w.rows, w.cols, w.heads);
        }
    return VT_OK;
}

/* One matrix after another, in the order of the state. */
typedef struct walk {
    int block, branch;
    size_t at, number; /* of its state; of its first part among the parts of all */
    cut c;
} walk;

/* Moves on to the next matrix with a state of its own; false: there is none. */
static bool next_matrix(walk *i, const vt_model *m, const params *p) {
    i->at += cut_len(&i->c), i->number += (size_t)i->c.parts;
    vt_matrix w;
    do {
        if (++i->branch == BRANCHES) i->branch = 0, i->block++;
        if (i->block >= vt_model_blocks(m) || !vt_model_matrix(m, i->block, branches[i->branch], &w)) return false;
    } while (w.again); /* W_K = W_Q is one matrix, with the lambda of W_Q */
    i->c = cut_of(&w, p->split);
    return true;
}

/* Returns the reals of state of all matrices. */
static size_t state_len(const void *params_, const vt_model *m) {
    walk i = {.branch = -1};
    while (next_matrix(&i, m, params_)) continue;
    return i.at;
}

enum { SIGMA = sizeof(double) / sizeof(real) }; /* of the scratch, for one sigma */

/* Returns the scratch's length: as the states', for draws and W v of a part; after it the sigmas. */
static size_t work_len(const void *params_, const vt_model *m) {
    walk i = {.branch = -1};
    while (next_matrix(&i, m, params_)) continue;
    return i.at + SIGMA * i.number;
}

/* Returns a . b, both [n], in lanes as nn/ sums. */
static real dot(const real *a, const real *b, int n) {
    real s[VT_SUM_LANES] = {0};
    int j = 0;
    for (; j + VT_SUM_LANES <= n; j += VT_SUM_LANES)
        for (int l = 0; l < VT_SUM_LANES; l++) s[l] += a[j + l] * b[j + l];
    for (; j < n; j++) s[j % VT_SUM_LANES] += a[j] * b[j];
    return VT_R(vt_sum_fold)(s);
}

/* Computes v = W^T u: rows are read as they lie, four at a time so that v is touched less often. */
static void multiply_by_transpose(real *restrict v, const real *restrict w, const real *restrict u, const cut *c) {
    size_t ld = (size_t)c->ld;
    memset(v, 0, (size_t)c->cols * sizeof *v);
    int i = 0;
    for (; i + 4 <= c->rows; i += 4) {
        const real *a = w + (size_t)i * ld, *b = a + ld, *d = b + ld, *f = d + ld;
        real ua = u[i], ub = u[i + 1], ud = u[i + 2], uf = u[i + 3];
        for (int j = 0; j < c->cols; j++) v[j] += (ua * a[j] + ub * b[j]) + (ud * d[j] + uf * f[j]);
    }
    for (; i < c->rows; i++)
        for (int j = 0; j < c->cols; j++) v[j] += u[i] * w[(size_t)i * ld + (size_t)j];
}

/* Computes y = W v */
static void multiply_by_matrix(real *y, const real *w, const real *v, const cut *c) {
    for (int i = 0; i < c->rows; i++) y[i] = dot(w + (size_t)i * (size_t)c->ld, v, c->cols);
}

/* Sets x = y / (|y| + 1e-12); returns |y|. A zero y leaves x as it is: from zero no vector would come back. */
static double normalise_vector(real *x, const real *y, int n) {
    double size = sqrt((double)dot(y, y, n));
    if (size == 0) return 0;
    real inv = (real)(1 / (size + TINY));
    for (int i = 0; i < n; i++) x[i] = y[i] * inv;
    return size;
}

/* Draws u and v of every matrix's parts, of unit length, keyed by seed, block and branch; work: scratch. */
static void start(real *state, real *work, const real *w, const vt_model *m, const void *params_, uint64_t seed) {
    (void)w;
    float *draw = (float *)work;
    for (walk i = {.branch = -1}; next_matrix(&i, m, params_);) {
        const cut *c = &i.c;
        for (int side = 0; side < 2; side++) { /* u, then v */
            int n = side ? c->cols : c->rows;
            vt_rng r = {.seed = seed,
                        .purpose = vt_rng_purpose(side ? "msvp v" : "msvp u"),
                        .image = (uint32_t)i.block,
                        .run = (uint32_t)i.branch};
            vt_rng_normals(&r, draw, (size_t)c->parts * (size_t)n);
            for (int h = 0; h < c->parts; h++) {
                real *x = state + i.at + (size_t)h * (size_t)(c->rows + c->cols) + (side ? c->rows : 0);
                for (int k = 0; k < n; k++) x[k] = (real)draw[h * n + k];
                normalise_vector(x, x, n);
            }
        }
    }
}

/* Sets v <- W^T u, u <- W v, each of unit length; returns sigma = u^T W v = |W v|^2 / (|W v| + 1e-12). */
static double sigma_by_power_iteration(real *u, real *v, real *work, const real *w, const cut *c, int iterations) {
    double size = 0;
    for (int k = 0; k < iterations; k++) {
        multiply_by_transpose(work, w, u, c);
        normalise_vector(v, work, c->cols);
        multiply_by_matrix(work, w, v, c);
        size = normalise_vector(u, work, c->rows);
    }
    return size * size / (size + TINY);
}

/* Returns the largest singular value exactly, by LAPACK, and sets u and v to its vectors; NaN if that fails. */
static double sigma_by_svd(real *u, real *v, const real *w, const cut *c) {
    size_t rows = (size_t)c->rows, cols = (size_t)c->cols;
    double sigma = NAN, *a = malloc((rows * cols + rows + cols) * sizeof *a);
    if (!a) return NAN;
    double *ud = a + rows * cols, *vd = ud + rows;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) a[i * cols + j] = (double)w[i * (size_t)c->ld + j];
    if (vt_svd_largest(&sigma, ud, vd, a, c->rows, c->cols, c->cols, NULL) == VT_OK) {
        for (size_t i = 0; i < rows; i++) u[i] = (real)ud[i];
        for (size_t j = 0; j < cols; j++) v[j] = (real)vd[j];
    }
    free(a);
    return sigma;
}

/* Adds the gradient d(lambda sigma^2)/dW = 2 lambda sigma u v^T */
static void add_outer(real *restrict grad, real scale, const real *restrict u, const real *restrict v, const cut *c) {
    for (int i = 0; i < c->rows; i++) {
        real s = scale * u[i];
        real *g = grad + (size_t)i * (size_t)c->ld;
        for (int j = 0; j < c->cols; j++) g[j] += s * v[j];
    }
}

/* Renews u, v and sigma of every part of a block's matrices. */
static void advance(real *state, real *work, const real *w, const vt_model *m, const void *params_, int block) {
    const params *p = params_;
    real *sigmas = work + state_len(p, m);
    for (walk i = {.branch = -1}; next_matrix(&i, m, p) && i.block <= block;) {
        if (i.block < block || !(p->lambda[i.branch] > 0)) continue;
        for (int h = 0; h < i.c.parts; h++) {
            size_t at = i.c.offset + (size_t)h * i.c.stride;
            real *u = state + i.at + (size_t)h * (size_t)(i.c.rows + i.c.cols), *v = u + i.c.rows;
            double sigma = p->method == SVD ? sigma_by_svd(u, v, w + at, &i.c)
                                            : sigma_by_power_iteration(u, v, work + i.at, w + at, &i.c, p->iterations);
            memcpy(sigmas + SIGMA * (i.number + (size_t)h), &sigma, sizeof sigma);
        }
    }
}

/* Adds the penalty's gradient to grad and returns its value (vt_penalty_def.apply). */
static double apply(real *grad, real *state, real *work, const real *w, const vt_model *m, const void *params_) {
    const params *p = params_;
    const real *sigmas = work + state_len(p, m);
    double value = 0, sigma;
    (void)w;
    for (walk i = {.branch = -1}; next_matrix(&i, m, p);) {
        double lambda = p->lambda[i.branch];
        if (!(lambda > 0)) continue;
        for (int h = 0; h < i.c.parts; h++) {
            const real *u = state + i.at + (size_t)h * (size_t)(i.c.rows + i.c.cols);
            memcpy(&sigma, sigmas + SIGMA * (i.number + (size_t)h), sizeof sigma);
            value += lambda * sigma * sigma;
            add_outer(grad + i.c.offset + (size_t)h * i.c.stride, (real)(2 * lambda * sigma), u, u + i.c.rows, &i.c);
        }
    }
    return value;
}

const VT_R(vt_penalty_def) VT_R(vt_penalty_def_msvp) = {
    .name = "msvp",
    .summary = "maximum singular value penalisation of W_Q, W_K, W_V (SpecFormer)",
    .reference = "Hu et al. 2024, eq. 11, algorithm 1; one normalised iteration a step as the authors' code",
    .params_size = sizeof(params),
    .opts = opts,
    .active = active,
    .check = check,
    .state_len = state_len,
    .work_len = work_len,
    .start = start,
    .parts = vt_model_blocks,
    .advance = advance,
    .apply = apply,
};
