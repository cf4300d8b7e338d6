/* SPDX-License-Identifier: MIT */
#include "selftest/tools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "eval/verify.h"
#include "models/arch.h"
#include "models/twin.h"
#include "models/wrap/restrict.h"

/* ---- worker ---- */

/* Scratch of the hungriest: of the run's attack and of the tools. */
static vt_status largest_work(size_t *most, const vt_selftest *t, const vt_task *dims, vt_err *e) {
    vt_attack tools[VT_TOOL_COUNT] = {0};
    *most = t->attack ? vt_attacker_work(t->attack, dims) : 1;
    vt_status s = vt_tools_parse(tools, t->v->norm, e);
    for (int i = 0; s == VT_OK && i < VT_TOOL_COUNT; i++) {
        size_t need = vt_attacker_work(&tools[i], dims);
        if (need > *most) *most = need;
    }
    vt_tools_free(tools);
    return s;
}

static vt_status open_active(vt_selftest_worker *g, const vt_selftest_worker *first, vt_err *e) {
    const vt_eval_options *v = g->t->v;
    int points = VT_ACTIVE_INNER + 2;
    if (!g->phi)
        return vt_fail(e, VT_E_UNKNOWN, "%s: no head to replace",
                       v->subject->model->path ? v->subject->model->path : "the model");
    if (!first) {
        VT_TRY(vt_other_head(&g->m_features, v->subject->model, (int)g->phi, e));
        vt_head_set(g->m_features, NULL, NULL, (int)g->phi, g->phi);
    }
    VT_TRY(vt_other_head(&g->m_two, v->subject->model, 2, e));
    VT_TRY(vt_classifier_open(&g->features, first ? first->m_features : g->m_features, e));
    VT_TRY(vt_wrap_classifier(&v->subject->wrap, &g->features, true, e));
    VT_TRY(vt_classifier_open(&g->two, g->m_two, e));
    VT_TRY(vt_wrap_classifier(&v->subject->wrap, &g->two, true, e));
    VT_TRY(vt_oracle_open(&g->o_two, &g->two, e));
    g->o_two.interrupt = v->interrupt;
    size_t n = (size_t)points;
    g->points = vt_alloc(n * g->phi * sizeof *g->points);
    g->fit = vt_alloc((n * n + 4 * n + 8 * g->phi + 16) * sizeof *g->fit);
    return g->points && g->fit ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the active test");
}

int vt_runner_up(const float *z, int classes, int than) {
    int best = than ? 0 : 1;
    for (int k = 0; k < classes; k++)
        if (k != than && z[k] > z[best]) best = k;
    return best;
}

int vt_selftest_worker_class(const vt_selftest_worker *g, int k) {
    return g->t->v->subject->data->restricted ? g->t->v->subject->data->head[k] : k;
}

static vt_status allocate_buffers(vt_selftest_worker *g, vt_err *e) {
    size_t bytes = g->pixels * sizeof(float), k = (size_t)g->t->v->subject->model->config.classes + 2;
    float **pixels[] = {&g->x, &g->y, &g->dx, &g->dy, &g->planted};
    for (int i = 0; i < 5; i++)
        if (!(*pixels[i] = vt_alloc(bytes))) return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
    g->z = vt_alloc(3 * k * sizeof *g->z);
    g->z64 = vt_alloc((size_t)vt_classifier_votes(&g->model) * k * sizeof *g->z64);
    g->wide = vt_alloc(g->pixels * sizeof *g->wide);
    return g->z && g->z64 && g->wide ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

/* A classifier of a network of our own, and its oracle. */
static vt_status open_other(vt_selftest_worker *g, vt_classifier *c, vt_oracle *o, const vt_model *m, bool restrict_it,
                            vt_err *e) {
    const vt_eval_options *v = g->t->v;
    VT_TRY(restrict_it ? vt_subject_other(c, v->subject, m, e) : vt_classifier_open(c, m, e));
    VT_TRY(vt_oracle_open(o, c, e));
    o->interrupt = v->interrupt;
    return VT_OK;
}

static vt_status open_probes(vt_selftest_worker *g, const vt_selftest_worker *first, vt_err *e) {
    if (!first) VT_TRY(vt_probes_make(g->m_probe, g, e));
    for (int i = 0; i < VT_PROBES; i++) {
        const vt_model *m = first ? first->m_probe[i] : g->m_probe[i];
        if (m) VT_TRY(open_other(g, &g->probe[i], &g->o_probe[i], m, false, e));
    }
    return VT_OK;
}

vt_status vt_selftest_worker_open(vt_selftest_worker *g, const vt_selftest *t, const vt_selftest_worker *first,
                                  unsigned needs, vt_err *e) {
    const vt_eval_options *v = t->v;
    size_t work;
    if (v->subject->remote) needs = 0; /* it shows neither attention nor weights */
    *g = (vt_selftest_worker){.t = t,
                              .pixels = vt_subject_pixels(v->subject),
                              .phi = vt_feature_count(v->subject->model)};
    g->classes = vt_subject_classes(v->subject);
    vt_task dims = vt_attacker_dims(vt_subject_shape(v->subject), g->classes, NULL);
    VT_TRY(largest_work(&work, t, &dims, e));
    VT_TRY(vt_attacker_open(&g->attacker, dims.shape, work, e));
    VT_TRY(vt_subject_classifier(&g->model, v->subject, e));
    VT_TRY(allocate_buffers(g, e));
    VT_TRY(vt_oracle_open(&g->o_model, &g->model, e));
    g->o_model.interrupt = v->interrupt;
    const vt_arch *arch = vt_arch_find(v->subject->model->config.arch);
    if (needs & VT_NEED_LOOK && arch && arch->shows_attention)
        VT_TRY(vt_session_open_f32(&g->look, v->subject->model, 1, VT_GRAD_INPUT, e));
    bool covered = v->subject->wrap.def && v->subject->wrap.def->cover;
    if (needs & VT_NEED_DOUBLE && !covered)
        VT_TRY(vt_session_open_f64(&g->look64, v->subject->model, 1, VT_GRAD_INPUT, e));
    if (needs & VT_NEED_TWIN) {
        if (!first) VT_TRY(vt_model_twin(&g->m_twin, v->subject->model, v->seed, e));
        VT_TRY(open_other(g, &g->twin, &g->o_twin, first ? first->m_twin : g->m_twin, true, e));
    }
    if (needs & VT_NEED_PROBES) VT_TRY(open_probes(g, first, e));
    return needs & VT_NEED_ACTIVE ? open_active(g, first, e) : VT_OK;
}

void vt_selftest_worker_close(vt_selftest_worker *g) {
    void *blocks[] = {g->x, g->y, g->dx, g->dy, g->z, g->z64, g->points, g->fit, g->planted, g->wide};
    vt_attacker_close(&g->attacker);
    for (int i = 0; i < VT_PROBES; i++) {
        vt_oracle_close(&g->o_probe[i]);
        vt_classifier_close(&g->probe[i]);
        vt_model_close(g->m_probe[i]);
    }
    vt_oracle_close(&g->o_model), vt_oracle_close(&g->o_twin), vt_oracle_close(&g->o_two);
    vt_classifier_close(&g->model), vt_classifier_close(&g->twin);
    vt_classifier_close(&g->features), vt_classifier_close(&g->two);
    vt_session_close_f32(g->look);
    vt_session_close_f64(g->look64);
    vt_model_close(g->m_twin), vt_model_close(g->m_features), vt_model_close(g->m_two);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
    *g = (vt_selftest_worker){0};
}

void vt_selftest_worker_logits(vt_selftest_worker *g, const vt_classifier *c, const float *x, float *z, bool keep) {
    if (!g->failed.code && vt_classifier_logits(c, x, z, keep, &g->failed) == VT_OK) return;
    memset(z, 0, (size_t)c->classes * sizeof *z);
}

void vt_selftest_worker_backward(vt_selftest_worker *g, const vt_classifier *c, const vt_loss *loss, float *value,
                                 float *dx) {
    if (!g->failed.code && vt_classifier_backward(c, loss, value, dx, &g->failed) == VT_OK) return;
    *value = 0, memset(dx, 0, c->pixels * sizeof *dx);
}

vt_status vt_selftest_worker_said(vt_selftest_worker *g, vt_err *e) {
    vt_status s = g->failed.code;
    if (s != VT_OK && e && e->code == VT_OK) *e = g->failed;
    g->failed = (vt_err){0};
    return s;
}

vt_rng vt_selftest_key(const vt_selftest *t, const char *purpose, int32_t image) {
    return (vt_rng){.seed = t->v->seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)image};
}

