/* SPDX-License-Identifier: MIT */
/* Attention of both precisions in one program: a case in double (`at`), at_run_f32 and at_run_f64. */
#ifndef ATTENTION_BENCH_H
#define ATTENTION_BENCH_H

#include "base/real.h"
#include "t.h"

#include "linalg/gemm.h"
#include "models/net/attention.h"

/* The same page again in double. */
#undef VT_CORE_REAL_H
#undef VT_MODELS_NET_ATTENTION_H
#undef VT_R
#undef VT_REAL_BITS
#define real real64
#define VT_DOUBLE
#include "models/net/attention.h"
#undef VT_DOUBLE
#undef real

#define AT_START 0.25

/* What a case is made of. Inputs are normals times a power of two, so that float holds them. */
typedef struct at_form {
    const char *name;
    int b, tq, t, heads, d, windows; /* tq 0: t; windows > 0: bias for each head and mask for each window */
    bool tied, mixed;
    double ortho, q, k, v; /* factors on the inputs, 0: 1 */
} at_form;

/* Dense arrays: q, o [b*tq, c], k, v [b*t, c], bias, pos [heads, tq, t], mask [windows, tq, t], p [b, heads, tq, t]. */
typedef struct at {
    const char *spec;
    int b, tq, t, heads, d, windows;
    bool lean; /* no gradients but those of q, k, v */
    bool tied; /* k is q, dk is not there, dq holds both */
    double scale, ortho, ortho_value;
    double *q, *k, *v, *d_o, *bias, *mask, *pos, *gate, *tangent[3];
    double *o, *p, *to, *dq, *dk, *dv, *dbias, *dpos, *dgate;
    size_t nq, nk, map; /* lengths of q, of k, of bias */
} at;

static double *at_normals(size_t n, uint64_t seed, double scale) {
    double *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    t_normals(x, n, seed, scale > 0 ? scale : 1);
    return x;
}

static at at_make(const char *spec, const at_form *f, uint64_t seed) {
    at a = {.spec = spec, .b = f->b, .tq = f->tq ? f->tq : f->t, .t = f->t, .heads = f->heads, .d = f->d};
    a.windows = f->windows, a.tied = f->tied, a.scale = 0.375, a.ortho = f->ortho;
    size_t c = (size_t)(a.heads * a.d), nq = a.nq = (size_t)(a.b * a.tq) * c, nk = a.nk = (size_t)(a.b * a.t) * c;
    size_t map = a.map = (size_t)(a.heads * a.tq * a.t), wins = (size_t)(a.windows * a.tq * a.t);
    a.q = at_normals(nq, seed, f->q), a.k = f->tied ? a.q : at_normals(nk, seed + 1, f->k);
    a.v = at_normals(nk, seed + 2, f->v), a.d_o = at_normals(nq, seed + 3, 1);
    a.tangent[0] = at_normals(nq, seed + 4, 1), a.tangent[1] = f->tied ? a.tangent[0] : at_normals(nk, seed + 5, 1);
    a.tangent[2] = at_normals(nk, seed + 6, 1);
    if (f->windows) {
        a.bias = at_normals(map, seed + 7, 1), a.mask = at_normals(wins, seed + 8, 1);
        for (size_t i = 0; i < wins; i++) { /* the first window is not masked, nor is a row's own token */
            size_t row = i / (size_t)a.t % (size_t)a.tq, column = i % (size_t)a.t;
            a.mask[i] = i >= map / (size_t)a.heads && row != column && a.mask[i] > 0 ? -100 : 0;
        }
    }
    if (f->mixed) { /* rows that do not sum to one: the division shows */
        a.pos = at_normals(map, seed + 9, 0.25), a.gate = at_normals((size_t)a.heads, seed + 10, 1);
        for (size_t i = 0; i < map; i++) a.pos[i] = fabs(a.pos[i]);
        for (int h = 0; h < a.heads; h++) a.gate[h] = (double)(float)(1 / (1 + exp(-a.gate[h])));
    }
    a.o = at_normals(nq, 1, 1), a.to = at_normals(nq, 1, 1), a.p = at_normals((size_t)a.b * map, 1, 1);
    a.dq = at_normals(nq, 1, 1), a.dk = at_normals(nk, 1, 1), a.dv = at_normals(nk, 1, 1);
    a.dbias = at_normals(map, 1, 1), a.dpos = at_normals(map, 1, 1), a.dgate = at_normals((size_t)a.heads, 1, 1);
    return a;
}

