/* SPDX-License-Identifier: MIT */
/* Training against numbers that PyTorch computed (tools/gen_train_fixtures.py, tests/fixtures/golden/train_*):
 * optimisers alone, ten steps of a whole model, gradients of TRADES and MART, values and gradients of penalties. One
 * text for both precisions: test_train_golden.c defines VT_DOUBLE, test_train_golden32.c does not. */
#ifndef TRAIN_GOLDEN_H
#define TRAIN_GOLDEN_H

#include "base/real.h"
#include "apply_penalty.h"
#include "options.h"
#include "reference.h"

#include "linalg/gemm.h"
#include "linalg/svd.h"
#include "models/net/session.h"
#include "nn/loss.h"
#include "train/objective.h"
#include "train/optim.h"

enum { BATCH = 8, STEPS = 10, CLASSES = 5, DIM = 16, HEADS = 2 };

#define IS64 (sizeof(real) == 8)

/* ---- reading ---- */

static vt_tensors *open_st(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "tests/fixtures/golden/train_%s.safetensors", name);
    return reference_open(path);
}

static real *reals(const vt_tensors *st, const char *key, size_t n) {
    double *d = reference(st, n, "%s", key);
    real *v = malloc((n + 1) * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) v[i] = (real)d[i];
    free(d);
    return v;
}

/* |got - ref| <= tol of the tensor's largest |ref|; [skip, skip_end) is left out. */
static void near_but(const real *got, const vt_tensors *st, const char *key, size_t n, double tol, size_t skip,
                     size_t skip_end) {
    double *ref = reference(st, n, "%s", key), top = t_max(ref, n), worst = 0;
    for (size_t i = 0; i < n; i++) {
        if (i >= skip && i < skip_end) continue;
        double d = fabs((double)got[i] - ref[i]);
        if (!(d <= worst)) worst = d;
    }
    free(ref);
    assert_true(top > 0);
    t_le(worst / top, tol, "%s", key);
}

static void near(const real *got, const vt_tensors *st, const char *key, size_t n, double tol) {
    near_but(got, st, key, n, tol, 0, 0);
}

/* ---- the model ---- */

typedef struct tiny {
    vt_model *m;
    VT_R(vt_session) *s;
    real *w, *grad, *x; /* [total], [total], [BATCH, 3, 8, 8] */
    size_t total;
} tiny;

static void tiny_open(tiny *t) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = 8,
                   .patch = 4,
                   .dim = DIM,
                   .depth = 2,
                   .heads = HEADS,
                   .hidden = 32,
                   .classes = CLASSES,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = 1 / sqrt(DIM / HEADS),
                   .mean = {0.4914, 0.4822, 0.4465},
                   .std = {0.2470, 0.2435, 0.2616}};
    vt_err e = {0};
    if (vt_model_new(&t->m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    if (VT_R(vt_session_open)(&t->s, t->m, BATCH, VT_GRAD_PARAMS, &e) != VT_OK) fail_msg("%s", e.text);
    t->total = t->m->params.total;
    t->w = calloc(t->total, sizeof *t->w);
    t->grad = calloc(t->total, sizeof *t->grad);
    assert_true(t->w && t->grad);
    vt_tensors *st = open_st("model");
    for (int i = 0; i < t->m->params.count; i++) {
        const vt_param *p = &t->m->params.items[i];
        char key[80];
        snprintf(key, sizeof key, "w.%s", p->name);
        real *v = reals(st, key, p->numel);
        memcpy(t->w + p->offset, v, p->numel * sizeof *v);
        free(v);
    }
    t->x = reals(st, "x", BATCH * 3 * 8 * 8);
    vt_tensors_close(st);
    t->s->master = t->w; /* the model's own weights stay zero: a session that read them would fail everything */
}

static void tiny_close(tiny *t) {
    VT_R(vt_session_close)(t->s);
    vt_model_close(t->m);
    free(t->w), free(t->grad), free(t->x);
}

static void each_tensor(const tiny *t, const real *got, const vt_tensors *st, const char *prefix, double tol,
                        bool but_key_bias) {
    for (int i = 0; i < t->m->params.count; i++) {
        const vt_param *p = &t->m->params.items[i];
        char key[120];
        snprintf(key, sizeof key, "%s.%s", prefix, p->name);
        bool bias = but_key_bias && strstr(p->name, "qkv.bias");
        near_but(got + p->offset, st, key, p->numel, tol, bias ? DIM : 0, bias ? 2 * DIM : 0);
    }
}

/* ---- optimisers alone ---- */

/* Ten elementwise steps: a handful of roundings each, of 6e-8 or 1e-16 of the weight or the update, whose sizes are
 * within a factor of ten of the largest weight's. */
static void test_optim(void **state_) {
    (void)state_;
    static const struct {
        const char *key, *optim, *options;
        double lr, weight_decay;
    } cases[] = {
        {"sgd", "sgd", "", 0.1, 1e-4},
        {"nesterov", "sgd", "nesterov=1", 0.1, 1e-4},
        {"adamw", "adamw", "", 1e-3, 0.05},
    };
    enum { N = 40 };
    vt_tensors *st = open_st("optim");
    real *w0 = reals(st, "w0", N), *g = reals(st, "g", STEPS * N);
    for (size_t c = 0; c < T_COUNT(cases); c++) {
        const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)(cases[c].optim);
        assert_non_null(d);
        void *p = t_params(d->opts, d->params_size, cases[c].options);
        real w[N], slots[VT_OPTIM_SLOTS][N] = {{0}};
        double *ref;
        char key[40];
        assert_true(!d->wide && !d->start);
        memcpy(w, w0, sizeof w);
        snprintf(key, sizeof key, "%s.%s", cases[c].key, IS64 ? "f64" : "f32");
        ref = reference(st, 2 * N, "%s", key);
        for (int t = 1; t <= STEPS; t++) {
            d->step(w, (void *[]){slots[0], slots[1]}, g + (t - 1) * N, N, p, cases[c].lr, cases[c].weight_decay, t);
            const double *want = t == 1 ? ref : t == STEPS ? ref + N : NULL;
            for (int i = 0; i < N && want; i++)
                t_le(fabs((double)w[i] - want[i]) / t_max(want, N), IS64 ? 1e-12 : 1e-6, "%s, step %d [%d]",
                     cases[c].key, t, i);
        }
        free(ref), free(p);
    }
    free(w0), free(g);
    vt_tensors_close(st);
}

