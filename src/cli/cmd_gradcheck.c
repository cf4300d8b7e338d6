/* SPDX-License-Identifier: MIT */
/* vitrine gradcheck: the input gradient of a checkpoint against differences of its double logits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/run_args.h"
#include "base/mem.h"
#include "base/rand.h"
#include "models/net/batch_gradients.h"

/* Truncation of the fourth-order stencil is O(h^4) and rounding O(2^-53 |f| / h): at h = 1e-4 a whole ViT leaves about
 * 1e-9, so 1e-7 fails on any wrong term and passes on none. Where a gradient is small beside the loss (150,000 pixels
 * and first weights) rounding decides, and the second step is better; a wrong gradient is wrong by both. */
static const double STEPS[] = {1e-4, 1e-3};
#define GATE64 1e-7
/* Float rounding through some tens of layers: PyTorch's own float32 stays within 2.5e-5 of its double. */
#define GATE32 1e-4

typedef struct point {
    const vt_model *m;
    double *x, *y, *u; /* image, moved image, direction */
    size_t n;
    int64_t label, target;
} point;

/* Computes the loss in double at x + t u. */
static vt_status value_at(const point *p, vt_loss_kind kind, double t, double *out, vt_err *e) {
    vt_batch_gradients r;
    for (size_t i = 0; i < p->n; i++) p->y[i] = p->x[i] + t * p->u[i];
    VT_TRY(vt_batch_gradients_run_f64(&r, p->m, p->y, 1, &p->label, &p->target, NULL, kind, false, e));
    *out = r.loss[0];
    vt_batch_gradients_free(&r);
    return VT_OK;
}

/* Computes the loss's derivative along u by central differences of fourth order with step h: (8 (f(h) - f(-h)) - (f(2h)
 * - f(-2h))) / 12h. */
static vt_status numeric_derivative(const point *p, vt_loss_kind kind, double h, double *out, vt_err *e) {
    double f[4];
    static const double at[4] = {1, -1, 2, -2};
    for (int i = 0; i < 4; i++) VT_TRY(value_at(p, kind, at[i] * h, &f[i], e));
    *out = (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h);
    return VT_OK;
}

/* Returns the largest difference of a from b, as a share of the largest element of b; INFINITY if b is 0. */
static double float_error(const double *a, const double *b, size_t n) {
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(a[i] - b[i]));
        top = fmax(top, fabs(b[i]));
    }
    return top > 0 ? worst / top : INFINITY;
}

/* Relative error of dx along random directions, by differences of step h; z [n] is scratch. */
static vt_status directional_error(double *rel, const point *p, const double *dx, float *z, vt_loss_kind kind,
                                   int directions, uint64_t seed, double h, vt_err *e) {
    double off = 0, size = 0, num;
    for (int d = 0; d < directions; d++) {
        vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("gradcheck"), .run = (uint32_t)d};
        vt_rng_normals(&r, z, p->n);
        double dot = 0;
        for (size_t i = 0; i < p->n; i++) {
            p->u[i] = (double)z[i] / sqrt((double)p->n);
            dot += p->u[i] * dx[i];
        }
        VT_TRY(numeric_derivative(p, kind, h, &num, e));
        off += (num - dot) * (num - dot);
        size += dot * dot;
    }
    *rel = size > 0 ? sqrt(off / size) : INFINITY;
    return VT_OK;
}

/* Checks the input gradient of one loss in double and in float, prints both errors, and clears *good if one is off. */
static vt_status check_loss(const point *p, vt_loss_kind kind, int directions, uint64_t seed, bool *good, vt_err *e) {
    vt_batch_gradients g64, g32 = {0};
    VT_TRY(vt_batch_gradients_run_f64(&g64, p->m, p->x, 1, &p->label, &p->target, NULL, kind, false, e));
    vt_status s = vt_batch_gradients_run_f32(&g32, p->m, p->x, 1, &p->label, &p->target, NULL, kind, false, e);
    double rel = INFINITY, now;
    float *z = vt_alloc(p->n * sizeof *z);
    if (s == VT_OK && !z) s = vt_fail(e, VT_E_MEMORY, "no memory");
    for (size_t k = 0; k < sizeof STEPS / sizeof *STEPS && s == VT_OK && !(rel <= GATE64); k++) {
        s = directional_error(&now, p, g64.dx, z, kind, directions, seed, STEPS[k], e);
        if (s == VT_OK && !(rel <= now)) rel = now;
    }
    if (s == VT_OK) {
        double rel32 = float_error(g32.dx, g64.dx, p->n);
        bool ok = rel <= GATE64 && rel32 <= GATE32;
        printf("  %-8s loss %12.6f   double against central differences %.1e   float against double %.1e   %s\n",
               vt_loss_names_f32[kind], g64.loss[0], rel, rel32, ok ? "ok" : "FAILED");
        *good = *good && ok;
    }
    free(z);
    vt_batch_gradients_free(&g64), vt_batch_gradients_free(&g32);
    return s;
}

