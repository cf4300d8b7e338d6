/* SPDX-License-Identifier: MIT */
#include "attacks/apgd.h"

#include <math.h>
#include <string.h>

/* The schedule's state: windows of length k between checkpoints, counted steps, and what the last checkpoint saw. */
typedef struct schedule {
    int k, k_min, k_dec, counter;
    float best_at_check;
    bool reduced_last;
} schedule;

/* Returns the schedule of step sizes before step 0 of `steps`, whose best loss so far is `loss`. */
static schedule schedule_new(int steps, float loss) {
    int k = (int)(0.22 * steps), k_min = (int)(0.06 * steps), k_dec = (int)(0.03 * steps);
    return (schedule){.k = k > 1 ? k : 1,
                      .k_min = k_min > 1 ? k_min : 1,
                      .k_dec = k_dec > 1 ? k_dec : 1,
                      .best_at_check = loss,
                      .reduced_last = true};
}

/* Tells at a checkpoint after step i (0-based) whether the step is to be halved, and sets the next window. hist [steps]
 * starts as zeros; before its first entry it wraps to hist[steps - 1], still zero then, as the authors' does. */
static bool should_halve_step(schedule *s, const float *hist, int steps, int i, double rho, float best) {
    int rising = 0;
    for (int c = 0; c < s->k; c++) {
        int now = i - c, before = now > 0 ? now - 1 : steps - 1;
        rising += hist[now] > hist[before];
    }
    bool fire = (double)rising <= rho * s->k || (!s->reduced_last && s->best_at_check >= best);
    s->reduced_last = fire, s->best_at_check = best;
    s->k = s->k - s->k_dec > s->k_min ? s->k - s->k_dec : s->k_min;
    s->counter = 0;
    return fire;
}

size_t vt_apgd_work_len(const void *params, const vt_task *t) {
    const vt_apgd_params *p = params;
    return (p->eot > 1 ? 8 : 7) * t->n + (size_t)t->classes + (size_t)p->steps;
}

/* Computes logits z [K], *value and gradient g [n] at x [n]. With eot > 1 g is the mean of that many draws, each with a
 * forward of its own; z and *value are those of the last one, as in the authors' code. */
static vt_status gradient_at(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const float *x,
                             const vt_loss *loss, float *z, float *value, float *g) {
    if (p->eot == 1) return vt_oracle_gradient(o, x, loss, z, value, g);
    float *draw = t->work + 7 * t->n + (size_t)t->classes + (size_t)p->steps;
    for (int k = 0; k < p->eot; k++) {
        vt_oracle_forget(o);
        VT_TRY(vt_oracle_gradient(o, x, loss, z, value, k ? draw : g));
        for (size_t i = 0; k && i < t->n; i++) g[i] += draw[i];
    }
    for (size_t i = 0; i < t->n; i++) g[i] /= (float)p->eot;
    return VT_OK;
}

/* The best iterate of a run and its gradient; broken: any iterate was misclassified. */
typedef struct best_iterate {
    float *x, *g; /* [n] */
    float loss;
    bool broken;
} best_iterate;

/* Computes z [K], *value and g [n] at the iterate x [n], and keeps it if it is the best one; a misclassified one
 * becomes t->x_adv, whatever its loss. first: it is the run's start, which counts as both. */
static vt_status evaluate_iterate(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss,
                                  const float *x, float *z, float *value, float *g, best_iterate *best, bool first) {
    VT_TRY(gradient_at(o, p, t, x, loss, z, value, g));
    bool reached = vt_oracle_reached(o, z);
    best->broken = (best->broken && !first) || reached;
    if (reached || first) memcpy(t->x_adv, x, t->n * sizeof *x);
    if (!first && !(*value > best->loss)) return VT_OK;
    best->loss = *value;
    memcpy(best->x, x, t->n * sizeof *x);
    memcpy(best->g, g, t->n * sizeof *g);
    return VT_OK;
}

/* Computes next [n] = cur + a (z - cur) + (1 - a)(cur - prev), projected, with z = project(cur + eta direction of
 * g). */
static void step_with_momentum(const vt_ball *b, float *next, float *z, const float *cur, const float *prev,
                               const float *g, double eta, float a) {
    vt_ball_step(b, z, g, eta);
    for (size_t i = 0; i < b->n; i++) z[i] += cur[i];
    vt_ball_project(b, z);
    for (size_t i = 0; i < b->n; i++) next[i] = cur[i] + (z[i] - cur[i]) * a + (cur[i] - prev[i]) * (1 - a);
    vt_ball_project(b, next);
}

/* ---- l1: sparse steps of adapted width, projected onto ball and box together; by default first in balls of 3 eps and
 * 2 eps (Croce and Hein 2021, "Mind the box", section 3) ---- */

/* Makes one run inside `ball` from cur = t->work, where it leaves its best point; sets *broken. sparse: the start says
 * how many entries a step shall change, else a fifth of all. t->x_adv: as evaluate_iterate leaves it. */