/* Ten steps of matrices: products of ten numbers, five iterations that grow a singular value's error by 3.4445 each at
 * most, 500 roundings. */
static void test_muon(void **state_) {
    (void)state_;
    static const struct { int rows, cols; } shapes[] = {{6, 10}, {10, 6}, {7, 7}};
    static const char *const forms[][2] = {{"nesterov", ""}, {"plain", "nesterov=0;size=original"}};
    vt_tensors *st = open_st("muon");
    const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)("muon");
    for (size_t c = 0; c < T_COUNT(shapes) * T_COUNT(forms); c++) {
        int rows = shapes[c / 2].rows, cols = shapes[c / 2].cols, n = rows * cols;
        char key[40];
        snprintf(key, sizeof key, "%dx%d.w0", rows, cols);
        real *w = reals(st, key, (size_t)n), slot[100] = {0};
        snprintf(key, sizeof key, "%dx%d.g", rows, cols);
        real *g = reals(st, key, (size_t)(STEPS * n)), *work = calloc(d->work_len(rows, cols), sizeof *work);
        void *p = t_params(d->opts, d->params_size, forms[c % 2][1]);
        snprintf(key, sizeof key, "%dx%d.%s", rows, cols, forms[c % 2][0]);
        double *ref = reference(st, (size_t)(2 * n), "%s", key);
        for (int t = 1; t <= STEPS; t++) {
            d->step_matrix(w, (void *[]){slot}, g + (t - 1) * n, rows, cols, p, 0.02, 0.1, work);
            const double *want = t == 1 ? ref : t == STEPS ? ref + n : NULL;
            for (int i = 0; i < n && want; i++)
                t_le(fabs((double)w[i] - want[i]) / t_max(want, (size_t)n), IS64 ? 1e-13 : 1e-5, "%s, step %d [%d]",
                     key, t, i);
        }
        free(ref), free(p), free(w), free(g), free(work);
    }
    vt_tensors_close(st);
}

/* Singular values stay 1: of tall, wide and square matrices, from a start of any scale, after each of some steps, to
 * rounding (sums of up to 40 products). */
