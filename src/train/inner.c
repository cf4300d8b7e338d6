/* SPDX-License-Identifier: MIT */
#include "train/inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "models/net/session.h"

/* Returns the floats of scratch that the attack takes on images of m. */
static size_t attack_scratch_floats(const vt_attack *a, const vt_model *m) {
    vt_task dims = vt_attacker_dims(vt_config_shape(&m->config), m->config.classes, NULL);
    return vt_attacker_work(a, &dims);
}

size_t vt_inner_bytes(const vt_model *m, const char *spec, vt_norm norm) {
    vt_attack a;
    size_t work = 0, n = vt_config_input_pixels(&m->config);
    if (vt_attack_parse(&a, spec, norm, NULL) == VT_OK) {
        work = attack_scratch_floats(&a, m);
        vt_attack_free(&a);
    }
    /* the session; the ball, start, centre (twice), the oracle's two images and the classifier's (in double); masks */
    return vt_session_bytes_f32(m, 1, VT_GRAD_INPUT) + (work + 9 * n) * sizeof(float) + n;
}

vt_status vt_inner_open(vt_inner *in, const vt_model *m, const char *spec, vt_norm norm, vt_inner_goal goal,
                        double start_sigma, const vt_recipe_attack *how, uint64_t seed, vt_err *e) {
    *in = (vt_inner){.m = m, .how = how, .norm = norm, .goal = goal, .start_sigma = start_sigma, .seed = seed};
    VT_TRY(vt_attack_parse(&in->attack, spec, norm, e));
    if (how && how->ard && !vt_model_blocks(m))
        return vt_fail(e, VT_E_SHAPE, "attack.ard: a %s model has no attention branches to leave out", m->config.arch);
    VT_TRY(vt_classifier_open_f32(&in->model, m, e));
    VT_TRY(vt_oracle_open(&in->oracle, &in->model, e));
    const vt_config *c = &m->config;
    size_t n = vt_config_input_pixels(&m->config), k = (size_t)c->classes;
    VT_TRY(vt_attacker_open(&in->attacker, vt_config_shape(&m->config), attack_scratch_floats(&in->attack, m), e));
    in->start = vt_alloc((2 * n + 2 * k) * sizeof(float)), in->mask = vt_alloc(n + (size_t)vt_model_blocks(m));
    if (!in->start || !in->mask) return vt_fail(e, VT_E_MEMORY, "no memory for the inner attack");
    in->centre = in->start + n, in->z = in->centre + n, in->target = in->z + k, in->open = in->mask + n;
    return VT_OK;
}

void vt_inner_close(vt_inner *in) {
    vt_attacker_close(&in->attacker);
    vt_oracle_close(&in->oracle);
    vt_classifier_close(&in->model);
    vt_attack_free(&in->attack);
    free(in->start), free(in->mask);
    memset(in, 0, sizeof *in);
}

/* Returns the key of a masking's draws at attack step k, by seed, training step and k: the same for all images of a
 * training step. */
static vt_rng masking_rng(const vt_inner *in, const char *purpose, int k) {
    return (vt_rng){.seed = in->seed,
                    .purpose = vt_rng_purpose(purpose),
                    .image = (uint32_t)in->step,
                    .run = (uint32_t)(in->step >> 32),
                    .step = (uint32_t)k};
}

/* Zeroes patches of the perturbation by PRM (Mo et al. 2022, section 4.2): before every step int(P (1 - keep)) random
 * patches of the perturbation are zeroed, and stay so until a step moves them again. */
static void mask_patches(vt_inner *in, int k, float *x_adv) {
    const vt_config *cfg = &in->m->config;
    int side = vt_config_input(cfg), ps = in->how->prm_patch ? in->how->prm_patch : cfg->patch * side / cfg->image;
    int nx = side / ps, n = nx * nx, zeroed = (int)(n * (1 - in->keep));
    vt_rng r = masking_rng(in, "prm", k);
    memset(in->mask, 0, (size_t)n);
    for (int i = 0; i < zeroed; i++) { /* selection sampling: patch j of those left, Floyd's way */
        int j = n - zeroed + i, t = (int)vt_rng_below(&r, (uint64_t)i, (uint32_t)(j + 1));
        in->mask[in->mask[t] ? j : t] = 1;
    }
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < nx * ps; y++)
            for (int x = 0; x < nx * ps; x++) {
                size_t at = ((size_t)c * (size_t)side + (size_t)y) * (size_t)side + (size_t)x;
                if (in->mask[(y / ps) * nx + x / ps]) x_adv[at] = in->clean[at];
            }
}

