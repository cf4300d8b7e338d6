/* SPDX-License-Identifier: MIT */
#include "research/lab/sgd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"

enum { CHUNK = 256 }; /* points in one forward of a measurement */

vt_status vt_two_layer_outputs(float *f, const float *x, int points, const float *theta, const vt_two_layer *n,
                               vt_err *e) {
    float *work = vt_alloc(vt_two_layer_work_f32(n, CHUNK, 0) * sizeof *work);
    if (!work) return vt_fail(e, VT_E_MEMORY, "no memory for a batch of %d points", CHUNK);
    for (int i = 0; i < points; i += CHUNK) {
        int b = points - i < CHUNK ? points - i : CHUNK;
        vt_two_layer_loss_f32(NULL, NULL, f + (size_t)i * (size_t)n->out, x + (size_t)i * (size_t)n->in, NULL, theta, b,
                              n, work);
    }
    free(work);
    return VT_OK;
}

/* Index of the largest of f [n], the first of equal ones. */
static int argmax(const float *f, int n) {
    int best = 0;
    for (int j = 1; j < n; j++)
        if (f[j] > f[best]) best = j;
    return best;
}

/* Adds one point's loss and error, outputs f and target y [out], to sum. */
static void add_loss_and_error(vt_measure *sum, const float *f, const float *y, const vt_two_layer *n) {
    double square = 0, most = -INFINITY, mass = 0;
    for (int j = 0; j < n->out; j++) {
        double off = (double)f[j] - (double)y[j];
        square += off * off, most = fmax(most, (double)f[j]);
    }
    if (n->fit == VT_FIT_SQUARES) {
        sum->loss += square / 2, sum->error += square;
        return;
    }
    for (int j = 0; j < n->out; j++) mass += exp((double)f[j] - most);
    for (int j = 0; j < n->out; j++) sum->loss -= (double)y[j] * ((double)f[j] - most - log(mass));
    sum->error += argmax(f, n->out) != argmax(y, n->out);
}

vt_status vt_two_layer_measure(vt_measure *out, const vt_sgd_points *p, const float *theta, const vt_two_layer *n,
                               vt_err *e) {
    *out = (vt_measure){0};
    float *f = vt_alloc((size_t)p->n * (size_t)n->out * sizeof *f);
    if (!f) return vt_fail(e, VT_E_MEMORY, "no memory for the outputs of %d points", p->n);
    vt_status s = vt_two_layer_outputs(f, p->x, p->n, theta, n, e);
    for (int i = 0; i < p->n && s == VT_OK; i++)
        add_loss_and_error(out, f + (size_t)i * (size_t)n->out, p->y + (size_t)i * (size_t)n->out, n);
    free(f);
    out->loss /= p->n, out->error /= p->n;
    if (s == VT_OK && !isfinite(out->loss))
        return vt_fail(e, VT_E_NUMERIC, "the mean loss of %d points is %g: take a lower learning rate", p->n,
                       out->loss);
    return s;
}

double vt_two_layer_norm(const float *theta, const vt_two_layer *n, vt_tensor t) {
    double sum = 0;
    size_t at = vt_two_layer_at(n, t), count = vt_two_layer_size(n, t);
    for (size_t i = at; i < at + count; i++) sum += (double)theta[i] * (double)theta[i];
    return sqrt(sum);
}

typedef struct buffers {
    float *x, *y, *grad, *work;
} buffers;

/* Takes a batch, gradient and scratch from r; an arena without base only counts the bytes. */
static void lay_out_buffers(buffers *b, const vt_sgd *s, vt_arena *r) {
    b->x = vt_arena_take(r, (size_t)s->batch * (size_t)s->net.in, sizeof *b->x);
    b->y = vt_arena_take(r, (size_t)s->batch * (size_t)s->net.out, sizeof *b->y);
    b->grad = vt_arena_take(r, vt_two_layer_at(&s->net, VT_AT_END), sizeof *b->grad);
    b->work = vt_arena_take(r, vt_two_layer_work_f32(&s->net, s->batch, 0), sizeof *b->work);
}