static void test_orthogonal(void **state_) {
    (void)state_;
    static const struct { int rows, cols; } shapes[] = {{6, 40}, {40, 6}, {24, 24}};
    const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)("muon");
    void *p = t_params(d->opts, d->params_size, "orthogonal=1");
    for (size_t c = 0; c < T_COUNT(shapes) * 3; c++) {
        const int rows = shapes[c / 3].rows, cols = shapes[c / 3].cols, n = rows * cols,
                  least = rows < cols ? rows : cols;
        const double scale[] = {1e-3, 0.1, 30};
        double w64[960], sigma[40];
        real w[960], g[960], slot[960] = {0}, *work = calloc(d->work_len(rows, cols), sizeof *work);
        for (int t = 0; t < 4; t++) {
            t_normals(w64, (size_t)n, 70 + c + (uint64_t)t, 1);
            for (int i = 0; i < n; i++) g[i] = (real)w64[i];
            for (int i = 0; i < n && !t; i++) w[i] = (real)(w64[i] * scale[c % 3]);
            d->step_matrix(w, (void *[]){slot}, g, rows, cols, p, 0.02, 0, work);
            for (int i = 0; i < n; i++) w64[i] = (double)w[i];
            assert_int_equal(vt_svd_values(sigma, w64, rows, cols, cols, NULL), VT_OK);
            t_le(sigma[0] - 1, IS64 ? 1e-14 : 3e-6, "%d x %d, step %d: the largest", rows, cols, t);
            t_le(1 - sigma[least - 1], IS64 ? 1e-14 : 3e-6, "%d x %d, step %d: the least", rows, cols, t);
        }
        free(work);
    }
    free(p);
}

/* No reference has mirror descent with a wide state: 10000 steps that a float dual (rounding 6e-8 of 0.8) would swallow
 * one by one add up. The weight is theta^10, rounded once. */
static void test_md(void **state) {
    (void)state;
    const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)("md");
    void *p = t_params(d->opts, d->params_size, "p=1.1");
    real w[2] = {(real)0.125, (real)-0.125}, g[2] = {1, 1};
    double theta[2], first = pow(0.125, 0.1);
    d->start((void *[]){theta}, w, 2, p);
    for (int t = 1; t <= 10000; t++) d->step(w, (void *[]){theta}, g, 2, p, 1e-9, 0, t);
    double want[2] = {pow(first - 1e-5, 10), -pow(first + 1e-5, 10)};
    for (int i = 0; i < 2; i++) /* 10000 roundings of theta, ten times in w */
        t_le(fabs((double)w[i] / want[i] - 1), IS64 ? 1e-11 : 1e-7, "md, small steps");
    free(p);
}

/* ---- whole model ---- */

/* t->grad <- gradient of the mean cross entropy: every image gives dz / BATCH. */
static void batch_gradient(tiny *t, const double *target) {
    float soft[CLASSES];
    real dz[BATCH * CLASSES];
    const VT_R(vt_objective_def) *ce = VT_R(vt_objective_find)("ce");
    const real *z = VT_R(vt_session_forward)(t->s, t->x, BATCH, true);
    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < CLASSES; k++) soft[k] = (float)target[i * CLASSES + k];
        ce->eval(dz + i * CLASSES, NULL, z + i * CLASSES, NULL, soft, CLASSES, NULL);
        for (int k = 0; k < CLASSES; k++) dz[i * CLASSES + k] /= BATCH;
    }
    memset(t->grad, 0, t->total * sizeof *t->grad);
    VT_R(vt_session_backward)(t->s, dz, NULL, t->grad);
}

/* torch.nn.utils.clip_grad_norm_ at 1; returns the norm. */
static double clip(tiny *t) {
    double sum = 0;
    for (size_t i = 0; i < t->total; i++) sum += (double)t->grad[i] * (double)t->grad[i];
    double norm = sqrt(sum), factor = fmin(1, 1 / (norm + 1e-6));
    for (size_t i = 0; i < t->total; i++) t->grad[i] *= (real)factor;
    return norm;
}

static void run(const char *optim, double lr, double weight_decay, const char *first, const char *last,
                double tol_first, double tol, bool but_key_bias) {
    tiny t;
    tiny_open(&t);
    vt_tensors *data = open_st("model"), *st = open_st("steps");
    double *targets = reference(data, STEPS * BATCH * CLASSES, "targets");
    const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)(optim);
    void *p = t_params(d->opts, d->params_size, "");
    real *slots = calloc(VT_OPTIM_SLOTS * t.total, sizeof *slots);
    assert_non_null(slots);
    int clipped = 0;
    for (int k = 0; k < STEPS; k++) {
        batch_gradient(&t, targets + k * BATCH * CLASSES);
        clipped += clip(&t) > 1;
        d->step(t.w, (void *[]){slots, slots + t.total}, t.grad, t.total, p, lr, weight_decay, k + 1);
        if (k == 0 && first) each_tensor(&t, t.w, st, first, tol_first, but_key_bias);
    }
    assert_true(clipped > 0);
    each_tensor(&t, t.w, st, last, tol, but_key_bias);
    free(slots), free(p), free(targets);
    vt_tensors_close(st), vt_tensors_close(data);
    tiny_close(&t);
}