/* The label of an image is its second class, so that the cross-entropy is not saturated; the target its third. */
static vt_status choose_classes(point *p, vt_err *e) {
    vt_batch_gradients r;
    int k = p->m->config.classes, first = 0, second = -1, third = -1;
    p->label = p->target = 0;
    VT_TRY(vt_batch_gradients_run_f64(&r, p->m, p->x, 1, &p->label, NULL, NULL, VT_LOSS_CE, false, e));
    for (int i = 0; i < k; i++)
        if (r.logits[i] > r.logits[first]) first = i;
    for (int i = 0; i < k; i++)
        if (i != first && (second < 0 || r.logits[i] > r.logits[second])) second = i;
    for (int i = 0; i < k; i++)
        if (i != first && i != second && (third < 0 || r.logits[i] > r.logits[third])) third = i;
    vt_batch_gradients_free(&r);
    p->label = second, p->target = third >= 0 ? third : first;
    return VT_OK;
}

/* Checks the gradients of three losses at random images. VT_E_NUMERIC: one is off. */
static vt_status check(const vt_cli *c, point *p, vt_err *e) {
    long long seed, images, directions;
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_int(c, "images", 1, 1000, 2, &images, e));
    VT_TRY(vt_cli_int(c, "directions", 1, 10000, 8, &directions, e));
    bool good = true;
    float *pixels = vt_alloc(p->n * sizeof *pixels);
    vt_status s = pixels ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory");
    for (int i = 0; i < images && s == VT_OK; i++) {
        vt_rng r = {.seed = (uint64_t)seed, .purpose = vt_rng_purpose("gradcheck image"), .image = (uint32_t)i};
        vt_rng_uniforms(&r, pixels, p->n);
        for (size_t k = 0; k < p->n; k++) p->x[k] = (double)pixels[k];
        s = choose_classes(p, e);
        if (s == VT_OK) printf("random image %d, %lld random directions\n", i, directions);
        static const vt_loss_kind kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR_T};
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds && s == VT_OK; k++)
            s = check_loss(p, kinds[k], (int)directions, (uint64_t)seed, &good, e);
    }
    free(pixels);
    if (s != VT_OK) return s;
    if (!good)
        return vt_fail(e, VT_E_NUMERIC, "%s: the input gradient is off (gates: double %g, float %g)", c->positional[0],
                       GATE64, GATE32);
    printf("the input gradient is exact (gates: double %g relative, float %g of the largest element)\n", GATE64,
           GATE32);
    return VT_OK;
}

/* Runs vitrine gradcheck. VT_E_NUMERIC: a derivative is not what differences say. */
static vt_status run(const vt_cli *c, vt_err *e) {
    vt_model *m;
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    o.raw = true;
    VT_TRY(vt_prepare_open(&m, c->positional[0], &o, e));
    vt_status s = vt_cli_known(c, m, e);
    if (s == VT_OK) s = vt_prepare_attack_at(&c->given, m, 0, e);
    if (s != VT_OK) {
        vt_model_close(m);
        return s;
    }
    point p = {.m = m, .n = vt_config_input_pixels(&m->config)};
    p.x = vt_alloc(p.n * sizeof(double)), p.y = vt_alloc(p.n * sizeof(double)), p.u = vt_alloc(p.n * sizeof(double));
    s = p.x && p.y && p.u ? check(c, &p, e) : vt_fail(e, VT_E_MEMORY, "no memory for a gradient check");
    free(p.x), free(p.y), free(p.u);
    vt_model_close(m);
    return s;
}

static const vt_arg args[] = {
    {"images", "N", "random images to check at (default 2)", VT_OF_DATA},
    {"directions", "N", "random directions for each loss (default 8)", VT_OF_RUN},
    {"seed", "N", "seed (default 0)", VT_OF_RUN},
    VT_ATTACK_AT_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_gradcheck = {
    .name = "gradcheck",
    .summary = "is the input gradient of this very checkpoint exact?",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "The double gradient is held against fourth-order central differences along random directions, the "
               "float gradient that attacks use against the double one; exit status 1 if either is off.",
    .examples = {"vitrine gradcheck weights/shapes10-vit",
                 "vitrine gradcheck weights/shapes10-vit --images 1 --directions 4 --seed 3"},
    .run = run,
};