static void at_free(at *a) {
    if (!a->tied) free(a->k), free(a->tangent[1]);
    double *all[] = {a->q, a->v, a->d_o, a->bias, a->mask, a->pos, a->gate,  a->tangent[0], a->tangent[2],
                     a->o, a->p, a->to,  a->dq,   a->dk,   a->dv,  a->dbias, a->dpos,       a->dgate};
    for (size_t i = 0; i < T_COUNT(all); i++) free(all[i]);
}

#undef VT_R
#define VT_R(name) name##_f32
typedef float real;
#include "attention_run.h"
#undef VT_R
#define VT_R(name) name##_f64
#define real real64
#include "attention_run.h"
#undef real
#undef VT_R

/* sum of |A^T A - I|_F^2 over heads and images, from a->p */
static double at_ortho(const at *a) {
    double sum = 0;
    for (int m = 0; m < a->b * a->heads; m++)
        for (int i = 0; i < a->t; i++)
            for (int j = 0; j < a->t; j++) {
                double g = i == j ? -1 : 0;
                const double *p = a->p + m * a->tq * a->t;
                for (int r = 0; r < a->tq; r++) g += p[r * a->t + i] * p[r * a->t + j];
                sum += g * g;
            }
    return sum;
}

/* What backward differentiates. */
static double at_scalar(void *ctx) {
    at *a = ctx;
    at_run_f64(a, false, false);
    return t_dot(a->o, a->d_o, a->nq) + (a->ortho > 0 ? a->ortho * at_ortho(a) : 0);
}

/* Calls check for every variant of the registry, and every form of the extra specs, in every shape. */
static const char *const at_specs[] = {"scsa:eps=0.25", "scsa:nu=1.5", "scsa:tau=2,nu=0.75,eps=0.125"};

static const at_form at_forms[] = {
    {"plain", .b = 2, .t = 5, .heads = 3, .d = 4, .v = 0.25},
    {"large values", .b = 1, .t = 5, .heads = 2, .d = 3, .k = 0.5, .v = 4},
    {"wide", .b = 1, .t = 19, .heads = 2, .d = 18, .q = 0.25, .k = 0.25, .v = 0.25},
    {"class attention", .b = 2, .tq = 1, .t = 6, .heads = 2, .d = 3, .q = 0.125},
    {"few queries", .b = 2, .tq = 3, .t = 5, .heads = 1, .d = 5, .ortho = 0.03125},
    {"windows", .b = 4, .t = 4, .heads = 2, .d = 3, .windows = 2},
    {"mixed", .b = 2, .t = 5, .heads = 2, .d = 3, .mixed = true},
    {"tied", .b = 2, .t = 5, .heads = 2, .d = 3, .tied = true},
    {"tied, wider than long", .b = 1, .t = 3, .heads = 2, .d = 20, .tied = true, .q = 0.5},
    {"all at once", .b = 6, .t = 4, .heads = 2, .d = 3, .windows = 3, .tied = true, .mixed = true, .ortho = 0.0625},
    {"class, all at once", .b = 2, .tq = 1, .t = 5, .heads = 2, .d = 3, .windows = 1, .mixed = true, .ortho = 0.0625},
};

static inline void at_each(void (*check)(at *a, const char *name)) {
    int n;
    const vt_attn *const *defs = vt_attns(&n);
    assert_true(n > 0);
    for (int i = 0; i < n + (int)T_COUNT(at_specs); i++)
        for (size_t k = 0; k < T_COUNT(at_forms); k++) {
            at a = at_make(i < n ? defs[i]->name : at_specs[i - n], &at_forms[k], 100 * k + 1);
            char name[100];
            snprintf(name, sizeof name, "%s, %s", a.spec, at_forms[k].name);
            check(&a, name);
            at_free(&a);
        }
}

#endif
