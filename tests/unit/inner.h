/* SPDX-License-Identifier: MIT */
/* What the tests of the inner attack share: a tiny model's attacks, keyed and run. */
#ifndef INNER_H
#define INNER_H

#include "base/real.h"
#include "toy.h"

#include "linalg/gemm.h"
#include "models/net/session.h"
#include "train/inner.h"

enum { SEED = 5, CLASSES = 5, SIDE = 12, PIXELS = 3 * SIDE * SIDE };

#define EPS (8.0 / 255)
#define ALPHA (2.0 / 255)
#define STEP "pgd:steps=1,alpha=2/255,random_start=0"
#define HARD "pgd:steps=3,alpha=5/255"
/* A step too small to be seen shows where the attack stands before it. */
#define STAND "pgd:steps=1,alpha=1e-12,random_start=0"
#define STAND_RANDOM "pgd:steps=1,alpha=1e-12"
#define UNSEEN 2e-12

static const float mixed[CLASSES] = {0.45f, 0, 0, 0.55f, 0};

/* Of an image's run: what keys the draws, and the share of the training done. */
typedef struct key {
    int64_t image, step;
    int epoch;
    double share;
} key;

static const key first = {.image = 3, .step = 11, .epoch = 2, .share = 1};

static inline void opened(vt_inner *in, const vt_model *m, const char *spec, vt_inner_goal goal, double sigma,
                          const vt_recipe_attack *how) {
    vt_err e = {0};
    if (vt_inner_open(in, m, spec, VT_LINF, goal, sigma, how, SEED, &e) != VT_OK) fail_msg("%s", e.text);
}

static inline void attack(vt_inner *in, float *x_adv, const float *x, const float *target, double eps, key k) {
    assert_int_equal(vt_inner_run(in, x_adv, x, target, eps, k.image, k.epoch, k.step, k.share, NULL), VT_OK);
}

/* Opened, run once, closed. */
static inline void attack_once(const vt_model *m, const char *spec, const vt_recipe_attack *how, float *x_adv,
                               const float *x, key k) {
    vt_inner in;
    opened(&in, m, spec, VT_INNER_LABEL, 0, how);
    attack(&in, x_adv, x, mixed, EPS, k);
    vt_inner_close(&in);
}

/* An image whose pixels are `border` away from black and white, or (border < 0) cut off there. */
static inline void image(float *x, const vt_model *m, uint64_t seed, double border) {
    double *d = toy_images(m, 1, seed);
    for (int i = 0; i < PIXELS; i++) x[i] = (float)fmin(1, fmax(0, border + (1 - 2 * border) * d[i]));
    free(d);
}

static inline bool same(const float *a, const float *b) { return !memcmp(a, b, PIXELS * sizeof *a); }

#endif