/* Copies the batch of `step` to b->x and y, drawn with replacement by (seed, run, step). */
static void gather_batch(buffers *b, const vt_sgd *s, uint64_t seed, int step) {
    size_t in = (size_t)s->net.in, out = (size_t)s->net.out;
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("sgd"), .run = s->run, .step = (uint32_t)step};
    for (size_t i = 0; i < (size_t)s->batch; i++) {
        size_t pick = vt_rng_below(&key, i, (uint32_t)s->train.n);
        memcpy(b->x + i * in, s->train.x + pick * in, in * sizeof *b->x);
        memcpy(b->y + i * out, s->train.y + pick * out, out * sizeof *b->y);
    }
}

/* Adds to grad that of l1 and l2 on a learned mask's parameters, and of decay on W1 and W2. */
static void add_penalty_gradient(float *grad, const float *theta, const vt_sgd *s) {
    bool mask = s->net.front == VT_FRONT_MASK || s->net.front == VT_FRONT_SIMPLEX;
    for (int i = 0; i < s->net.in && mask && (s->l1 != 0 || s->l2 != 0); i++)
        grad[i] += (float)s->l1 * (float)((theta[i] > 0) - (theta[i] < 0)) + (float)s->l2 * theta[i];
    static const vt_tensor weights[] = {VT_AT_W1, VT_AT_W2};
    for (size_t k = 0; k < 2 && s->decay != 0; k++) {
        size_t at = vt_two_layer_at(&s->net, weights[k]), n = vt_two_layer_size(&s->net, weights[k]);
        for (size_t i = at; i < at + n; i++) grad[i] += (float)s->decay * theta[i];
    }
}

/* Measures the first test.n training points, to (*curve)[0], and all test points, to [1]; fails as
 * vt_two_layer_measure. */
static vt_status measure_train_and_test(vt_measure (*curve)[2], const float *theta, const vt_sgd *s, vt_err *e) {
    vt_sgd_points head = s->train;
    if (head.n > s->test.n) head.n = s->test.n;
    VT_TRY(vt_two_layer_measure(&(*curve)[0], &head, theta, &s->net, e));
    return vt_two_layer_measure(&(*curve)[1], &s->test, theta, &s->net, e);
}

/* vt_sgd_run with its buffers. */
static vt_status run_steps(float *theta, vt_measure (*curve)[2], const vt_sgd *s, const vt_lab *lab, buffers *b,
                           vt_err *e) {
    size_t count = vt_two_layer_at(&s->net, VT_AT_END);
    float rate = (float)s->rate;
    int done = 0;
    for (int t = 0; t < s->steps; t++) {
        if (t % 1000 == 0) VT_TRY(vt_lab_alive(lab, e));
        gather_batch(b, s, lab->seed, t);
        double loss = vt_two_layer_loss_f32(b->grad, NULL, NULL, b->x, b->y, theta, s->batch, &s->net, b->work);
        if (!isfinite(loss))
            return vt_fail(e, VT_E_NUMERIC,
                           "the loss is %g at step %d of %d with a learning rate of %g: take a lower one", loss, t,
                           s->steps, s->rate);
        add_penalty_gradient(b->grad, theta, s);
        for (size_t i = 0; i < count; i++) theta[i] -= rate * b->grad[i];
        while (curve && done < s->marks && (long long)(t + 1) * s->marks >= (long long)(done + 1) * s->steps)
            VT_TRY(measure_train_and_test(curve + done++, theta, s, e));
    }
    return VT_OK;
}

vt_status vt_sgd_run(float *theta, vt_measure (*curve)[2], const vt_sgd *s, const vt_lab *lab, vt_err *e) {
    buffers b;
    vt_arena r = {0};
    lay_out_buffers(&b, s, &r);
    r = (vt_arena){.base = vt_alloc(r.used), .size = r.used};
    if (!r.base) return vt_fail(e, VT_E_MEMORY, "no memory for a batch of %d points of %d inputs", s->batch, s->net.in);
    lay_out_buffers(&b, s, &r);
    vt_status got = run_steps(theta, curve, s, lab, &b, e);
    free(r.base);
    return got;
}