/* The step is lr times a gradient whose last digits depend on the order of sums (relative 1e-15, or 1e-6 in float), and
 * later steps amplify what earlier ones differ by. The first step's reference is stored in float32: 6e-8 of a weight.
 */
static void test_sgd(void **state) {
    (void)state;
    run("sgd", 0.1, 1e-4, "sgd.first", IS64 ? "sgd.f64" : "sgd.f32", IS64 ? 1e-7 : 1e-6, IS64 ? 1e-10 : 1e-5, false);
}

/* AdamW divides by the gradient's size, so that the rounding of a small gradient counts in full: 1e-8. Ten steps of lr
 * 1e-3 move a weight by 1e-2 at most; the float run may be off by a thousandth of that. The key part of qkv.bias is
 * left out: its gradient is zero by mathematics (softmax ignores a shift common to all keys), so that the sign of its
 * rounding error decides. */
static void test_adamw(void **state) {
    (void)state;
    run("adamw", 1e-3, 0.05, NULL, "adamw.f64", 0, IS64 ? 1e-8 : 1e-5, true);
}

/* ---- TRADES and MART ---- */

/* Two images' logits and two backward passes: the adversarial one first, then the clean batch again. */
static double pair_gradient(tiny *t, const VT_R(vt_objective_def) *d, const void *p, const real *x_adv,
                            const int64_t *labels) {
    real z_clean[BATCH * CLASSES], dz_clean[BATCH * CLASSES], dz_adv[BATCH * CLASSES];
    memcpy(z_clean, VT_R(vt_session_forward)(t->s, t->x, BATCH, false), sizeof z_clean);
    const real *z_adv = VT_R(vt_session_forward)(t->s, x_adv, BATCH, true);
    double value = 0;
    for (int i = 0; i < BATCH; i++) {
        float target[CLASSES] = {0};
        target[labels[i]] = 1;
        int at = i * CLASSES;
        value += (double)d->eval(dz_clean + at, dz_adv + at, z_clean + at, z_adv + at, target, CLASSES, p) / BATCH;
    }
    for (int i = 0; i < BATCH * CLASSES; i++) dz_clean[i] /= BATCH, dz_adv[i] /= BATCH;
    memset(t->grad, 0, t->total * sizeof *t->grad);
    VT_R(vt_session_backward)(t->s, dz_adv, NULL, t->grad);
    VT_R(vt_session_forward)(t->s, t->x, BATCH, true);
    VT_R(vt_session_backward)(t->s, dz_clean, NULL, t->grad);
    return value;
}

/* The references of gradients are rounded to float32 (6e-8); float gradients themselves differ by up to 1e-6 or so of
 * a tensor's largest entry, and 1e-4 leaves room for other kernels, as in test_golden. */
static void test_objectives(void **state) {
    (void)state;
    static const char *const names[] = {"trades", "mart"};
    tiny t;
    tiny_open(&t);
    vt_tensors *st = open_st("loss");
    real *x_adv = reals(st, "x_adv", BATCH * 3 * 8 * 8);
    int64_t labels[BATCH];
    vt_err e = {0};
    if (vt_tensor_i64(st, vt_tensors_find(st, "labels"), labels, BATCH, &e) != VT_OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < T_COUNT(names); i++) {
        const VT_R(vt_objective_def) *d = VT_R(vt_objective_find)(names[i]);
        void *p = t_params(d->opts, d->params_size, "");
        char key[40];
        real value = (real)pair_gradient(&t, d, p, x_adv, labels);
        snprintf(key, sizeof key, "%s.loss", names[i]);
        near(&value, st, key, 1, IS64 ? 1e-13 : 1e-6);
        snprintf(key, sizeof key, "%s.grad", names[i]);
        each_tensor(&t, t.grad, st, key, IS64 ? 1e-7 : 1e-4, false);
        free(p);
    }
    free(x_adv);
    vt_tensors_close(st);
    tiny_close(&t);
}

/* ---- penalties ---- */

/* MSVP's state as the fixture means it: u [block, branch, part, row] of [2, 3, HEADS, DIM], v anything (an iteration
 * begins with u). */