static vt_status run_in(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss,
                        const vt_ball *ball, int steps, bool sparse, bool *broken) {
    size_t n = t->n, bytes = n * sizeof(float), old = sparse ? vt_l1_moved(t->work, t->x, n) : n;
    float *cur = t->work, *step = cur + n, *g = step + n, *z = g + 3 * n, value;
    best_iterate best = {.x = g + n, .g = g + 2 * n};
    size_t count = sparse ? vt_l1_two_thirds(old) : (n + 4) / 5;
    int every = steps >= 50 ? (int)(0.04 * steps) : 1;
    double length = ball->eps;
    VT_TRY(evaluate_iterate(o, p, t, loss, cur, z, &value, g, &best, true));
    for (int i = 1; i <= steps; i++) {
        vt_l1_drop_blocked(g, cur, n); /* ours: on linear models 1.005 times the optimum instead of 1.05 */
        vt_l1_sparse_step(step, g, n, count, length);
        for (size_t j = 0; j < n; j++) cur[j] += step[j];
        vt_ball_project(ball, cur);
        VT_TRY(evaluate_iterate(o, p, t, loss, cur, z, &value, g, &best, false));
        if (i % every) continue;
        size_t now = vt_l1_moved(best.x, t->x, n);
        bool sparser = (double)now < 0.95 * (double)old;
        count = vt_l1_two_thirds(now), old = now;
        length = sparser ? ball->eps : fmax(length / 1.5, ball->eps / 10);
        if (!sparser) continue;
        memcpy(cur, best.x, bytes);
        memcpy(g, best.g, bytes);
    }
    memcpy(cur, best.x, bytes);
    *broken = best.broken;
    return VT_OK;
}

/* Makes vt_apgd_run's run in l1: with large_eps in 3 and 2 eps first, each from the one before's best, projected;
 * *broken and t->x_adv are of the last, in eps, alone. */
static vt_status run_l1(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss, const vt_rng *rng,
                        bool *broken) {
    int wide = p->large_eps ? (int)ceil(0.3 * p->steps) : 0, last = p->steps - 2 * wide;
    if (last < 1) wide = 0, last = p->steps;
    vt_ball ball = *t->ball;
    float *cur = t->work;
    ball.eps *= wide ? 3 : 1;
    memcpy(cur, t->x, t->n * sizeof(float));
    if (p->random_start) vt_ball_start_projected(&ball, rng, cur);
    bool sparse = wide && p->random_start;
    for (int k = wide ? 3 : 1; k >= 1; k--) {
        ball.eps = k * t->ball->eps;
        vt_ball_project(&ball, cur);
        VT_TRY(run_in(o, p, t, loss, &ball, k > 1 ? wide : last, sparse, broken));
        sparse = true;
    }
    if (!*broken) memcpy(t->x_adv, cur, t->n * sizeof(float));
    return VT_OK;
}

/* ---- a run, and all ---- */

vt_status vt_apgd_run(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss, const vt_rng *rng,
                      bool *broken) {
    if (t->ball->norm == VT_L1) return run_l1(o, p, t, loss, rng, broken);
    size_t n = t->n, bytes = n * sizeof(float);
    float *cur = t->work, *prev = cur + n, *next = prev + n, *g = next + n, *tmp = g + 3 * n;
    float *z = tmp + n, *hist = z + t->classes, value;
    best_iterate best = {.x = g + n, .g = g + 2 * n};
    memset(hist, 0, (size_t)p->steps * sizeof(float));
    memcpy(cur, t->x, bytes);
    if (p->random_start) vt_ball_start_surface(t->ball, rng, cur);
    memcpy(prev, cur, bytes);
    VT_TRY(evaluate_iterate(o, p, t, loss, cur, z, &value, g, &best, true));
    double eta = 2 * t->ball->eps;
    schedule s = schedule_new(p->steps, value);
    for (int i = 0; i < p->steps; i++) {
        step_with_momentum(t->ball, next, tmp, cur, prev, g, eta, i == 0 ? 1.0f : 0.75f);
        memcpy(prev, cur, bytes);
        memcpy(cur, next, bytes);
        VT_TRY(evaluate_iterate(o, p, t, loss, cur, z, &value, g, &best, false));
        hist[i] = value;
        if (++s.counter == s.k && should_halve_step(&s, hist, p->steps, i, p->rho, best.loss)) {
            eta /= 2;
            memcpy(cur, best.x, bytes);
            memcpy(g, best.g, bytes);
        }
    }
    if (!best.broken) memcpy(t->x_adv, best.x, bytes);
    *broken = best.broken;
    return VT_OK;
}

vt_status vt_apgd_restarts(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, vt_loss_kind kind) {
    vt_loss loss = vt_oracle_loss(o, kind);
    bool broken = false;
    for (int r = 0; r < p->restarts && !broken; r++) {
        vt_rng rng = t->rng;
        rng.run = (uint32_t)r;
        VT_TRY(vt_apgd_run(o, p, t, &loss, &rng, &broken));
        if (broken && !vt_oracle_may_end(o, true))
            broken = false; /* not good enough to be final: the next restart may be */
    }
    return VT_OK;
}

/* Counts the points of all runs: the start and every step; in l1 a start in each of the three balls. */
vt_passes vt_apgd_cost(const void *params, const vt_cost_dims *d) {
    const vt_apgd_params *p = params;
    bool wide = d->norm == VT_L1 && p->large_eps && p->steps > 2 * (int)ceil(0.3 * p->steps);
    return (vt_passes){.gradients = (double)p->restarts * p->eot * (p->steps + (wide ? 3 : 1))};
}
