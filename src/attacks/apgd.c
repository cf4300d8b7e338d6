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

static schedule schedule_new(int steps, float loss) {
    int k = (int)(0.22 * steps), k_min = (int)(0.06 * steps), k_dec = (int)(0.03 * steps);
    return (schedule){.k = k > 1 ? k : 1,
                      .k_min = k_min > 1 ? k_min : 1,
                      .k_dec = k_dec > 1 ? k_dec : 1,
                      .best_at_check = loss,
                      .reduced_last = true};
}

/* At a checkpoint after step i (0-based): should the step be halved? hist [steps] starts as zeros, and the comparison
 * before the first entry wraps to hist[steps - 1], still zero at the first checkpoint, as in the authors' code. */
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

vt_status vt_apgd_gradient(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const float *x, const vt_loss *loss,
                           float *z, float *value, float *g) {
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

/* next = cur + a (z - cur) + (1 - a)(cur - prev), z = project(cur + eta direction); then projected. */
static void step_with_momentum(const vt_ball *b, float *next, float *z, const float *cur, const float *prev,
                               const float *g, double eta, float a) {
    vt_ball_step(b, z, g, eta);
    for (size_t i = 0; i < b->n; i++) z[i] += cur[i];
    vt_ball_project(b, z);
    for (size_t i = 0; i < b->n; i++) next[i] = cur[i] + (z[i] - cur[i]) * a + (cur[i] - prev[i]) * (1 - a);
    vt_ball_project(b, next);
}

vt_status vt_apgd_run(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss, const vt_rng *rng,
                      bool *broken) {
    if (t->ball->norm == VT_L1) return vt_apgd_l1_run(o, p, t, loss, rng, broken);
    size_t n = t->n, bytes = n * sizeof(float);
    float *cur = t->work, *prev = cur + n, *next = prev + n, *g = next + n, *x_best = g + n, *g_best = x_best + n,
          *tmp = g_best + n;
    float *z = tmp + n, *hist = z + t->classes, value, best;
    memset(hist, 0, (size_t)p->steps * sizeof(float));
    memcpy(cur, t->x, bytes);
    if (p->random_start) vt_ball_start_surface(t->ball, rng, cur);
    memcpy(prev, cur, bytes);
    memcpy(t->x_adv, cur, bytes);
    VT_TRY(vt_apgd_gradient(o, p, t, cur, loss, z, &value, g));
    *broken = vt_oracle_reached(o, z);
    memcpy(x_best, cur, bytes);
    memcpy(g_best, g, bytes);
    best = value;
    double eta = 2 * t->ball->eps;
    schedule s = schedule_new(p->steps, best);
    for (int i = 0; i < p->steps; i++) {
        step_with_momentum(t->ball, next, tmp, cur, prev, g, eta, i == 0 ? 1.0f : 0.75f);
        memcpy(prev, cur, bytes);
        memcpy(cur, next, bytes);
        VT_TRY(vt_apgd_gradient(o, p, t, cur, loss, z, &value, g));
        if (vt_oracle_reached(o, z)) {
            *broken = true;
            memcpy(t->x_adv, cur, bytes); /* the latest misclassified iterate, whatever its loss */
        }
        hist[i] = value;
        if (value > best) {
            best = value;
            memcpy(x_best, cur, bytes);
            memcpy(g_best, g, bytes);
        }
        if (++s.counter == s.k && should_halve_step(&s, hist, p->steps, i, p->rho, best)) {
            eta /= 2;
            memcpy(cur, x_best, bytes);
            memcpy(g, g_best, bytes);
        }
    }
    if (!*broken) memcpy(t->x_adv, x_best, bytes);
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

/* Points of a run: the start and every step; in l1 a start in each of the three balls. */
vt_passes vt_apgd_cost(const void *params, const vt_cost_dims *d) {
    const vt_apgd_params *p = params;
    bool wide = d->norm == VT_L1 && p->large_eps && p->steps > 2 * (int)ceil(0.3 * p->steps);
    return (vt_passes){.gradients = (double)p->restarts * p->eot * (p->steps + (wide ? 3 : 1))};
}