static void fill_state(real *state, const double *u, int parts, int rows, int cols) {
    for (int b = 0; b < 2 * 3; b++)
        for (int h = 0; h < parts; h++, state += rows + cols)
            for (int i = 0; i < rows + cols; i++) state[i] = i < rows ? (real)u[(b * HEADS + h) * DIM + i] : -7;
}

/* A few products of 16 numbers: rounding of some 1e-7 or 1e-15; gradients are stored in float32. Tensors that the file
 * does not name get no gradient. */
static void penalty_case(tiny *t, const vt_tensors *st, const char *name, const char *penalty, const char *options,
                         real *state, real *work) {
    const VT_R(vt_penalty_def) *d = VT_R(vt_penalty_find)(penalty);
    void *p = t_params(d->opts, d->params_size, options);
    vt_err e = {0};
    char key[120];
    assert_true(d->active(p));
    if (d->check(p, t->m, &e) != VT_OK) fail_msg("%s", e.text);
    memset(t->grad, 0, t->total * sizeof *t->grad);
    double value = apply_penalty(d, t->grad, state, work, t->w, t->m, p);
    snprintf(key, sizeof key, "%s.value", name);
    double *want = reference(st, 1, "%s", key);
    t_le(fabs(value - *want) / *want, IS64 ? 1e-13 : 1e-6, "%s", key);
    free(want), free(p);
    int named = 0;
    for (int i = 0; i < t->m->params.count; i++) {
        const vt_param *q = &t->m->params.items[i];
        snprintf(key, sizeof key, "%s.grad.%s", name, q->name);
        if (vt_tensors_find(st, key))
            near(t->grad + q->offset, st, key, q->numel, IS64 ? 1e-7 : 1e-5), named++;
        else
            for (size_t k = 0; k < q->numel; k++) assert_true(t->grad[q->offset + k] == 0);
    }
    assert_true(named >= 2);
}

static void test_penalties(void **state_) {
    (void)state_;
    static const struct {
        const char *name, *options;
        int parts, rows, cols;
    } msvp[] = {
        {"rows", "split=rows", HEADS, DIM / HEADS, DIM},
        {"columns", "split=columns", HEADS, DIM, DIM / HEADS},
        {"whole", "split=whole", 1, DIM, DIM},
    };
    static const char *const ortho[][2] = {{"ortho.stack", "variant=LA;lambda=1;la_form=stack"},
                                           {"ortho.wide", "variant=LA;lambda=1;la_form=wide"},
                                           {"ortho.each", "variant=LA;lambda=1;la_form=each"},
                                           {"ortho.lf", "variant=LF;lambda=1"}};
    tiny t;
    tiny_open(&t);
    vt_tensors *st = open_st("penalty");
    double *u = reference(st, 2 * 3 * HEADS * DIM, "u"), *lambda = reference(st, 3, "lambda");
    real state[2 * 3 * HEADS * 2 * DIM], work[4 * 3 * HEADS * 2 * DIM];
    const VT_R(vt_penalty_def) *d = VT_R(vt_penalty_find)("msvp");
    for (size_t i = 0; i < T_COUNT(msvp); i++) {
        void *p = t_params(d->opts, d->params_size, msvp[i].options);
        char name[40], options[120];
        size_t len = (size_t)(2 * 3 * msvp[i].parts * (msvp[i].rows + msvp[i].cols));
        assert_int_equal(d->state_len(p, t.m), len);
        assert_true(len <= T_COUNT(state) && d->work_len(p, t.m) <= T_COUNT(work));
        fill_state(state, u, msvp[i].parts, msvp[i].rows, msvp[i].cols);
        free(p);
        snprintf(name, sizeof name, "msvp.%s", msvp[i].name);
        snprintf(options, sizeof options, "%s;lambda=%.17g,%.17g,%.17g", msvp[i].options, lambda[0], lambda[1],
                 lambda[2]);
        penalty_case(&t, st, name, "msvp", options, state, work);
    }
    for (size_t i = 0; i < T_COUNT(ortho); i++) penalty_case(&t, st, ortho[i][0], "ortho", ortho[i][1], NULL, work);
    free(u), free(lambda);
    vt_tensors_close(st);
    tiny_close(&t);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optim),      cmocka_unit_test(test_muon),      cmocka_unit_test(test_orthogonal),
        cmocka_unit_test(test_md),         cmocka_unit_test(test_sgd),       cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_objectives), cmocka_unit_test(test_penalties),
    };
    return cmocka_run_group_tests_name(IS64 ? "train golden, double" : "train golden, float", tests, NULL, NULL);
}

#endif