/* Sets in->open [blocks] at attack step k: each block's attention branch passes the gradient with probability keep: ARD
 * (Mo et al. 2022, section 4.1). */
static void drop_branches(vt_inner *in, int k) {
    vt_rng r = masking_rng(in, "ard", k);
    for (int b = 0; b < vt_model_blocks(in->m); b++) in->open[b] = (double)vt_rng_uniform(&r, (uint64_t)b) < in->keep;
}

/* Masks before step k of the attack (its hook, vt_task.before_step): PRM and ARD, as the recipe has them. */
static void before_step(void *ctx, int k, float *x_adv) {
    vt_inner *in = ctx;
    if (in->how->prm) mask_patches(in, k, x_adv);
    if (in->how->ard) drop_branches(in, k);
}

/* Sets *goal to the distribution whose cross entropy the attack raises: the label's, or the prediction at the clean
 * image, in in->target (the divergence KL(p || p') of TRADES differs from that cross entropy by a constant). */
static vt_status goal_target(const float **goal, vt_inner *in, const float *x, const float *target, vt_err *e) {
    *goal = target;
    if (in->goal != VT_INNER_PREDICTION) return VT_OK;
    int k = in->m->config.classes;
    VT_TRY(vt_classifier_logits(&in->model, x, in->z, false, e));
    double top = (double)in->z[vt_argmax_f32(in->z, k)], sum = 0;
    for (int j = 0; j < k; j++) sum += exp((double)in->z[j] - top);
    for (int j = 0; j < k; j++) in->target[j] = (float)(exp((double)in->z[j] - top) / sum);
    *goal = in->target;
    return VT_OK;
}

/* Returns in->centre [n]: x plus the key's uniform noise of at most `noise` eps, clipped to the box. */
static const float *add_uniform_noise(vt_inner *in, const float *x, double eps, vt_rng key, size_t n) {
    key.purpose = vt_rng_purpose("noise") + key.purpose;
    for (size_t i = 0; i < n; i++) {
        float v = x[i] + (float)(in->how->noise * eps) * (2 * vt_rng_uniform(&key, i) - 1);
        in->centre[i] = v < 0 ? 0 : v > 1 ? 1 : v;
    }
    return in->centre;
}

vt_status vt_inner_run(vt_inner *in, float *x_adv, const float *x, const float *target, double eps, int64_t image,
                       int epoch, int64_t step, double share, vt_err *e) {
    const vt_attack_stage *stage = &in->attack.stages[0];
    size_t n = vt_config_input_pixels(&in->m->config);
    if (!(eps > 0)) {
        memcpy(x_adv, x, n * sizeof *x_adv);
        return VT_OK;
    }
    vt_task t = {.clean = x,
                 .classes = in->m->config.classes,
                 .norm = in->norm,
                 .eps = eps,
                 .mode = VT_ORACLE_NO_VERDICT};
    t.rng = (vt_rng){.seed = in->seed,
                     .purpose = vt_rng_purpose("inner") + (uint32_t)epoch * 2654435761u,
                     .image = (uint32_t)image};
    t.label = vt_argmax_f32(target, t.classes);
    VT_TRY(goal_target(&t.target, in, x, target, e));
    if (in->how && in->how->noise > 0) t.clean = add_uniform_noise(in, x, eps, t.rng, n);
    if (in->start_sigma > 0) {
        vt_rng_normals(&t.rng, in->start, n);
        for (size_t i = 0; i < n; i++) {
            float v = t.clean[i] + (float)in->start_sigma * in->start[i];
            in->start[i] = v < 0 ? 0 : v > 1 ? 1 : v;
        }
        t.x = in->start;
    }
    if (in->how && (in->how->ard || in->how->prm)) {
        double ramp = in->how->warm > 0 && share < in->how->warm ? share / in->how->warm : 1;
        in->keep = ramp * in->how->drop_rate, in->step = step, in->clean = t.clean;
        memset(in->open, 1, (size_t)vt_model_blocks(in->m));
        t.before_step = before_step, t.ctx = in, t.open = in->how->ard ? in->open : NULL;
    }
    vt_status s = vt_attacker_run(&in->attacker, &in->oracle, stage, &t);
    if (s == VT_INTERRUPTED) return s;
    if (s != VT_OK)
        return vt_fail(e, s, "image %lld: the inner attack failed: %.1800s", (long long)image,
                       vt_attacker_why(&in->oracle, s));
    memcpy(x_adv, in->attacker.at, n * sizeof *x_adv);
    return VT_OK;
}