/* ---- attacks ---- */

vt_status vt_try_attack(vt_selftest_worker *g, const vt_attack_stage *stage, const vt_attack_trial *t, bool *broken,
                        vt_err *e) {
    const vt_eval_options *v = g->t->v;
    vt_task a = {.clean = g->x, .label = t->label, .classes = t->classes, .norm = v->norm, .eps = t->eps};
    a.mode = t->to_the_end ? VT_ORACLE_EXHAUSTIVE : VT_ORACLE_SEARCH,
    a.rng = vt_selftest_key(g->t, t->purpose, t->image);
    vt_status s = vt_attacker_run(&g->attacker, t->o, stage, &a);
    g->forwards += (double)t->o->forwards, g->gradients += (double)t->o->gradients;
    if (s == VT_INTERRUPTED) return s;
    *broken = false;
    if (s == VT_E_NUMERIC) return VT_OK; /* beyond float's range: says nothing of gradients */
    if (s != VT_OK)
        return vt_fail(e, s, "image %d: %s failed in the self-test: %.1800s", t->image, stage->def->name,
                       vt_attacker_why(t->o, s));
    vt_verdict d;
    if (t->judge != t->o->model) vt_classifier_begin(t->judge, &a.rng);
    VT_TRY(vt_verify(&d, t->judge, g->x, g->attacker.at, t->label, v->norm, t->eps, g->z, g->z64, e));
    g->forwards += t->judge != t->o->model;
    *broken = d.broken && d.finite;
    return VT_OK;
}

/* Corners: each coordinate by +eps or -eps, then into the box. */
static void draw_corner(const vt_ball *b, const vt_rng *r, float *out) {
    for (size_t i = 0; i < b->n; i++) out[i] = vt_rng_bits(r, i) >> 31 ? b->hi[i] : b->lo[i];
}

vt_status vt_try_noise(vt_selftest_worker *g, const vt_classifier *c, int label, int classes, int32_t image, int q,
                       bool corners, bool *broken) {
    const vt_eval_options *v = g->t->v;
    vt_ball ball;
    vt_ball_init(&ball, v->norm, v->eps, g->x, g->pixels, g->attacker.lo, g->attacker.hi);
    vt_rng r = vt_selftest_key(g->t, corners ? "selftest corners" : "selftest surface", image);
    *broken = false;
    for (int i = 0; i < q && !*broken; i++) {
        if (v->interrupt && *v->interrupt) return VT_INTERRUPTED;
        r.step = (uint32_t)i + 1;
        if (corners && v->norm == VT_LINF)
            draw_corner(&ball, &r, g->y);
        else
            vt_ball_start_surface(&ball, &r, g->y);
        vt_selftest_worker_logits(g, c, g->y, g->z, false);
        g->forwards++;
        *broken = vt_argmax_f32(g->z, classes) != label;
    }
    return VT_OK;
}
